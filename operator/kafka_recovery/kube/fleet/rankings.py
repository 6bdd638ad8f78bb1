"""Reconciling FleetRankings: look, decide the next step, write it down, do it. The deciding is in `steps`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.manifest import Expected
from kafka_recovery.fleet.outcome import RunOutcome
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.fleet import naming, steps
from kafka_recovery.kube.fleet.applications import Applications
from kafka_recovery.kube.fleet.clearing import Clearing
from kafka_recovery.kube.fleet.dialect import Dialect
from kafka_recovery.kube.fleet.policy_copies import PolicyChanged, PolicyCopies, PolicyLost
from kafka_recovery.kube.fleet.ports import NotOurs, PreviousObjectsTerminating, Seen
from kafka_recovery.kube.fleet.prefixes import NONE, Prefixes
from kafka_recovery.kube.fleet.resource import FleetRanking, read_ranking
from kafka_recovery.kube.fleet.results import Results
from kafka_recovery.kube.fleet.runs import Active, Memory, State, Unreadable, kept, remembered
from kafka_recovery.kube.fleet.schedule import next_due
from kafka_recovery.kube.fleet.spark_operators import DIALECTS, NO_SPARK_OPERATOR, SparkOperators
from kafka_recovery.kube.fleet.status import status_of, summary_of, untold
from kafka_recovery.kube.machinery.api import Api, ApiError, Conflict, NotFound, NotServed, Object
from kafka_recovery.kube.machinery.conditions import condition_of
from kafka_recovery.kube.machinery.events import Events
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.machinery.news import News
from kafka_recovery.kube.machinery.status_changes import write_status
from kafka_recovery.kube.machinery.work_queue import Requeue
from kafka_recovery.kube.resources.kinds import RANKINGS
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.resources.unknown import told
from kafka_recovery.kube.resources.watched_by import Places, WatchedElsewhere

_LOG = logging.getLogger(__name__)

IN_TROUBLE = timedelta(minutes=1)
"""Between two looks while something outside has to be mended: nobody tells us when it is."""
LONGEST_SLEEP = timedelta(hours=1)
"""Until the next look at a ranking with a schedule: clocks are put right now and then."""


class Trouble(Exception):
    """Why nothing can be done now; a person has to mend it."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(slots=True)
class Case:
    """One look at one ranking. `raw` and `memory` change with each thing that is written down."""

    raw: Object
    ranking: FleetRanking
    memory: Memory
    now: datetime


