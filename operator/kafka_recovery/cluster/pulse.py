"""The cheap look at a cluster, several times a second: which brokers there are, who is fenced, who answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from kafka.protocol.admin import DescribeClusterRequest

from kafka_recovery.cluster import metadata
from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.errors import (
    BrokerSilent,
    BrokerUnreachable,
    ClusterError,
    ClusterMismatch,
    ClusterUnavailable,
)
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.metadata import BrokerEntry, ClusterEntry
from kafka_recovery.cluster.versions import ApiVersions
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.reason import Reason

_AT_ONCE = timedelta(milliseconds=200)
"""A broker that takes longer is not waited for, unless all do: its answer is taken with the next pulse."""

_NEARLY_NEWEST = 3
"""Metadata records (a second and a half of no-ops) a broker may lag and still be a witness of who is fenced."""

_FALLBACKS = 16
"""Brokers that are asked at once who there is, if those asked first fail."""

_ASKED_AT_ONCE = 50
"""Brokers asked for what they have applied in one pulse (half a millisecond of ours each); more take turns."""

_VIEW_VERSIONS = (0, 2)
_LISTS_FENCED = 2


@dataclass(frozen=True, slots=True)
class Beat:
    """One broker in one pulse.

    `reachable` None: it has not been asked this time, or may still answer in time. `applied`: the metadata offset that
    it said to have applied last; None: it never said. `refused`: the connection was refused or cut, so its process may
    be another one soon.
    """

    entry: BrokerEntry
    reachable: bool | None
    applied: int | None = None
    fault: Reason | None = None
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Pulse:
    """One cheap look. `beats`: the brokers that the newest metadata list, which are those of `view_from`.

    `disagreement`: another broker, its metadata as new, counts other brokers as alive. `committed`: what the controller
    says to have committed, or why it does not; None: it was not asked.
    """

    cluster_id: str
    view_from: Address
    lists_fenced: bool
    beats: Mapping[BrokerId, Beat]
    disagreement: Reason | None = None
    committed: int | Reason | None = None
    took: timedelta = timedelta(0)


class Pulses:
    """Takes pulses of one cluster, one at a time; remembers whom to ask, and what is still being asked."""

    def __init__(self, brokers: Brokers, bootstrap: Sequence[Address], expected_cluster_id: str | None) -> None:
        self._brokers = brokers
        self._bootstrap = tuple(bootstrap)
        self._expected = expected_cluster_id
        self._listed: Mapping[BrokerId, BrokerEntry] = {}
        self._questions: dict[_Place, asyncio.Task[ApiVersions]] = {}
        self._answered: set[BrokerId] = set()
        self._late: set[_Place] = set()
        self._applied: dict[BrokerId, int] = {}
        self._asked: dict[_Place, int] = {}
        self._brief = _AT_ONCE
        self._turn = 0
        self._rounds = 0

    async def take(self, deadline: timedelta, *, ask_controller: bool = False) -> Pulse:
        """One pulse. It lasts as long as a broker takes to answer, not as long as the slowest does.

        Two brokers are asked who there is, every broker for the metadata it has applied: n + 2 requests, of 3 brokers 5
        requests, 3 kB and 5 ms. With `ask_controller` also, through a broker, what the controller has committed.
        Raises ClusterUnavailable if no broker says who there is, ClusterMismatch for another cluster than expected.
        """
        began = asked_at = loop_time()
        self._turn += 1
        self._ask(self._listed.values(), deadline)
        views = await self._seen(deadline)
        known = {_place(entry) for entry in self._listed.values()}
        if new := {place: entry for place, entry in _listed_by(views).items() if place not in known}:
            asked_at = loop_time()
            self._ask(new.values(), deadline)
        await self._wait(asked_at + min(deadline, self._brief).total_seconds())
        answers = self._answers()
        at, cluster, witnesses = await self._newest(views, deadline)
        self._listed = cluster.brokers
        disagreement = _disagreement(cluster, witnesses)
        self._rounds += disagreement is None  # who disagrees is asked again: news takes a moment to reach everybody
        committed = await self._committed(at, deadline) if ask_controller else None
        return Pulse(
            cluster_id=cluster.cluster_id,
            view_from=at,
            lists_fenced=cluster.lists_fenced,
            beats={id: self._beat(entry, answers) for id, entry in sorted(cluster.brokers.items())},
            disagreement=disagreement,
            committed=committed,
            took=timedelta(seconds=loop_time() - began),
        )

    async def aclose(self) -> None:
        """Ask no further."""
        questions, self._questions = list(self._questions.values()), {}
        await _cancelled(questions)

    async def _forget_the_outage(self) -> None:
        """What was answered, is still being asked or came late in it says nothing once the cluster is back."""
        self._answers()
        await self.aclose()
        self._late.clear()

    # Who there is

    async def _seen(self, deadline: timedelta) -> Mapping[Address, ClusterEntry]:
        """The views of this pulse; notes how long they take here, which is the distance to the brokers."""
        began = loop_time()
        try:
            views = await self._views(deadline)
        except ClusterError:
            await self._forget_the_outage()
            raise
        took = timedelta(seconds=loop_time() - began)
        self._brief = min(deadline / 2, max(_AT_ONCE, 2 * took))
        return views

    async def _views(self, deadline: timedelta) -> Mapping[Address, ClusterEntry]:
        """The cluster as one or two brokers see it: those who knew the newest, else whoever answers first."""
        began, witnesses = loop_time(), self._witnesses()
        views, faults = await self._described(witnesses, min(deadline, self._brief))
        if not views:
            known = [entry.address for entry in self._newest_first() if entry.address not in witnesses]
            places = dict.fromkeys([*known[:_FALLBACKS], *self._bootstrap, *witnesses])
            # Half at least: this process may have stood still meanwhile, which is no silence of the brokers.
            left = max(deadline / 2, deadline - timedelta(seconds=loop_time() - began))
            views, more = await self._described(list(places), left, first_only=True)
            faults |= more
        for address, view in views.items():
            if self._expected not in (None, view.cluster_id):
                raise ClusterMismatch(address, str(self._expected), view.cluster_id)
            self._expected = view.cluster_id
        if not views:
            raise ClusterUnavailable({address: fault.reason for address, fault in faults.items()})
        return views

    async def _newest(
        self, views: Mapping[Address, ClusterEntry], deadline: timedelta
    ) -> tuple[Address, ClusterEntry, list[ClusterEntry]]:
        """Whose view to take, the view, and the views of those who know about as much.

        If a broker that was not asked turns out to know far more, it is asked: who answered may be cut off.
        """
        offsets = {address: self._offset_of(address, view) for address, view in views.items()}
        at = max(views, key=lambda address: offsets[address])
        known = views[at].brokers.values()
        best = max(known, key=self._applied_by, default=None)
        if best is not None and self._applied_by(best) > offsets[at] + _NEARLY_NEWEST:
            newer, _ = await self._described([best.address], deadline)
            if best.address in newer:
                return best.address, newer[best.address], []
        enough = offsets[at] - _NEARLY_NEWEST
        return at, views[at], [view for address, view in views.items() if address != at and offsets[address] >= enough]

    def _applied_by(self, entry: BrokerEntry) -> int:
        return self._applied.get(entry.id, -1) if entry.id in self._answered else -1

    def _witnesses(self) -> list[Address]:
        """Who knew the newest, and in turn one of the others who knew about as much."""
        if not self._listed:
            return []
        best, *others = self._newest_first()
        enough = self._applied.get(best.id, -1) - _NEARLY_NEWEST
        others = [
            entry
            for entry in others
            if entry.id in self._answered and not entry.fenced and self._applied.get(entry.id, -1) >= enough
        ]
        chosen = [best, others[self._rounds % len(others)]] if others else [best]
        return [entry.address for entry in chosen]

    def _newest_first(self) -> list[BrokerEntry]:
        def rank(entry: BrokerEntry) -> tuple[bool, bool, int, int]:
            return entry.id not in self._answered, entry.fenced, -self._applied.get(entry.id, -1), entry.id

        return sorted(self._listed.values(), key=rank)

    async def _described(
        self, places: Sequence[Address], deadline: timedelta, *, first_only: bool = False
    ) -> tuple[dict[Address, ClusterEntry], dict[Address, ClusterError]]:
        """What those say who answer in time, or only the first of them; and why others did not."""
        tasks = {asyncio.create_task(self._describe(address, deadline)): address for address in places}
        views: dict[Address, ClusterEntry] = {}
        faults: dict[Address, ClusterError] = {}
        until = loop_time() + deadline.total_seconds()
        waiting = set(tasks)
        try:
            while waiting and not (first_only and views) and (left := until - loop_time()) > 0:
                done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                for task in (task for task in tasks if task in done):  # a set's order is by chance
                    error = task.exception()
                    if error is None:
                        views[tasks[task]] = task.result()
                    elif isinstance(error, ClusterError):
                        faults[tasks[task]] = error
                    else:
                        raise error
        finally:
            await _cancelled(task for task in tasks if task in waiting)
        silent = {
            place: BrokerSilent(place, deadline, "DescribeCluster") for task, place in tasks.items() if task in waiting
        }
        return views, faults | silent

    async def _describe(self, at: Address, deadline: timedelta) -> ClusterEntry:
        version = await self._brokers.version_for(at, DescribeClusterRequest, _VIEW_VERSIONS, deadline)
        lists_fenced = version >= _LISTS_FENCED
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, **({"include_fenced_brokers": True} if lists_fenced else {})
        )
        answer = await self._brokers.ask(at, request, _VIEW_VERSIONS, deadline, attempts=1)
        return metadata.cluster_entry(at, answer, lists_fenced)

    def _offset_of(self, at: Address, view: ClusterEntry) -> int:
        ids = [entry.id for entry in view.brokers.values() if entry.address == at]
        return max((self._applied.get(id, -1) for id in ids), default=-1)

    async def _committed(self, at: Address, deadline: timedelta) -> int | Reason:
        try:
            return await metadata.quorum_high_watermark(self._brokers, at, deadline)
        except ClusterError as fault:
            return fault.reason

    # What each says of itself

    def _ask(self, entries: Iterable[BrokerEntry], deadline: timedelta) -> None:
        """Ask the brokers that were asked longest ago, not those that still owe an answer."""
        free = [entry for entry in entries if _place(entry) not in self._questions]
        for entry in sorted(free, key=lambda entry: self._asked.get(_place(entry), 0))[:_ASKED_AT_ONCE]:
            self._asked[_place(entry)] = self._turn
            question = self._brokers.api_versions(entry.address, deadline, attempts=1)
            self._questions[_place(entry)] = asyncio.create_task(question, name=f"pulse of broker {entry.id}")

    async def _wait(self, until: float) -> None:
        """Wait a moment for those who were not late the last time."""
        prompt = [task for place, task in self._questions.items() if place not in self._late]
        left = until - loop_time()
        if prompt and left > 0:
            await asyncio.wait(prompt, timeout=left)

    def _answers(self) -> Mapping[_Place, ApiVersions | ClusterError]:
        """What was answered since the last pulse; who owes an answer is late until it gives one."""
        done = {place: task for place, task in self._questions.items() if task.done()}
        self._questions = {place: task for place, task in self._questions.items() if place not in done}
        answers: dict[_Place, ApiVersions | ClusterError] = {}
        for place, task in done.items():
            error = task.exception()
            if error is not None and not isinstance(error, ClusterError):
                raise error
            answers[place] = error or task.result()
        silent = {place for place, answer in answers.items() if isinstance(answer, BrokerSilent)}
        self._late = (self._late - set(answers)) | set(self._questions) | silent
        told = {id: answer for (id, _), answer in answers.items() if isinstance(answer, ApiVersions)}
        self._answered = (self._answered | set(told)) - {id for id, _ in answers if id not in told}
        self._answered -= {id for id, _ in self._late}
        offsets = {id: answer.finalized_features_epoch for id, answer in told.items()}
        self._applied |= {id: offset for id, offset in offsets.items() if offset is not None}
        return answers

    def _beat(self, entry: BrokerEntry, answers: Mapping[_Place, ApiVersions | ClusterError]) -> Beat:
        answer, applied = answers.get(_place(entry)), self._applied.get(entry.id)
        if isinstance(answer, ClusterError):
            return Beat(entry, False, applied, answer.reason, isinstance(answer, BrokerUnreachable))
        return Beat(entry, None if answer is None else True, applied)


_Place = tuple[BrokerId, Address]


def _place(entry: BrokerEntry) -> _Place:
    return entry.id, entry.address


def _listed_by(views: Mapping[Address, ClusterEntry]) -> dict[_Place, BrokerEntry]:
    return {_place(entry): entry for view in views.values() for entry in view.brokers.values()}


def _disagreement(cluster: ClusterEntry, others: Iterable[ClusterEntry]) -> Reason | None:
    """Whom one broker counts as alive and another one does not."""
    mine = _alive(cluster)
    for other in others:
        if disputed := sorted(mine ^ _alive(other)):
            message = f"brokers that know the newest metadata do not agree whether brokers {disputed} are alive"
            return Reason("ViewsDisagree", message)
    return None


def _alive(cluster: ClusterEntry) -> frozenset[BrokerId]:
    return frozenset(id for id, entry in cluster.brokers.items() if not entry.fenced)


async def _cancelled(tasks: Iterable[asyncio.Task[object]]) -> None:
    for task in (tasks := list(tasks)):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
