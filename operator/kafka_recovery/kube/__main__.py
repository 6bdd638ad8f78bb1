"""`kafka-recovery-operator`: take the Lease, then watch and recover until a signal or the Lease's loss ends it."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import durationpy
import typer
from kubernetes import client
from kubernetes.config import ConfigException

from kafka_recovery.domain.quickly import collect_seldom
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.fleet.prefixes import Prefixes
from kafka_recovery.kube.machinery.api import unfenced
from kafka_recovery.kube.machinery.logs import LogFormat, set_up
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.operator import Operator, Settings
from kafka_recovery.kube.process.lease import Leader, found_configuration
from kafka_recovery.kube.process.liveness import Liveness
from kafka_recovery.kube.process.places import Place, WrongPlace, check_existence, check_names
from kafka_recovery.kube.resources.fields import NAME
from kafka_recovery.kube.webhook.credentials import BadCredentials
from kafka_recovery.kube.webhook.server import Webhook, opened
from kafka_recovery.recovery.supervision import Authority

if TYPE_CHECKING:
    from kafka_recovery.kube.clusters.snapshots import Export

_LOG = logging.getLogger(__name__)
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def _duration(option: str, text: str) -> timedelta:
    if not re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h))+", text):
        raise typer.BadParameter(f"{text!r} is no duration such as 250ms, 30s or 5m", param_hint=option)
    duration: timedelta = durationpy.from_str(text)
    if duration < timedelta(milliseconds=50):
        raise typer.BadParameter(f"{text!r} is shorter than 50ms", param_hint=option)
    return duration


@app.command()
def run(
    namespace: Annotated[
        list[str] | None, typer.Option(help="Watch this namespace; again for more. Default: the operator's own.")
    ] = None,
    all_namespaces: Annotated[bool, typer.Option(help="Watch every namespace; needs a ClusterRole.")] = False,
    authority: Annotated[
        Authority, typer.Option(help="What no cluster and no rule exceeds.", envvar="KAFKA_RECOVERY_AUTHORITY")
    ] = Authority.OBSERVE,
    operator_namespace: Annotated[
        str, typer.Option(help="Where the Lease and the operator's ConfigMap lie.", envvar="POD_NAMESPACE")
    ] = "",
    name: Annotated[
        str, typer.Option(help="Name of the Lease, and of the ConfigMap whose key suspend stops everything.")
    ] = "kafka-recovery-operator",
    lease: Annotated[bool, typer.Option(help="Act only while holding the Lease.")] = True,
    lease_duration: Annotated[
        int, typer.Option(help="Seconds without a renewal after which another one takes over.", min=6, max=600)
    ] = 15,
    probe: Annotated[str, typer.Option(help="How often each cluster is looked at briefly.")] = "250ms",
    rescan: Annotated[str, typer.Option(help="How often all its partitions are gone through anyway.")] = "30s",
    evidence: Annotated[
        str, typer.Option(help="URL or folder for evidence files of every cluster; empty: none are kept.")
    ] = "",
    evidence_every: Annotated[str, typer.Option(help="How often each cluster's evidence is kept.")] = "1h",
    evidence_keep: Annotated[str, typer.Option(help="How long it is kept; empty: for ever.")] = "720h",
    fleet_results: Annotated[
        list[str] | None,
        typer.Option(
            help="Read results of FleetRankings below this URL; again for more. Behind ? how its store is reached."
        ),
    ] = None,
    webhook_port: Annotated[
        int, typer.Option(help="Port on which an Alertmanager's alerts wake watchers; 0: none.", min=0, max=65535)
    ] = 0,
    webhook_token_file: Annotated[
        Path | None, typer.Option(help="File of the bearer token that is asked for; two lines during a rotation.")
    ] = None,
    webhook_tls_cert: Annotated[Path | None, typer.Option(help="PEM file of the webhook's certificate.")] = None,
    webhook_tls_key: Annotated[Path | None, typer.Option(help="PEM file of its key.")] = None,
    webhook_client_ca: Annotated[
        Path | None, typer.Option(help="PEM file of the CA whose clients alone are let in (mTLS).")
    ] = None,
    metrics_port: Annotated[int, typer.Option(help="Port of /metrics; 0: none.", min=0, max=65535)] = 9090,
    liveness: Annotated[
        str,
        typer.Option(help="URL of the liveness endpoint; none without; http://:8080/healthz: all addresses."),
    ] = "",
    log_format: Annotated[LogFormat, typer.Option(help="One JSON object a line, or plain text.")] = LogFormat.PLAIN,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
) -> None:
    """Watch Kafka clusters and recover their offline partitions as their policies say."""
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
    try:
        return Prefixes.of(urls)
    except InvalidDocument as error:
        raise typer.BadParameter(str(error), param_hint="--fleet-results") from None


def _webhook(
    port: int, token: Path | None, certificate: Path | None, key: Path | None, client_ca: Path | None
) -> Webhook | None:
    """Where alerts are heard. Raises BadParameter."""
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