class Rankings:
    """Nothing is remembered but in status. `clock`: the time, with its zone. `places`: which operator runs which."""

    def __init__(
        self,
        api: Api,
        events: Events,
        metrics: Metrics,
        results: Results,
        prefixes: Prefixes = NONE,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        places: Places | None = None,
    ) -> None:
        self._api = api
        self._events = events
        self._news = News()
        self._metrics = metrics
        self._results = results
        self._prefixes = prefixes
        self._clock = clock
        self._places = places or Places()
        self._left: set[Key] = set()
        """What another operator runs, as it was told."""
        self._operators = SparkOperators(api)
        self._policies = PolicyCopies(api)
        self._clearing = Clearing(api, self._operators)

    async def reconcile(self, key: Key) -> timedelta | None:
        """Do the next step of one ranking; returns when to look again. Raises ApiError, Requeue."""
        try:
            raw = await self._api.get(RANKINGS.path(*key))
        except NotFound:
            self.forget(key)
            return None  # what it owned goes with it
        if raw["metadata"].get("deletionTimestamp"):
            return None
        try:
            self._places.let_watch(key, raw)
        except WatchedElsewhere as other:
            return await self._leave(key, raw, other.reason)
        self._left.discard(key)
        again = await self._reconcile(raw)
        if self._places.lease is None:
            return again
        renewed = self._places.times.renew
        return renewed if again is None else min(again, renewed)

    async def _leave(self, key: Key, raw: Object, other: Reason) -> timedelta:
        """Another operator runs it: nothing is done for it here, and nothing is said in its status."""
        if key not in self._left:
            self._left.add(key)
            _LOG.warning("FleetRanking %s: %s", "/".join(key), other)
            await self._events.say(raw, "Warning", other.code, "Rank", other.message)
        self._metrics.forget_ranking("/".join(key))
        return self._places.times.look

    async def _reconcile(self, raw: Object) -> timedelta | None:
        try:
            ranking = read_ranking(raw)
            case = Case(raw, ranking, remembered(ranking.status), self._clock())
        except (InvalidDocument, Unreadable) as invalid:
            code = "InvalidSpec" if isinstance(invalid, InvalidDocument) else "InvalidStatus"
            await self._tell(raw, untold(Reason(code, str(invalid)), *_old(raw), self._clock()))
            return None
        try:
            return await self._step(case)
        except Trouble as trouble:
            reason = trouble.reason
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            right = "the fleet operator lacks a right here, see manifests/rbac/optional/fleet.yaml"
            reason = Reason("Forbidden", f"{right}: {error.message}")
        except InvalidDocument:
            await self._note(case)  # with what is wrong with the schedule
            return None
        await self._note(case, trouble=reason)
        return IN_TROUBLE

    def forget(self, key: Key) -> None:
        """It is not there any more."""
        self._left.discard(key)
        self._metrics.forget_ranking("/".join(key))

    async def _step(self, case: Case) -> timedelta | None:
        ranking, memory = case.ranking, case.memory
        seen = await self._seen(case, memory.active) if memory.active else None
        step = steps.next_step(ranking, memory, seen, None, case.now)
        if isinstance(step, steps.ReadResult):
            result = await self._results.read(step.active.result, _expected(ranking, step.active))
            step = steps.next_step(ranking, memory, seen, result, case.now)
        return await self._do(case, step)

    async def _do(self, case: Case, step: steps.Step) -> timedelta | None:
        match step:
            case steps.Idle(until):
                await self._note(case)
                await self._clearing.clear(case.ranking.meta, case.memory)
                return None if until is None else min(until - case.now, LONGEST_SLEEP)
            case steps.Begin(due):
                return await self._begin(case, due)
            case steps.Submit(active):
                return await self._submit(case, active)
            case steps.Look(active, after):
                await self._note(case, replace(case.memory, active=active))
                return after
            case steps.End(active, by_force):
                return await self._end(case, active, by_force)
            case steps.Again(active):
                await self._note(case, replace(case.memory, active=active))
                return max(active.attempted_at - case.now, timedelta(0))
            case steps.Finish():
                return await self._finish(case, step)
            case steps.ReadResult():
                raise AssertionError("the result was read")

    async def _begin(self, case: Case, due: datetime) -> timedelta:
        """Whatever can be seen to be missing is missed before anything is started."""
        dialect = await self._dialect(case.ranking)
        digest = await self._policies.digest(case.ranking)
        if isinstance(digest, Reason):
            raise Trouble(digest)
        if trouble := await self._results.trouble(case.ranking.spec.storage.results):
            raise Trouble(trouble)
        run = naming.run_name(case.ranking.meta, due)
        active = naming.attempt(case.ranking, run, 1, case.now, dialect.adapter, digest)
        await self._note(case, replace(case.memory, active=active, last_due=due))
        return timedelta(0)

    async def _submit(self, case: Case, active: Active) -> timedelta | None:
        """The intent stands in status before anything is made, and what was made under its name is it."""
        await self._note(case, replace(case.memory, active=active))
        job = naming.job(case.ranking, active, self._prefixes)
        try:
            await self._policies.keep(case.ranking, active)
            await Applications(self._api, DIALECTS[active.adapter]).submit(job)
        except PolicyChanged as changed:
            await self._note(case, replace(case.memory, active=replace(active, policy_digest=changed.digest)))
            return timedelta(0)
        except PolicyLost as lost:
            raise Trouble(lost.reason) from lost
        except PreviousObjectsTerminating as going:
            raise Trouble(Reason("PreviousObjectsTerminating", str(going))) from going
        except NotOurs as taken:
            return await self._do(case, self._failed(case, active, steps.Failure.NOT_OURS, str(taken)))
        except NotServed as gone:
            raise Trouble(Reason(NO_SPARK_OPERATOR, gone.message)) from gone
        except ApiError as error:
            if error.may_pass or isinstance(error, Conflict | NotFound):
                raise
            refused = f"the API server did not take the SparkApplication: {error.message}"
            return await self._do(case, self._failed(case, active, steps.Failure.FAILED, refused))
        await self._note(case, replace(case.memory, active=replace(active, state=State.DRIVER_PENDING)))
        return steps.LOOK

    async def _end(self, case: Case, active: Active, by_force: bool) -> timedelta:
        await self._note(case, replace(case.memory, active=active))
        jobs, job = Applications(self._api, DIALECTS[active.adapter]), naming.job(case.ranking, active, self._prefixes)
        await (jobs.remove(job) if by_force else jobs.cancel(job))
        return steps.LOOK

    async def _finish(self, case: Case, step: steps.Finish) -> timedelta:
        run, found = step.run, step.found
        runs = kept((run, *case.memory.runs), case.ranking.spec.history.limit)
        memory = replace(case.memory, active=None, runs=runs)
        if found:
            memory = replace(memory, summary=summary_of(run, found.manifest.summary))
        await self._note(case, memory)
        meta = case.ranking.meta
        self._metrics.ranking_ended(f"{meta.namespace}/{meta.name}", run.outcome, run.ended_at - run.started_at)
        return timedelta(0)  # the next look clears away, and sees when the next run is due

    def _failed(self, case: Case, active: Active, code: str, message: str) -> steps.Step:
        return steps.failed(case.ranking, active, Reason(code, message), case.now)

    async def _seen(self, case: Case, active: Active) -> Seen | None:
        if active.state is State.BACKING_OFF:
            return None
        try:
            return await Applications(self._api, DIALECTS[active.adapter]).observe(
                naming.job(case.ranking, active, self._prefixes)
            )
        except NotServed as gone:  # its definition is gone, or not there yet: nothing is known of the object
            if case.now >= active.attempted_at + case.ranking.spec.timeout:
                return None
            raise Trouble(Reason(NO_SPARK_OPERATOR, gone.message)) from gone

    async def _dialect(self, ranking: FleetRanking) -> Dialect:
        chosen = await self._operators.choose(ranking.spec.adapter)
        if isinstance(chosen, Reason):
            raise Trouble(chosen)
        return chosen

    async def _note(self, case: Case, memory: Memory | None = None, trouble: Reason | None = None) -> None:
        """Write down what is remembered from now on."""
        case.memory = memory or case.memory
        ranking = case.ranking
        coming = _coming(ranking, case.now)
        if isinstance(coming, Reason):
            coming, trouble = None, trouble or coming
        status = status_of(
            case.memory,
            ranking.meta.generation,
            case.raw.get("status") or {},
            case.now,
            scheduled=ranking.spec.schedule is not None,
            suspended=ranking.spec.suspend,
            next_run=coming,
            trouble=trouble,
        )
        case.raw = await self._tell(
            case.raw, told(status, ranking.unknown, "its runs take no notice", case.raw, case.now)
        )
        self._show(case)

    def _show(self, case: Case) -> None:
        """Metrics say what status says, so that they are right after a restart as well."""
        spec, runs = case.ranking, case.memory.runs
        result = datetime.fromisoformat(case.memory.summary["at"]) if case.memory.summary else None
        due = _coming(spec, result or spec.meta.created_at)
        self._metrics.ranking_seen(
            f"{spec.meta.namespace}/{spec.meta.name}",
            well=runs[0].outcome is RunOutcome.SUCCEEDED if runs else None,
            success=result,
            due=due if isinstance(due, datetime) else None,
        )

    async def _tell(self, raw: Object, status: dict[str, Any]) -> Object:
        meta = raw["metadata"]
        status = self._places.claiming(status, raw.get("status") or {}, self._clock())
        written = await write_status(self._api, RANKINGS.path(meta["namespace"], meta["name"]), raw, status)
        if written is None:
            raise Requeue
        before, after = condition_of(raw.get("status"), "Ready"), condition_of(status, "Ready")
        if self._news.is_told(meta["uid"], before, after):
            stalled = condition_of(status, "Stalled").get("status") == "True"
            what = f"FleetRanking {meta['namespace']}/{meta['name']}"
            _LOG.log(
                logging.WARNING if stalled else logging.INFO, "%s: %s: %s", what, after["reason"], after["message"]
            )
            kind = "Warning" if stalled else "Normal"
            await self._events.say(raw, kind, after["reason"], "Rank", after["message"])
        return written


def _expected(ranking: FleetRanking, active: Active) -> Expected:
    run = naming.folder(ranking.meta, active.application)
    return Expected(ranking.spec.task.lower(), run, active.policy_digest, ranking.spec.cluster_ids)


def _coming(ranking: FleetRanking, now: datetime) -> datetime | Reason | None:
    """When the next run is due, or why none ever will be. A run that is under way goes on all the same."""
    if ranking.spec.schedule is None or ranking.spec.suspend:
        return None
    try:
        return next_due(ranking.spec.schedule, now)
    except InvalidDocument as invalid:
        return Reason("InvalidSpec", str(invalid))


def _old(raw: Object) -> tuple[int, dict[str, Any]]:
    return int(raw["metadata"]["generation"]), raw.get("status") or {}
