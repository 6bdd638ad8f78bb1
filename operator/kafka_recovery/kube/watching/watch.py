"""What is known of one cluster from pulses and scans: brokers, outages, and whether to trust our own eyes. Pure.

No clock of its own: `at` is always the caller's monotonic time, and never goes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from kafka_recovery.cluster.pulse import BrokerPulse, Pulse
from kafka_recovery.cluster.scan import OfflinePartition
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.watching.incidents import Docket, Incident, Names, Offline, docket
from kafka_recovery.kube.watching.outages import Outage
from kafka_recovery.kube.watching.room import NOTHING, Used
from kafka_recovery.kube.watching.waits import NO_WAITS, Waits

STANDSTILL = timedelta(milliseconds=1500)
"""A broker applies metadata twice a second, if only no-ops (metadata.max.idle.interval.ms, KIP-835); when none has for
so long, the controller is gone or all whom we reach are cut off from it."""

DOUBT = timedelta(seconds=1)
"""From then on the controller is asked what it has committed: where no-ops are switched off, nothing moves."""

DISAGREEMENT = timedelta(seconds=2)
"""Brokers learn the same news within half a second of each other."""

SETTLING = timedelta(seconds=1)
"""After a change every partition is looked at again so often, until two looks in a row show the same."""

OFTEN = timedelta(seconds=5)
"""Without any change every partition is looked at so often: a log directory that fails leaves no trace in a pulse."""

EASY = 200
"""But only if a scan takes no more than this part of that time; a longer one is made the less often."""

FRESH = timedelta(seconds=1)
"""An incident is opened from a scan no older than this: its partitions may have come back in the meantime."""

GONE = timedelta(minutes=1)
"""An outage that no scan has shown for so long is over. Sooner it may have been a broker that is behind who was asked:
it still shows the leader from before."""

MOST_BROKERS = 1000
"""Brokers that are remembered; beyond that those that were unregistered first are forgotten."""


class BrokerState(StrEnum):
    """A broker as the controller and we see it."""

    ONLINE = "Online"
    FENCED = "Fenced"
    UNREACHABLE = "Unreachable"
    """The controller counts it as alive, and it does not answer us."""
    UNREGISTERED = "Unregistered"
    """It was known once. Kafka before 4.0 does not tell it from a fenced one, which is what it is called then."""


@dataclass(frozen=True, slots=True)
class WatchedBroker:
    """One broker and since when it is in this state.

    `incarnation`: how many times it was seen to come back as another process: after its connection was refused or cut,
    it was unregistered, or its address changed. One that was only frozen is the same. Nothing tells a client more:
    broker epochs stand in the metadata log alone.
    """

    id: BrokerId
    state: BrokerState
    since: timedelta
    incarnation: int = 0
    problem: Reason | None = None


@dataclass(slots=True)
class _Sighting:
    """What is remembered of a broker besides what it shows. `refused`: whoever comes back is another process."""

    told: BrokerPulse
    reachable: bool = True
    refused: bool = False


@dataclass(slots=True)
class _Scans:
    """When to look at every partition. `wanted`: something changed, or an incident is due and the last look is old.

    `rescan`: the longest time between two looks.
    """

    rescan: timedelta
    wanted: bool = True
    quiet: bool = False
    began: timedelta | None = None
    ended: timedelta | None = None
    retry_at: timedelta = timedelta(0)

    def due(self, at: timedelta) -> bool:
        if at < self.retry_at:
            return False
        if self.wanted or self.began is None or self.ended is None:
            return True
        pause = min(self.rescan, max(OFTEN, EASY * (self.ended - self.began))) if self.quiet else SETTLING
        return at >= self.ended + pause

    def end(self, at: timedelta, same: bool) -> None:
        """`same`: this scan found what the one before it had found."""
        apart = self.began is not None and self.ended is not None and self.began >= self.ended + SETTLING
        self.quiet, self.ended = same and apart and not self.wanted, at

    def fresh(self, at: timedelta) -> bool:
        return self.ended is not None and at <= self.ended + FRESH


class Watch:
    """One cluster, watched. Feed it pulses and scans; ask it what is due.

    `isolated`: why nothing may be done by what we see, ourselves being the suspect; None: it is to be trusted.
    """

    def __init__(self, name: str, rescan: timedelta = timedelta(seconds=30)) -> None:
        self.cluster_id: str | None = None
        self.isolated: Reason | None = None
        self.brokers: dict[BrokerId, WatchedBroker] = {}
        self.offline: Mapping[Outage, Offline] = {}
        self._name = name
        self._scans = _Scans(rescan)
        self._sightings: dict[BrokerId, _Sighting] = {}
        self._opened: dict[Outage, str] = {}
        self._unseen: dict[Outage, timedelta] = {}
        self._moved_at: timedelta | None = None
        self._disagreed_since: timedelta | None = None

    # Pulses

    def pulsed(self, pulse: Pulse, at: timedelta) -> bool:
        """Take a pulse in; returns whether a full scan is due."""
        self.cluster_id = pulse.cluster_id
        self._note_movement(pulse, at)
        before = self._picture()
        self._note_brokers(pulse, at)
        blind = self.isolated is not None
        self.isolated = self._suspicion(pulse, at)
        if self._picture() != before or (blind and self.isolated is None):
            self._changed()
        return self.scan_due(at)

    def failed(self, fault: Reason, at: timedelta) -> None:
        """There was no pulse: nobody answers us. What was offline stays so until it is seen to be otherwise."""
        self.isolated = fault
        self._disagreed_since = None
        for id, broker in self.brokers.items():
            self._sightings[id].reachable = False
            if broker.state is BrokerState.ONLINE:
                self.brokers[id] = _turned(broker, BrokerState.UNREACHABLE, None, at)

    def in_doubt(self, at: timedelta) -> bool:
        """Whether the next pulse should ask the controller itself."""
        return self._moved_at is not None and at - self._moved_at >= DOUBT

    def _picture(self) -> Mapping[BrokerId, tuple[BrokerState, int]]:
        return {id: (broker.state, broker.incarnation) for id, broker in self.brokers.items()}

    def _changed(self) -> None:
        self._scans.wanted, self._scans.quiet = True, False

    def _note_movement(self, pulse: Pulse, at: timedelta) -> None:
        """Whether any broker has applied something since we asked it last, or had nothing to apply."""
        known = {id: sighting.told.applied for id, sighting in self._sightings.items()}
        newest = max((told.applied for told in pulse.brokers.values() if told.applied is not None), default=None)
        moved = any(
            told.reachable and told.applied is not None and told.applied > (known.get(id) or -1)
            for id, told in pulse.brokers.items()
        )
        idle = newest is not None and isinstance(pulse.committed, int) and newest >= pulse.committed - 1
        if moved or idle or self._moved_at is None:
            self._moved_at = at

    def _note_brokers(self, pulse: Pulse, at: timedelta) -> None:
        brokers: dict[BrokerId, WatchedBroker] = {}
        for id, told in pulse.brokers.items():
            brokers[id] = self._seen(id, told, at)
        for id, broker in self.brokers.items():
            if id not in pulse.brokers:
                gone = BrokerState.UNREGISTERED if pulse.lists_fenced else BrokerState.FENCED
                brokers[id] = _turned(broker, gone, None, at)
                self._sightings[id].refused |= pulse.lists_fenced
        for id in _beyond(brokers.values()):
            del brokers[id], self._sightings[id]
        self.brokers = dict(sorted(brokers.items()))

    def _seen(self, id: BrokerId, told: BrokerPulse, at: timedelta) -> WatchedBroker:
        sighting = self._sightings.setdefault(id, _Sighting(told))
        moved = sighting.told.entry.address != told.entry.address
        sighting.told = told
        sighting.refused |= told.refused or moved
        if told.reachable is not None:
            sighting.reachable = told.reachable
        state = _state(told, sighting.reachable)
        known = self.brokers.get(id) or WatchedBroker(id, state, at)
        if sighting.refused and told.reachable and state is BrokerState.ONLINE:
            sighting.refused = False
            known = replace(known, incarnation=known.incarnation + 1)
        return _turned(known, state, known.problem if told.reachable is None else told.fault, at)

    def _suspicion(self, pulse: Pulse, at: timedelta) -> Reason | None:
        """The first reason not to trust what we see."""
        if pulse.disagreement is None:
            self._disagreed_since = None
        elif self._disagreed_since is None:
            self._disagreed_since = at
        return self._cut_off() or self._standing_still(pulse, at) or self._disagreeing(pulse, at)

    def _cut_off(self) -> Reason | None:
        alive = [broker for broker in self.brokers.values() if broker.state in _ALIVE]
        silent = [broker.id for broker in alive if broker.state is BrokerState.UNREACHABLE]
        if len(silent) * 2 > len(alive):
            message = f"the controller counts {len(alive)} brokers as alive, {len(silent)} of them do not answer"
            return Reason(
                "OperatorCutOff", f"{message} ({_some(silent)}): rather the operator's own way to them is cut"
            )
        return None

    def _standing_still(self, pulse: Pulse, at: timedelta) -> Reason | None:
        still = timedelta(0) if self._moved_at is None else at - self._moved_at
        if still < STANDSTILL:
            return None
        message = f"no broker that answers has applied metadata for {still.total_seconds():.1f}s"
        why = f" ({pulse.committed.message})" if isinstance(pulse.committed, Reason) else ""
        return Reason("NoActiveController", f"{message}: they are cut off from the controller, or it is gone{why}")

    def _disagreeing(self, pulse: Pulse, at: timedelta) -> Reason | None:
        since = self._disagreed_since
        return pulse.disagreement if since is not None and at - since >= DISAGREEMENT else None

    # Scans

    def doubted(self) -> None:
        """Somebody says that it is not as we saw it last: it is looked at now, unless that was a moment ago."""
        self._scans.quiet = False

    def scan_due(self, at: timedelta) -> bool:
        """Whether to go through all partitions now. Never while isolated: it would show what is not so."""
        return self.isolated is None and self._scans.due(at)

    def scanning(self, at: timedelta) -> None:
        """A scan begins."""
        self._scans.began, self._scans.wanted = at, False

    def scanned(self, found: Iterable[OfflinePartition], at: timedelta) -> None:
        """A scan ended. Who is not in `found` has a leader, or is gone; another leader epoch is another outage."""
        partitions = {Outage.of(partition): partition for partition in found}
        known, same = self.offline, partitions.keys() == self.offline.keys()
        self.offline = {
            outage: Offline(partition, known[outage].since if outage in known else at)
            for outage, partition in partitions.items()
        }
        self._unseen = {outage: self._unseen.get(outage, at) for outage in self._opened if outage not in partitions}
        for outage, since in self._unseen.items():
            if at - since >= GONE:
                del self._opened[outage]
        self._scans.end(at, same)

    def scan_failed(self, at: timedelta) -> None:
        """A scan did not come to its end: its picture is worth nothing."""
        self._scans.wanted, self._scans.retry_at = True, at + SETTLING

    # Incidents

    def due(self, policy: Policy | None, open: Mapping[TopicPartition, str], at: timedelta) -> bool:
        """Whether an incident would be opened now, if there were nobody else to wait for."""
        if self.cluster_id is None or self.isolated is not None:
            return False
        names = Names(self._name, self.cluster_id)
        return bool(docket(self.offline.values(), policy, open, self._opened, names, at).incidents)

    def waits_ended(self) -> None:
        """Somebody else is done: what was offline before that may be back, and is looked at again first."""
        self._scans.ended = None

    def incidents(
        self,
        policy: Policy | None,
        open: Mapping[TopicPartition, str],
        at: timedelta,
        waits: Waits = NO_WAITS,
        used: Used = NOTHING,
    ) -> Docket:
        """What is to be opened now. Nothing is opened from an old scan: then a new one is due instead.

        `open`: partitions in open recoveries, by the recovery's name. `waits`: what others do to the cluster. `used`:
        room that recoveries of earlier incidents take up.
        """
        if self.cluster_id is None:
            return Docket()
        names = Names(self._name, self.cluster_id)
        found = docket(self.offline.values(), policy, open, self._opened, names, at, waits, used)
        if not found.incidents:
            return found
        if self.isolated is not None:
            held = {each.id: self.isolated for incident in found.incidents for each in incident.partitions}
            return Docket((), None, {**found.left, **held})
        if not self._scans.fresh(at):
            self._scans.wanted = True
            looking = Reason("ScanPending", "it is due; whether it is offline still is looked at first")
            held = {each.id: looking for incident in found.incidents for each in incident.partitions}
            return Docket((), at, {**found.left, **held})
        return found

    def opened(self, incident: Incident) -> None:
        """There is a recovery for these outages; they get no other one, even after it has ended."""
        self.leave_alone(map(Outage.of, incident.partitions), incident.name)

    def leave_alone(self, outages: Iterable[Outage], recovery: str) -> None:
        """This recovery had these outages, whoever opened it; another one is for a person to open."""
        self._opened |= dict.fromkeys(outages, recovery)

    def holding_back(self) -> frozenset[str]:
        """Recoveries that keep others from being opened."""
        return frozenset(self._opened.values())

    def forget(self, name: str) -> None:
        """This recovery was deleted: what it had may be opened again."""
        self._opened = {outage: opened for outage, opened in self._opened.items() if opened != name}


_ALIVE = frozenset({BrokerState.ONLINE, BrokerState.UNREACHABLE})


def _state(told: BrokerPulse, reachable: bool) -> BrokerState:
    if told.entry.fenced:
        return BrokerState.FENCED
    return BrokerState.ONLINE if reachable else BrokerState.UNREACHABLE


def _turned(broker: WatchedBroker, state: BrokerState, problem: Reason | None, at: timedelta) -> WatchedBroker:
    if broker.state is state and broker.problem == problem:
        return broker
    since = broker.since if broker.state is state else at
    return replace(broker, state=state, since=since, problem=problem)


def _beyond(brokers: Iterable[WatchedBroker]) -> list[BrokerId]:
    """Whom to forget, so that no more than so many are remembered."""
    known = list(brokers)
    gone = sorted((b for b in known if b.state is BrokerState.UNREGISTERED), key=lambda b: (b.since, b.id))
    return [broker.id for broker in gone[: max(0, len(known) - MOST_BROKERS)]]


def _some(brokers: list[BrokerId]) -> str:
    shown = ", ".join(map(str, brokers[:5]))
    return shown if len(brokers) <= 5 else f"{shown} and {len(brokers) - 5} more"
