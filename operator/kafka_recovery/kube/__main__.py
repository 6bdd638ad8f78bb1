"""`kafka-recovery-operator`: take the Lease, then watch and recover until a signal or the Lease's loss ends it.

What the operator is made of is imported once its options are known: nobody who asks for help waits for it.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_recovery.domain.quickly import collect_seldom
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.machinery.logs import LogFormat, set_up
from kafka_recovery.recovery.supervision import Authority

if TYPE_CHECKING:
    from kubernetes import client

    from kafka_recovery.kube.clusters.snapshots import Export
    from kafka_recovery.kube.fleet.prefixes import Prefixes
    from kafka_recovery.kube.process.liveness import Liveness
    from kafka_recovery.kube.process.places import Place
    from kafka_recovery.kube.webhook.server import Webhook

_LOG = logging.getLogger(__name__)
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


def _say_version(asked: bool) -> None:
    if asked:
        print(installed("kafka-recovery-operator"))
        raise typer.Exit


def _duration(option: str, text: str) -> timedelta:
    import durationpy

    if not re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h))+", text):
        raise typer.BadParameter(f"{text!r} is no duration such as 250ms, 30s or 5m", param_hint=option)
    duration: timedelta = durationpy.from_str(text)
    if duration < timedelta(milliseconds=50):
        raise typer.BadParameter(f"{text!r} is shorter than 50ms", param_hint=option)
    return duration


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def run(
    namespace: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Watch this namespace; may be repeated. [default: the operator's own]"),
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", help="Watch every namespace; needs a ClusterRole.")
    ] = False,
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
    lease: Annotated[
        bool,
        typer.Option(
            "--lease/--no-lease", help="Whether to act only while holding the Lease; without it, run one operator only."
        ),
    ] = True,
    lease_duration: Annotated[
        int,
        typer.Option(
            metavar="SECONDS", help="Another operator takes over after so long without a renewal.", min=6, max=600
        ),
    ] = 15,
    probe: Annotated[
        str, typer.Option(metavar="DURATION", help="Time between two brief looks at each cluster.")
    ] = "250ms",
    rescan: Annotated[
        str, typer.Option(metavar="DURATION", help="Time between two full looks at all partitions of a cluster.")
    ] = "30s",
    evidence: Annotated[
        str, typer.Option(metavar="URL", help="Keep evidence files of every cluster here. [default: none are kept]")
    ] = "",
    evidence_every: Annotated[
        str, typer.Option(metavar="DURATION", help="Time between two evidence files of a cluster.")
    ] = "1h",
    evidence_keep: Annotated[
        str, typer.Option(metavar="DURATION", help="Age at which an evidence file is removed; empty: never.")
    ] = "720h",
    fleet_results: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Read results of FleetRankings below this URL; may be repeated. What follows a ? says how to reach "
            "the store.",
        ),
    ] = None,
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
    metrics_port: Annotated[
        int, typer.Option(metavar="PORT", help="Serve /metrics here; 0: don't.", min=0, max=65535)
    ] = 9090,
    liveness: Annotated[
        str,
        typer.Option(
            metavar="URL", help="Answer liveness probes here; http://:8080/healthz: on all addresses. [default: don't]"
        ),
    ] = "",
    log_format: Annotated[
        LogFormat, typer.Option(help="json: one object a line; plain: text for people.")
    ] = LogFormat.PLAIN,
    log_level: Annotated[str, typer.Option(metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the release and exit.")
    ] = False,
) -> None:
    """Watch Kafka clusters and recover their offline partitions as their policies say."""
    from kafka_recovery.kube.machinery.api import unfenced
    from kafka_recovery.kube.machinery.metrics import Metrics
    from kafka_recovery.kube.operator import Operator, Settings
    from kafka_recovery.kube.process.lease import Leader
    from kafka_recovery.kube.process.liveness import Liveness
    from kafka_recovery.kube.process.places import Place
    from kafka_recovery.kube.resources.fields import NAME

    if log_level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise typer.BadParameter(f"{log_level!r}; right are DEBUG, INFO, WARNING and ERROR", param_hint="--log-level")
    if not re.fullmatch(NAME.pattern or "", name) or len(name) > NAME.longest:
        raise typer.BadParameter(
            f"{name!r} can't be the name of a Lease; right is {NAME.otherwise}, such as kafka-recovery-operator",
            param_hint="--name",
        )
    if namespace and all_namespaces:
        raise typer.BadParameter("--namespace and --all-namespaces exclude each other")
    set_up(log_format, log_level)
    own = operator_namespace or _own_namespace()
    configuration = _checked([Place("--operator-namespace", own), *(Place("--namespace", n) for n in namespace or ())])
    settings = Settings(
        namespaces=() if all_namespaces else tuple(dict.fromkeys(namespace or [own])),
        house=(own, name),
        authority=authority,
        probe=_duration("--probe", probe),
        rescan=_duration("--rescan", rescan),
        export=_export(evidence, evidence_every, evidence_keep) if evidence else None,
        results=_prefixes(fleet_results or ()),
        webhook=_webhook(webhook_port, webhook_token_file, webhook_tls_cert, webhook_tls_key, webhook_client_ca),
    )
    metrics = Metrics()
    if metrics_port:
        try:
            metrics.serve(metrics_port)
        except OSError as error:
            raise typer.BadParameter(f"{metrics_port}: {error.strerror}", param_hint="--metrics-port") from None
    leader = Leader(name, own, duration=lease_duration, configuration=configuration) if lease else None
    probed = Liveness()
    with _answering(probed, liveness):
        if leader:
            leader.acquire()
        else:
            _LOG.warning("runs without a Lease: see that there is no other operator for these namespaces")
        metrics.leading(True)
        operator = Operator(settings, metrics, leader.fence if leader else unfenced)
        probed.loop_age = operator.loop_age
        collect_seldom()
        status = operator.run()
    if leader and operator.clean:  # else it runs out by itself: what is still at work may act
        leader.release()
    _exit(status)


def _export(place: str, every: str, keep: str) -> Export:
    """Where evidence is kept. Raises BadParameter."""
    try:
        from kafka_recovery.fleet.export import Archive
        from kafka_recovery.kube.clusters.snapshots import Export
    except ImportError:
        missing = "evidence files need pyarrow and fsspec: pip install '.[fleet]' in its checkout"
        raise typer.BadParameter(missing, param_hint="--evidence") from None
    try:
        archive = Archive.at(place, patient=True)  # a store that is away holds up evidence files, and no recovery
    except InvalidDocument as error:
        raise typer.BadParameter(str(error), param_hint="--evidence") from None
    kept = _duration("--evidence-keep", keep) if keep else None
    return Export(archive, _duration("--evidence-every", every), kept)


def _prefixes(urls: Sequence[str]) -> Prefixes:
    """Where results are read. Raises BadParameter."""
    from kafka_recovery.kube.fleet.prefixes import Prefixes

    try:
        return Prefixes.of(urls)
    except InvalidDocument as error:
        raise typer.BadParameter(str(error), param_hint="--fleet-results") from None


def _webhook(
    port: int, token: Path | None, certificate: Path | None, key: Path | None, client_ca: Path | None
) -> Webhook | None:
    """Where alerts are heard. Raises BadParameter."""
    from kafka_recovery.kube.webhook.credentials import BadCredentials
    from kafka_recovery.kube.webhook.server import opened

    if not port:
        if token or certificate or key or client_ca:
            raise typer.BadParameter("--webhook-… say how alerts are heard: name the port", param_hint="--webhook-port")
        return None
    if bool(certificate) != bool(key):
        raise typer.BadParameter("--webhook-tls-cert and --webhook-tls-key belong together")
    if client_ca and not certificate:
        raise typer.BadParameter("it needs --webhook-tls-cert and --webhook-tls-key", param_hint="--webhook-client-ca")
    if not token and not client_ca:
        message = "nobody would be asked who they are: add --webhook-token-file or --webhook-client-ca, or both"
        raise typer.BadParameter(message, param_hint="--webhook-port")
    try:
        return opened(port, token, certificate, key, client_ca)
    except BadCredentials as bad:
        raise typer.BadParameter(str(bad), param_hint="--webhook-…") from None
    except OSError as error:
        raise typer.BadParameter(f"{port}: {error.strerror}", param_hint="--webhook-port") from None


def _checked(places: Sequence[Place]) -> client.Configuration:
    """How to reach the API server that has these namespaces. Raises BadParameter."""
    from kubernetes.config import ConfigException

    from kafka_recovery.kube.process.lease import found_configuration
    from kafka_recovery.kube.process.places import WrongPlace, check_existence, check_names

    try:
        check_names(places)
        configuration = found_configuration()
        check_existence(places, configuration)
    except WrongPlace as wrong:
        raise typer.BadParameter(str(wrong), param_hint=wrong.option) from None
    except ConfigException as error:
        raise typer.BadParameter(
            f"neither a service account nor a kubeconfig can be used ({error}): set KUBECONFIG"
        ) from None
    return configuration


@contextmanager
def _answering(liveness: Liveness, url: str) -> Iterator[None]:
    """Answer the liveness probe, if there is to be one. Raises BadParameter."""
    with ExitStack() as stack:
        if url:
            try:
                stack.enter_context(liveness.told(url))
            except (OSError, ValueError) as error:
                raise typer.BadParameter(f"{url!r}: {error}", param_hint="--liveness") from None
        yield


def _own_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text().strip()
    except OSError:
        raise typer.BadParameter(
            "outside a Pod say where the Lease lies: --operator-namespace NAMESPACE (or POD_NAMESPACE)"
        ) from None


def _exit(status: int) -> None:
    """Threads that are stuck must not hold the exit."""
    logging.shutdown()
    os._exit(status)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
