"""One wave: look once more, designate, elect, verify each new leader by its own answer, restore the orders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from kafka_recovery.decision.attesting import standing
from kafka_recovery.decision.recheck import Before, LastLook
from kafka_recovery.domain.election import (
    Answer,
    ElectionAnswer,
    ElectionRequest,
    Lead,
    Relay,
    Scope,
    Sighting,
    Unseen,
)
from kafka_recovery.domain.ids import MetadataOffset, TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import ClusterFault, Reason, reason_of
from kafka_recovery.recovery.doubt import Doubt
from kafka_recovery.recovery.engine_ports import EnginePorts
from kafka_recovery.recovery.looks import see_it_still_lead, see_who_led_meanwhile, settle
from kafka_recovery.recovery.outcomes import outcome_of, silently_replaced
from kafka_recovery.recovery.partition_run import (
    Abandoned,
    Answered,
    DoubtOver,
    Ending,
    Led,
    OrderRead,
    PartitionRun,
    Started,
    State,
    is_gone,
    leads_since,
    order_is_ours,
)
from kafka_recovery.recovery.ports import JournalClosed, PlanForAnotherCluster
from kafka_recovery.recovery.requests import request_of

FRESH = timedelta(seconds=2)
"""A last look that began longer ago than this is taken again before its wave is elected."""

Ask = Callable[[Sequence[ElectionRequest]], Awaitable[Mapping[TopicPartition, ElectionAnswer]]]

Settled = Callable[[], Awaitable[bool]]
"""Waits until no new leader is waited for; whether one was."""


@dataclass(slots=True)
class Wave:
    """Some partitions on their way together.

    `number`: what the journal knows it by. `checked_at`: when the last look at them began (monotonic), and `policy`
    under which they were held to what it saw. `relays`: through whom requests went that were not answered. `defect`:
    what a driver raised that nobody expected; it is raised again once the wave's orders are restored.
    """

    number: int
    runs: Mapping[TopicPartition, PartitionRun]
    checked_at: timedelta
    policy: Policy
    relays: set[Relay | None]
    defect: Exception | None = None

    def in_state(self, *states: State) -> list[PartitionRun]:
        """Those in one of these states."""
        return [run for run in self.runs.values() if run.state in states]

    def begun(self) -> list[PartitionRun]:
        """Those whose order may have been altered, or whose election held."""
        return [run for run in self.runs.values() if run.begun]

    @property
    def verified(self) -> bool:
        """Whether elections of it were held, and each has the planned leader."""
        held = [run for run in self.begun() if run.held]
        return bool(held) and all(run.leads_as_planned for run in held)

    async def request(self, ask: Ask, runs: Sequence[PartitionRun]) -> None:
        """Ask for their designation or election, and give each run its answer."""
        try:
            answers = await _answers(ask, runs)
        except Exception as defect:  # noqa: BLE001 - whatever it is, a request may be under way, and orders set
            self.defect = defect
            answers = _unanswered(runs, reason_of(defect))
        for id, answer in answers.items():
            self.runs[id].apply(Answered(answer))
            if answer.answer is Answer.UNANSWERED:
                self.relays.add(answer.relay)

    def abandon(self, reasons: Mapping[TopicPartition, Reason], ending: Ending) -> None:
        """Give these up before their elections, where that is still possible."""
        for id, reason in reasons.items():
            if self.runs[id].state in (State.PLANNED, State.STARTED, State.DESIGNATED):
                self.runs[id].apply(Abandoned(reason, ending))


@dataclass(frozen=True, slots=True)
class WaveSteps:
    """The steps of a wave, and what the waves of a plan share. `numbers`: those that the journal knows the next by."""

    plan: Plan
    digest: str
    ports: EnginePorts
    planned: Mapping[TopicPartition, Before]
    numbers: Iterator[int]

    @property
    def as_of(self) -> MetadataOffset | None:
        """How new the metadata were that the plan stands on."""
        return self.plan.evidence.cluster.as_of

    async def prepare(self, runs: Sequence[PartitionRun], policy: Policy, settled: Settled) -> Wave | None:
        """Look once more, then designate what still holds; a durable fact names it before the first request.

        A broker that begins to lead applies no other metadata meanwhile, as if no controller were left. None: something
        did not hold in the eyes of such a one, and now that it leads all is to be read anew; nothing was done.
        """
        wave = Wave(0, {run.id: run for run in runs}, self.ports.clock.monotonic(), policy, set())
        if runs:
            changed = await self.recheck(runs, policy)
            if changed and await settled():
                return None
            wave.abandon(changed, Ending.AGAIN)
        going = wave.in_state(State.PLANNED)
        if going:
            wave.number = next(self.numbers)
            await self._start(wave.number, going)
            if self.is_outdated(wave, policy):  # the disk was slow, or this process stood still: much may have changed
                wave.abandon(await self._last_look(going, policy), Ending.AGAIN)
            await wave.request(self.ports.election.designate, wave.in_state(State.STARTED))
        return wave

    async def elect(self, wave: Wave, policy: Policy, barred: Mapping[TopicPartition, Reason]) -> None:
        """Hold the elections of a prepared wave, after another look if the last one does not count any more.

        `policy`: the one of now. `barred`: what may not be elected any more; what is unanswered stays in doubt.
        """
        wave.abandon({id: reason for id, reason in barred.items() if id in wave.runs}, Ending.REFUSED)
        ready = wave.in_state(State.DESIGNATED)
        if ready and self.is_outdated(wave, policy):
            wave.abandon(await self._last_look(ready, policy), Ending.AGAIN)
            ready = wave.in_state(State.DESIGNATED)
        if ready:
            await wave.request(self.ports.election.elect, ready)

    def is_outdated(self, wave: Wave, policy: Policy) -> bool:
        """Whether the last look at a wave does not count any more."""
        return self.ports.clock.monotonic() - wave.checked_at > FRESH or policy != wave.policy

    async def verify(self, wave: Wave, moved: Callable[[], None]) -> None:
        """Wait for what comes of each election; where a request was not answered, until it can't take effect.

        `moved` is called whenever a leader may have answered.
        """
        if wave.in_state(State.LEADERLESS):
            # An order that was just set may not be in the metadata yet.
            await self.ports.clock.sleep(self.ports.timing.look)
        await self._await_leaders(wave.in_state(State.ELECTED), moved, elected=True)
        doubtful = wave.in_state(State.IN_DOUBT)
        if doubtful and await Doubt(self.ports).end(self.digest, wave.number, wave.relays):
            for run in doubtful:
                run.apply(DoubtOver())
            await self._await_leaders(doubtful, moved, elected=False)

    async def end(self, wave: Wave) -> None:
        """Restore the orders and write the outcomes down. Whatever happened, orders are restored or said to be not.

        Where nothing was asked for, an order like the election's is somebody else's.
        """
        runs = wave.begun()
        if not runs:
            return
        asked = [run for run in runs if run.state is not State.UNTOUCHED]
        doubtful = wave.in_state(State.IN_DOUBT)
        others = [run for run in asked if run.state is not State.IN_DOUBT]
        looks, answers, in_doubt = await self.restore(wave.number, others)
        for run in others:
            look = looks[run.id]
            if run.state is State.LEADING:
                see_it_still_lead(run, look)
            see_who_led_meanwhile(run, look)
        for run in asked:
            run.apply(OrderRead(looks.get(run.id), answers.get(run.id)))
        if not in_doubt and not doubtful:
            await self.ports.journal.wave_ended(self.digest, wave.number, tuple(filter(None, map(outcome_of, runs))))

    async def put_back(self, runs: Sequence[PartitionRun]) -> Mapping[TopicPartition, ElectionAnswer]:
        """Restore orders that an earlier wave left altered, as a wave of its own; returns the last answers.

        A journal that is closed keeps no such wave: nothing is begun by it after this that a request could disturb.
        """
        if not runs:
            return {}
        number = next(self.numbers)
        with suppress(JournalClosed):
            await self.ports.journal.wave_started(self.digest, number, tuple(run.id for run in runs))
        looks, answers, in_doubt = await self.restore(number, runs)
        for run in runs:  # known by now, also where the journal can't be written any more
            if answers[run.id].answer is Answer.ACCEPTED and order_is_ours(looks[run.id], run) is False:
                run.note_put_back()
        if not in_doubt:
            await self.ports.journal.wave_ended(self.digest, number, ())
        return answers

    async def restore(
        self, number: int, runs: Sequence[PartitionRun]
    ) -> tuple[Mapping[TopicPartition, Sighting], Mapping[TopicPartition, ElectionAnswer], bool]:
        """Put the original orders back; what could not be is tried once more.

        Returns the last look at the partitions, the controller's last answers, and whether a request for one of them
        may still be under way: the wave has not ended then.
        """
        if not runs:
            return {}, {}, False
        answers = await _answers(self.ports.election.restore, runs)
        looks, altered = await self._until_restored(runs, answers)
        if altered:
            silent = {answers[id].relay for id in altered if answers[id].answer is Answer.UNANSWERED}
            if not silent or await Doubt(self.ports).end(self.digest, number, silent):
                answers |= await _answers(self.ports.election.restore, [run for run in runs if run.id in altered])
                looks, altered = await self._until_restored(runs, answers)
            else:  # the relay was waited for in vain, for minutes: whoever led before may be long gone
                looks = await self.look(runs)
        return looks, answers, any(answers[id].answer is Answer.UNANSWERED for id in altered)

    async def recheck(self, runs: Sequence[PartitionRun], policy: Policy) -> dict[TopicPartition, Reason]:
        """The decisions that do not hold any more, and why. Brokers are asked once: a last look must not grow old.

        `policy`: the one of now; the plan's own holds as well.
        """
        scope = Scope(tuple(run.id for run in runs))
        rules = replace(policy.widest_evidence_rules, attempts=1)
        fresh = await self.ports.cluster.gather(scope, rules, {run.id: run.evidence for run in runs})
        if fresh.cluster.cluster_id != self.plan.cluster_id:
            raise PlanForAnotherCluster(self.plan.cluster_id, fresh.cluster.cluster_id)
        read = {partition.id: partition.min_isr for partition in fresh.partitions}
        for run in runs:
            run.min_isr = read.get(run.id) or run.min_isr
        designated = any(run.state is State.DESIGNATED for run in runs)
        changed: dict[TopicPartition, Reason] = {}
        for under in (policy,) if policy == self.plan.policy else (policy, self.plan.policy):
            last = LastLook(fresh, under, designated=designated, attestations=standing(self.plan.evidence.cluster))
            reasons = {r.id: last.difference(r.decision, self.planned[r.id]) for r in runs}
            self.ports.signs.saw(last.attestations)
            changed = {id: reason for id, reason in reasons.items() if reason is not None} | changed
        return changed

    async def _last_look(self, runs: Sequence[PartitionRun], policy: Policy) -> Mapping[TopicPartition, Reason]:
        """As `recheck`, of what a durable fact names: if nobody answers, or too late, nothing of it goes on."""
        began = self.ports.clock.monotonic()
        try:
            changed = await self.recheck(runs, policy)
        except ClusterFault as fault:
            return {run.id: fault.reason for run in runs}
        took = self.ports.clock.monotonic() - began
        if took <= FRESH + policy.widest_evidence_rules.deadline:
            return changed
        slow = f"the last look at it took {took.total_seconds():.1f} s: what it saw first may not hold any more"
        return {run.id: Reason("EvidenceTooOld", slow) for run in runs} | changed

    async def look(self, runs: Sequence[PartitionRun]) -> Mapping[TopicPartition, Sighting]:
        """Who leads each of these by metadata no older than the plan's; whom nobody can be asked about is unseen.

        That a topic is gone is looked at twice: by that an order of ours would be left behind.
        """
        looks = await self._looked(runs)
        gone = [run for run in runs if is_gone(looks[run.id], run.decision)]
        if not gone:
            return looks
        await self.ports.clock.sleep(self.ports.timing.look)
        return {**looks, **await self._looked(gone)}

    async def _looked(self, runs: Sequence[PartitionRun]) -> Mapping[TopicPartition, Sighting]:
        partitions = [run.id for run in runs]
        try:
            return await self.ports.cluster.leaders(partitions, self.ports.timing.rpc, self.as_of)
        except ClusterFault as fault:
            return {id: Unseen(id, fault.reason) for id in partitions}

    async def _start(self, number: int, runs: Sequence[PartitionRun]) -> None:
        named = tuple(run.id for run in runs)
        await self.ports.journal.wave_started(self.digest, number, named)
        started = Started(frozenset(named))
        for run in runs:
            run.apply(started)

    async def _await_leaders(self, runs: Sequence[PartitionRun], moved: Callable[[], None], *, elected: bool) -> None:
        """Wait until each partition's new leader answered, or it is clear that none will.

        `elected`: the controller said so, hence metadata without a leader may just be old.
        """
        began = looked = self.ports.clock.monotonic()
        while pending := {run.id: run for run in runs if run.state is State.ELECTED}:
            for id, lead in (await self._answering(pending)).items():
                if leads_since(lead, pending[id].decision):
                    pending[id].apply(Led(lead))
            now = self.ports.clock.monotonic()
            overdue = now - began >= self.ports.timing.patience(len(runs))
            quiet = [run for run in pending.values() if run.state is State.ELECTED]
            if quiet and (overdue or now - looked >= self.ports.timing.look or (looked == began and not elected)):
                looks = await self.look(quiet)
                for run in quiet:
                    settle(run, looks[run.id], elected=elected, overdue=overdue)
                looked = now
            moved()
            if quiet:
                await self.ports.clock.sleep(self.ports.timing.pause(len(quiet)))

    async def _answering(self, pending: Mapping[TopicPartition, PartitionRun]) -> Mapping[TopicPartition, Lead]:
        leaders = {id: run.decision.leader for id, run in pending.items() if run.decision.leader is not None}
        try:
            return await self.ports.cluster.answering(leaders, self.ports.timing.rpc)
        except ClusterFault:  # nobody to be seen now; whoever waits here has a patience of its own
            return {}

    async def _until_restored(
        self, runs: Sequence[PartitionRun], answers: Mapping[TopicPartition, ElectionAnswer]
    ) -> tuple[Mapping[TopicPartition, Sighting], set[TopicPartition]]:
        """Look until no order that the controller took back is ours, and whoever leads by now answers; or too long.

        Returns with the looks those whose order is ours, could not be read, or was not taken back, whatever is seen.
        An accepted restore is seen only when a broker has applied it: one that is busy with new leaders, after those.
        """
        began, pause = self.ports.clock.monotonic(), self.ports.timing.pause(len(runs))
        not_taken_back = {run.id for run in runs if answers[run.id].answer is not Answer.ACCEPTED}
        while True:
            looks = await self.look(runs)
            ours = {run.id for run in runs if order_is_ours(looks[run.id], run) is not False}
            led = not any(silently_replaced(run, looks[run.id]) for run in runs)
            if (ours <= not_taken_back and led) or self.ports.clock.monotonic() - began > self.ports.timing.rpc:
                return looks, ours | not_taken_back
            await self.ports.clock.sleep(pause)
            pause = min(2 * pause, self.ports.timing.look)


async def _answers(ask: Ask, runs: Sequence[PartitionRun]) -> dict[TopicPartition, ElectionAnswer]:
    """An answer for each; a driver that raises instead has sent something or has not: nobody knows."""
    try:
        return dict(await ask([request_of(run.decision) for run in runs]))
    except ClusterFault as fault:
        return _unanswered(runs, fault.reason)


def _unanswered(runs: Sequence[PartitionRun], why: Reason) -> dict[TopicPartition, ElectionAnswer]:
    """What is known of requests whose answers nobody read."""
    return dict.fromkeys((run.id for run in runs), ElectionAnswer(Answer.UNANSWERED, why))
