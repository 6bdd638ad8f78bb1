"""The cheap look at a cluster, several times a second: which brokers there are, who is fenced, who answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from kafka_recovery.cluster import metadata
from kafka_recovery.cluster.asking import Place, place
from kafka_recovery.cluster.brokers import Address
from kafka_recovery.cluster.errors import BrokerUnreachable, ClusterError
from kafka_recovery.cluster.listing import NEARLY_NEWEST
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.membership import Membership
from kafka_recovery.cluster.metadata import BrokerEntry, ClusterEntry
from kafka_recovery.cluster.versions import ApiVersions
from kafka_recovery.domain.ids import BrokerId, MetadataOffset
from kafka_recovery.domain.reason import Reason

_ASKED_AT_ONCE = 50
"""Brokers asked for what they have applied in one pulse (half a millisecond of ours each); more take turns."""


@dataclass(frozen=True, slots=True)
class BrokerPulse:
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
    """One cheap look. `brokers`: those that the newest metadata list, which are those of `view_from`.

    `disagreement`: another broker, its metadata as new, counts other brokers as alive. `committed`: what the controller
    says to have committed, or why it does not; None: it was not asked.
    """

    cluster_id: str
    view_from: Address
    lists_fenced: bool
    brokers: Mapping[BrokerId, BrokerPulse]
    disagreement: Reason | None = None
    committed: int | Reason | None = None
    took: timedelta = timedelta(0)


class Pulses:
    """Takes pulses of one cluster, one at a time."""

    def __init__(self, members: Membership) -> None:
        self._members = members
        self._asked: dict[Place, int] = {}
        self._turn = 0
        self._told_until = -math.inf

    async def take(self, deadline: timedelta, *, ask_controller: bool = False) -> Pulse:
        """One pulse. It lasts as long as a broker takes to answer, not as long as the slowest does.

        Two brokers are asked who there is, every broker for the metadata it has applied: n + 2 requests, of 3 brokers 5
        requests, 3 kB and 5 ms. With `ask_controller` also, through a broker, what the controller has committed.
        Raises ClusterUnavailable if no broker says who there is, ClusterIdMismatch for another cluster than expected.
        """
        members = self._members
        began = asked_at = loop_time()
        self._turn += 1
        self._ask(members.listing.latest.values(), deadline)
        views = await self._views(deadline)
        known = set(map(place, members.listing.latest.values()))
        if new := {place: entry for place, entry in _listed_by(views).items() if place not in known}:
            asked_at = loop_time()
            self._ask(new.values(), deadline)
        await members.listing.asking.wait_for_prompt(asked_at + min(deadline, members.listing.brief).total_seconds())
        since, self._told_until = self._told_until, loop_time()
        answers = members.listing.asking.since(since)
        at, cluster, witnesses = await self._newest(views, deadline)
        members.listing.latest = cluster.brokers
        members.goes_through(at, cluster)
        disagreement = _disagreement(cluster, witnesses)
        if disagreement is None:  # who disagrees is asked again: news takes a moment to reach everybody
            members.listing.witness_again()
        committed = await self._committed(at, deadline) if ask_controller else None
        if isinstance(committed, int):
            self._hold_to(committed, at, cluster)
        return Pulse(
            cluster_id=cluster.cluster_id,
            view_from=at,
            lists_fenced=cluster.lists_fenced,
            brokers={id: self._of_broker(entry, answers) for id, entry in sorted(cluster.brokers.items())},
            disagreement=disagreement,
            committed=committed,
            took=timedelta(seconds=loop_time() - began),
        )

    async def _views(self, deadline: timedelta) -> Mapping[Address, ClusterEntry]:
        try:
            return await self._members.listing.views(deadline)
        except ClusterError:
            self._members.listing.asking.let_go()
            self._told_until = loop_time()
            raise

    async def _newest(
        self, views: Mapping[Address, ClusterEntry], deadline: timedelta
    ) -> tuple[Address, ClusterEntry, list[ClusterEntry]]:
        """Whose view to take, the view, and the views of those who know about as much.

        If a broker that was not asked turns out to know far more, it is asked: who answered may be cut off.
        """
        offsets = {address: self._offset_of(address, view) for address, view in views.items()}
        at = max(views, key=lambda address: offsets[address])
        best = max(views[at].brokers.values(), key=self._applied_by, default=None)
        if best is not None and self._applied_by(best) > offsets[at] + NEARLY_NEWEST:
            newer, _ = await self._members.listing.described([best.address], deadline)
            if best.address in newer:
                return best.address, newer[best.address], []
        enough = offsets[at] - NEARLY_NEWEST
        return at, views[at], [view for address, view in views.items() if address != at and offsets[address] >= enough]

    def _applied_by(self, entry: BrokerEntry) -> int:
        asking = self._members.listing.asking
        return asking.applied_by(entry.id) if asking.answers(entry) else -1

    def _offset_of(self, at: Address, view: ClusterEntry) -> int:
        ids = [entry.id for entry in view.brokers.values() if entry.address == at]
        return max((self._members.listing.asking.applied_by(id) for id in ids), default=-1)

    def _hold_to(self, committed: int, at: Address, cluster: ClusterEntry) -> None:
        """Whoever this view is of is passed over next time, if it claims to know more than was committed."""
        entry = next((entry for entry in cluster.brokers.values() if entry.address == at), None)
        if entry is not None and (offset := self._members.listing.asking.applied_by(entry.id)) >= 0:
            self._members.refutes(entry, MetadataOffset(offset), committed)

    async def _committed(self, at: Address, deadline: timedelta) -> int | Reason:
        try:
            return await metadata.quorum_high_watermark(self._members.brokers, at, deadline)
        except ClusterError as fault:
            return fault.reason

    def _ask(self, entries: Iterable[BrokerEntry], deadline: timedelta) -> None:
        """Ask the brokers that were asked longest ago, not those that still owe an answer."""
        free = [entry for entry in entries if not self._members.listing.asking.is_open(place(entry))]
        chosen = sorted(free, key=lambda entry: self._asked.get(place(entry), 0))[:_ASKED_AT_ONCE]
        self._asked |= {place(entry): self._turn for entry in chosen}
        self._members.listing.asking.ask(chosen, deadline)

    def _of_broker(self, entry: BrokerEntry, answers: Mapping[Place, ApiVersions | ClusterError]) -> BrokerPulse:
        offset = self._members.listing.asking.applied_by(entry.id)
        answer, known = answers.get(place(entry)), None if offset < 0 else offset
        if isinstance(answer, ClusterError):
            return BrokerPulse(entry, False, known, answer.reason, isinstance(answer, BrokerUnreachable))
        return BrokerPulse(entry, None if answer is None else True, known)


def _listed_by(views: Mapping[Address, ClusterEntry]) -> dict[Place, BrokerEntry]:
    return {place(entry): entry for view in views.values() for entry in view.brokers.values()}


def _disagreement(cluster: ClusterEntry, others: Iterable[ClusterEntry]) -> Reason | None:
    """Whom one broker counts as alive and another one does not."""
    mine = _alive(cluster)
    for other in others:
        if disputed := sorted(mine ^ _alive(other)):
            message = f"brokers that know the newest metadata do not agree whether brokers {disputed} are alive"
            return Reason("BrokersDisagree", message)
    return None


def _alive(cluster: ClusterEntry) -> frozenset[BrokerId]:
    return frozenset(id for id, entry in cluster.brokers.items() if not entry.fenced)
