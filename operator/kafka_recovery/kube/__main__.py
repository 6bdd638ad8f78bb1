"""`kafka-recovery-operator`: take the Lease, then watch and recover until a signal or the Lease's loss ends it.

What the operator is made of is imported once its options are known: nobody who asks for help waits for it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_recovery.domain.quickly import collect_seldom
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.machinery.logs import LogFormat
from kafka_recovery.kube.process import starting
from kafka_recovery.recovery.supervision import Authority

if TYPE_CHECKING:
    from kafka_recovery.kube.clusters.snapshots import Export
    from kafka_recovery.kube.machinery.api import Fence
    from kafka_recovery.kube.operator import Operator
    from kafka_recovery.kube.webhook.endpoint import Endpoint
    from kafka_recovery.kube.webhook.server import Webhook

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def run(
    namespace: starting.Namespaces = None,
    all_namespaces: starting.AllNamespaces = False,
    authority: Annotated[
        Authority,
        typer.Option(
            help="The most that any cluster's spec.authority and any rule can allow.", envvar="KAFKA_RECOVERY_AUTHORITY"
        ),
    ] = Authority.OBSERVE,
    operator_namespace: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Namespace of the Lease and the operator's ConfigMap.", envvar="POD_NAMESPACE"
        ),
    ] = "",
    name: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Name of the Lease, and of the ConfigMap whose key suspend stops all recoveries."
        ),
    ] = "kafka-recovery-operator",
    lease: starting.WithLease = True,
    lease_duration: starting.LeaseDuration = 15,
    probe: Annotated[
        str, typer.Option(metavar="DURATION", help="Time between two brief looks at each cluster.")
    ] = "250ms",
    rescan: Annotated[
        str, typer.Option(metavar="DURATION", help="Time between two full looks at all partitions of a cluster.")
    ] = "30s",
    evidence: Annotated[
        str,
        typer.Option(
            metavar="FOLDER", help="Keep evidence files of every cluster in this folder. [default: none are kept]"
        ),
    ] = "",
    evidence_every: Annotated[
        str, typer.Option(metavar="DURATION", help="Time between two evidence files of a cluster.")
    ] = "1h",
    evidence_keep: Annotated[
        str, typer.Option(metavar="DURATION", help="Age at which an evidence file is removed; empty: never.")
    ] = "720h",
    webhook_port: Annotated[
        int,
        typer.Option(
            metavar="PORT",
            help="Listen here for Alertmanager's alerts, which wake watchers; 0: don't.",
            min=0,
            max=65535,
        ),
    ] = 0,
    webhook_token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The bearer token that alerts must bring; two lines during a rotation."),
    ] = None,
    webhook_tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The webhook's certificate, in PEM.")
    ] = None,
    webhook_tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The private key of that certificate, in PEM.")
    ] = None,
    webhook_client_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Let in only clients whose certificate is of this CA (mTLS).")
    ] = None,
    webhook_service: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Have this Service, which has no selector, lead to the process that holds the Lease; "
            "needs POD_NAME, POD_UID and POD_IP.",
        ),
    ] = "",
    metrics_port: starting.MetricsPort = 9090,
    metrics_token_file: starting.MetricsToken = None,
    metrics_tls_cert: starting.MetricsCertificate = None,
    metrics_tls_key: starting.MetricsKey = None,
    metrics_client_ca: starting.MetricsClientCa = None,
    liveness: starting.LivenessUrl = "",
    log_format: starting.Format = LogFormat.PLAIN,
    log_level: starting.Level = "INFO",
    check: starting.Check = False,
    version: starting.Version = False,
) -> None:
    """Watch Kafka clusters and recover their offline partitions as their policies say."""
    from kafka_recovery.kube.machinery.metrics import Metrics
    from kafka_recovery.kube.operator import KINDS, Operator, Settings

    places = starting.places(name, operator_namespace, namespace, all_namespaces, log_format, log_level)
    held = (places.home, name) if lease else None
    if check:
        from kafka_recovery.kube.process.check import checked
        from kafka_recovery.kube.resources.kinds import HISTORIES, collections

        raise typer.Exit(checked(collections((*KINDS, HISTORIES), places.watched), held, relies_on_admission=True))
    settings = Settings(
        namespaces=places.watched,
        switch=(places.home, name),
        lease=held,
        authority=authority,
        probe=starting.duration("--probe", probe),
        rescan=starting.duration("--rescan", rescan),
        export=_export(evidence, evidence_every, evidence_keep) if evidence else None,
        webhook=_webhook(
            webhook_port,
            (webhook_token_file, webhook_tls_cert, webhook_tls_key, webhook_client_ca),
            _endpoint(webhook_service, places.home) if webhook_service else None,
        ),
    )
    metrics = Metrics()
    readers = starting.callers("--metrics", metrics_token_file, metrics_tls_cert, metrics_tls_key, metrics_client_ca)
    starting.serve(metrics, metrics_port, readers)

    def begun(fence: Fence) -> Operator:
        metrics.leading(True)
        collect_seldom()
        return Operator(settings, metrics, fence)

    starting.act(begun, places, liveness, lease_duration if lease else None)


def _export(place: str, every: str, keep: str) -> Export:
    """Where evidence is kept. Raises BadParameter."""
    try:
        from kafka_recovery.fleet.export import Archive
        from kafka_recovery.kube.clusters.snapshots import Export
    except ImportError:
        missing = "evidence files need pyarrow and fsspec: pip install '.[fleet]' in its checkout"
        raise typer.BadParameter(missing, param_hint="--evidence") from None
    url = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", place)
    if url and url[1].lower() != "file":
        raise typer.BadParameter(
            f"{url[1]}: what elects leaders speaks to no object store. Name a folder of a mounted volume, or have "
            "`kafka-recovery snapshot` write there, as an account of its own",
            param_hint="--evidence",
        )
    try:
        archive = Archive.at(place, patient=True)  # a volume that hangs holds up evidence files, and no recovery
    except InvalidDocument as error:
        raise typer.BadParameter(str(error), param_hint="--evidence") from None
    kept = starting.duration("--evidence-keep", keep) if keep else None
    return Export(archive, starting.duration("--evidence-every", every), kept)


def _endpoint(service: str, home: str) -> Endpoint:
    """Where a Service is to lead: here. Raises BadParameter."""
    from kafka_recovery.kube.webhook.endpoint import Endpoint, NoEndpoint

    try:
        return Endpoint.of(service, home, os.environ)
    except NoEndpoint as missing:
        raise typer.BadParameter(str(missing), param_hint="--webhook-service") from None


def _webhook(
    port: int, given: tuple[Path | None, Path | None, Path | None, Path | None], endpoint: Endpoint | None
) -> Webhook | None:
    """Where alerts are heard. Raises BadParameter."""
    from kafka_recovery.kube.webhook.server import opened

    if not port:
        if any(given) or endpoint:
            raise typer.BadParameter("--webhook-… say how alerts are heard: name the port", param_hint="--webhook-port")
        return None
    token, _, _, client_ca = given
    if not token and not client_ca:
        message = "nobody would be asked who they are: add --webhook-token-file or --webhook-client-ca, or both"
        raise typer.BadParameter(message, param_hint="--webhook-port")
    try:
        return opened(port, starting.callers("--webhook", *given), endpoint)
    except OSError as error:
        raise typer.BadParameter(f"{port}: {error.strerror}", param_hint="--webhook-port") from None


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
