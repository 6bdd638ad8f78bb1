"""One history: a scenario on the simulated Kafka with the real engine inside, from first record to last verdict."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from kafka_recovery.cluster.designated import election_in
from kafka_recovery.cluster.drivers import Driver, Kip1275
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.kip_1275 import GET_REPLICA_LOG_INFO
from kafka_recovery.cluster.security import Security
from kafka_recovery.domain.election import ALL_OFFLINE, ElectionRequest, Scope
from kafka_recovery.domain.outcome import Report
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.recovery.engine import Effort, Engine
from kafka_recovery.recovery.journal_files import FileJournal
from kafka_recovery.recovery.ports import JournalLocked, JournalUnwritable, PlanFinished, PlanForAnotherCluster
from kafka_recovery.recovery.requests import request_of
from kafka_recovery.recovery.supervision import Authority, Permission
from kafka_recovery.recovery.timing import Timing
from kafka_recovery.simulator.histories.chronicle import Chronicle, Ears
from kafka_recovery.simulator.histories.facts import ENGINE, LAST, Granted, Paused, Ran, Wished
from kafka_recovery.simulator.histories.findings import Finding, Verdict
from kafka_recovery.simulator.histories.hearing import HeardCluster, Witnesses
from kafka_recovery.simulator.histories.oracle import judge
from kafka_recovery.simulator.histories.overhearing import HeardElection, Requests
from kafka_recovery.simulator.histories.pauses import StoppableLoop
from kafka_recovery.simulator.histories.scenario import Command, EngineRun, Scenario
from kafka_recovery.simulator.histories.stage import send_traffic, staged
from kafka_recovery.simulator.histories.troubles import Machine, Troubles
from kafka_recovery.simulator.host.dialing import Names, SimulatedDial
from kafka_recovery.simulator.host.disks import SimulatedStorage
from kafka_recovery.simulator.host.loop import VirtualClock
from kafka_recovery.simulator.host.mortality import Killed, MortalClock, Process
from kafka_recovery.simulator.host.weather import Weather
from kafka_recovery.simulator.model.kafka import SimulatedKafka

TIMING = Timing(poll=timedelta(milliseconds=250))
"""As always, but a new leader is asked less often: a history has better things to do."""

LONGEST_RUN = 900.0
"""Seconds after which a run of the engine counts as one that never ends."""

LATE_REQUESTS = 65.0
"""Seconds after which no request of an engine can take effect any more."""

_SENTENCES = (ClusterFault, JournalLocked, JournalUnwritable, PlanFinished, PlanForAnotherCluster, InvalidDocument)
"""How a run may end without a report: each says what a person has to do."""


@dataclass(frozen=True, slots=True)
class History:
    """What happened, and what should not have."""

    scenario: Scenario
    story: Chronicle
    verdict: Verdict

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The promises that were broken, in the order of time; known defects of the engine do not count."""
        return tuple(finding for finding in self.verdict.findings if finding.named is None)

    def __str__(self) -> str:
        lines = [str(self.story.kafka.timeline)]
        found = self.verdict.findings
        lines += ["", "Findings:" if found else "No finding.", *map(str, found)]
        return "\n".join(lines)


def happen(scenario: Scenario, *, timeline: bool = False) -> History:
    """Let a scenario happen and judge it. `timeline`: keep every event, to print the history."""
    kafka = staged(scenario, keep_timeline=timeline)
    loop = StoppableLoop(kafka.scheduler)
    theatre = _Theatre(scenario, kafka, loop, Chronicle(kafka))
    loop.set_exception_handler(theatre.unheard)
    with _chance_of(scenario.seed):
        loop.finish(theatre.play())
    return History(scenario, theatre.story, judge(theatre.story, scenario))


def call_engine(scenario: Scenario, story: Chronicle, run: EngineRun) -> Ran:
    """One run of the engine, from now to its end, in a cluster whose history is told step by step.

    `story` has heard that cluster from the beginning; of the scenario the rules count, and what the engine knows.
    """
    loop = StoppableLoop(story.kafka.scheduler)
    theatre = _Theatre(scenario, story.kafka, loop, story)
    loop.set_exception_handler(theatre.unheard)
    with _chance_of(scenario.seed):
        loop.finish(theatre._run(Process(f"{ENGINE}-{len(story.ran) + 1}"), run))
    return story.ran[-1]


