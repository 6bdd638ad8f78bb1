"""Which release real brokers tell, and which of Kafka's known bugs a plan on them names."""

from __future__ import annotations

import pytest

from brokers.conftest import ON_3_9, ON_4_0, ON_NEWEST, WITH_ELR, Recovery, on, only_in_full
from brokers.test_own_elections import Recoveries
from kafka_recovery.decision.known_bugs import met
from kafka_recovery.domain.ids import TopicPartition
from testbed.cluster import RealKafka

pytestmark = pytest.mark.brokers

ORDERS = TopicPartition("orders", 0)
LAST_LEADER, BYSTANDER = 1, 4

LOOP = "Controller loop after a topic's deletion"
SPOILT = on("with ELR", {**WITH_ELR.values[0], "for_good": True})
"""Once a topic whose ELR was cleared is deleted, a broker that was killed may never get in again."""


async def planned(kafka: RealKafka, recovery: Recovery) -> tuple[str | None, list[str]]:
    plan = await recovery.plan(ORDERS)
    cluster = plan.evidence.cluster
    return cluster.release, [each.bug.issue for each in met(cluster, plan.evidence.partitions)]


@pytest.mark.parametrize(
    ("kafka", "release", "expected"),
    [
        pytest.param(*ON_3_9.values, "3.9", [], id="3.9", marks=only_in_full(ON_3_9).marks),
        pytest.param(*ON_4_0.values, "4.0", ["KAFKA-19522", LOOP], id="4.0", marks=ON_4_0.marks),
        pytest.param(*ON_NEWEST.values, "4.4", [LOOP], id="newest", marks=only_in_full(ON_NEWEST).marks),
    ],
    indirect=["kafka"],
)
async def test_a_plan_names_the_bugs_of_the_release_that_its_brokers_run(
    kafka: RealKafka, recovery: Recoveries, release: str, expected: list[str]
) -> None:
    """The last leader was killed: with ELR on it stays in ELR and last known ELR."""
    kafka.offline_by_freezing("orders", survivors=(2, 3), records=10, min_insync_replicas=1)

    told, issues = await planned(kafka, recovery(kafka))

    assert (told, issues) == (release, expected)


@pytest.mark.parametrize("kafka", [SPOILT], indirect=True)
async def test_an_elr_that_a_change_of_min_insync_replicas_cleared_is_told(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    """Kafka waits for nobody any more, and the last leader may come back in vain."""
    kafka.freeze(BYSTANDER)
    kafka.offline_by_freezing("orders", survivors=(2, 3), records=10, min_insync_replicas=1)
    assert kafka.describe("orders")[0].elr == (LAST_LEADER,)
    before = await planned(kafka, recovery(kafka))
    kafka.configure_topic("orders", "min.insync.replicas", "2")
    kafka.wait_for("orders", lambda state: not state.elr and not state.last_known_elr)

    after = await planned(kafka, recovery(kafka))

    assert (before, after) == (("4.4", [LOOP]), ("4.4", ["ELR cleared by configuration", LOOP]))
