"""Incidents held back while somebody else is at work: which ones, for how long, and how fast they open afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from kafka_recovery.cluster.scan import OfflinePartition
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import Policy, Rule
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters import status as cluster_status
from kafka_recovery.kube.watching.incidents import Docket, Names, Offline, docket
from kafka_recovery.kube.watching.waits import LONGEST_WAIT, NO_WAITS, Waits
from kafka_recovery.kube.watching.watcher import Pace, Watcher, WatchView
from kafka_recovery.recovery.ports import Clock
from unit.kube.watching.bench import Bench, FakeDesk, FakeKafka, virtually
from unit.kube.watching.sights import offline, pulse, seconds

ROLLS = Reason("StrimziAtWork", "Pod prod-brokers-3 of broker 3 is starting")
MOVES = Reason("StrimziAtWork", "KafkaRebalance full moves partitions")
ROLLING_3 = Waits({BrokerId(3): ROLLS})


def lost(isr: tuple[int, ...] = (3,), elr: tuple[int, ...] = (), topic: str = "orders") -> OfflinePartition:
    """Offline on brokers 1 to 3, until a member of its ISR or ELR is back."""
    return replace(offline(topic), isr=tuple(map(BrokerId, isr)), elr=tuple(map(BrokerId, elr)))


def sorted_out(at: float, waits: Waits, *partitions: OfflinePartition, patience: float = 0) -> Docket:
    """The docket of what is offline since second 0."""
    policy = Policy((Rule("all", patience=seconds(patience)),))
    spells = [Offline(partition, seconds(0)) for partition in partitions]
    return docket(spells, policy, {}, {}, Names("prod", "abc"), seconds(at), waits)


def left(found: Docket) -> dict[str, Reason]:
    return {str(id): reason for id, reason in found.left.items()}


class TestWhatIsHeldBack:
    def test_a_partition_whose_last_member_is_restarted(self) -> None:
        found = sorted_out(5, ROLLING_3, lost())

        assert (found.incidents, left(found), found.next_at) == ((), {"orders-0": ROLLS}, seconds(6))

    def test_not_one_that_waits_for_another_broker(self) -> None:
        """A replica that lags behind would not bring it back, so its restart is no reason to wait."""
        found = sorted_out(5, ROLLING_3, lost(isr=(2,)), lost(topic="pay"))

        assert [str(each.id) for each in found.incidents[0].partitions] == ["orders-0"]
        assert left(found) == {"pay-0": ROLLS}

    def test_if_the_controller_knows_of_no_member_it_may_be_any_replica(self) -> None:
        assert left(sorted_out(5, ROLLING_3, lost(isr=()))) == {"orders-0": ROLLS}

    def test_during_a_rebalance_everything(self) -> None:
        found = sorted_out(5, Waits(everything=MOVES), lost(isr=(2,)))

        assert (found.incidents, left(found)) == ((), {"orders-0": MOVES})

    def test_for_ten_minutes_of_its_outage_at_most(self) -> None:
        bound = LONGEST_WAIT.total_seconds()
        just_before, then = (sorted_out(at, ROLLING_3, lost()) for at in (bound - 1, bound))

        assert (just_before.incidents, just_before.next_at) == ((), seconds(bound))
        assert [str(each.id) for each in then.incidents[0].partitions] == ["orders-0"]

    def test_what_the_policy_is_patient_with_waits_for_that_first(self) -> None:
        found = sorted_out(5, ROLLING_3, lost(), patience=30)

        assert ({id: why.code for id, why in left(found).items()}, found.next_at) == (
            {"orders-0": "Patience"},
            seconds(31),
        )

    def test_a_partition_that_nobody_would_open_is_told_its_own_reason(self) -> None:
        found = docket([Offline(lost(), seconds(0))], None, {}, {}, Names("prod", "abc"), seconds(5), ROLLING_3)

        assert {id: why.code for id, why in left(found).items()} == {"orders-0": "NoPolicy"}


# The watching task


@dataclass
class FakeOthers:
    """Somebody who restarts brokers; `asked` at these times."""

    clock: Clock
    waits: Waits = NO_WAITS
    asked: list[float] = field(default_factory=list)

    async def at_work(self) -> Waits:
        self.asked.append(self.clock.monotonic().total_seconds())
        await self.clock.sleep(seconds(0.02))
        return self.waits


@dataclass
class Beside(Bench):
    """One watched cluster, and somebody else at work in it."""

    others: FakeOthers

    @property
    def left(self) -> dict[str, Reason]:
        return {str(id): why for id, why in self.watcher.view.left.items()}


def beside_others(clock: Clock) -> Beside:
    kafka, desk, others = FakeKafka(clock), FakeDesk(clock), FakeOthers(clock)
    watcher = Watcher("prod", kafka, desk, clock, Pace(deadline=seconds(1)), others)
    return Beside(clock, kafka, desk, watcher, others)


class TestHoldingBack:
    @virtually(beside_others)
    async def test_a_roll_that_ends_well_opens_nothing(self, bench: Beside) -> None:
        await bench.after(3)
        bench.others.waits = ROLLING_3
        bench.kafka.loses(lost())
        await bench.after(90)
        assert bench.left == {"orders-0": ROLLS}
        bench.kafka.seen, bench.kafka.offline, bench.others.waits = pulse(1, 2, 3), (), NO_WAITS
        await bench.after(30)
        assert (bench.desk.opened, bench.left) == ([], {})

    @virtually(beside_others)
    async def test_one_that_ends_badly_lets_the_incident_go_at_once(self, bench: Beside) -> None:
        bench.others.waits = ROLLING_3
        bench.kafka.loses(lost())
        await bench.after(90)
        bench.others.waits = NO_WAITS
        await bench.after(1.5)
        assert bench.desk.names() == [["orders-0"]]

    @virtually(beside_others)
    async def test_what_comes_back_with_the_end_of_the_roll_is_seen_before_anything_is_opened(
        self, bench: Beside
    ) -> None:
        """The Pod is ready a moment after its broker leads again, and the last scan may be older than both."""

        bench.others.waits = ROLLING_3
        bench.kafka.loses(lost())
        await bench.after(90)
        scans = len(bench.kafka.scans)
        while len(bench.kafka.scans) == scans:
            await bench.after(0.1)
        await bench.after(0.1)
        bench.kafka.offline, bench.others.waits = (), NO_WAITS
        bench.watcher.look_again()
        await bench.after(10)
        assert bench.desk.opened == []

    @virtually(beside_others)
    async def test_a_roll_without_end_holds_it_back_for_ten_minutes(self, bench: Beside) -> None:
        bench.others.waits = ROLLING_3
        bench.kafka.loses(lost())
        await bench.after(590)
        assert bench.desk.opened == []
        await bench.after(12)
        assert bench.desk.names() == [["orders-0"]]

    @virtually(beside_others)
    async def test_nobody_is_asked_while_nothing_is_due_and_once_a_second_while_something_waits(
        self, bench: Beside
    ) -> None:
        await bench.after(60)
        assert bench.others.asked == []
        bench.others.waits = ROLLING_3
        bench.kafka.loses(lost())
        await bench.after(60)
        assert 40 <= len(bench.others.asked) <= 120


def test_a_status_says_whom_how_many_partitions_wait_for() -> None:
    patience = Reason("Patience", "rule 'all' waits 30s for its brokers to come back")
    reasons = [ROLLS, ROLLS, MOVES, patience]
    left = {TopicPartition("orders", index): reason for index, reason in enumerate(reasons)}
    view = WatchView(seconds(5), left=left)

    status = cluster_status.watched(view, Policy(()), None, 0, 1, {}, datetime(2026, 11, 21, tzinfo=UTC))

    assert status["waitsFor"] == [
        {"reason": "StrimziAtWork", "message": ROLLS.message, "partitions": 2},
        {"reason": "StrimziAtWork", "message": MOVES.message, "partitions": 1},
    ]
