"""The operator as most tests start it: forked from a process that has imported it, with times of their choosing.

A Python of its own costs two seconds of CPU until the operator's first line. And who waits for what a dead predecessor
may have asked of Kafka waits for a minute: nothing in these tests takes Kafka that long, whose controller is well.
`test_recovering.py` has one test with the shipped program, `test_operator_faults.py` one with the shipped minute as
well, in `make test-full`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import IO

from kubernetes import config
from kubernetes.config import kube_config

from apiserver import candidate as waiting_for_a_lease
from kafka_recovery.cli import kubectl
from kafka_recovery.cli.kubectl import access
from kafka_recovery.kube import __main__ as program
from kafka_recovery.kube import fleet_main as fleet_program
from kafka_recovery.kube import operator as kube_operator
from kafka_recovery.kube.clusters import open_cluster, residences
from kafka_recovery.kube.clusters.pod_witness import PodWitness
from kafka_recovery.kube.operator import Settings
from kafka_recovery.kube.resources.watched_by import ClaimTimes
from kafka_recovery.recovery.timing import Timing
from testbed.fork_server import Forked, ForkServer, all_of
from testbed.operator_process import Launch

QUARANTINE = 8.0
"""Seconds; long enough to be seen."""
_QUARANTINE = "TESTS_QUARANTINE"
_SETTLED = "TESTS_SETTLED"
_STALE = "TESTS_STALE"

PROGRAMS = ForkServer("apiserver.forked", *all_of(kubectl), "kafka_recovery.kube.fleet_operator")
"""One server for all tests of a session."""


def launched(quarantine: float = QUARANTINE, settled: float | None = None, stale: float | None = None) -> Launch:
    """How an operator with this quarantine is started, which knows where a broker lives after `settled` seconds.

    What another one watches is left to it for `stale` seconds after it was last heard of.
    """
    given = {_QUARANTINE: quarantine, _SETTLED: settled, _STALE: stale}
    times = {name: str(value) for name, value in given.items() if value is not None}

    def launch(options: Sequence[str], log: IO[bytes], environment: Mapping[str, str]) -> Forked:
        return PROGRAMS.start(f"{__name__}:operator", options, log, {**environment, **times})

    return launch


def operator() -> None:
    """The operator's own `main`; nothing but its times is another one."""
    _find_the_kubeconfig()
    if settled := os.environ.pop(_SETTLED, ""):
        vars(residences)["SETTLED"] = timedelta(seconds=float(settled))
        vars(open_cluster)["PodWitness"] = partial(PodWitness, pause=timedelta(seconds=float(settled) / 10))
    timing = Timing(quarantine=timedelta(seconds=float(os.environ.pop(_QUARANTINE))))
    claims = ClaimTimes()
    if stale := os.environ.pop(_STALE, ""):
        third = timedelta(seconds=float(stale)) / 3
        claims = ClaimTimes(renew=third, stale=third * 3, look=third / 3)
    vars(kube_operator)["Settings"] = partial(Settings, timing=timing, claims=claims)
    program.main()


def fleet_launched(options: Sequence[str], log: IO[bytes], environment: Mapping[str, str]) -> Forked:
    """How a fleet operator is started."""
    return PROGRAMS.start(f"{__name__}:fleet_operator", options, log, environment)


def fleet_operator() -> None:
    """The fleet operator's own `main`."""
    _find_the_kubeconfig()
    fleet_program.main()


def plugin() -> None:
    """`kubectl-kafka_recovery`."""
    _find_the_kubeconfig()
    kubectl.main()


def candidate() -> None:
    """`python -m apiserver.candidate`."""
    _find_the_kubeconfig()
    waiting_for_a_lease.run()


def _find_the_kubeconfig() -> None:
    """The client library reads $KUBECONFIG when it is imported, which was long ago."""
    for module in (config, kube_config, access):
        vars(module)["KUBE_CONFIG_DEFAULT_LOCATION"] = os.environ["KUBECONFIG"]
