"""Where the processes of brokers lived: in which Pod, on which boot of its node, with which volumes. Pure.

A process that is killed loses nothing that it had written: the kernel keeps it (page cache), as long as its host is not
booted anew and its volumes stay. Kubernetes starts a container again in the same Pod, on the same node, with the same
volumes; a Pod's uid and a boot's id never come back. So a start in the same Pod and on the same boot found what the
process before it had.

Which process lived where is concluded from looks, one after the other. In each look the Pod and its node are read
first, and the metadata log is read to its end after that. A process counts as one that lived in a Pod only if, for
`SETTLED` at least, every look showed the same: it is the broker's newest registration and not fenced, by one and the
same controller that goes on writing; one Pod says that it is this broker; one container of it runs and is Ready.

- It began before the second look: its registration was read before that. Time counts from there.
- It was alive after the second look: nobody stays unfenced for so long without heartbeats.
- Meanwhile the node's kubelet wrote the node's status, on the same boot as before: a process that was alive then lived
  on that boot from its beginning to its end.

That it is the process of that Pod, and of no other, is assumed: processes of one broker id run in that Pod only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from kafka_recovery.cluster.metadata_log.unfenced import Alive
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.history import BrokerStart, PartitionHistory
from kafka_recovery.domain.ids import BrokerEpoch, BrokerId, MetadataOffset

SETTLED = timedelta(minutes=5)
"""Far longer than a session (broker.session.timeout.ms, 9 s by default) and the wait of a broker that may not register
because another process of its id is alive (initial.broker.registration.timeout.ms, 60 s)."""

LONGEST_GAP = timedelta(minutes=2)
"""Between two looks. Who was not looked at for longer is looked at from the beginning."""

MOST_KEPT = 100
"""Starts of one broker that are remembered: a history tells of no more."""


@dataclass(frozen=True, slots=True)
class Home:
    """The only Pod that says it is this broker, while its container runs and is Ready, and the node it is on.

    `container`: the id of the running container; `volumes`: the ids of the volumes that the logs are on; `boot`: the
    node's boot id. `status_at`: when the node's kubelet says that it last wrote the node's status: only compared.
    """

    pod: str
    container: str
    volumes: str
    boot: str
    status_at: str

    @property
    def residence(self) -> Residence:
        """What it shares with every process of the same Pod on the same boot."""
        return Residence(self.volumes, f"{self.boot} in Pod {self.pod}")


@dataclass(frozen=True, slots=True)
class Residence:
    """`volume` and `boot` of a BrokerStart, as Kubernetes tells them."""

    volume: str
    boot: str


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Looks that all show the same. `counted`: when the second one began, None after the first."""

    epoch: BrokerEpoch
    home: Home
    quorum_epoch: int
    as_of: MetadataOffset
    last: timedelta
    counted: timedelta | None = None


@dataclass(slots=True)
class Residences:
    """What looks have shown so far. `known`: where each process lived that is proven to have lived anywhere."""

    known: dict[BrokerId, dict[BrokerEpoch, Residence]] = field(default_factory=dict)
    _stretches: dict[BrokerId, _Stretch] = field(default_factory=dict)

    def learn(self, homes: Mapping[BrokerId, Home], alive: Alive, at: timedelta) -> None:
        """One look. `homes` were read after the monotonic time `at`, and `alive` after `homes`.

        Whoever is in neither of them begins from the start when seen again.
        """
        seen = {
            id: _Stretch(epoch, homes[id], alive.quorum_epoch, alive.as_of, at)
            for id, epoch in alive.brokers.items()
            if id in homes
        }
        self._stretches = {id: _goes_on(self._stretches.get(id), now) for id, now in seen.items()}
        for id, stretch in self._stretches.items():
            if _is_settled(stretch, seen[id]):
                kept = {**self.known.get(id, {}), stretch.epoch: stretch.home.residence}
                self.known[id] = dict(sorted(kept.items())[-MOST_KEPT:])

    def forget(self) -> None:
        """A look showed nothing: what was seen before it is no part of a stretch any more."""
        self._stretches.clear()


def _goes_on(before: _Stretch | None, now: _Stretch) -> _Stretch:
    """The stretch with this look, or a new one where it shows anything else."""
    if before is None or not _same(before, now):
        return now
    if before.counted is None:
        return replace(now, counted=now.last)
    return replace(before, as_of=now.as_of, last=now.last)


def _same(before: _Stretch, now: _Stretch) -> bool:
    homes = replace(before.home, status_at="") == replace(now.home, status_at="")
    process = (before.epoch, before.quorum_epoch) == (now.epoch, now.quorum_epoch)
    goes_on = now.as_of > before.as_of and timedelta(0) <= now.last - before.last <= LONGEST_GAP
    return homes and process and goes_on


def _is_settled(stretch: _Stretch, now: _Stretch) -> bool:
    """Whether it has lasted, and the kubelet has written since its second look."""
    if stretch.counted is None or now.last - stretch.counted < SETTLED:
        return False
    return now.home.status_at != stretch.home.status_at


def with_residences(evidence: Evidence, known: Mapping[BrokerId, Mapping[BrokerEpoch, Residence]]) -> Evidence:
    """The same evidence, its starts with what is known of where they were."""
    return replace(evidence, partitions=tuple(_told(partition, known) for partition in evidence.partitions))


def _told(partition: PartitionEvidence, known: Mapping[BrokerId, Mapping[BrokerEpoch, Residence]]) -> PartitionEvidence:
    history = partition.history
    if history is None or not any(start.broker in known for start in history.starts):
        return partition
    return replace(partition, history=_of_history(history, known))


def _of_history(
    history: PartitionHistory, known: Mapping[BrokerId, Mapping[BrokerEpoch, Residence]]
) -> PartitionHistory:
    epochs = sorted(start.epoch for start in history.starts)  # an epoch is an offset: no two brokers have one in common
    told = {id: _filled(epochs, known[id]) for id in known}
    starts = tuple(_at(start, told.get(start.broker, {}).get(start.epoch)) for start in history.starts)
    return replace(history, starts=starts)


def _filled(epochs: Sequence[BrokerEpoch], known: Mapping[BrokerEpoch, Residence]) -> Mapping[BrokerEpoch, Residence]:
    """Also processes that lived too short to be seen: between two of the same Pod on the same boot, there was no other.

    Neither a Pod nor a boot comes back.
    """
    found: dict[BrokerEpoch, Residence] = {epoch: known[epoch] for epoch in epochs if epoch in known}
    for earlier, later in zip(list(found), list(found)[1:], strict=False):
        if found[earlier] == found[later]:
            found |= {epoch: found[earlier] for epoch in epochs if earlier < epoch < later}
    return found


def _at(start: BrokerStart, residence: Residence | None) -> BrokerStart:
    if residence is None:
        return start
    return replace(start, volume=residence.volume, boot=residence.boot)
