"""Whatever happens, in whatever order, and wherever the process ends: some promises are always kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_recovery.domain.election import Answer, Scope
from kafka_recovery.domain.ids import TopicId, TopicPartition
from kafka_recovery.domain.outcome import Outcome, Report
from kafka_recovery.domain.policy import Approval, Policy
from unit.kube.virtual import in_no_time
from unit.recovery.brokers import EPOCH, Crash, Fate, Held, Node, Unavailable
from unit.recovery.world import World, policy

Fault = tuple[str, bool, int, str, int, TopicPartition]
"""Before or after which call over a port, the how manieth, what happens, to which broker or partition."""

BYSTANDERS = (TopicPartition("bystander", 0), TopicPartition("bystander", 1))
CALLS = (
    "gather",
    "record",
    "granted",
    "approved",
    "wave_started",
    "designate",
    "elect",
    "answering",
    "leaders",
    "restore",
    "wave_ended",
    "finished",
)


FAULTS: dict[str, Callable[[World, int, TopicPartition], object]] = {
    "kill": lambda world, broker, id: world.kafka.kill(broker),
    "fence": lambda world, broker, id: world.kafka.fence(broker),
    "start": lambda world, broker, id: world.kafka.start(broker),
    "start with less": lambda world, broker, id: world.kafka.start(broker, with_end=1),
    "boot": lambda world, broker, id: world.kafka.boot(broker),
    "mute": lambda world, broker, id: setattr(world.kafka.nodes[broker], "mute", True),
    "busy": lambda world, broker, id: setattr(world.kafka.nodes[broker], "busy", True),
    "stand still": lambda world, broker, id: setattr(world.kafka.nodes[broker], "still", True),
    "believe to lead": lambda world, broker, id: setattr(world.kafka.nodes[broker], "fooled", True),
    "recreate": lambda world, broker, id: world.kafka.recreate(id),
    "delete": lambda world, broker, id: world.kafka.partitions.pop(id, None),
    "say changed": lambda world, broker, id: world.kafka.denied.update({id: Answer.CHANGED}),
    "say no": lambda world, broker, id: world.kafka.denied.update({id: Answer.REFUSED}),
    "allow": lambda world, broker, id: world.kafka.denied.clear(),
    "jump": lambda world, broker, id: setattr(world.clock, "wall", world.clock.wall - timedelta(days=1)),
    "lag": lambda world, broker, id: setattr(world.kafka, "lag", timedelta(milliseconds=300)),
    "nobody approves": lambda world, broker, id: setattr(world, "approver", None),
}
faults = st.tuples(
    st.sampled_from(CALLS),
    st.booleans(),
    st.integers(1, 3),
    st.sampled_from(sorted(FAULTS)),
    st.integers(1, 4),
    st.builds(TopicPartition, st.just("orders"), st.integers(0, 2)),
)
ends = st.lists(
    st.fixed_dictionaries({2: st.integers(0, 30), 3: st.integers(0, 30), 4: st.integers(0, 30)}), min_size=1, max_size=3
)
fates = st.lists(st.sampled_from(Fate), max_size=4)
policies = st.builds(
    policy,
    st.sampled_from((Approval.AUTO, Approval.MANUAL)),
    st.sampled_from((1, 2)),
    patience=st.sampled_from((0, 30)),
)


def build(directory: Path, survivors: list[dict[int, int]]) -> World:
    world = World(directory)
    for number, ends in enumerate(survivors):
        world.offline(ends, TopicPartition("orders", number))
    online, offline = BYSTANDERS
    world.kafka.partitions[online] = Held(TopicId("b"), (4, 3), (4, 3), {4: 9, 3: 9}, (4, 3), leader=4)
    world.kafka.partitions[offline] = Held(TopicId("b"), (1, 3), (1, 3), {1: 9, 3: 5}, ())
    return world


def everything_is_well_again(world: World) -> None:
    """All brokers but the first are back; nothing more will go wrong."""
    world.calm_down()
    world.kafka.denied.clear()
    world.kafka.lag = timedelta()
    world.clock.advance(timedelta(minutes=2))
    for broker in (2, 3, 4):
        world.kafka.nodes[broker] = Node()


@dataclass(frozen=True)
class Story:
    """One history: what is offline, what goes wrong, where the process ends, and what the next one does."""

    ends: list[dict[int, int]]
    policy: Policy
    faults: list[Fault]
    designate_fates: list[Fate]
    elect_fates: list[Fate]
    restore_fates: list[Fate]
    crash_at: int | None
    go_on: bool

    async def happens(self, directory: Path) -> None:
        world = build(directory, self.ends)
        scope = Scope(tuple(id for id in world.kafka.partitions if id not in BYSTANDERS))
        for call, after, nth, fault, broker, id in self.faults:
            (world.after if after else world.before)(call, partial(FAULTS[fault], world, broker, id), nth)
        world.kafka.designate_fates = list(self.designate_fates)
        world.kafka.elect_fates, world.kafka.restore_fates = list(self.elect_fates), list(self.restore_fates)
        world.steps.crash_at = self.crash_at
        with suppress(Crash, Unavailable):
            report = await world.recover(self.policy, scope)
            assert {outcome.id for outcome in report.outcomes} == set(scope.partitions or ())
            self.check_claims(world, report)
            self.check(world)

        everything_is_well_again(world)
        report = await (world.resume(self.policy) if self.go_on else world.undo())

        self.check(world)
        assert all(outcome.order_restored for outcome in report.outcomes)
        for outcome in report.outcomes:
            if outcome.outcome.is_recovered:
                assert world.leader(outcome.id) == outcome.leader
        await world.undo()  # closes a run that still waits for an approval
        assert await world.open_runs() == []
        assert world.unrestored() == []

    def check(self, world: World) -> None:
        assert world.kafka.broken == []
        assert {ballot.id for ballot in world.kafka.ballots}.isdisjoint(BYSTANDERS)
        online, offline = (world.kafka.partitions[id] for id in BYSTANDERS)
        assert (online.assignment, offline.assignment, offline.leader, offline.epoch) == ((4, 3), (1, 3), None, EPOCH)

    def check_claims(self, world: World, report: Report) -> None:
        """Recovered: the designated replica leads. Recovered cleanly: not by an unclean election of ours."""
        for outcome in report.outcomes:
            designated = {ballot.designated for ballot in world.kafka.ballots if ballot.id == outcome.id}
            if outcome.outcome in (Outcome.RECOVERED, Outcome.RECOVERED_UNDER_MIN_ISR):
                assert outcome.leader in designated
            another_topic = outcome.leader_epoch is not None and outcome.leader_epoch <= EPOCH
            if outcome.outcome is Outcome.RECOVERED_CLEANLY and not another_topic:
                assert (outcome.id, outcome.leader) not in world.kafka.elected


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    story=st.builds(
        Story,
        ends,
        policies,
        st.lists(faults, max_size=6),
        fates,
        fates,
        fates,
        st.none() | st.integers(1, 120),
        st.booleans(),
    )
)
def test_promises_are_kept(memory: Path, story: Story) -> None:
    with TemporaryDirectory(dir=memory) as directory:
        in_no_time(story.happens(Path(directory)))
