"""Who there is in a cluster, as its brokers list them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from kafka_recovery.cluster import metadata
from kafka_recovery.cluster.asking import Asking
from kafka_recovery.cluster.brokers import ATTEMPTS, Address, Brokers
from kafka_recovery.cluster.errors import BrokerTimeout, ClusterError, ClusterIdMismatch, ClusterUnavailable
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.metadata import BrokerEntry, ClusterEntry
from kafka_recovery.domain.ids import BrokerId

AT_ONCE = timedelta(milliseconds=200)
"""A broker that takes longer is slow: another one that knows as much is gone through rather."""

NEARLY_NEWEST = 3
"""Metadata records (a second and a half of no-ops) a broker may lag and still know about as much as the newest."""

_FALLBACKS = 16
"""Brokers that are asked at once who there is, if those asked first fail."""


class Listing:
    """One cluster's brokers by what they say of each other; `asking`: by what each says of itself.

    `known`: every broker seen so far, also those that are not listed any more. `latest`: those of the last view.
    `cluster_id`: the expected one, or what the first one said; None: nobody has yet.
    `brief`: how long an answer may take that comes at once, at this distance.
    """

    def __init__(self, brokers: Brokers, bootstrap: Sequence[Address], expected_cluster_id: str | None) -> None:
        self.brokers = brokers
        self.asking = Asking(brokers)
        self.known: dict[BrokerId, BrokerEntry] = {}
        self.latest: Mapping[BrokerId, BrokerEntry] = {}
        self.brief = AT_ONCE
        self._bootstrap = tuple(bootstrap)
        self.cluster_id = expected_cluster_id
        self._turn = 0

    async def views(self, deadline: timedelta) -> Mapping[Address, ClusterEntry]:
        """The cluster as one or two brokers see it: those that knew the newest, else whoever answers first.

        Notes how long that takes, which is the distance to the brokers. Raises ClusterIdMismatch if all that answers is
        another cluster, ClusterUnavailable if nobody says who there is.
        """
        began, witnesses = loop_time(), self._witnesses()
        views, faults = await self.described(witnesses, min(deadline, self.brief))
        if not views:
            known = [entry.address for entry in self._newest_first() if entry.address not in witnesses]
            places = dict.fromkeys([*known[:_FALLBACKS], *self._bootstrap, *witnesses])
            # Half at least: this process may have stood still meanwhile, which is no silence of the brokers.
            left = max(deadline / 2, deadline - timedelta(seconds=loop_time() - began))
            views, more = await self.described(list(places), left, ATTEMPTS, first_only=True)
            faults |= more
        if not views:
            raise _nobody(faults, seen_before=bool(self.known))
        self.brief = min(deadline / 2, max(AT_ONCE, 2 * timedelta(seconds=loop_time() - began)))
        return views

    def witness_again(self) -> None:
        """The next views are to be those of other brokers."""
        self._turn += 1

    async def describe(self, at: Address, deadline: timedelta, attempts: int = ATTEMPTS) -> ClusterEntry:
        """The cluster as this broker sees it. Raises ClusterIdMismatch for another one than expected."""
        cluster = await metadata.describe_cluster(self.brokers, at, deadline, attempts)
        if self.cluster_id not in (None, cluster.cluster_id):
            raise ClusterIdMismatch(at, str(self.cluster_id), cluster.cluster_id)
        self.cluster_id = cluster.cluster_id
        self._keep(cluster.brokers)
        return cluster

    async def described(
        self, places: Sequence[Address], deadline: timedelta, attempts: int = 1, *, first_only: bool = False
    ) -> tuple[dict[Address, ClusterEntry], dict[Address, ClusterError]]:
        """What those say who answer in time, or only the first of them; and why others did not."""
        tasks = {asyncio.create_task(self.describe(address, deadline, attempts)): address for address in places}
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
            await cancelled(task for task in tasks if task in waiting)
        silent = {
            place: BrokerTimeout(place, deadline, "DescribeCluster") for task, place in tasks.items() if task in waiting
        }
        return views, faults | silent

    def _keep(self, brokers: Mapping[BrokerId, BrokerEntry]) -> None:
        self.known |= brokers
        for id in [id for id in self.known if id not in brokers][: len(self.known) - metadata.MOST_BROKERS]:
            del self.known[id]

    def _witnesses(self) -> list[Address]:
        """Who knew the newest, and in turn one of the others who knew about as much."""
        if not self.latest:
            return []
        best, *others = self._newest_first()
        enough = self.asking.applied_by(best.id) - NEARLY_NEWEST
        others = [
            entry
            for entry in others
            if self.asking.answers(entry) and not entry.fenced and self.asking.applied_by(entry.id) >= enough
        ]
        chosen = [best, others[self._turn % len(others)]] if others else [best]
        return [entry.address for entry in chosen]

    def _newest_first(self) -> list[BrokerEntry]:
        def rank(entry: BrokerEntry) -> tuple[bool, bool, int, int]:
            return not self.asking.answers(entry), entry.fenced, -self.asking.applied_by(entry.id), entry.id

        return sorted(self.latest.values(), key=rank)


def _nobody(faults: Mapping[Address, ClusterError], *, seen_before: bool) -> ClusterError:
    """Why nobody said who there is. Of a cluster seen before, an address may belong to another one's broker by now."""
    others = [fault for fault in faults.values() if isinstance(fault, ClusterIdMismatch)]
    if others and (not seen_before or len(others) == len(faults)):
        return others[0]
    return ClusterUnavailable.for_faults(faults)


async def cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """End them, and wait until they have."""
    for task in (tasks := list(tasks)):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
