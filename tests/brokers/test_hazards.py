"""Every hazard of electing on real brokers that we know of, provoked, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest

from brokers.conftest import Recovery
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, Report
from kafka_recovery.domain.plan import Verdict
from kafka_recovery.domain.policy import Approval, CandidateOrder, Policy, Rule
from kafka_recovery.domain.reason import Reason
from testbed import topics
from testbed.cluster import RealKafka
from testbed.faults import Proxy
from testbed.layout import Layout
from testbed.ports import HOST, Ports

pytestmark = pytest.mark.brokers

ORDERS = TopicPartition("orders", 0)
SURVIVORS = {2: 27, 3: 15}
"""Broker 2 led alone first and wrote more; broker 3 led alone later, so its last epoch is higher."""

PROTOCOLS = "listener.security.protocol.map"

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
    assert why(report).code == "LeaderDied"
    assert kafka.describe("orders")[0].replicas == (1, 2, 3)


async def test_a_candidate_that_is_fenced_at_the_last_moment_makes_the_election_fail_loudly(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    """Kafka then takes the next in order, which holds less than was planned: that is not a recovery as approved."""
    kafka.offline_partition("orders", survivors={2: 15, 3: 27})

    def fence_the_best() -> None:
        kafka.freeze(3)
        kafka.wait_until_fenced(3)

    report = await recovery(kafka).with_(before_election=fence_the_best).recover(ORDERS)

    assert report[ORDERS].outcome is Outcome.FAILED
    assert why(report).code == "ElectedInstead"
    assert kafka.describe("orders")[0].leader == 2
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


@pytest.mark.parametrize("elr", [True, False])
async def test_an_isr_member_that_comes_back_with_an_empty_disk_is_warned_about_loudly(
    elr: bool, recovery: Recoveries
) -> None:
    """It answers log end 0 without an error, Kafka elects it, and the survivors are truncated."""
    with RealKafka(elr=elr) as kafka:
        kafka.offline_by_freezing("orders", survivors=(2, 3), records=10, missed=5)

        def empty_member_returns() -> None:
            kafka.wipe(1)
            kafka.start(1)
            kafka.wait_for("orders", lambda state: state.leader == 1)

        report = await recovery(kafka).with_(before_election=empty_member_returns).recover(ORDERS)

        assert report[ORDERS].outcome is Outcome.RECOVERED_CLEANLY
        assert "10" in report[ORDERS].warnings[0]
        assert "truncated" in report[ORDERS].warnings[0]


async def test_without_a_controller_nothing_is_tried(kafka: RealKafka, recovery: Recoveries) -> None:
    """Brokers still answer, from metadata that stands still."""
    kafka.offline_partition("orders", survivors=SURVIVORS)
    kafka.kill_controller()

    plan = await recovery(kafka).plan(ORDERS)

    (decision,) = plan.decisions
    assert decision.verdict is Verdict.REFUSE
    assert decision.reason is not None
    assert "controller" in decision.reason.message


@pytest.mark.timeout(400)
async def test_a_controller_that_goes_away_while_electing_leaves_unknown_partitions_in_quarantine(
    recovery: Recoveries,
) -> None:
    """A broker forwards to the controller for 60 s; until then the election may still take effect, and it does.

    It is frozen for less than a session: else it would fence the survivors first when it comes back.
    """

    def next_of(actions: Iterator[Callable[[], None]]) -> None:
        for action in islice(actions, 1):
            action()

    with RealKafka(session_timeout=9) as kafka:
        kafka.offline_partition("orders", survivors=SURVIVORS)
        # The first election meets a frozen controller, the second one, after the quarantine, does not.
        freezes, thaws = iter([kafka.freeze_controller]), iter([kafka.thaw_controller])
        frozen = recovery(kafka).with_(
            before_election=lambda: next_of(freezes),
            after_election=lambda: next_of(thaws),
            election_deadline=timedelta(seconds=2),
        )
        report = await frozen.recover(ORDERS)

        assert report[ORDERS].outcome is Outcome.RECOVERED
        assert kafka.describe("orders")[0].leader == 3
        assert kafka.describe("orders")[0].replicas == (1, 2, 3)


async def test_an_ongoing_reassignment_is_refused_and_named(recovery: Recoveries) -> None:
    with RealKafka(brokers=4) as kafka:
        kafka.create_topic("orders", [[1, 2, 3]], min_insync_replicas=1)
        kafka.produce("orders", 0, 10, "all", acks="all")
        for survivor in (2, 3):
            kafka.freeze(survivor)
        kafka.wait_until_fenced(2, 3)
        kafka.kill(1)
        for survivor in (2, 3):
            kafka.thaw(survivor)
        kafka.wait_for("orders", lambda state: state.leader is None)
        kafka.wait_until_unfenced(2, 3)
        topics.reassign(kafka.address(2), "orders", {0: [1, 2, 4]})

        report = await recovery(kafka).recover(ORDERS)

        assert report[ORDERS].outcome is Outcome.REFUSED
        assert "4" in why(report).message
        assert kafka.describe("orders")[0].leader is None


async def test_an_assignment_that_somebody_else_changed_meanwhile_is_decided_anew_and_kept(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    kafka.offline_partition("orders", survivors=SURVIVORS)
    manual = recovery(kafka)
    plan = await manual.plan(ORDERS)
    kafka.alter_assignment("orders", 0, [2, 3, 1])

    async with manual.engine() as engine:
        report = await engine.execute(plan)

    assert report[ORDERS].outcome is Outcome.REFUSED
    assert "2, 3, 1" in why(report).message
    assert kafka.describe("orders")[0].replicas == (2, 3, 1)
    assert kafka.describe("orders")[0].leader is None


async def test_a_topic_that_was_recreated_between_plan_and_execution_is_not_touched(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    kafka.offline_partition("orders", survivors=SURVIVORS)
    plan = await recovery(kafka).plan(ORDERS)
    kafka.delete_topic("orders")
    kafka.create_topic("orders", [[2, 3]])
    before = kafka.describe("orders")[0]

    async with recovery(kafka).engine() as engine:
        report = await engine.execute(plan)

    assert report[ORDERS].outcome is Outcome.REFUSED
    assert why(report).code == "TopicRecreated"
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
SIDE_DOOR = "SIDE"
"""A second listener of the controller, for the old leader only and behind a proxy: the others keep their own."""


@contextmanager
def kafka_with_a_side_door(release: str, patch: pytest.MonkeyPatch) -> Iterator[tuple[RealKafka, Proxy]]:
    """A cluster, and what stands between its controller and broker 1 and nobody else."""
    with Ports() as ports:
        port = ports.take()
        with Proxy(f"{HOST}:{port}") as proxy:
            common, for_broker = Layout.controller_properties, Layout.broker_properties

            def controller_properties(layout: Layout, data: Path) -> dict[str, str]:
                known = common(layout, data)
                return known | {
                    "listeners": f"{known['listeners']},{SIDE_DOOR}://{HOST}:{port}",
                    "advertised.listeners": f"{known['listeners']},{SIDE_DOOR}://{proxy.address}",
                    "controller.listener.names": f"{known['controller.listener.names']},{SIDE_DOOR}",
                    PROTOCOLS: f"{known[PROTOCOLS]},{SIDE_DOOR}:PLAINTEXT",
                }

            def broker_properties(layout: Layout, broker: int, data: Path) -> dict[str, str]:
                known = for_broker(layout, broker, data)
                side = {
                    "controller.listener.names": SIDE_DOOR,
                    "controller.quorum.bootstrap.servers": proxy.address,
                    PROTOCOLS: f"{known[PROTOCOLS]},{SIDE_DOOR}:PLAINTEXT",
                }
                return known | side if broker == OLD_LEADER else known

            patch.setattr(Layout, "controller_properties", controller_properties)
            patch.setattr(Layout, "broker_properties", broker_properties)
            with RealKafka(release) as kafka:
                yield kafka, proxy


def cut_off_while_it_leads_alone(kafka: RealKafka, to_controller: Proxy) -> None:
    """To the controller nobody leads any more; the old leader does not hear of it and goes on."""
    kafka.create_topic("orders", [[OLD_LEADER, *OTHERS]], min_insync_replicas=1)
    kafka.produce("orders", 0, 10, "all", acks="all")
    for other in OTHERS:
        kafka.freeze(other)
    kafka.wait_until_fenced(*OTHERS)
    to_controller.stall()
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
    bootstrap: Sequence[int], recovery: Recoveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KRaft brokers do not fence themselves (KIP-343 would have had them): clients may still be writing to it.

    By its own metadata it leads and the others are fenced: that it answers first must not make this the truth.
    """
    with kafka_with_a_side_door("newest", monkeypatch) as (kafka, to_controller):
        cut_off_while_it_leads_alone(kafka, to_controller)
        offline = kafka.describe("orders")[0]

        report = await told_only_of(bootstrap, kafka, recovery(kafka)).recover(ORDERS)

        assert kafka.leader_answers("orders", 0, OLD_LEADER)
        assert report[ORDERS].outcome is Outcome.REFUSED
        assert why(report).code == "OldLeaderAnswers"
        assert kafka.describe("orders")[0] == offline

        to_controller.restore()  # as the refusal says: reconnected it leads again, without loss
        kafka.wait_for("orders", lambda state: state.leader == OLD_LEADER)
        assert len(kafka.consume("orders", 0)) == 10


