"""What the engine needs from the world. Adapters: `cluster/` for Kafka, `journal_files` over disks."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, Self, TypeVar

from kafka_recovery.domain.election import ElectionAnswer, ElectionRequest, Lead, Relay, Scope, Sighting
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, MetadataOffset, TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.domain.reason import ClusterFault, Reason

T = TypeVar("T")


class Cluster(Protocol):
    """Looking at a Kafka cluster. Nothing here changes it; every answer has a deadline."""

    async def gather(
        self, scope: Scope, rules: EvidenceRules, known: Mapping[TopicPartition, PartitionEvidence] | None = None
    ) -> Evidence:
        """Everything a decision needs about the partitions of `scope`.

        `known`: earlier evidence. A replica that answers under the same leader epoch as then with the same log end has
        the same log, because nobody leads who could have changed it: its vector need not be read again.

        Raises ClusterUnavailable if no broker answers, ClusterIdMismatch if the cluster's id is not the expected one,
        StaleMetadata if only brokers answer whose metadata are older than what was seen of this cluster before. A
        silent broker, an unknown topic or a missing ACL is a part of the evidence, not an error.
        """
        ...

    async def leaders(
        self, partitions: Sequence[TopicPartition], deadline: timedelta, not_before: MetadataOffset | None = None
    ) -> Mapping[TopicPartition, Sighting]:
        """Who leads each partition now, or that it is gone, or was not to be seen: an entry for every one of them.

        By metadata at least as new as `not_before`, and as the newest that were ever seen of this cluster. Raises
        StaleMetadata if no broker has such within the deadline.
        """
        ...

    async def answering(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        """Those of `candidates` that answer as their partition's leader at this moment; cheap enough to poll."""
        ...

    async def relay_answers(self, relay: Relay, deadline: timedelta) -> bool:
        """Whether a question that is put now is answered at that address, or a connection is refused there.

        A process that is gone forwards nothing; one that answers has not stood still since it was asked.
        """
        ...


