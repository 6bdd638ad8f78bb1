"""How a process of ours begins and ends, whatever it does: options, logs, namespaces, the Lease, liveness.

What a process is made of is imported once its options are known: nobody who asks for help waits for it.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from kafka_recovery.kube.machinery.logs import LogFormat, set_up

if TYPE_CHECKING:
    from kubernetes import client

    from kafka_recovery.kube.machinery.api import Fence
    from kafka_recovery.kube.machinery.credentials import Callers
    from kafka_recovery.kube.machinery.metrics import Metrics
    from kafka_recovery.kube.process.liveness import Liveness
    from kafka_recovery.kube.process.places import Place

_LOG = logging.getLogger(__name__)
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

FAILED = 1
"""Exit status of a process that met an error of its own and could stop in order."""


def _say_version(asked: bool) -> None:
    if asked:
        print(installed("kafka-recovery-operator"))
        raise typer.Exit


Namespaces = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Watch this namespace; may be repeated. [default: the operator's own]"),
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", help="Watch every namespace; needs a ClusterRole.")]
WithLease = Annotated[
    bool,
    typer.Option(
        "--lease/--no-lease", help="Whether to act only while holding the Lease; without it, run one operator only."
    ),
]
LeaseDuration = Annotated[
    int,
    typer.Option(
        metavar="SECONDS", help="Another operator takes over after so long without a renewal.", min=6, max=600
    ),
]
MetricsPort = Annotated[int, typer.Option(metavar="PORT", help="Serve /metrics here; 0: don't.", min=0, max=65535)]
MetricsToken = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The bearer token that who reads /metrics must bring; two during a rotation."),
]
MetricsCertificate = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Serve /metrics over TLS: the certificate, in PEM.")
]
MetricsKey = Annotated[Path | None, typer.Option(metavar="FILE", help="The private key of that certificate, in PEM.")]
MetricsClientCa = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Let only clients read /metrics whose certificate is of this CA.")
]
LivenessUrl = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="Answer liveness probes here; http://:8080/healthz: on all addresses. At /readyz it says if it is ready. "
        "[default: don't]",
    ),
]
Format = Annotated[LogFormat, typer.Option(help="json: one object a line; plain: text for people.")]
Level = Annotated[str, typer.Option(metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Say within a minute whether another process with these options does its work here, and end: 0 if it "
        "does. Nothing is written.",
    ),
]
Version = Annotated[
    bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the release and exit.")
]


@dataclass(frozen=True, slots=True)
class Places:
    """Where a process is at home, which namespaces it watches (none: all), and how it reaches the API server.

    `name`: of its Lease.
    """

    name: str
    home: str
    watched: tuple[str, ...]
    configuration: client.Configuration


class Acting(Protocol):
    """What a process does while it holds the Lease."""

    @property
    def clean(self) -> bool:
        """Whether nothing of it is still at work when `run` returns, so that the Lease may be given back."""
        ...

    def run(self) -> int:
        """Until a signal ends it, or an error of its own. Returns the exit status."""
        ...

    def loop_age(self) -> float | None:
        """Seconds since its event loop went round; None: it has not begun, or ends. Any thread may ask."""
        ...

    def unready(self) -> str:
        """Why it can't do its work yet, in a few words; empty: it can. Any thread may ask."""
        ...


def duration(option: str, text: str) -> timedelta:
    """A duration that an option was given. Raises BadParameter."""
    import durationpy

    if not re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h))+", text):
        raise typer.BadParameter(f"{text!r} is no duration such as 250ms, 30s or 5m", param_hint=option)
    found: timedelta = durationpy.from_str(text)
    if found < timedelta(milliseconds=50):
        raise typer.BadParameter(f"{text!r} is shorter than 50ms", param_hint=option)
    return found


