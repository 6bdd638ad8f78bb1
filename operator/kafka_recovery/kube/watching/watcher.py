"""The task that watches one cluster: pulses at a steady pace, a scan when one is due, incidents when they are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Protocol

from kafka_recovery.cluster.not_let_in import not_let_in
from kafka_recovery.cluster.pulse import Pulse
from kafka_recovery.cluster.scan import Scan, UncleanTopics
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.kube.watching.incidents import Docket, Incident, Offline
from kafka_recovery.kube.watching.outages import Outage
from kafka_recovery.kube.watching.room import Used
from kafka_recovery.kube.watching.waits import NO_WAITS, Others
from kafka_recovery.kube.watching.watch import Watch, WatchedBroker
from kafka_recovery.recovery.ports import Clock

_LOG = logging.getLogger(__name__)

_RETRY = timedelta(seconds=1)
"""After an incident could not be opened, or the configs of topics not be read."""

_DOUBLINGS = 3
"""Of the interval, while a cluster can't be seen."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a cluster is looked at. A pulse of 3 brokers costs 5 ms and 3 kB, so four a second are nothing.

    `deadline`: for one pulse, in which far brokers want TCP, TLS and SASL done. `page_deadline`: for each page of a
    scan. `rescan`: the longest time between two scans; easy ones are made every few seconds.
    """

    interval: timedelta = timedelta(milliseconds=250)
    deadline: timedelta = timedelta(seconds=3)
    page_deadline: timedelta = timedelta(seconds=5)
    rescan: timedelta = timedelta(seconds=30)


class Sights(Protocol):
    """What a watcher sees of a cluster; `KafkaCluster` is one. All raise ClusterFault."""

    async def pulse(self, deadline: timedelta, *, ask_controller: bool = False) -> Pulse:
        """The cheap look."""
        ...

    async def scan(self, deadline: timedelta) -> Scan:
        """Every offline partition."""
        ...

    async def unclean_topics(self, topics: Sequence[str], deadline: timedelta) -> UncleanTopics:
        """Those in which Kafka elects uncleanly by itself."""
        ...


class NotOpened(Exception):
    """An incident has no recovery yet; the watcher tries again."""


class Desk(Protocol):
    """Whom a watcher reports to, and who knows what is wanted."""

    def policy(self) -> Policy | None:
        """The policy of now; None: observe only."""
        ...

    def open(self) -> Mapping[TopicPartition, str]:
        """Partitions in open recoveries of this cluster, by the recovery's name."""
        ...

    def used(self) -> Used:
        """How much room recoveries of this cluster's incidents take up."""
        ...

    def changed(self, view: WatchView) -> None:
        """Something is not as it was. Must neither raise nor take long."""
        ...

    async def open_incident(self, incident: Incident) -> None:
        """Make it a recovery; one of that name that exists already will do. Raises NotOpened."""
        ...


@dataclass(frozen=True, slots=True)
class WatchView:
    """A cluster as it is seen now. Times are the monotonic clock's; `at` is now.

    `pulsed_at`, `scanned_at`: the last of their kind that succeeded. `scan_fault`: why the last scan failed, if it did.
    `left`: offline partitions that no incident is opened for, and why. `unclean` None: not known yet.
    """

    at: timedelta
    cluster_id: str | None = None
    isolated: Reason | None = None
    brokers: tuple[WatchedBroker, ...] = ()
    offline: tuple[Offline, ...] = ()
    left: Mapping[TopicPartition, Reason] = field(default_factory=dict)
    partitions: int = 0
    topics: int = 0
    unclean: UncleanTopics | None = None
    scan_fault: Reason | None = None
    pulsed_at: timedelta | None = None
    scanned_at: timedelta | None = None