class Election(Protocol):
    """Making one designated replica the leader of an offline partition, and leaving nothing else behind.

    Drivers: `assignment-order` (any KRaft release) alters the assignment order while electing, so it must be restored;
    `designated` (KIP-1275) has nothing to restore.
    """

    async def designate(self, requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        """Prepare these elections: after an accepted answer, `elect` makes the designated replica the leader.

        An answer for every request, always. It changes no leader, and `restore` takes it back.
        """
        ...

    async def elect(self, requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        """Hold elections whose designation was accepted, in one go; an answer for every request, always."""
        ...

    async def restore(self, requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        """Put back the original order where the present one is the request's; an order that is neither is left alone.

        Accepted means that the present order was read from metadata as new as the controller's, and is not ours now,
        or that there is no such partition any more. What could not be seen is answered with Changed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """A begun plan that the journal does not know to be finished.

    It does not tell who approved it: whoever can write a journal could write that too. Consent is asked of `Approvals`.
    `waves`: the highest number started. `in_flight`: waves whose end was never recorded, so their requests may still be
    under way; `relays`: the brokers through which requests of theirs went that were not answered, as far as that was
    noted. `begun`: the partitions of all waves, whose elections may have been held. `stages`: those that it has left.
    """

    digest: str
    plan: Plan
    waves: int
    in_flight: tuple[int, ...]
    begun: frozenset[TopicPartition]
    outcomes: tuple[PartitionOutcome, ...]
    relays: frozenset[BrokerId] = frozenset()
    stages: frozenset[str] = frozenset()

    @classmethod
    def of_waves(
        cls,
        digest: str,
        plan: Plan,
        started: Mapping[int, Iterable[TopicPartition]],
        ended: Mapping[int, Sequence[PartitionOutcome]],
        doubts: Iterable[tuple[int, BrokerId]] = (),
        facts: Iterable[str] = (),
    ) -> Self:
        """The run that a journal's facts tell of: partitions of the waves begun, outcomes of those ended, by number.

        `doubts`: waves with the brokers that did not answer for the controller. `facts`: the names of all that is kept.
        """
        return cls(
            digest,
            plan,
            waves=max(started, default=0),
            in_flight=tuple(sorted(started.keys() - ended.keys())),
            begun=frozenset(id for ids in started.values() for id in ids),
            outcomes=tuple(outcome for _, outcomes in sorted(ended.items()) for outcome in outcomes),
            relays=frozenset(broker for wave, broker in doubts if wave not in ended),
            stages=frozenset(fact.split("-")[1] for fact in facts if re.fullmatch("stage-[a-z]+-left", fact)),
        )


@dataclass(frozen=True, slots=True)
class DamagedRun:
    """A begun run whose facts can't be read as they were written: it can neither be gone on with nor undone.

    `name`: the beginning of its plan's digest. `why`: what is wrong, and what a person has to do. `partitions`: those
    whose order it may have altered; None: what is left of its facts does not tell, so they may be any.
    """

    name: str
    why: Reason
    partitions: frozenset[TopicPartition] | None


class ViewStandsStill(ClusterFault):
    """No partition is seen to be offline, in metadata that stand still: what is offline by now is not among them."""

    def __init__(self, why: Reason) -> None:
        super().__init__(str(why))
        self._why = why

    @property
    def reason(self) -> Reason:
        """What stands still, and what to do."""
        return self._why


class PlanFinished(Exception):
    """The plan has been executed to its end; what is left needs a new plan."""


class PlanForAnotherCluster(Exception):
    """The plan was made for a cluster with another id."""

    def __init__(self, planned: str, found: str) -> None:
        super().__init__(f"the plan was made for cluster {planned}, this is {found}")


class JournalLocked(Exception):
    """Another run holds this cluster's journal."""


class JournalUnwritable(Exception):
    """The journal can't keep a record (disk full, read-only, no permission), so nothing may be changed in Kafka."""


class JournalClosed(JournalUnwritable):
    """The journal takes nothing new any more, for good: nothing is begun by it. What it knows of can be undone."""

    code = "JournalUnwritable"


class Journal(Protocol):
    """Durable memory of one cluster's recoveries. Every method returns only when the record would survive a crash."""

    async def record(self, plan: Plan) -> str:
        """Keep the plan; returns its digest. Twice is harmless; raises PlanFinished for one that has ended already."""
        ...

    async def approved(self, digest: str, by: str | None) -> None:
        """Keep that the run begins, and who approved it, for whoever asks later: it lets nobody elect anything.

        None: nobody, and only what needs no approval will be elected.
        """
        ...

    async def wave_started(self, digest: str, wave: int, partitions: Sequence[TopicPartition]) -> None:
        """Keep that requests for this wave may be sent from now on."""
        ...

    async def in_doubt(self, digest: str, wave: int, relay: BrokerId) -> None:
        """Keep that a request of this wave went through this broker and was not answered."""
        ...

    async def wave_ended(self, digest: str, wave: int, outcomes: Sequence[PartitionOutcome]) -> None:
        """Keep what became of a wave; none of its requests is under way any more."""
        ...

    async def stage_entered(self, digest: str, stage: str) -> None:
        """Keep that a stage of the run may have begun."""
        ...

    async def stage_left(self, digest: str, stage: str) -> None:
        """Keep that all of a stage is done."""
        ...

    async def finished(self, digest: str) -> None:
        """Keep that nothing of this plan is left to do or to undo."""
        ...

    async def unfinished(self) -> Sequence[Run | DamagedRun]:
        """Runs that began and did not end, oldest first; a damaged one hides no other.

        A journal that keeps one recovery alone may raise InvalidDocument instead: others have journals of their own.
        """
        ...


class Stage(Protocol):
    """A step of a run that others bring: `save` before any order is set, `after` once partitions are recovered.

    It is journalled: one that was entered and not left is gone through again by whoever goes on with the run.
    """

    async def go_through(
        self, plan: Plan, digest: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Reason]:
        """Do what it is for, of these partitions. Doing it twice is harmless.

        Returns those for which it could not: after `save` they are not elected, after `after` they are warned of.
        """
        ...


class Hold(Protocol):
    """Keeping brokers away that Kafka would elect before the planned leader, if they came back meanwhile."""

    async def hold(self, plan: Plan, partitions: Sequence[TopicPartition]) -> None:
        """Keep them away, for these elections of an approved plan. Twice is harmless.

        An extra safety: what can't be had is told to people, never raised, and holds no election up for long.
        """
        ...

    @property
    def keeps_away(self) -> bool:
        """Whether any broker is kept away, or may be."""
        ...

    async def let_go(self) -> None:
        """Keep nobody away any more; what can't be had is tried again at the next call. Twice is harmless.

        The engine lets go before it asks a person, where no election can be under way; whoever runs the engine once
        no partition is in doubt.
        """
        ...


class Approvals(Protocol):
    """Asking whoever may say yes."""

    async def granted(self, plan: Plan, digest: str) -> str | None:
        """Ask, and wait for the answer: who approved exactly this digest (for the journal), or None for no."""
        ...

    async def standing(self, plan: Plan, digest: str) -> str | Reason | None:
        """Who approved exactly this digest, if that holds at this moment. It asks nobody and waits for nobody.

        None: nobody has. A reason: somebody has, or may have, and it does not hold now. Read anew at each call, before
        each wave, from where the approval was given.
        """
        ...


class Clock(Protocol):
    """Durations come from `monotonic`, records from `now`: a wall clock that jumps changes only records."""

    def now(self) -> datetime:
        """UTC instant."""
        ...

    def monotonic(self) -> timedelta:
        """Time since some fixed point."""
        ...

    async def sleep(self, duration: timedelta) -> None:
        """Wait."""
        ...


class Apart(Protocol):
    """How what only calculates is done: in a thread of its own where others need the event loop meanwhile."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Do it, and hand on what it returns or raises."""
        ...


async def at_once(work: Callable[[], T], /) -> T:
    """As an `Apart`: here and now."""
    return work()


class Observer(Protocol):
    """Somebody who watches progress: a progress bar, a log, metrics. It must not raise."""

    def decided(self, plan: Plan, took: timedelta) -> None:
        """A plan was made; it may elect nobody."""

    def planned(self, plan: Plan, digest: str) -> None:
        """A plan with elections is durable."""

    def wave_started(self, wave: int, waves: int, partitions: int) -> None:
        """A wave that was looked at and prepared is about to be elected."""

    def concluded(self, outcome: PartitionOutcome) -> None:
        """One partition has an outcome."""

    def waiting(self, why: Reason, duration: timedelta) -> None:
        """The engine waits: for a clean member to return, or out of quarantine."""


class Silent:
    """An observer that watches nothing."""

    def decided(self, plan: Plan, took: timedelta) -> None:
        """Nothing."""

    def planned(self, plan: Plan, digest: str) -> None:
        """Nothing."""

    def wave_started(self, wave: int, waves: int, partitions: int) -> None:
        """Nothing."""

    def concluded(self, outcome: PartitionOutcome) -> None:
        """Nothing."""

    def waiting(self, why: Reason, duration: timedelta) -> None:
        """Nothing."""