async def test_where_fenced_brokers_are_not_listed_the_plan_warns_of_an_old_leader_that_could_not_be_asked(
    recovery: Recoveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 4.0: it leads on here too, but a fresh process has no address to ask it at."""
    with kafka_with_a_side_door("3.9", monkeypatch) as (kafka, to_controller):
        cut_off_while_it_leads_alone(kafka, to_controller)

        plan = await told_only_of(OTHERS, kafka, recovery(kafka)).plan(ORDERS)

        assert kafka.leader_answers("orders", 0, OLD_LEADER)
        (decision,) = plan.decisions
        assert decision.verdict is Verdict.ELECT
        (warning,) = decision.warnings
        assert f"the address of broker {OLD_LEADER} in the ISR is not known" in warning
        assert "make sure that it is really down" in warning


@pytest.mark.parametrize(
    ("order", "leader"),
    [(CandidateOrder.EPOCH_FIRST, 3), (CandidateOrder.LONGEST_LOG, 2)],
    ids=["EpochFirst", "LongestLog"],
)
async def test_the_policy_chooses_among_divergent_replicas_and_every_record_of_the_chosen_one_is_kept(
    order: CandidateOrder, leader: int, kafka: RealKafka, recovery: Recoveries
) -> None:
    lost = kafka.offline_partition("orders", survivors=SURVIVORS, acked=10)
    policy = Policy((Rule("all", approval=Approval.AUTO, candidate_order=order),))

    report = await recovery(kafka).with_(policy=policy).recover(ORDERS)

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert report[ORDERS].leader == leader
    assert kafka.consume("orders", 0) == list(lost[0].held[leader])


async def test_measured_epoch_vectors_are_what_the_brokers_keep_on_disk(kafka: RealKafka, recovery: Recoveries) -> None:
    kafka.offline_partition("orders", survivors=SURVIVORS)

    plan = await recovery(kafka).plan(ORDERS)

    (partition,) = plan.evidence.partitions
    for replica in partition.replicas:
        if replica.broker == 1:
            assert replica.log is None
            continue
        assert replica.log
        assert replica.log.epochs is not None
        on_disk = [(entry.epoch, entry.offset) for entry in kafka.epoch_checkpoint(replica.broker, "orders", 0)]
        assert [tuple(entry) for entry in replica.log.epochs] == on_disk
        assert replica.log.end == SURVIVORS[replica.broker]


async def test_equal_survivors_share_the_leaderships(kafka: RealKafka, recovery: Recoveries) -> None:
    """A broker takes its new partitions one after the other: the busiest one decides when all are back."""
    kafka.offline_by_freezing("orders", survivors=(2, 3), partitions=10)

    report = await recovery(kafka).recover()

    assert report.recovered
    leaders = [state.leader for state in kafka.describe("orders").values()]
    assert sorted(leaders, key=str) == [2] * 5 + [3] * 5
    assert {state.replicas for state in kafka.describe("orders").values()} == {(1, 2, 3)}