def places(
    name: str, home: str, watched: Sequence[str] | None, everywhere: bool, log_format: LogFormat, log_level: str
) -> Places:
    """Check what a process is told about where, and let it log from now on. Raises BadParameter."""
    from kafka_recovery.kube.process.places import Place
    from kafka_recovery.kube.resources.fields import NAME

    if log_level not in _LEVELS:
        raise typer.BadParameter(f"{log_level!r}; right are DEBUG, INFO, WARNING and ERROR", param_hint="--log-level")
    if not re.fullmatch(NAME.pattern or "", name) or len(name) > NAME.longest:
        raise typer.BadParameter(
            f"{name!r} can't be the name of a Lease; right is {NAME.otherwise}, such as kafka-recovery-operator",
            param_hint="--name",
        )
    if watched and everywhere:
        raise typer.BadParameter("--namespace and --all-namespaces exclude each other")
    set_up(log_format, log_level)
    own = home or _own_namespace()
    configuration = _checked([Place("--operator-namespace", own), *(Place("--namespace", n) for n in watched or ())])
    return Places(name, own, () if everywhere else tuple(dict.fromkeys(watched or [own])), configuration)


def callers(
    prefix: str, token: Path | None, certificate: Path | None, key: Path | None, client_ca: Path | None
) -> Callers:
    """Who is answered at a port, by options that begin with `prefix`. Raises BadParameter."""
    from kafka_recovery.kube.machinery.credentials import BadCredentials, Callers, TlsFiles, TokenFile

    if bool(certificate) != bool(key):
        raise typer.BadParameter(f"{prefix}-tls-cert and {prefix}-tls-key belong together")
    if client_ca and not certificate:
        raise typer.BadParameter(f"it needs {prefix}-tls-cert and {prefix}-tls-key", param_hint=f"{prefix}-client-ca")
    tls = TlsFiles(certificate, key, client_ca) if certificate and key else None
    found = Callers(TokenFile(token) if token else None, tls)
    try:
        found.check()
    except BadCredentials as bad:
        raise typer.BadParameter(str(bad), param_hint=f"{prefix}-…") from None
    return found


def serve(metrics: Metrics, port: int, readers: Callers) -> None:
    """Serve them, if they are to be. Raises BadParameter."""
    if port:
        try:
            metrics.serve(port, readers)
        except OSError as error:
            raise typer.BadParameter(f"{port}: {error.strerror}", param_hint="--metrics-port") from None


def act(begun: Callable[[Fence], Acting], places: Places, liveness: str, lease_duration: int | None) -> None:
    """Take the Lease, act, give it back, and end the process. `lease_duration` None: act without a Lease.

    Raises BadParameter if nobody can be told that the process lives.
    """
    from kafka_recovery.kube.machinery.api import unfenced
    from kafka_recovery.kube.process.lease import Leader
    from kafka_recovery.kube.process.liveness import Liveness

    configuration = places.configuration
    leader = (
        Leader(places.name, places.home, duration=lease_duration, configuration=configuration)
        if lease_duration
        else None
    )
    probed = Liveness()
    with _answering(probed, liveness):
        if leader:
            leader.acquire()
        else:
            _LOG.warning("runs without a Lease: see that there is no other operator for these namespaces")
        acting = begun(leader.fence if leader else unfenced)
        probed.loop_age, probed.unready = acting.loop_age, acting.unready
        status = acting.run()
    if leader and acting.clean:  # else it runs out by itself: what is still at work may act
        leader.release()
    logging.shutdown()
    os._exit(status)  # threads that are stuck must not hold the exit


def _checked(named: Sequence[Place]) -> client.Configuration:
    """How to reach the API server that has these namespaces. Raises BadParameter."""
    from kubernetes.config import ConfigException

    from kafka_recovery.kube.process.lease import found_configuration
    from kafka_recovery.kube.process.places import WrongPlace, check_existence, check_names

    try:
        check_names(named)
        configuration = found_configuration()
        check_existence(named, configuration)
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
