"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.nodeid import NodeId
from _pytest.unraisableexception import gc_collect_iterations_key
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

if TYPE_CHECKING:
    from testbed.cluster import RealKafka
    from testbed.warm import WarmKafka

# Programs that tests start are those of this checkout, whatever is installed and whatever a shell exports.
ROOT = Path(__file__).parents[1]
os.environ["PYTHONPATH"] = os.pathsep.join(str(ROOT / name) for name in ("operator", "spark", "tests"))

# No deadline: a busy machine is no defect. What `make test` draws is the same each time, so that it judges the change
# and not the draw; `make explore` draws anew, and ten times as much, also where a test has a number of its own
# (`unit/examples.py`). A failure prints the blob that repeats it.
settings.register_profile(
    "same",
    derandomize=True,
    deadline=None,
    print_blob=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", settings.get_profile("same"), derandomize=False, max_examples=600)
settings.load_profile("same")

# A run that was started in the background ignores SIGINT, one under nohup SIGHUP, and hands that on to the programs it
# starts; some tests end those by just these signals.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Values by the thousand come and go, hardly any in cycles. Python would look for those after every 700 objects, and
# that is a seventh of all the CPU time that the tests take.
gc.set_threshold(20_000, 20, 50)
# Modules and tests are made to stay: while they are collected, no look for cycles finds anything. The process that
# hands tests out to others collects none, and does without to its end.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Thousands of tests and their modules stay until the end: a full collection that walks them holds everything up
    for most of a second, which is longer than the deadlines that some tests give."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Once at the end, not five times in each process: objects that take several passes until they are gone, and then
    complain, would have to be in a cycle with another such object."""
    config.stash[gc_collect_iterations_key] = 1
    if settings.get_current_profile_name() == "same":
        # Else Hypothesis reads every module of the project for numbers and texts to draw: four seconds in each process
        # of a fresh clone, and whatever is edited anywhere changes what all tests draw.
        providers._get_local_constants = lambda: providers._local_constants


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`--dist loadgroup`: pytest-xdist 3.8 writes a test's group into the private name of its id, and pytest 9.2 reads
    another one. Without this every test of a group may get another process, and a cluster of its own."""
    if getattr(config.option, "loadgroup", False):
        for item in items:
            item._id = NodeId.parse(vars(item).get("_nodeid", item.nodeid))


# What is imported below is imported by who asks for it: unit tests do without.


@pytest.fixture(scope="session")
def warm() -> Iterator[WarmKafka]:
    """The cluster of this process: tests that want the same one after the other share it, each finds it whole."""
    from testbed.warm import WarmKafka

    with WarmKafka() as clusters:
        yield clusters


@pytest.fixture
def kafka(warm: WarmKafka) -> Iterator[RealKafka]:
    """The newest Kafka: one controller, three brokers, nothing in it.

    Freeze brokers rather than kill them where death is not the subject: to the controller both are the same.
    """
    with warm.lent() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def warm_and_secured() -> Iterator[WarmKafka]:
    """The same for `secured_kafka`."""
    from testbed.warm import WarmKafka

    with WarmKafka() as clusters:
        yield clusters


@pytest.fixture
def secured_kafka(warm_and_secured: WarmKafka) -> Iterator[RealKafka]:
    """One broker with TLS, passwords and ACLs, and a topic.

    Users ann and kafka-recovery may do everything, whichever password a test gives them.
    """
    from testbed.security import Security

    everything = "User:ann", "User:kafka-recovery", "User:CN=kafka-recovery"
    with warm_and_secured.lent(brokers=1, security=Security(super_users=everything)) as cluster:
        cluster.create_topic("orders", [[1]])
        yield cluster
