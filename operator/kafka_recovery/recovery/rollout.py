"""Wave after wave: canaries first, each unlocked by the one before, then as many as the new leaders can take.

A broker takes up to some milliseconds for each partition that it is to lead, one after the other. Whatever else a wave
needs is done meanwhile, so that the brokers hardly ever wait. A wave that was prepared in vain gets its orders back.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress

from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome
from kafka_recovery.domain.reason import ClusterFault, Reason, reason_of
from kafka_recovery.recovery.partition_run import Ending, NotLed, PartitionRun, State
from kafka_recovery.recovery.ports import JournalUnwritable
from kafka_recovery.recovery.session import Session
from kafka_recovery.recovery.supervision import Permission, beyond_limit, outruled, withdrawn
from kafka_recovery.recovery.wave import Wave, WaveSteps

CREDIT = 100
"""Elections of one new leader that may wait for its answer when the next wave is looked at.

Until it leads them all it applies nothing else, and no look at it ends: so this is half a second of its work, and on a
slow disk hardly more than a broker may fall behind before it counts as cut off.
"""

BATCH = 1000
"""Elections of one new leader in one wave after the canaries: it idles between two of them, a tenth of a second."""

_EXPECTED = (ClusterFault, JournalUnwritable)
"""Whatever else ends a run is a defect, and is raised first."""

NOT_UNLOCKED = Reason("EarlierWaveFailed", "no wave verified that would have unlocked one of this size; plan again")


class Rollout:
    """One plan's waves; outcomes go to the session.

    What is allowed, and who approved it, is read before a wave's orders are set, and again before its elections are
    held. Each size of the policy's waves is unlocked by a wave that verified:
    a canary that dropped out before it was elected has shown nothing, and another one takes its place. Never more
    elections than the size that is unlocked are held and not verified; the last size is used up in batches.
    """

    def __init__(self, steps: WaveSteps, session: Session, begun: Iterable[TopicPartition] = ()) -> None:
        """`begun`: elections of the plan that a run which was cut short has begun; they count for its limit."""
        self._steps = steps
        self._ports = steps.ports
        self._session = session
        self._begun = set(begun)
        self._policy = steps.plan.policy
        self._rest: deque[PartitionRun] = deque()
        self._started = self._verified = 0
        self._prepared_ahead = 1
        self._failed = session.failed
        self._decide_again = False
        self._again: dict[TopicPartition, Reason] = {}
        self._ahead: asyncio.Task[Wave | Reason] | None = None
        self._under_way: dict[asyncio.Task[None], Wave] = {}
        self._moved = asyncio.Event()
        self._errors: list[BaseException] = []

    async def run(self, runs: Sequence[PartitionRun]) -> dict[TopicPartition, Reason]:
        """Elect wave after wave; returns the partitions that are to be decided again, and why.

        Whatever one wave raises is raised once all of them have ended, and their orders are restored.
        """
        self._rest = deque(runs)
        try:
            try:
                await self._wave_after_wave()
            except Exception as error:  # noqa: BLE001 - kept, and raised below
                await self._break_off(error)
        except BaseException:  # the process ends: the journal knows of all of them, and a resume restores their orders
            tasks = [*self._under_way, *([self._ahead] if self._ahead else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        if self._errors:
            first, *others = sorted(self._errors, key=lambda error: isinstance(error, _EXPECTED))
            if others:
                raise first from BaseExceptionGroup("what else broke it off", others)
            raise first
        return self._again

    async def _wave_after_wave(self) -> None:
        while self._rest or self._ahead:
            await self._credit()
            wave = await self._prepared()
            if isinstance(wave, Reason):
                self._leave(wave)
            else:
                await self._elect(wave)
        await self._all_ended()

    async def _break_off(self, error: Exception) -> None:
        """Nothing more is elected: the wave that was prepared ahead gets its orders back, as all others do."""
        self._keep(error)
        ahead, self._ahead = self._ahead, None
        try:
            wave = await ahead if ahead else None
            if isinstance(wave, Wave):
                wave.abandon(dict.fromkeys(wave.runs, reason_of(error)), Ending.REFUSED)
                self._end(wave)
        except Exception as another:  # noqa: BLE001 - kept, and raised with the others
            self._keep(another)
        with suppress(Exception):  # whatever ended one of them is kept
            await self._all_ended()

    def _keep(self, error: BaseException) -> None:
        if not any(error is known for known in self._errors):
            self._errors.append(error)

    # When the next wave may be elected

    async def _credit(self) -> None:
        """Wait until the next wave may be elected, or never may; prepare it meanwhile."""
        while not self._may_elect():
            self._reap()
            if self._rest and self._ahead is None and self._soon():
                self._ahead = asyncio.create_task(self._prepare())
            if self._under_way:
                await self._moved.wait()
                self._moved.clear()

    def _may_elect(self) -> bool:
        if not self._under_way:
            return True
        ended = any(task.done() for task in self._under_way)
        if ended or self._stumbled() or not self._few_are_waited_for():
            return False
        if self._is_canary(self._unlocked()):
            return self._unverified() == 0
        return self._unverified() + self._prepared_ahead <= self._size(self._unlocked())

    @property
    def _limits(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of waves by the plan and by the policy of now: the stricter of both holds."""
        return self._steps.plan.policy.limits.wave_sizes, self._policy.limits.wave_sizes

    def _size(self, verified: int) -> int:
        """How many elections may be held and not verified once so many waves have."""
        return min(sizes[min(verified, len(sizes) - 1)] for sizes in self._limits)

    def _is_canary(self, verified: int) -> bool:
        """Whether a wave after so many that verified has to verify in whole before the next."""
        return any(verified < len(sizes) - 1 for sizes in self._limits)

    def _unlocked(self) -> int:
        """How many waves have verified, in whole; one that has just ended is counted among them already."""
        going = [wave for task, wave in self._under_way.items() if not task.done()]
        return self._verified + sum(wave.verified for wave in going)

    def _unverified(self) -> int:
        return sum(not run.leads_as_planned for wave in self._under_way.values() for run in wave.begun())

    def _few_are_waited_for(self) -> bool:
        """Whether each new leader has little enough to do for the next wave to reach it in time."""
        waiting = Counter(
            run.decision.leader for wave in self._under_way.values() for run in wave.in_state(State.ELECTED)
        )
        return max(waiting.values(), default=0) <= CREDIT

    def _soon(self) -> bool:
        """Whether so few leaders of the waves under way are waited for that their last one may answer at any moment."""
        elected = any(wave.in_state(State.ELECTED, State.LEADING) for wave in self._under_way.values())
        return elected and self._few_are_waited_for()

    def _stumbled(self) -> bool:
        """Whether an election of a wave under way will not verify, or may not."""
        doubtful = (State.LEADERLESS, State.IN_DOUBT)
        return any(
            run.held and (run.state in doubtful or (run.state is State.LEADING and not run.leads_as_planned))
            for wave in self._under_way.values()
            for run in wave.begun()
        )

    async def _settled(self) -> bool:
        """Wait until no new leader is waited for; whether one was."""
        waited = False
        while any(wave.in_state(State.ELECTED) for task, wave in self._under_way.items() if not task.done()):
            waited = True
            await self._moved.wait()
            self._moved.clear()
        return waited

    def _reap(self) -> None:
        """Let go of the waves that have ended; raises what ended the first of them, and keeps what did the others."""
        ended = [task for task in self._under_way if task.done()]
        for task in ended:
            del self._under_way[task]
        for error in filter(None, [task.exception() for task in ended]):
            self._keep(error)
        for task in ended:
            task.result()

    async def _all_ended(self) -> None:
        """Wait for all waves under way; raises what ended one of them."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        self._reap()

    # One wave

    async def _prepared(self) -> Wave | Reason:
        """The next wave, ready for election, or why none may be begun; what halted it ahead of its time may be over."""
        ahead, self._ahead = self._ahead, None
        try:
            prepared = await ahead if ahead else None
            return prepared if isinstance(prepared, Wave) else await self._prepare()
        except ClusterFault as fault:  # before anything was sent for it: the rest is decided again
            self._decide_again = True
            return fault.reason

    async def _prepare(self) -> Wave | Reason:
        now = await self._ports.permission()
        halted = self._halted([run.id for run in self._rest], now)
        if halted:
            return halted
        self._policy = now.policy
        members = self._next_members()
        barred = await self._barred(members, now)
        allowed = [run for run in members if run.id not in barred]
        try:
            wave = await self._steps.prepare(allowed, now.policy, self._settled)
        except ClusterFault:
            self._rest.extendleft(reversed(members))
            raise
        if wave is None:
            self._rest.extendleft(reversed(members))
            return await self._prepare()
        for id, reason in barred.items():
            self._session.refuse(id, reason)
        self._begun |= {run.id for run in members if run.begun}
        return wave

    def _next_members(self) -> list[PartitionRun]:
        """The next of the rest: as many as the waves that verified have unlocked, and as their leaders can take.

        What is prepared ahead is elected only once those under way have verified.
        """
        held = (run for wave in self._under_way.values() for run in wave.begun() if run.held)
        unlocks = self._is_canary(self._unlocked()) and not all(run.leads_as_planned for run in held)
        unlocked = self._size(self._unlocked() + unlocks)
        members: list[PartitionRun] = []
        leaders: Counter[BrokerId | None] = Counter()
        while self._rest and _fits(self._rest[0].decision.leader, leaders, unlocked):
            run = self._rest.popleft()
            leaders[run.decision.leader] += 1
            members.append(run)
        self._prepared_ahead = len(members)
        return members

    async def _elect(self, wave: Wave) -> None:
        """Elect what may be, and let the wave go on by itself to its end, whatever becomes of the election."""
        try:
            if wave.defect is None:
                await self._elect_allowed(wave)
        except Exception as error:
            wave.abandon(dict.fromkeys(wave.runs, reason_of(error)), Ending.REFUSED)
            raise
        finally:
            self._end(wave)
        if wave.defect:
            raise wave.defect

    def _end(self, wave: Wave) -> None:
        task = asyncio.create_task(self._finish(wave))
        self._under_way[task] = wave
        task.add_done_callback(lambda _: self._moved.set())

    async def _elect_allowed(self, wave: Wave) -> None:
        now = await self._ports.permission()
        if self._steps.is_outdated(wave, now.policy) and await self._settled():
            now = await self._ports.permission()
        self._policy = now.policy
        if self._stumbled() or self._excess(wave):
            await self._all_ended()
            now = await self._ports.permission()
            self._policy = now.policy
        members, going = wave.begun(), wave.in_state(State.DESIGNATED, State.IN_DOUBT)
        halted = self._halted([run.id for run in going], now)
        if halted:
            wave.abandon(dict.fromkeys(wave.runs, halted), self._ending())
        elif members:
            wave.abandon({run.id: NOT_UNLOCKED for run in self._excess(wave)}, Ending.AGAIN)
            barred = await self._barred(members, now)
            if any(run.id not in barred for run in wave.in_state(State.DESIGNATED)):
                self._started += 1
                self._ports.observer.wave_started(self._started, self._planned(), len(wave.runs))
            await self._steps.elect(wave, now.policy, barred)

    def _excess(self, wave: Wave) -> list[PartitionRun]:
        """Those of a wave beyond the size that is unlocked: it was prepared before it was known what unlocks it."""
        room = self._size(self._unlocked()) - self._unverified()
        return wave.in_state(State.DESIGNATED)[max(0, room) :]

    async def _finish(self, wave: Wave) -> None:
        """Verify a wave, restore its orders, and conclude; what did not verify stops all further ones."""
        try:
            await self._steps.verify(wave, self._moved.set)
        except Exception as error:
            for run in wave.in_state(State.ELECTED):
                run.apply(NotLed(reason_of(error), Ending.UNKNOWN))
            raise
        finally:
            try:
                await self._steps.end(wave)
            finally:  # what is known is told, also where the journal can't keep it
                self._conclude(wave)

    def _conclude(self, wave: Wave) -> None:
        verified = False
        for run in wave.in_state(State.UNTOUCHED, State.RESTORED, State.ALTERED):
            outcome = self._session.end(run)
            if outcome is None:
                self._again[run.id] = run.reason
            recovered = outcome is not None and outcome.outcome.is_recovered
            verified |= run.held and recovered
            if _stops_the_next(run, outcome):
                self._decide_again |= outcome is None
                self._failed = did_not_verify(run.id, run.why or (outcome.reason if outcome else None))
                self._session.failed = None if outcome is None else self._failed
        self._verified += verified

    # What is left

    def _leave(self, why: Reason) -> None:
        """Nothing of the rest is elected: it is refused, or to be decided again."""
        for run in self._rest:
            if self._ending() is Ending.AGAIN:
                self._again[run.id] = why
            elif run.id not in self._session:
                self._session.refuse(run.id, why)
        self._rest.clear()

    def _ending(self) -> Ending:
        """What follows for the rest: where what stopped the waves is decided again, the rest is too, a canary first."""
        return Ending.AGAIN if self._decide_again else Ending.REFUSED

    def _halted(self, ids: Sequence[TopicPartition], now: Permission) -> Reason | None:
        """Why these must not be elected: told to stop, out of time, or an earlier wave that did not verify."""
        open_ones = {id for id in ids if id not in self._session}
        self._session.postponed -= open_ones  # a halt that was met when they were to be prepared may be over
        if now.halted:
            self._session.postponed |= open_ones
            return now.halted
        return self._failed

    async def _barred(self, members: Sequence[PartitionRun], now: Permission) -> dict[TopicPartition, Reason]:
        """Those that may not be elected though they were planned, and what changed; an approval may still come."""
        decisions = [run.decision for run in members]
        outlawed = {d.id: reason for d in decisions if (reason := outruled(d, now.policy))}
        outlawed |= withdrawn(self._steps.plan, decisions, now)
        left = [decision for decision in decisions if decision.id not in outlawed]
        denied = await self._ports.gate.denied(self._steps.plan, self._steps.digest, left, now)
        self._session.postponed |= denied.keys()
        left = [decision for decision in left if decision.id not in denied]
        before = len(self._begun - {run.id for run in members})
        return outlawed | denied | beyond_limit(left, before, now.policy)

    def _planned(self) -> int:
        """How many waves there are, with those that are left if each one unlocks the next."""
        waves, rest = self._started, len(self._rest)
        while rest > 0:
            rest -= self._size(waves)
            waves += 1
        return waves


def _fits(leader: BrokerId | None, leaders: Counter[BrokerId | None], unlocked: int) -> bool:
    """Whether a wave with so many elections of each leader may get one more.

    When it is held, up to `CREDIT` elections of each of its leaders may still be held and not verified: those of the
    wave before.
    """
    if unlocked <= BATCH:
        return leaders.total() < unlocked
    left = CREDIT * len({*leaders, leader})
    return leaders.total() < max(unlocked // 2, unlocked - left) and leaders[leader] < BATCH


def did_not_verify(partition: TopicPartition, why: Reason | None) -> Reason:
    """Why nothing is elected after an election that has not the leader it was held for."""
    return Reason("EarlierWaveFailed", f"{partition} did not verify ({why})")


def _stops_the_next(run: PartitionRun, outcome: PartitionOutcome | None) -> bool:
    """Whether a wave that began with this run did not verify: an election without the leader it was held for.

    A topic that its owner deletes meanwhile says nothing about elections.
    """
    if outcome is not None:
        return outcome.outcome.is_unverified
    return run.held and run.why is not None and run.why.code != Decisive.PARTITION_GONE
