"""A dead broker whose registration was taken away, while partitions still name it among their replicas.

Kafka refuses any assignment that names it: neither can another order be set, nor the original one be put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from brokers.conftest import AUTOMATIC, USUAL, Recovery
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.plan import Verdict
from kafka_recovery.domain.policy import Approval, CandidateOrder, Policy, Rule
from testbed.cluster import RealKafka
from testbed.metadata import PartitionState
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers
GROUP = "hazards"

FORGOTTEN = 1
SURVIVORS = {2: 27, 3: 15}
"""Of the original order Kafka elects broker 2, whose log is the longest; broker 3 has the later epoch."""
ORIGINAL, DESIGNATING = (1, 2, 3), (3, 2, 1)
LONGEST = Policy((Rule("all", approval=Approval.AUTO, candidate_order=CandidateOrder.LONGEST_LOG),))
AS_IT_STANDS, TO_BE_SET, IN_THE_MIDDLE = (TopicPartition("orders", index) for index in range(3))

Recoveries = Callable[[RealKafka], Recovery]


@pytest.fixture(scope="module")
def kafka(warm: WarmKafka) -> Iterator[RealKafka]:
    """The last test begins while the broker is registered."""
    with warm.lent(**USUAL) as cluster:
        cluster.offline_partition("orders", survivors=SURVIVORS, partitions=3)
        yield cluster


def state(kafka: RealKafka, id: TopicPartition) -> PartitionState:
    return kafka.describe(id.topic)[id.partition]


async def test_an_order_that_could_not_be_restored_is_said_to_stand_and_is_restored_once_the_broker_is_back(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    """The registration is taken away between designation and election."""
    ours = recovery(kafka).with_(before_election=lambda: kafka.unregister(FORGOTTEN))

    report = await ours.recover(IN_THE_MIDDLE)
    left = state(kafka, IN_THE_MIDDLE)
    print(report)
    async with recovery(kafka).engine() as engine:
        in_vain = await engine.undo()
        print(in_vain)
    kafka.start(FORGOTTEN)
    kafka.wait_until_unfenced(FORGOTTEN)
    async with recovery(kafka).engine() as engine:
        undone = await engine.undo()
        print(undone)
    kafka.kill(FORGOTTEN)
    kafka.wait_until_fenced(FORGOTTEN)
    kafka.unregister(FORGOTTEN)
    print(left, kafka.describe("orders"))


async def test_an_order_that_elects_the_best_as_it_stands_is_left_alone(kafka: RealKafka, recovery: Recoveries) -> None:
    report = await recovery(kafka).with_(policy=LONGEST).recover(AS_IT_STANDS)

    outcome = report[AS_IT_STANDS]
    assert (outcome.outcome, outcome.leader, outcome.order_restored) == (Outcome.RECOVERED, 2, True), outcome.reason
    assert (state(kafka, AS_IT_STANDS).leader, state(kafka, AS_IT_STANDS).replicas) == (2, ORIGINAL)


async def test_an_order_that_would_have_to_be_set_is_refused_with_what_to_type_and_works_once_it_was_typed(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    before = state(kafka, TO_BE_SET)
    (decision,) = (await recovery(kafka).with_(policy=AUTOMATIC).plan(TO_BE_SET)).decisions
    refused = await recovery(kafka).recover(TO_BE_SET)
    untouched = state(kafka, TO_BE_SET)
    kafka.alter_assignment("orders", TO_BE_SET.partition, [2, 3])
    recovered = await recovery(kafka).recover(TO_BE_SET)

    assert decision.verdict is Verdict.REFUSE
    assert decision.reason
    assert decision.reason.code == "OrderCannotBeSet"
    assert "kafka-reassign-partitions.sh --execute" in decision.reason.message
    assert refused[TO_BE_SET].outcome is Outcome.REFUSED
    assert untouched == before
    assert (recovered[TO_BE_SET].outcome, recovered[TO_BE_SET].leader) == (Outcome.RECOVERED, 3)
    assert state(kafka, TO_BE_SET).replicas == (2, 3)