@contextmanager
def _chance_of(seed: int) -> Iterator[None]:
    """The pauses between attempts are drawn from the process's own generator: here they go by the seed."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


@dataclass(slots=True)
class _Theatre:
    """The stage of one history: cluster, machines, traffic, troubles, engines."""

    scenario: Scenario
    kafka: SimulatedKafka
    loop: StoppableLoop
    story: Chronicle
    names: Names = field(init=False)
    weather: Weather = field(init=False)
    _machines: dict[int, Machine] = field(default_factory=dict)
    _broken: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = Names(self.kafka.broker_ids)
        self.weather = Weather(Random(f"wire of {self.scenario.seed}"), now=lambda: self.kafka.scheduler.now)
        self.story.struck = self.weather.struck
        self.story.wished.append(Wished(self.story.now, self.scenario.rules.policy))

    async def play(self) -> None:
        """From an empty cluster to the quiet end."""
        scenario, kafka = self.scenario, self.kafka
        self.story.listen()
        if scenario.witnessed is not None:
            Witnesses(self.story, scenario.partitions, scenario.witnessed).begin()
        names = [f"{ENGINE}-{place + 1}" for place in range(len(scenario.engines))]
        troubles = Troubles(self.story, scenario, self.machine, names, self._pause, self.weather, self.names)
        send_traffic(kafka, scenario)
        troubles.schedule()
        runs = [asyncio.create_task(self._run_at(run, name)) for run, name in zip(scenario.engines, names, strict=True)]
        await self._until(scenario.quiet_at)
        troubles.everything_is_well_again()
        kafka.note("everybody", "is well again, and nothing more will go wrong")
        await asyncio.gather(*runs)
        await asyncio.sleep(LATE_REQUESTS)
        for number in scenario.machines:
            await self._tidy_up(number)
        await self._recover_what_is_left()
        await asyncio.sleep(2)

    def machine(self, number: int) -> Machine:
        """A machine that runs engines; made when first asked for."""
        if number not in self._machines:
            name = f"machine-{number}"
            self._machines[number] = Machine(name, VirtualClock(self.loop), self.story.disk(name))
        return self._machines[number]

    def _pause(self, process: Process, seconds: float) -> None:
        """The process notices nothing of so many seconds, but that they are over."""
        if process.dead or process.name in self.loop.stopped:
            return
        self.story.paused.append(Paused(self.story.now, process.name, self.story.now + seconds))
        self.kafka.note(process.name, f"is stopped for {seconds:g} s")
        self.loop.stop_for(process.name, seconds)

    def unheard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error in a task nobody waited for; of a killed process it is no surprise."""
        error = context.get("exception")
        if error is not None and not isinstance(error, Killed | ClusterFault):
            self._broken.append(error)

    async def _until(self, moment: float) -> None:
        await asyncio.sleep(max(moment - self.story.now, 0))

    async def _run_at(self, run: EngineRun, name: str) -> None:
        await self._until(run.at)
        process = Process(name, run.kill_at, self.kafka.note)
        await self._run(process, run)

    async def _tidy_up(self, number: int) -> None:
        """When all is quiet, what runs left behind is gone on with or undone; what waits for a person is undone."""
        first = Command.RESUME if self.scenario.seed % 2 else Command.UNDO
        for place, command in enumerate((first, Command.UNDO)):
            await self._run(Process(f"{ENGINE}-tidy-{number}-{place}"), EngineRun(self.story.now, command, number))

    async def _recover_what_is_left(self) -> None:
        """Some brokers may be lost for good: whoever then runs an engine gets their partitions back, or is told why."""
        if self.scenario.engines and self.kafka.controllers.state.leaderless:
            number = self.scenario.machines[0]
            await self._run(Process(LAST), EngineRun(self.story.now, machine=number, thinking=0, whole_cluster=True))

    async def _run(self, process: Process, run: EngineRun) -> None:
        """One process of an engine from its start to its end or death."""
        machine = self.machine(run.machine)
        ears = Ears(self.story, process.name, machine.name)
        looks_anew = run.command in (Command.RECOVER, Command.EXECUTE)
        scope = self.scenario.partitions if looks_anew and not run.whole_cluster else None
        began, result = self.story.now, _Result()
        leaderless = tuple(self.kafka.controllers.state.leaderless)
        self.kafka.note(process.name, f"starts on {machine.name} to {run.command.value}")
        task = self.loop.belonging_to(process.name, self._live(process, machine, ears, run, result))
        process.when_dead(lambda: self.loop.go_on(process.name))
        process.when_dead(task.cancel)
        _, late = await asyncio.wait({task}, timeout=LONGEST_RUN)
        if late:
            process.kill("because it never ends")
            await asyncio.wait({task})
        broken, self._broken = self._broken, []
        error = result.error or (broken[0] if broken else None)
        self.kafka.note(process.name, f"ends: {result.ending}" if not process.dead else "is dead")
        self.story.ran.append(
            Ran(
                began,
                began if result.timed_from is None else result.timed_from,
                self.story.now,
                process.name,
                run.command.value,
                scope,
                result.report,
                error,
                result.sentence,
                bool(late),
                leaderless,
            )
        )

    async def _live(self, process: Process, machine: Machine, ears: Ears, run: EngineRun, result: _Result) -> None:
        requests = Requests(ears.asked, lambda: self.story.now)
        dial = SimulatedDial(self.kafka, process, self.names, self.weather, requests.tap)
        try:
            with FileJournal(SimulatedStorage(machine.disk, process, machine.clock.now), machine.clock.now) as journal:
                machine.process = process
                async with KafkaCluster(
                    self.names.bootstrap,
                    Security(),
                    dial=dial,
                    now=machine.clock.now,
                    kip_1275=_configured(self.scenario),
                ) as cluster:
                    engine = self._engine(process, machine, journal, ears, run, cluster, requests)
                    result.report = await _commanded(engine, run, self.scenario, ears, result)
                    result.ending = "with a report"
        except _SENTENCES as error:
            result.ending, result.sentence = str(error), error
        except (Killed, asyncio.CancelledError):
            if not process.dead:
                raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what this is looking for
            result.error = error
            result.ending = f"broken, {type(error).__name__}: {error}"

    def _engine(
        self, process: Process, machine: Machine, journal: FileJournal, ears: Ears, run: EngineRun,
        cluster: KafkaCluster, requests: Requests,
    ) -> Engine:  # fmt: skip
        scenario = self.scenario
        within = None if process.name == LAST else scenario.within
        return Engine(
            HeardCluster(process, cluster, ears.looked, self.story, scenario),
            HeardElection(election_in(cluster), requests, self.story, process.name, machine.name),
            journal,
            _Person(self.story, process, ears, run, journal),
            _Owners(self.story),
            clock=MortalClock(process, machine.clock),
            observer=ears,
            timing=TIMING,
            effort=Effort(None if within is None else timedelta(seconds=within)),
        )


