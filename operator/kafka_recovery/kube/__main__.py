"""`kafka-recovery-operator`: take the Lease, then watch and recover until a signal or the Lease's loss ends it.

What the operator is made of is imported once its options are known: nobody who asks for help waits for it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kafka_recovery.domain.quickly import collect_seldom, uncollected
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.machinery.logs import LogFormat
from kafka_recovery.kube.process import options, starting
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
    authority: options.MostAuthority = Authority.OBSERVE,
    operator_namespace: options.Home = "",
    name: options.Name = "kafka-recovery-operator",
    lease: starting.WithLease = True,
    lease_duration: starting.LeaseDuration = 15,
    probe: options.Probe = "250ms",
    rescan: options.Rescan = "30s",
    evidence: options.Evidence = "",
    evidence_every: options.EvidenceEvery = "1h",
    evidence_keep: options.EvidenceKeep = "720h",
    webhook_port: options.WebhookPort = 0,
    webhook_token_file: options.WebhookToken = None,
    webhook_tls_cert: options.WebhookCertificate = None,
    webhook_tls_key: options.WebhookKey = None,
    webhook_client_ca: options.WebhookClientCa = None,
    webhook_service: options.WebhookService = "",
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
    with uncollected():  # what is imported stays: to look for cycles in it is a seventh of the start
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