class Watcher:
    """One task a cluster. A hung or dead Kafka costs nobody else anything. `others`: who else is at work on it."""

    def __init__(
        self,
        name: str,
        sights: Sights,
        desk: Desk,
        clock: Clock,
        pace: Pace = Pace(),
        others: Others | None = None,
    ) -> None:
        self._sights = sights
        self._desk = desk
        self._clock = clock
        self._pace = pace
        self._others = others
        self._waits = NO_WAITS
        self._watch = Watch(name, pace.rescan)
        self._wake = asyncio.Event()
        self._topics: tuple[str, ...] | None = None
        self._next_at: timedelta | None = None
        self._unopened: str | None = None
        self.view = WatchView(clock.monotonic())

    async def run(self) -> None:
        """Until it is cancelled. Pulses go on while a long scan does."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pulses())
            tasks.create_task(self._scans())
            tasks.create_task(self._unclean_topics())

    def look_again(self) -> None:
        """The policy has changed, or what recoveries there are."""
        self._next_at = self._clock.monotonic()

    def wake(self) -> None:
        """Somebody says that there is something to see: go through all partitions within a second."""
        self._watch.doubted()

    def leave_alone(self, outages: Iterable[Outage], recovery: str) -> None:
        """This recovery has ended and left these as they are: no other one is opened for them."""
        self._watch.leave_alone(outages, recovery)
        self.look_again()

    def holding_back(self) -> frozenset[str]:
        """Recoveries that keep others from being opened."""
        return self._watch.holding_back()

    def forget(self, recovery: str) -> None:
        """That recovery was deleted: what it had may be opened again."""
        self._watch.forget(recovery)
        self.look_again()

    # Pulses

    async def _pulses(self) -> None:
        """At multiples of the interval; what a slow one missed is left out, never caught up with.

        A cluster that can't be seen is tried the less often: a wrong password is not for every quarter of a second.
        """
        began, failures = self._clock.monotonic(), 0
        while True:
            failures = 0 if await self._pulse() else min(failures + 1, _DOUBLINGS)
            interval = self._pace.interval * 2**failures
            elapsed = self._clock.monotonic() - began
            await self._clock.sleep((elapsed // interval + 1) * interval - elapsed)

    async def _pulse(self) -> bool:
        """Whether there was one."""
        doubt = self._watch.in_doubt(self._clock.monotonic())
        try:
            async with asyncio.timeout((3 * self._pace.deadline).total_seconds()):
                pulse = await self._sights.pulse(self._pace.deadline, ask_controller=doubt)
        except (ClusterFault, TimeoutError) as error:
            self._watch.failed(_reason(error), self._clock.monotonic())
            self._show(self.view)
            return False
        at = self._clock.monotonic()
        if self._watch.pulsed(pulse, at) or (self._next_at is not None and self._next_at <= at):
            self._wake.set()
        self._show(replace(self.view, pulsed_at=at))
        return True

    # Scans and incidents

    async def _scans(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._watch.scan_due(self._clock.monotonic()):
                await self._scan()
            docket = await self._docket()
            if not docket.incidents and self._watch.scan_due(self._clock.monotonic()):
                await self._scan()  # something is due, and the last scan was too old for it
                docket = await self._docket()
            await self._open(docket)

    async def _scan(self) -> None:
        began = self._clock.monotonic()
        self._watch.scanning(began)
        try:
            found = await self._sights.scan(self._pace.page_deadline)
        except ClusterFault as fault:
            self._watch.scan_failed(self._clock.monotonic())
            self._show(replace(self.view, scan_fault=fault.reason))
            return
        at = self._clock.monotonic()
        self._watch.scanned(found.offline, at)
        self._topics = found.topics
        self._show(
            replace(
                self.view,
                offline=tuple(self._watch.offline.values()),
                topics=len(found.topics),
                partitions=found.partitions,
                scan_fault=None,
                scanned_at=at,
            )
        )

    async def _docket(self) -> Docket:
        await self._look_at_others()
        now = self._clock.monotonic()
        docket = self._watch.incidents(self._desk.policy(), self._desk.open(), now, self._waits, self._desk.used())
        self._next_at = docket.next_at
        self._show(replace(self.view, left=docket.left))
        return docket

    async def _look_at_others(self) -> None:
        """Whom to wait for. Asked only when something is due: what they did earlier does not count."""
        if self._others is None:
            return
        due = self._watch.due(self._desk.policy(), self._desk.open(), self._clock.monotonic())
        waits = await self._others.at_work() if due else NO_WAITS
        if self._waits not in (NO_WAITS, waits):
            self._watch.waits_ended()
        self._waits = waits

    async def _open(self, docket: Docket) -> None:
        for incident in docket.incidents:
            try:
                await self._desk.open_incident(incident)
            except NotOpened as why:
                level = logging.DEBUG if incident.name == self._unopened else logging.WARNING
                _LOG.log(level, "incident %s could not be opened, is tried again every second: %s", incident.name, why)
                self._unopened = incident.name
                self._next_at = self._clock.monotonic() + _RETRY
            else:
                self._unopened = None
                self._watch.opened(incident)
                self._next_at = self._clock.monotonic()  # what is left alone is told anew

    async def _unclean_topics(self) -> None:
        """Now and then: these are settings, nothing hangs on seeing them change at once."""
        while True:
            if self._topics is None or self._watch.isolated is not None:
                await self._clock.sleep(_RETRY)
                continue
            try:
                found = await self._sights.unclean_topics(self._topics, self._pace.page_deadline)
            except ClusterFault as fault:
                _LOG.info("the configs of topics can't be read: %s", fault)
                await self._clock.sleep(_RETRY)
                continue
            self._show(replace(self.view, unclean=found))
            await self._clock.sleep(self._pace.rescan)

    def _show(self, view: WatchView) -> None:
        """Keep the view of now, and tell it if anything but times is new."""
        watch, before = self._watch, self.view
        self.view = replace(
            view,
            at=self._clock.monotonic(),
            cluster_id=watch.cluster_id,
            isolated=watch.isolated,
            brokers=tuple(watch.brokers.values()),
        )
        if _told(self.view) != _told(before):
            self._desk.changed(self.view)


def _told(view: WatchView) -> WatchView:
    """The view without what changes with every look."""
    isolated = view.isolated and Reason(view.isolated.code, "")
    return replace(view, at=timedelta(0), isolated=isolated, pulsed_at=None, scanned_at=None)


def _reason(error: ClusterFault | TimeoutError) -> Reason:
    if (code := not_let_in(error)) is not None:
        return Reason(code, str(error))
    return error.reason if isinstance(error, ClusterFault) else Reason("InternalError", "the pulse has no end")
