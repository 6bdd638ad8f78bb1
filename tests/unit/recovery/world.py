"""What one engine needs: the small Kafka, a real journal on disk, somebody who approves, and a watch on promises."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from kafka_recovery.domain.election import ALL_OFFLINE, ElectionAnswer, ElectionRequest, Scope
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, TopicId, TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome, Report
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval, EvidenceRules, Limits, Policy, Rule
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.recovery.clock import SystemClock
from kafka_recovery.recovery.engine import Effort, Engine
from kafka_recovery.recovery.execution import Stages
from kafka_recovery.recovery.journal_files import DEADLINE, FileJournal, Storage
from kafka_recovery.recovery.local_storage import LocalStorage, local_journal
from kafka_recovery.recovery.ports import DamagedRun, Run
from kafka_recovery.recovery.requests import request_of
from kafka_recovery.recovery.supervision import Supervision
from kafka_recovery.recovery.timing import Timing
from unit.recovery.brokers import Crash, FakeClock, FakeKafka, Held, Steps, port

T = TypeVar("T")

BRIEF = timedelta(milliseconds=500)
"""How long a disk that hangs is waited for, by the real clock."""

COARSE = Timing(poll=timedelta(milliseconds=500))
"""As always, but 20 ms steps through a dead broker's session would make long stories of short ones."""

ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("payments", 0)


def policy(approval: Approval = Approval.AUTO, *wave_sizes: int, patience: float = 30, attempts: int = 3) -> Policy:
    """One rule for every topic."""
    evidence = EvidenceRules(attempts=attempts)
    rule = Rule("rule", approval=approval, patience=timedelta(seconds=patience), evidence=evidence)
    return Policy((rule,), Limits(wave_sizes=wave_sizes or (500,)))


AUTO = policy()
MANUAL = policy(Approval.MANUAL)


def crash() -> None:
    """The process ends here."""
    raise Crash


async def dies_in(work: Awaitable[object]) -> None:
    """The process that does this ends in the middle of it."""
    with pytest.raises(Crash):
        await work


def code(report: Report, id: TopicPartition = ORDERS) -> str | None:
    """Why a partition's outcome is what it is, in one word."""
    reason = report[id].reason
    return reason.code if reason else None


