"""`kafka-recovery-fleet-operator`: take the Lease, then have fleets ranked until a signal or its loss ends that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.machinery.logs import LogFormat
from kafka_recovery.kube.process import starting

if TYPE_CHECKING:
    from kafka_recovery.kube.fleet.prefixes import Prefixes
    from kafka_recovery.kube.fleet_operator import FleetOperator
    from kafka_recovery.kube.machinery.api import Fence

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def run(
    namespace: starting.Namespaces = None,
    all_namespaces: starting.AllNamespaces = False,
    operator_namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Namespace of the Lease.", envvar="POD_NAMESPACE")
    ] = "",
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the Lease.")] = "kafka-recovery-operator-fleet",
    lease: starting.WithLease = True,
    lease_duration: starting.LeaseDuration = 15,
    fleet_results: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Read results of FleetRankings below this URL; may be repeated. What follows a ? says how to reach "
            "the store.",
        ),
    ] = None,
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
    """Have Spark answer FleetRankings. It opens no Kafka cluster and elects nobody."""
    from kafka_recovery.kube.fleet_operator import KINDS, FleetOperator, Settings
    from kafka_recovery.kube.machinery.metrics import FLEET, Metrics
    from kafka_recovery.kube.resources.watched_by import Places

    places = starting.places(name, operator_namespace, namespace, all_namespaces, log_format, log_level)
    held = (places.home, places.name) if lease else None
    settings = Settings(places.watched, _prefixes(fleet_results or ()), Places(held))
    if check:
        from kafka_recovery.kube.process.check import checked
        from kafka_recovery.kube.resources.kinds import collections

        raise typer.Exit(checked(collections(KINDS, places.watched), held, relies_on_admission=False))
    metrics = Metrics(FLEET)
    readers = starting.callers("--metrics", metrics_token_file, metrics_tls_cert, metrics_tls_key, metrics_client_ca)
    starting.serve(metrics, metrics_port, readers)

    def begun(fence: Fence) -> FleetOperator:
        metrics.leading(True)
        return FleetOperator(settings, metrics, fence)

    starting.act(begun, places, liveness, lease_duration if lease else None)


def _prefixes(urls: Sequence[str]) -> Prefixes:
    """Where results are read. Raises BadParameter."""
    from kafka_recovery.kube.fleet.prefixes import Prefixes

    try:
        return Prefixes.of(urls)
    except InvalidDocument as error:
        raise typer.BadParameter(str(error), param_hint="--fleet-results") from None


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
