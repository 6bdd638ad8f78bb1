"""Every hazard of electing on real brokers that we know of, provoked, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest

from brokers.conftest import ON_3_9, ON_NEWEST, WITHOUT_ELR, Recovery
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, Report
from kafka_recovery.domain.plan import Verdict
from kafka_recovery.domain.policy import Approval, Policy, Rule
from kafka_recovery.domain.reason import Reason
from testbed import topics
from testbed.cluster import RealKafka

pytestmark = pytest.mark.brokers

ORDERS = TopicPartition("orders", 0)
SURVIVORS = {2: 27, 3: 15}
"""Broker 2 led alone first and wrote more; broker 3 led alone later, so its last epoch is higher."""

Recoveries = Callable[[RealKafka], Recovery]


def why(report: Report) -> Reason:
    """The reason of the one partition's outcome; there must be one."""
    reason = report[ORDERS].reason
    assert reason is not None
    return reason


async def test_a_candidate_that_dies_before_it_is_fenced_is_not_called_recovered(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    """Kafka answers NONE and elects the dead broker; it goes offline again when that is fenced."""
    kafka.offline_partition("orders", survivors=SURVIVORS)
    killed: list[int] = []

    def kill_the_best() -> None:
        if not killed:
            killed.append(3)
            kafka.kill(3)

    report = await recovery(kafka).with_(before_election=kill_the_best).recover(ORDERS)

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert report[ORDERS].leader == 2
    assert kafka.leader_answers("orders", 0, 2)
    assert kafka.describe("orders")[0].replicas == (1, 2, 3)


async def test_a_person_who_approved_one_candidate_is_asked_again_when_it_dies(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    kafka.offline_partition("orders", survivors=SURVIVORS)
    manual = recovery(kafka).with_(policy=Policy((Rule("all", approval=Approval.MANUAL),)))
    plan = await manual.plan(ORDERS)

    async with manual.with_(before_election=lambda: kafka.kill(3)).engine() as engine:
        report = await engine.execute(plan)

    assert report[ORDERS].outcome is Outcome.FAILED, "it was elected, so it is not as it was"
    assert why(report).code == "LeaderGone"
    assert kafka.describe("orders")[0].replicas == (1, 2, 3)


async def test_an_isr_member_that_comes_back_first_wins_and_nothing_unclean_is_done(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    lost = kafka.offline_by_freezing("orders", survivors=(2, 3), records=10, missed=5)

    def member_returns() -> None:
        kafka.start(1)
        kafka.wait_for("orders", lambda state: state.leader == 1)

    report = await recovery(kafka).with_(before_election=member_returns).recover(ORDERS)

    assert report[ORDERS].outcome is Outcome.RECOVERED_CLEANLY
    assert report[ORDERS].leader == 1
    assert not report[ORDERS].warnings
    assert kafka.consume("orders", 0) == list(lost[0].acknowledged)
    assert kafka.describe("orders")[0].replicas == (1, 2, 3)


@pytest.mark.parametrize("kafka", [ON_NEWEST, WITHOUT_ELR], indirect=True)
async def test_an_isr_member_that_comes_back_with_an_empty_disk_is_warned_about_loudly(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    """It answers log end 0 without an error, Kafka elects it, and the survivors are truncated."""
    bystanders = kafka.brokers[3:]
    for bystander in bystanders:
        kafka.freeze(bystander)
    kafka.offline_by_freezing("orders", survivors=(2, 3), records=10, missed=5)
    for bystander in bystanders:
        kafka.thaw(bystander)

    def empty_member_returns() -> None:
        kafka.wipe(1)
        kafka.start(1)
        kafka.wait_for("orders", lambda state: state.leader == 1)

    report = await recovery(kafka).with_(before_election=empty_member_returns).recover(ORDERS)

    assert report[ORDERS].outcome is Outcome.RECOVERED_CLEANLY
    assert "10" in report[ORDERS].warnings[0]
    assert "truncated" in report[ORDERS].warnings[0]


async def test_an_ongoing_reassignment_is_refused_and_named(kafka: RealKafka, recovery: Recoveries) -> None:
    kafka.create_topic("orders", [[1, 2]], min_insync_replicas=1)
    kafka.produce("orders", 0, 10, "all", acks="all")
    kafka.freeze(2)
    kafka.wait_until_fenced(2)
    kafka.kill(1)
    kafka.thaw(2)
    kafka.wait_for("orders", lambda state: state.leader is None)
    kafka.wait_until_unfenced(2)
    topics.reassign(kafka.address(2), "orders", {0: [1, 3]})

    report = await recovery(kafka).recover(ORDERS)

    assert report[ORDERS].outcome is Outcome.REFUSED
    assert "adding brokers 3, removing 2" in why(report).message
    assert kafka.describe("orders")[0].leader is None


async def test_a_topic_that_was_recreated_between_plan_and_execution_is_not_touched(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    kafka.offline_by_freezing("orders", survivors=(2, 3))
    plan = await recovery(kafka).plan(ORDERS)
    kafka.delete_topic("orders")
    kafka.create_topic("orders", [[2, 3]])
    before = kafka.describe("orders")[0]

    async with recovery(kafka).engine() as engine:
        report = await engine.execute(plan)

    assert report[ORDERS].outcome is Outcome.REFUSED
    assert why(report).code == "PlanOutdated"
    assert kafka.describe("orders")[0] == before


async def test_a_candidate_that_was_restarted_after_it_was_measured_is_looked_at_again(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    kafka.offline_partition("orders", survivors={2: 15, 3: 27})
    plan = await recovery(kafka).plan(ORDERS)
    kafka.kill(3)
    kafka.wipe(3)
    kafka.start(3)
    kafka.wait_until_unfenced(3)

    async with recovery(kafka).engine() as engine:
        report = await engine.execute(plan)

    assert report[ORDERS].outcome is Outcome.REFUSED
    assert "27" in why(report).message
    assert kafka.describe("orders")[0].leader is None


OLD_LEADER, OTHERS = 1, (2, 3)


def cut_off_while_it_leads_alone(kafka: RealKafka) -> None:
    """To the controller nobody leads any more; the old leader does not hear of it and goes on."""
    kafka.create_topic("orders", [[OLD_LEADER, *OTHERS]], min_insync_replicas=1)
    kafka.produce("orders", 0, 10, "all", acks="all")
    for other in OTHERS:
        kafka.freeze(other)
    kafka.wait_until_fenced(*OTHERS)
    kafka.detour.stall()
    for other in OTHERS:
        kafka.thaw(other)
    kafka.wait_until_fenced(OLD_LEADER)
    kafka.wait_until_unfenced(*OTHERS)
    kafka.wait_for("orders", lambda state: state.leader is None)


def told_only_of(brokers: Sequence[int], kafka: RealKafka, ours: Recovery) -> Recovery:
    """The engine with these bootstrap servers: who happens to answer first must not decide what a test sees."""
    bootstrap = ",".join(map(kafka.address, brokers))
    return ours.with_(kafka=SimpleNamespace(bootstrap=bootstrap, cluster_id=kafka.cluster_id))


@pytest.mark.parametrize("bootstrap", [OTHERS, (OLD_LEADER,)], ids=["others", "old leader"])
async def test_an_old_leader_that_is_cut_off_but_still_leads_blocks_the_election(
    bootstrap: Sequence[int], kafka: RealKafka, recovery: Recoveries
) -> None:
    """KRaft brokers do not fence themselves (KIP-343 would have had them): clients may still be writing to it.

    By its own metadata it leads and the others are fenced: that it answers first must not make this the truth.
    """
    cut_off_while_it_leads_alone(kafka)
    offline = kafka.describe("orders")[0]

    report = await told_only_of(bootstrap, kafka, recovery(kafka)).recover(ORDERS)

    assert kafka.leader_answers("orders", 0, OLD_LEADER)
    assert report[ORDERS].outcome is Outcome.REFUSED
    assert why(report).code == "OldLeaderAnswers"
    assert kafka.describe("orders")[0] == offline

    kafka.detour.restore()  # as the refusal says: reconnected it leads again, without loss
    kafka.wait_for("orders", lambda state: state.leader == OLD_LEADER)
    assert len(kafka.consume("orders", 0)) == 10


@pytest.mark.parametrize("kafka", [ON_3_9], indirect=True)
async def test_where_fenced_brokers_are_not_listed_the_plan_warns_of_an_old_leader_that_could_not_be_asked(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    """Before 4.0: it leads on here too, but a fresh process has no address to ask it at."""
    cut_off_while_it_leads_alone(kafka)

    plan = await told_only_of(OTHERS, kafka, recovery(kafka)).plan(ORDERS)

    assert kafka.leader_answers("orders", 0, OLD_LEADER)
    (decision,) = plan.decisions
    assert decision.verdict is Verdict.ELECT
    (warning,) = decision.warnings
    assert f"the address of broker {OLD_LEADER} in the ISR is not known" in warning
    assert "make sure that it is really down" in warning


async def test_equal_survivors_share_the_leaderships(kafka: RealKafka, recovery: Recoveries) -> None:
    """A broker takes its new partitions one after the other: the busiest one decides when all are back."""
    kafka.offline_by_freezing("orders", survivors=(2, 3), partitions=10)

    report = await recovery(kafka).recover()

    assert report.recovered
    leaders = [state.leader for state in kafka.describe("orders").values()]
    assert sorted(leaders, key=str) == [2] * 5 + [3] * 5
    assert {state.replicas for state in kafka.describe("orders").values()} == {(1, 2, 3)}
