"""Who is in a cluster and whose metadata to read: what is known of its brokers, kept for as long as it is looked at."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from kafka_recovery.cluster import metadata
from kafka_recovery.cluster.asking import BRIEF, Place, Question, Said, applied, place, worth_another_try
from kafka_recovery.cluster.brokers import ATTEMPTS, Address, Brokers
from kafka_recovery.cluster.errors import (
    AddressShared,
    AheadOfController,
    BrokerTimeout,
    ClusterError,
    ClusterUnavailable,
    StaleMetadata,
)
from kafka_recovery.cluster.floor import ALONE, Floor
from kafka_recovery.cluster.listing import AT_ONCE, NEARLY_NEWEST, Listing
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.metadata import BrokerEntry, ClusterEntry
from kafka_recovery.cluster.standing import may_not_be_asked, standing
from kafka_recovery.cluster.versions import ApiVersions
from kafka_recovery.domain.ids import BrokerId, MetadataOffset
from kafka_recovery.domain.reason import Reason

_NO_OPS_A_SECOND = 2
"""What a controller writes when nothing happens (metadata.max.idle.interval.ms)."""

_ROUTE_AGE = timedelta(seconds=2)
"""How long the broker with the newest metadata is taken to be that still."""

_PASSED_OVER = timedelta(seconds=10)
"""How long another broker is chosen rather than one that failed: it may answer a look, and nothing else."""

_POLL = 0.05
"""Seconds between two questions whether a broker has caught up."""

_FAR_AHEAD = 1000
"""Metadata records that at most one other has applied: whoever claims more is held to what the controller committed."""


@dataclass(frozen=True, slots=True)
class View:
    """The metadata of one look: whose they are, the brokers, and what each broker said of itself.

    `said`: what `at` answered; `versions` lack it where by the newest list another broker has its address too.
    `as_of`: what `at` had applied before anything was read there; None: it did not say.
    """

    at: BrokerEntry
    said: ApiVersions
    cluster: ClusterEntry
    versions: Mapping[BrokerId, ApiVersions]
    faults: Mapping[BrokerId, Reason]
    as_of: MetadataOffset | None = None


class Route(NamedTuple):
    """A broker to go through, and what it had applied when it was chosen; None: it did not say."""

    address: Address
    as_of: MetadataOffset | None


class Membership:
    """One cluster, and which of its brokers to go through. Looks and pulses share what is known of them.

    `floor`: the newest metadata that were ever read; nothing older is shown.
    """

    def __init__(self, brokers: Brokers, bootstrap: Sequence[Address], expected_cluster_id: str | None) -> None:
        self.brokers = brokers
        self.listing = Listing(brokers, bootstrap, expected_cluster_id)
        self.floor = Floor()
        self._route: Route | None = None
        self._route_found_at = 0.0
        self._failed: dict[Address, float] = {}

    async def aclose(self) -> None:
        """Ask nobody any more."""
        await self.listing.asking.aclose()

    # Going through a broker

    def forget_route(self, at: Address | None = None) -> None:
        """This broker failed (None: the one chosen last): for a while choose another one that knows about as much."""
        last = None if self._route is None else self._route.address
        if failed := at or last:
            self._failed[failed] = loop_time() + _PASSED_OVER.total_seconds()
        if failed == last:
            self._route = None

    def _has_failed(self, at: Address) -> bool:
        return loop_time() < self._failed.get(at, 0.0)

    def goes_through(self, at: Address, cluster: ClusterEntry) -> None:
        """Whoever comes next goes through the broker whose view this is, if it may be gone through."""
        entry = next((entry for entry in cluster.brokers.values() if entry.address == at), None)
        offset = -1 if entry is None else self.listing.asking.applied_by(entry.id)
        if entry is None or entry.fenced or at in _shared(cluster) or offset < max(0, _number(self.floor.offset)):
            return
        if self._is_far_ahead(entry, offset) or self._has_failed(at):
            return
        self._read(at, MetadataOffset(offset))
        self._route, self._route_found_at = Route(at, MetadataOffset(offset)), loop_time()

    async def route(self, deadline: timedelta, not_before: MetadataOffset | None = None) -> Route:
        """A broker to read metadata from and to reach the controller through: alive, its metadata the newest.

        Raises StaleMetadata if nobody knows metadata as new as `not_before`, and as the newest seen, in time.
        """
        until = loop_time() + deadline.total_seconds()
        if self._route is None or loop_time() - self._route_found_at > _ROUTE_AGE.total_seconds():
            await self.look(deadline, in_a_hurry=True)
        if self._route is None:
            raise ClusterUnavailable({})
        return await self._at_least(self._route, not_before, until)

    async def current(self, deadline: timedelta) -> Route:
        """A broker that has applied all that the controller had committed when this was called.

        Raises StaleMetadata if none has within the deadline. Not known without DESCRIBE on the cluster: then `route`.
        """
        view = await self.look(deadline, in_a_hurry=True)
        route = Route(view.at.address, view.as_of)
        watermark = await metadata.quorum_high_watermark(self.brokers, route.address, deadline)
        if isinstance(watermark, Reason):
            if may_not_be_asked(watermark):
                return route
            raise StaleMetadata.behind_controller(route.address, _number(route.as_of), None)
        if self.refutes(view.at, route.as_of, watermark):
            return await self.current(deadline)
        try:
            return await self._at_least(route, MetadataOffset(watermark - 1), loop_time() + deadline.total_seconds())
        except StaleMetadata as stale:
            raise StaleMetadata.behind_controller(route.address, stale.applied, watermark - 1) from stale

    async def _at_least(self, route: Route, wanted: MetadataOffset | None, until: float) -> Route:
        """The route, once its broker has applied `wanted` and the newest seen. Raises StaleMetadata if it has not."""
        at, known = route
        while _number(known) < (floor := max(_number(wanted), _number(self.floor.offset))):
            if loop_time() > until:
                if await self._has_gone_on(at, _number(known)):
                    continue
                claim = self.floor.claim
                alone = (claim.at, ALONE) if claim is not None and claim.offset == floor else None
                raise StaleMetadata.behind_earlier(at, _number(known), floor, alone)
            await asyncio.sleep(_POLL)
            left = timedelta(seconds=max(_POLL, until - loop_time()))
            known = applied(await self.brokers.api_versions(at, left))
        self._read(at, known)
        return Route(at, known)

    async def _has_gone_on(self, at: Address, known: int) -> bool:
        """Whether this broker does after all: the cluster has gone on without what others once claimed."""
        asking, floor = self.listing.asking, _number(self.floor.shared)
        if known < floor and (now := await standing(self.brokers, at, asking.applied_now(), BRIEF)):
            self.floor.doubt(now)
        return known >= _number(self.floor.shared) < floor

    def _read(self, at: Address, as_of: MetadataOffset | None) -> None:
        if as_of is not None:
            self.floor.read(at, as_of, self.listing.asking.applied_by_two())

    def refutes(self, entry: BrokerEntry, as_of: MetadataOffset | None, watermark: int) -> bool:
        """Whether the broker claims more than the controller has committed; if so, it is passed over for a while."""
        asking, committed = self.listing.asking, MetadataOffset(watermark - 1)
        is_refuted = as_of is not None and as_of > committed
        if as_of is not None and is_refuted:
            asking.refute(place(entry), AheadOfController(entry.address, as_of, committed))
            self.floor.withdraw(entry.address, asking.applied_by_two())
            if self._route is not None and self._route.address == entry.address:
                self._route = None
        if (agreed := asking.applied_by_two()) is not None:
            self.floor.confirm(min(agreed, committed))
        return is_refuted

    def _is_far_ahead(self, entry: BrokerEntry, offset: int) -> bool:
        """Whether it claims to know far more than all others but one (it may be that one), and than is certain."""
        told = self.listing.asking.applied_now().items()
        others = heapq.nlargest(2, (offset for id, offset in told if id != entry.id))
        known = max(others[-1] if others else -1, _number(self.floor.certain))
        return 0 <= known < offset - _FAR_AHEAD

    async def _is_refuted(self, entry: BrokerEntry, as_of: MetadataOffset | None, deadline: timedelta) -> bool:
        """Whether what it claims, if it is far more than others know, is more than the controller says through it."""
        if as_of is None or not self._is_far_ahead(entry, as_of):
            return False
        try:
            watermark = await metadata.quorum_high_watermark(self.brokers, entry.address, deadline)
        except ClusterError:
            return False
        return isinstance(watermark, int) and self.refutes(entry, as_of, watermark)

    # Looking at all brokers

    async def look(self, deadline: timedelta, *, in_a_hurry: bool = False) -> View:
        """Find the brokers, ask each for its versions and applied metadata offset, choose whose metadata to read.

        `in_a_hurry`: without those that do not answer at once. While an order is altered a silent broker would prolong
        that, and before it, age the last look at the candidates. A broker that was silent a moment ago is never waited
        for: it is asked, and counts if it answers while others do.

        Raises StaleMetadata if nobody knows, in time, metadata as new as those that were seen before.
        """
        until = loop_time() + deadline.total_seconds()
        look = _Look(self.listing, deadline, min(deadline, BRIEF) if in_a_hurry else deadline)
        try:
            cluster = await look.newest_view()
        except ClusterUnavailable as nobody:
            raise nobody.only_fault or nobody from None
        alive = look.alive(cluster)
        if not alive and in_a_hurry:
            return await self.look(deadline)
        if not alive:
            raise ClusterUnavailable(look.why_nobody(cluster))
        at = self._chosen(alive, look.newest)
        as_of = applied(look.versions[place(at)])
        if await self._is_refuted(at, as_of, deadline):
            return await self.look(deadline, in_a_hurry=in_a_hurry)
        route = await self._at_least(Route(at.address, as_of), None, until)
        if at.address not in look.views or route.as_of != as_of:
            cluster = await self.listing.describe(at.address, deadline)
        else:
            cluster = look.views[at.address]
        self.listing.latest = cluster.brokers
        self._route, self._route_found_at = route, loop_time()
        versions, faults = look.told(cluster)
        return View(at, look.versions[place(at)], cluster, versions, faults, route.as_of)

    def _chosen(self, alive: Sequence[BrokerEntry], newest: Mapping[Place, int]) -> BrokerEntry:
        """Who knows the newest; one that failed a moment ago only if nobody else knows about as much."""
        enough = max(newest[place(entry)] for entry in alive) - NEARLY_NEWEST
        others = [entry for entry in alive if not self._has_failed(entry.address) and newest[place(entry)] >= enough]
        return max(others or alive, key=lambda entry: (newest[place(entry)], -entry.id))


class _Look:
    """One look: who was asked, and what they said.

    `views`: the cluster as brokers see it, by their address. `versions` and `newest`: what each answered, and which
    metadata it knows for that. `questions`: all that were put.
    """

    def __init__(self, listing: Listing, deadline: timedelta, patience: timedelta) -> None:
        self._listing = listing
        self._deadline = deadline
        self._patience = patience
        self._unlisted: set[Address] = set()
        self.questions: dict[Place, Question] = {}
        self.views: dict[Address, ClusterEntry] = {}
        self.versions: dict[Place, ApiVersions] = {}
        self.newest: dict[Place, int] = {}

    async def newest_view(self) -> ClusterEntry:
        """The cluster as the broker with the newest metadata sees it that says so; every broker listed was asked.

        Who is cut off lists others as fenced, and not those that came since: the newest says who is alive.
        """
        give_up_at = loop_time() + 2 * self._deadline.total_seconds()
        self._put(self._listing.latest.values(), ATTEMPTS)
        self.views = dict(await self._listing.views(self._deadline))
        while True:
            await self._ask(self._listed())
            at = max(self.newest, key=lambda at: (self.newest[at], -at[0]), default=None)
            if at is None or loop_time() > give_up_at:
                return next(iter(self.views.values()))
            if at[1] in self.views:
                return self.views[at[1]]
            views, faults = await self._listing.described([at[1]], self._deadline)
            self.views |= views
            for address in faults:
                self._unlisted.add(address)
                self.newest = {at: offset for at, offset in self.newest.items() if at[1] != address}

    def alive(self, cluster: ClusterEntry) -> list[BrokerEntry]:
        """Brokers that answer, are not fenced, and could be gone through."""
        shared = _shared(cluster)
        entries = [entry for entry in cluster.brokers.values() if not entry.fenced and entry.address not in shared]
        return [entry for entry in entries if place(entry) in self.newest]

    def told(self, cluster: ClusterEntry) -> tuple[dict[BrokerId, ApiVersions], dict[BrokerId, Reason]]:
        """What brokers said of themselves, or why they did not: those of the view, and whoever another one lists."""
        versions: dict[BrokerId, ApiVersions] = {}
        faults: dict[BrokerId, Reason] = {}
        shared = _shared(cluster)
        listed = [*self._listed(), *cluster.brokers.values()]
        entries = {entry.id: place(entry) for entry in listed}
        for id, at in entries.items():
            if at[1] in shared:
                faults[id] = AddressShared(at[1], shared[at[1]]).reason
            elif at in self.versions:
                versions[id] = self.versions[at]
            else:
                faults[id] = self._why(at)
        return versions, faults

    def why_nobody(self, cluster: ClusterEntry) -> dict[Address, Reason]:
        """Why there is nobody to go through."""
        versions, faults = self.told(cluster)
        for id in versions:
            faults[id] = Reason("Fenced", f"broker {id} answers, but the controller has fenced it")
        return {self._listing.known[id].address: reason for id, reason in faults.items()}

    def _listed(self) -> list[BrokerEntry]:
        listed = {place(entry): entry for view in self.views.values() for entry in view.brokers.values()}
        return list(listed.values())

    def _put(self, entries: Iterable[BrokerEntry], attempts: int) -> None:
        for at, question in self._listing.asking.ask(entries, self._deadline, attempts).items():
            self.questions.setdefault(at, question)

    async def _ask(self, entries: Sequence[BrokerEntry]) -> None:
        """Ask those that were not asked yet, and note what all said that answer in time."""
        asking = self._listing.asking
        self._put([entry for entry in entries if place(entry) not in self.questions], ATTEMPTS)
        await asking.wait(self.questions, entries, self._patience)
        again = [entry for entry in entries if self._worth_another_try(entry)]
        if again:
            self.questions |= asking.ask(again, self._deadline, ATTEMPTS)
            await asking.wait(self.questions, again, self._patience)
        alive = [entry for entry in entries if not entry.fenced]
        if not any(self._answered(entry) for entry in alive):
            await self._first_answer(alive)
        for entry in entries:
            self._note(entry)

    def _said(self, at: Place) -> Said | None:
        question = self.questions.get(at)
        return question.result() if question is not None and question.done() and not question.cancelled() else None

    def _answered(self, entry: BrokerEntry) -> bool:
        said = self._said(place(entry))
        return said is not None and isinstance(said.told, ApiVersions)

    def _worth_another_try(self, entry: BrokerEntry) -> bool:
        said = self._said(place(entry))
        return said is not None and worth_another_try(entry, said)

    async def _first_answer(self, entries: Sequence[BrokerEntry]) -> None:
        """All were silent a moment ago, or are now: then whoever answers first, and those that do about then."""
        until = loop_time() + self._deadline.total_seconds()
        waiting = {self.questions[place(entry)] for entry in entries}
        while waiting and (left := until - loop_time()) > 0:
            if any(self._answered(entry) for entry in entries):
                await asyncio.wait(waiting, timeout=min(left, AT_ONCE.total_seconds()))
                return
            _, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    def _note(self, entry: BrokerEntry) -> None:
        at = place(entry)
        said = self._said(at)
        if said is not None and isinstance(said.told, ApiVersions):
            if self._listing.asking.refuted(at, applied(said.told)) is not None:
                return
            self.versions[at] = said.told
            if entry.address not in self._unlisted:
                self.newest[at] = _number(applied(said.told)) - _no_ops(said.at - said.put_at)

    def _why(self, at: Place) -> Reason:
        said = self._said(at)
        fault: ClusterError | None = BrokerTimeout(at[1], self._patience, "ApiVersions")
        if said is not None:
            told = said.told
            fault = told if isinstance(told, ClusterError) else self._listing.asking.refuted(at, applied(told))
        return fault.reason if fault else BrokerTimeout(at[1], self._patience, "ApiVersions").reason


def _shared(cluster: ClusterEntry) -> Mapping[Address, Sequence[BrokerId]]:
    """Addresses under which more than one broker is listed, and which: who answers there can't be told."""
    listed = Counter(entry.address for entry in cluster.brokers.values())
    return {
        address: [id for id, entry in sorted(cluster.brokers.items()) if entry.address == address]
        for address, brokers in listed.items()
        if brokers > 1
    }


def _number(offset: MetadataOffset | None) -> int:
    return -1 if offset is None else offset


def _no_ops(waited: float) -> int:
    """Metadata records that may have been written for their own sake while an answer was late.

    A slow broker answers last, so it seems to know the newest; it must not be the one to go through for that.
    """
    return 0 if waited < AT_ONCE.total_seconds() else math.ceil(waited * _NO_OPS_A_SECOND) + 1
