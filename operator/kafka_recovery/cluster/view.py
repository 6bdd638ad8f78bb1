"""Whose metadata to read: finding the brokers, asking each what it has applied, and choosing one to go through."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from kafka_recovery.cluster import metadata
from kafka_recovery.cluster.brokers import ATTEMPTS, Address, Brokers
from kafka_recovery.cluster.errors import ClusterError, ClusterMismatch, ClusterUnavailable, StaleMetadata
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.metadata import BrokerEntry, ClusterEntry
from kafka_recovery.cluster.versions import ApiVersions
from kafka_recovery.domain.ids import BrokerId, MetadataOffset
from kafka_recovery.domain.reason import Reason

_STANDSTILL = timedelta(milliseconds=1200)
"""A broker applies metadata twice a second, if only no-ops (metadata.max.idle.interval.ms). One that did not in this
time stands still."""

_BRIEF = timedelta(seconds=1)
"""How long a broker is asked again that was fenced and silent a moment ago; in a hurry, every broker."""

_AT_ONCE = timedelta(milliseconds=200)
"""A broker that takes longer is slow: another one that knows as much is gone through rather."""

_NO_OPS_A_SECOND = 2
"""What a controller writes when nothing happens (metadata.max.idle.interval.ms)."""

_NEARLY_NEWEST = 10
"""Metadata records (five seconds of no-ops) a broker may lag and still be gone through if the newest one failed."""

_POLL = 0.05
"""Seconds between two questions whether a broker has caught up."""

_NOT_ALLOWED = frozenset({"ClusterAuthorizationFailed"})
"""Why a quorum may go undescribed for good: DescribeQuorum needs DESCRIBE on the cluster, which not everybody has.
Whatever else it fails with says that there is no controller to be asked now."""

_ROUTE_AGE = timedelta(seconds=2)
"""How long the broker with the newest metadata is taken to be that still."""


@dataclass(frozen=True, slots=True)
class View:
    """The metadata of one gather: whose it is, the brokers, and what each broker said of itself.

    `as_of`: what `at` had applied before anything was read there; None: it did not say.
    """

    at: BrokerEntry
    cluster: ClusterEntry
    versions: Mapping[BrokerId, ApiVersions]
    faults: Mapping[BrokerId, Reason]
    as_of: MetadataOffset | None = None


class Route(NamedTuple):
    """A broker to go through, and what it had applied when it was chosen; None: it did not say."""

    address: Address
    as_of: MetadataOffset | None


@dataclass(slots=True)
class _Said:
    """What brokers said of themselves in one look, or why they say nothing; `newest`: which metadata each knows."""

    versions: dict[BrokerId, ApiVersions] = field(default_factory=dict)
    newest: dict[BrokerId, int] = field(default_factory=dict)
    faults: dict[BrokerId, Reason] = field(default_factory=dict)
    _asked: set[tuple[BrokerId, Address]] = field(default_factory=set)

    def not_asked(self, cluster: ClusterEntry) -> list[BrokerEntry]:
        """Listed brokers that were not asked yet, or under another address only."""
        return [entry for entry in cluster.brokers.values() if (entry.id, entry.address) not in self._asked]

    def who_knows_the_newest(self) -> BrokerId | None:
        """The broker with the newest metadata, if any answered."""
        return max(self.newest, key=lambda id: (self.newest[id], -id), default=None)

    def answers(self, entry: BrokerEntry, versions: ApiVersions, waited: float) -> None:
        """Keep what it said; `waited` in seconds."""
        self._asked.add((entry.id, entry.address))
        self.faults.pop(entry.id, None)
        self.versions[entry.id] = versions
        self.newest[entry.id] = _applied(versions) - _no_ops(waited)

    def is_silent(self, entry: BrokerEntry, why: Reason) -> None:
        """Keep that it said nothing."""
        self._asked.add((entry.id, entry.address))
        self.versions.pop(entry.id, None)
        self.newest.pop(entry.id, None)
        self.faults[entry.id] = why


class Views:
    """Looks at a cluster through whichever broker is alive and knows the newest; remembers who was who.

    `known`: every broker seen so far, also those that are not listed any more. `newest`: the newest metadata that were
    ever read from; nothing older is shown.
    """

    def __init__(self, brokers: Brokers, bootstrap: Sequence[Address], expected_cluster_id: str | None) -> None:
        self._brokers = brokers
        self._bootstrap = tuple(bootstrap)
        self._expected = expected_cluster_id
        self.known: dict[BrokerId, BrokerEntry] = {}
        self._silent: set[BrokerId] = set()
        self.newest: MetadataOffset | None = None
        self._route: Route | None = None
        self._route_found_at = 0.0
        self._failed: Address | None = None

    def forget_route(self) -> None:
        """The broker chosen last failed: next time choose another one, if there is one that knows about as much."""
        self._failed = self._route.address if self._route else None
        self._route = None

    async def route(self, deadline: timedelta, not_before: MetadataOffset | None = None) -> Route:
        """A broker to read metadata from and to reach the controller through: alive, its metadata the newest.

        Raises StaleMetadata if nobody knows metadata as new as `not_before`, and as the newest seen, in time.
        """
        began = loop_time()
        if self._route is None or loop_time() - self._route_found_at > _ROUTE_AGE.total_seconds():
            await self.look(deadline, in_a_hurry=True)
        if self._route is None:
            raise ClusterUnavailable({})
        left = deadline - timedelta(seconds=loop_time() - began)
        as_of = await self._at_least(self._route.address, self._route.as_of, not_before, left)
        return Route(self._route.address, as_of)

    async def look(self, deadline: timedelta, *, in_a_hurry: bool = False) -> View:
        """Find the brokers, ask each for its versions and applied metadata offset, choose whose metadata to read.

        `in_a_hurry`: without those who do not answer at once. While an order is altered a silent broker would prolong
        that, and before it, age the last look at the candidates.

        Raises StaleMetadata if nobody knows, in time, metadata as new as those that were seen before.
        """
        lister = await self._first_answer(deadline)
        cluster = await self._listed_by(lister, deadline)
        patience = min(deadline, _BRIEF) if in_a_hurry else deadline
        said = _Said()
        while unasked := said.not_asked(cluster):
            await self._ask(unasked, said, patience)
            newest = said.who_knows_the_newest()
            if newest is not None and self.known[newest].address != lister:
                # who is cut off lists others as fenced, and not those that came since: the newest says who is alive
                lister = self.known[newest].address
                cluster = await self._listed_by(lister, deadline)
        self._silent = {id for id in said.faults if id in cluster.brokers and cluster.brokers[id].fenced}
        answered = [cluster.brokers[id] for id in said.versions if id in cluster.brokers]
        alive = [entry for entry in answered if not entry.fenced]
        if not alive and in_a_hurry:
            return await self.look(deadline)
        if not alive:
            why = {
                id: Reason("Fenced", f"broker {id} answers, but the controller has fenced it") for id in said.versions
            }
            raise ClusterUnavailable({self.known[id].address: reason for id, reason in (why | said.faults).items()})
        at = self._chosen(alive, said.newest)
        told = _told(said.versions[at.id])
        as_of = await self._at_least(at.address, told, self.newest, deadline)
        if at.address != lister or as_of != told:
            cluster = await self._listed_by(at.address, deadline)
        self._seen(as_of)
        self._route, self._route_found_at = Route(at.address, as_of), loop_time()
        return View(at, cluster, said.versions, said.faults, as_of)

    def _seen(self, as_of: MetadataOffset | None) -> None:
        if as_of is not None:
            self.newest = max(self.newest or as_of, as_of)

    async def _at_least(
        self, at: Address, applied: MetadataOffset | None, floor: MetadataOffset | None, deadline: timedelta
    ) -> MetadataOffset | None:
        """What the broker has applied, once that is `floor`. Raises StaleMetadata if it is not in time."""
        until = loop_time() + deadline.total_seconds()
        while floor is not None and (applied is None or applied < floor):
            if loop_time() > until:
                raise StaleMetadata.behind_earlier(at, -1 if applied is None else applied, floor)
            await asyncio.sleep(_POLL)
            left = timedelta(seconds=max(_POLL, until - loop_time()))
            applied = _told(await self._brokers.api_versions(at, left))
        return applied

    async def current(self, deadline: timedelta) -> Route:
        """A broker that has applied all that the controller had committed when this was called.

        Raises StaleMetadata if none has within the deadline. Not known without DESCRIBE on the cluster: then `route`.
        """
        view = await self.look(deadline, in_a_hurry=True)
        watermark = await metadata.quorum_high_watermark(self._brokers, view.at.address, deadline)
        if isinstance(watermark, Reason):
            if watermark.code in _NOT_ALLOWED:
                return Route(view.at.address, view.as_of)
            raise StaleMetadata.behind_controller(view.at.address, _applied(view.versions[view.at.id]), None)
        applied = _applied(view.versions[view.at.id])
        until = loop_time() + deadline.total_seconds()
        while applied < watermark - 1:
            if loop_time() > until:
                raise StaleMetadata.behind_controller(view.at.address, applied, watermark - 1)
            await asyncio.sleep(_POLL)
            applied = _applied(await self._brokers.api_versions(view.at.address, deadline))
        self._seen(MetadataOffset(applied))
        return Route(view.at.address, MetadataOffset(applied))

    async def _listed_by(self, address: Address, deadline: timedelta) -> ClusterEntry:
        """The cluster as this broker sees it. Raises ClusterMismatch for another one than expected."""
        cluster = await metadata.describe_cluster(self._brokers, address, deadline)
        if self._expected not in (None, cluster.cluster_id):
            raise ClusterMismatch(address, str(self._expected), cluster.cluster_id)
        self._expected = cluster.cluster_id
        self.known |= cluster.brokers
        return cluster

    def _chosen(self, alive: Sequence[BrokerEntry], newest: Mapping[BrokerId, int]) -> BrokerEntry:
        """Who knows the newest; one that has just failed only if nobody else knows about as much."""
        failed, self._failed = self._failed, None
        enough = max(newest[entry.id] for entry in alive) - _NEARLY_NEWEST
        others = [entry for entry in alive if entry.address != failed and newest[entry.id] >= enough]
        return max(others or alive, key=lambda entry: (newest[entry.id], -entry.id))

    async def _first_answer(self, deadline: timedelta) -> Address:
        """The first address that answers, among those known from before and the bootstrap servers."""
        addresses = dict.fromkeys([*(entry.address for entry in self.known.values()), *self._bootstrap])
        tasks = {asyncio.create_task(self._brokers.api_versions(address, deadline)): address for address in addresses}
        faults: dict[Address, ClusterError] = {}
        waiting = set(tasks)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in (task for task in tasks if task in done):  # a set's order is by chance
                    error = task.exception()
                    if error is None:
                        return tasks[task]
                    if not isinstance(error, ClusterError):
                        raise error
                    faults[tasks[task]] = error
        finally:
            late = [task for task in tasks if task in waiting]
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if len(faults) == 1:
            raise next(iter(faults.values()))
        raise ClusterUnavailable({address: fault.reason for address, fault in faults.items()})

    async def _ask(self, entries: Sequence[BrokerEntry], said: _Said, deadline: timedelta) -> None:
        """Keep what each broker says of itself, or why it says nothing."""
        asked_at = loop_time()

        async def ask(entry: BrokerEntry) -> None:
            silent = entry.id in self._silent
            try:
                versions = await self._brokers.api_versions(
                    entry.address,
                    min(deadline, _BRIEF) if silent else deadline,
                    attempts=1 if silent or entry.fenced else ATTEMPTS,
                )
            except ClusterError as error:
                said.is_silent(entry, error.reason)
            else:
                said.answers(entry, versions, loop_time() - asked_at)

        await asyncio.gather(*map(ask, entries))

    async def quorum(self, view: View, deadline: timedelta) -> int | Reason:
        try:
            return await metadata.quorum_high_watermark(self._brokers, view.at.address, deadline)
        except ClusterError as fault:
            return fault.reason

    async def advances(self, view: View, watermark: int | Reason, deadline: timedelta) -> Mapping[BrokerId, bool]:
        """Whether each broker has applied all that the controller had committed when this gather began.

        Where the controller does not tell what it had committed, whether its applied offset moves at all. A broker that
        did not answer after the time in which it should have is absent: silence is no standstill.
        """
        target = {
            id: watermark - 1 if isinstance(watermark, int) else _applied(before) + 1
            for id, before in view.versions.items()
        }
        behind = [id for id, before in view.versions.items() if _applied(before) < target[id]]
        found = await asyncio.gather(*(self._arrives(self.known[id], target[id], deadline) for id in behind))
        late = dict(zip(behind, found, strict=True))
        return {id: arrived for id in view.versions if (arrived := late.get(id, True)) is not None}

    async def _arrives(self, entry: BrokerEntry, target: int, deadline: timedelta) -> bool | None:
        """Whether the broker applies metadata up to `target` in time; None if it falls silent.

        Only an answer to a question that was put after that time shows a standstill: a busy one may be asked but once.
        """
        began = loop_time()
        in_time = began + _STANDSTILL.total_seconds()
        give_up_at = began + max(deadline, 2 * _STANDSTILL).total_seconds()
        while True:
            await asyncio.sleep(0.01)
            put_at = loop_time()
            try:
                left = timedelta(seconds=max(0.0, give_up_at - put_at))
                applied = _applied(await self._brokers.api_versions(entry.address, left))
            except ClusterError:
                applied = None
            if applied is not None and applied >= target:
                return True
            if put_at >= in_time:
                return None if applied is None else False


def _told(versions: ApiVersions) -> MetadataOffset | None:
    told = versions.finalized_features_epoch
    return None if told is None else MetadataOffset(told)


def _applied(versions: ApiVersions) -> int:
    return -1 if versions.finalized_features_epoch is None else versions.finalized_features_epoch


def _no_ops(waited: float) -> int:
    """Metadata records that may have been written for their own sake while an answer was late.

    A slow broker answers last, so it seems to know the newest; it must not be the one to go through for that.
    """
    return 0 if waited < _AT_ONCE.total_seconds() else math.ceil(waited * _NO_OPS_A_SECOND) + 1