def _configured(scenario: Scenario) -> Kip1275:
    """Whoever elects by KIP-1275 measures by it as well."""
    by_log_info = scenario.driver is Driver.DESIGNATED
    return Kip1275(scenario.driver, GET_REPLICA_LOG_INFO if by_log_info else None)


@dataclass(slots=True)
class _Result:
    """How a run ended. `timed_from`: when its time began to count, if not at its start."""

    report: Report | None = None
    error: BaseException | None = None
    sentence: Exception | None = None
    timed_from: float | None = None
    ending: str = "killed"


def _requests(plan: Plan) -> list[ElectionRequest]:
    return [request_of(decision) for decision in plan.elections.values()]


def _commanded(
    engine: Engine, run: EngineRun, scenario: Scenario, ears: Ears, result: _Result
) -> Coroutine[Any, Any, Report]:
    scope = ALL_OFFLINE if run.whole_cluster else Scope(scenario.partitions)

    async def plan_and_execute() -> Report:
        plan = await engine.plan(scope)
        ears.asked("approve", _requests(plan))
        await asyncio.sleep(run.thinking)
        result.timed_from = ears.chronicle.now
        return await engine.execute(plan)

    match run.command:
        case Command.RECOVER:
            return engine.recover(scope)
        case Command.EXECUTE:
            return plan_and_execute()
        case Command.RESUME:
            return engine.resume()
        case Command.UNDO:
            return engine.undo()


@dataclass(frozen=True, slots=True)
class _Person:
    """Port `Approvals`: somebody who thinks for a while and then says yes or no, and keeps to it."""

    story: Chronicle
    process: Process
    ears: Ears
    run: EngineRun
    journal: FileJournal

    async def granted(self, plan: Plan, digest: str) -> str | None:
        """Who approved exactly this digest, or None for no."""
        self.process.step("ask for approval")
        self.ears.asked("approve", _requests(plan))
        await asyncio.sleep(self.run.thinking)
        self.process.step("approval answered")
        by = "ann" if self.run.approves else None
        self.story.granted.append(Granted(self.story.now, self.process.name, digest, by))
        self.story.kafka.note("ann", f"{'approves' if by else 'refuses'} plan {digest[:8]}")
        return by

    async def standing(self, plan: Plan, digest: str) -> str | None:
        """What was said in this process or written down on this machine, as on the command line."""
        said = [each.by for each in self.story.granted if (each.process, each.digest) == (self.process.name, digest)]
        return said[-1] if said and said[-1] else await self.journal.approver(digest)


@dataclass(frozen=True, slots=True)
class _Owners:
    """Port `Supervision`: what the owners want now."""

    story: Chronicle

    async def permission(self) -> Permission:
        """As the chronicle has it."""
        wish = self.story.wished[-1]
        halt = Reason("Suspended", "its owners have suspended it") if wish.suspended else None
        return Permission(wish.policy, Authority(wish.authority), halt)
