"""Who is in a cluster and whose metadata to read: what is known of its brokers, kept for as long as it is looked at."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from kafka_recovery.cluster import metadata
from kafka_recovery.cluster.asking import BRIEF, Place, applied, place
from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.errors import AheadOfController, ClusterError, ClusterUnavailable, StaleMetadata
from kafka_recovery.cluster.floor import ALONE, Floor
from kafka_recovery.cluster.listing import NEARLY_NEWEST, Listing
from kafka_recovery.cluster.look import Look, number, shared_addresses
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.metadata import BrokerEntry, ClusterEntry
from kafka_recovery.cluster.standing import may_not_be_asked, standing
from kafka_recovery.cluster.versions import ApiVersions
from kafka_recovery.domain.ids import BrokerId, MetadataOffset
from kafka_recovery.domain.reason import Reason

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
        if (
            entry is None
            or entry.fenced
            or at in shared_addresses(cluster)
            or offset < max(0, number(self.floor.offset))
        ):
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
            raise StaleMetadata.behind_controller(route.address, number(route.as_of), None)
        if self.refutes(view.at, route.as_of, watermark):
            return await self.current(deadline)
        try:
            return await self._at_least(route, MetadataOffset(watermark - 1), loop_time() + deadline.total_seconds())
        except StaleMetadata as stale:
            raise StaleMetadata.behind_controller(route.address, stale.applied, watermark - 1) from stale

    async def _at_least(self, route: Route, wanted: MetadataOffset | None, until: float) -> Route:
        """The route, once its broker has applied `wanted` and the newest seen. Raises StaleMetadata if it has not."""
        at, known = route
        while number(known) < (floor := max(number(wanted), number(self.floor.offset))):
            if loop_time() > until:
                if await self._has_gone_on(at, number(known)):
                    continue
                claim = self.floor.claim
                alone = (claim.at, ALONE) if claim is not None and claim.offset == floor else None
                raise StaleMetadata.behind_earlier(at, number(known), floor, alone)
            await asyncio.sleep(_POLL)
            left = timedelta(seconds=max(_POLL, until - loop_time()))
            known = applied(await self.brokers.api_versions(at, left))
        self._read(at, known)
        return Route(at, known)

    async def _has_gone_on(self, at: Address, known: int) -> bool:
        """Whether this broker does after all: the cluster has gone on without what others once claimed."""
        asking, floor = self.listing.asking, number(self.floor.shared)
        if known < floor and (now := await standing(self.brokers, at, asking.applied_now(), BRIEF)):
            self.floor.doubt(now)
        return known >= number(self.floor.shared) < floor

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
        known = max(others[-1] if others else -1, number(self.floor.certain))
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
        look = Look(self.listing, deadline, min(deadline, BRIEF) if in_a_hurry else deadline)
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