class PromptStorage(LocalStorage):
    """The real files. No thread: the fake clock would run on while one works, by as much as the machine is slow.

    `hangs_at`: the work that never ends, and nothing after it.
    """

    def __init__(self, directory: Path, cluster_id: str, hangs_at: str = "") -> None:
        super().__init__(directory, cluster_id)
        self.hangs_at = hangs_at

    async def apart(self, what: str, work: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        if self.hangs_at and re.search(self.hangs_at, what):
            await asyncio.Event().wait()
        return work()


class WatchedJournal(FileJournal):
    """The real journal; its calls are steps like all others, and what it holds is what may be elected."""

    def __init__(
        self, storage: Storage, steps: Steps, durable: set[ElectionRequest], deadline: timedelta = DEADLINE
    ) -> None:
        super().__init__(storage, SystemClock().now, deadline)
        self.steps = steps
        self._durable = durable

    @port
    async def record(self, plan: Plan) -> str:
        name = await super().record(plan)
        self._durable.update(map(request_of, self.plan(name).elections.values()))
        return name

    @port
    async def approved(self, digest: str, by: str | None) -> None:
        await super().approved(digest, by)

    @port
    async def wave_started(self, digest: str, wave: int, partitions: Sequence[TopicPartition]) -> None:
        await super().wave_started(digest, wave, partitions)

    @port
    async def in_doubt(self, digest: str, wave: int, relay: BrokerId) -> None:
        await super().in_doubt(digest, wave, relay)

    @port
    async def wave_ended(self, digest: str, wave: int, outcomes: Sequence[PartitionOutcome]) -> None:
        await super().wave_ended(digest, wave, outcomes)

    @port
    async def stage_entered(self, digest: str, stage: str) -> None:
        await super().stage_entered(digest, stage)

    @port
    async def stage_left(self, digest: str, stage: str) -> None:
        await super().stage_left(digest, stage)

    @port
    async def finished(self, digest: str) -> None:
        await super().finished(digest)

    @port
    async def unfinished(self) -> Sequence[Run | DamagedRun]:
        return await super().unfinished()


class WatchedKafka(FakeKafka):
    """The small Kafka, with an eye on promises: nobody from silence, nothing that is not in a durable plan."""

    def __init__(self, steps: Steps, clock: FakeClock, durable: set[ElectionRequest]) -> None:
        super().__init__(steps, clock)
        self.broken: list[str] = []
        self._durable = durable
        self._answered: set[tuple[TopicPartition, int, int]] = set()

    async def gather(
        self, scope: Scope, rules: EvidenceRules, known: Mapping[TopicPartition, PartitionEvidence] | None = None
    ) -> Evidence:
        evidence = await super().gather(scope, rules, known)
        asked = {partition.id for partition in evidence.partitions}
        self._answered = {answer for answer in self._answered if answer[0] not in asked}
        for partition in evidence.partitions:
            for replica in partition.replicas:
                if replica.log is not None:
                    self._answered.add((partition.id, partition.leader_epoch, replica.broker))
        return evidence

    async def designate(self, requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        self.broken += [f"{b.id}: an order that no durable plan holds" for b in requests if b not in self._durable]
        return await super().designate(requests)

    async def elect(self, requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        for request in requests:
            if (request.id, request.leader_epoch, request.designated) not in self._answered:
                self.broken.append(f"{request.id}: broker {request.designated} was elected from silence")
            if request not in self._durable:
                self.broken.append(f"{request.id}: an election that no durable plan holds")
        return await super().elect(requests)


class World:
    """A test's controls: what is offline, what goes wrong and when, who approves; and what the observer was told."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.steps = Steps()
        self.clock = FakeClock(self.steps)
        self.durable: set[ElectionRequest] = set()
        self.kafka = WatchedKafka(self.steps, self.clock, self.durable)
        self.timing = COARSE
        self.hangs_at = ""
        """What the disk hangs at, by its name."""
        self.approver: str | None = "ann"
        self.approved: dict[str, str] = {}
        """What was said yes to, and stands, by digest."""
        self.concluded_outcomes: list[PartitionOutcome] = []
        self.waves: list[tuple[int, int, int]] = []
        self.waits: list[Reason] = []

    def offline(
        self,
        ends: Mapping[int, int] | None = None,
        id: TopicPartition = ORDERS,
        *,
        dead: int = 1,
        elr: tuple[int, ...] | None = None,
        min_isr: int | None = 1,
    ) -> TopicPartition:
        """A partition whose leader `dead`, alone in the ISR, is gone; `ends` are the survivors' log ends.

        The best survivor stands last in the assignment, so that the order has to be altered.
        """
        ends = ends or {3: 15, 2: 27}
        order = (dead, *ends)
        isr = () if elr else (dead,)
        topic_id = TopicId(f"id-of-{id.topic}")
        self.kafka.partitions[id] = Held(topic_id, order, order, {dead: 30, **ends}, isr, elr=elr, min_isr=min_isr)
        self.kafka.nodes[dead].alive, self.kafka.nodes[dead].fenced = False, True
        return id

    def before(self, call: str, action: Callable[[], object], nth: int = 1) -> None:
        """Do `action` when the nth call of a port's method, counted from now, begins."""
        self.steps.hook(f"before {call}", nth, action)

    def after(self, call: str, action: Callable[[], object], nth: int = 1) -> None:
        """Do `action` when the nth call, counted from now, has taken effect, before it returns."""
        self.steps.hook(f"after {call}", nth, action)

    def calm_down(self) -> None:
        """Whatever was to go wrong still, does not."""
        self.steps.unhook()
        self.kafka.designate_fates.clear()
        self.kafka.elect_fates.clear()
        self.kafka.restore_fates.clear()

    @contextmanager
    def process(
        self, policy: Policy | Supervision = AUTO, effort: Effort | None = None, stages: Stages | None = None
    ) -> Iterator[Engine]:
        """An engine for as long as its process lives: it holds the journal's lock. To start one takes a second."""
        self.clock.advance(timedelta(seconds=1))
        self.steps.dead = False
        self.kafka.newest = None
        storage = PromptStorage(self.directory, self.kafka.id, self.hangs_at)
        with WatchedJournal(storage, self.steps, self.durable, BRIEF if self.hangs_at else DEADLINE) as journal:
            yield Engine(
                self.kafka,
                self.kafka,
                journal,
                self,
                policy,
                clock=self.clock,
                observer=self,
                timing=self.timing,
                effort=effort,
                stages=stages,
            )

    async def recover(
        self, policy: Policy | Supervision = AUTO, scope: Scope = ALL_OFFLINE, effort: Effort | None = None
    ) -> Report:
        with self.process(policy, effort) as engine:
            return await engine.recover(scope)

    async def plan(
        self, policy: Policy | Supervision = AUTO, designated: Mapping[TopicPartition, BrokerId] | None = None
    ) -> Plan:
        with self.process(policy) as engine:
            return await engine.plan(ALL_OFFLINE, designated)

    async def execute(self, plan: Plan, policy: Policy | Supervision | None = None) -> Report:
        with self.process(policy or plan.policy) as engine:
            return await engine.execute(plan)

    async def resume(self, policy: Policy | Supervision = AUTO) -> Report:
        with self.process(policy) as engine:
            return await engine.resume()

    async def undo(self, policy: Policy | Supervision | None = None) -> Report:
        with self.process(policy or Policy()) as engine:
            return await engine.undo()

    def journal(self) -> FileJournal:
        """What is on the disk."""
        return local_journal(self.directory, self.kafka.id)

    async def open_runs(self) -> list[str]:
        """Digests of the plans that are begun and not finished; of damaged ones as much of it as is known."""
        with self.journal() as journal:
            entries = await journal.unfinished()
        return [entry.digest if isinstance(entry, Run) else entry.name for entry in entries]

    def changed(self) -> list[str]:
        """The calls that may have changed something in Kafka."""
        return [call for call in self.steps.calls if call in ("designate", "elect", "restore")]

    def unrestored(self) -> list[TopicPartition]:
        """Partitions whose assignment is not the one their owner wants."""
        return [id for id, held in self.kafka.partitions.items() if held.assignment != held.owned]

    def kept_its_promises(self) -> bool:
        """Whether every order is its owner's, and nothing was done that must never be done."""
        assert self.kafka.broken == []
        assert self.unrestored() == []
        return True

    def waited_out(self) -> bool:
        """Whether a request that was not answered was left alone until it could take effect no more."""
        return "InDoubt" in {why.code for why in self.waits}

    def leader(self, id: TopicPartition = ORDERS) -> int | None:
        """Who leads and answers."""
        leader = self.kafka.partitions[id].leader
        return leader if leader is not None and self.kafka.leads(id, leader) else None

    @port
    async def granted(self, plan: Plan, digest_: str) -> str | None:
        assert digest_ == digest(plan)
        if self.approver:
            self.approved[digest_] = self.approver
        return self.approver

    async def standing(self, plan: Plan, digest_: str) -> str | None:
        """The digest is of the plan's bytes as they were written, by whatever release."""
        return self.approved.get(digest_)

    def decided(self, plan: Plan, took: timedelta) -> None:
        """Seen."""

    def planned(self, plan: Plan, digest: str) -> None:
        """Seen."""

    def wave_started(self, wave: int, waves: int, partitions: int) -> None:
        self.waves.append((wave, waves, partitions))

    def concluded(self, outcome: PartitionOutcome) -> None:
        self.concluded_outcomes.append(outcome)

    def waiting(self, why: Reason, duration: timedelta) -> None:
        self.waits.append(why)
