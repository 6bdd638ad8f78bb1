"""What the cluster said about itself: who answered, when, under which epoch, and what stayed unknown.

`None` always means *unknown*, never "no": an unanswered replica is not an empty one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from kafka_recovery.domain.attestation import Attestation
from kafka_recovery.domain.history import PartitionHistory
from kafka_recovery.domain.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    MetadataOffset,
    Offset,
    TopicId,
    TopicPartition,
)
from kafka_recovery.domain.log_directories import BrokerDirectories
from kafka_recovery.domain.pods import BrokerPod
from kafka_recovery.domain.reason import Reason

NO_EPOCH = LeaderEpoch(-1)
"""The last epoch of a log that never held a record; below every real epoch (KIP-101)."""


class EpochEntry(NamedTuple):
    """Leader epoch `epoch` begins at offset `start` and lasts to the next entry's start or the log end."""

    epoch: LeaderEpoch
    start: Offset


EpochVector = tuple[EpochEntry, ...]
"""A replica's leader-epoch vector, oldest first (KAFKA-1211's leader generation vector; KIP-101's epoch cache)."""


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """What one broker said about its copy of a partition, and when.

    `end` is the log end offset; never the high watermark, which is stale or 0 after a crash.
    `epochs` may end in an entry without records: a fresh leader has one at once. None: it could not be read.
    `answered_under` is the current leader epoch the broker accepted the question under; None: it did not, so it may
    still follow an older leader.
    `local_start`: where it begins on the broker's own disk (KIP-405), from `start` to `end`; None: not known, or the
    topic is not tiered.
    `almost_full`: whether its volume is known to have almost no room left.
    """

    start: Offset
    end: Offset
    epochs: EpochVector | None
    high_watermark: Offset | None
    answered_under: LeaderEpoch | None
    observed_at: datetime
    took: timedelta
    local_start: Offset | None = None
    almost_full: bool = False

    @property
    def last_epoch(self) -> LeaderEpoch | None:
        """Epoch of the last record; NO_EPOCH for a log that never held one; None if the vector is unknown.

        Where retention removed every record, the first entry's epoch: what was removed was written under it or before.
        """
        epochs, end = self.epochs, self.end
        if epochs is None:
            return None
        if epochs:
            epoch, start = epochs[-1]
            if start < end:  # usual: only a fresh leader has an entry without records
                return epoch
        for epoch, start in reversed(epochs):
            if start < end:
                return epoch
        return epochs[0].epoch if epochs and end > 0 else NO_EPOCH


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of a partition: its log if it was measured, the problem if something was not.

    `leads`: the broker answered a consumer's question as this partition's leader, whatever the controller says.
    """

    broker: BrokerId
    log: ReplicaLog | None
    problem: Reason | None = None
    leads: bool = False


@dataclass(frozen=True, slots=True)
class MinInsyncReplicas:
    """The effective `min.insync.replicas` and where it is set (Kafka's config source name)."""

    value: int
    source: str


@dataclass(frozen=True, slots=True)
class Reassignment:
    """An ongoing reassignment of one partition."""

    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class WitnessedEnd:
    """Proof that the log once reached at least `end`: a consumer group's commit, or a watcher's last look."""

    source: str
    end: Offset


@dataclass(frozen=True, slots=True)
class PartitionEvidence:
    """One partition as the controller's metadata shows it, and each of its replicas as its own broker does.

    `replicas` stand in assignment order. `elr` and `last_known_elr` are None where the release or the feature level has
    no ELR (KIP-966). `reassignment_known` is False when the controller did not say whether one is going on.
    `configs_problem`: why the topic's configs (`min_isr`, `unclean_election_enabled`, `tiered`) could not be read.
    `history` None: nobody has watched the metadata log since all replicas were in sync.
    `offline_since`: it has had no leader since then at the latest, by the clock of a controller or of the operator that
    watched; nothing is decided by it. None: it has one, or no clock tells what can be so.
    """

    id: TopicPartition
    topic_id: TopicId
    internal: bool
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...] | None
    last_known_elr: tuple[BrokerId, ...] | None
    replicas: tuple[Replica, ...]
    reassignment: Reassignment | None = None
    reassignment_known: bool = True
    min_isr: MinInsyncReplicas | None = None
    unclean_election_enabled: bool | None = None
    tiered: bool | None = None
    witnessed_ends: tuple[WitnessedEnd, ...] = ()
    history: PartitionHistory | None = None
    configs_problem: Reason | None = None
    offline_since: datetime | None = None

    @property
    def assignment(self) -> tuple[BrokerId, ...]:
        """Broker ids in assignment order."""
        return tuple([replica.broker for replica in self.replicas])

    def replica(self, broker: BrokerId | None) -> Replica | None:
        """The broker's replica, or None if it has none."""
        for replica in self.replicas:
            if replica.broker == broker:
                return replica
        return None

    @property
    def clean_members(self) -> frozenset[BrokerId]:
        """Brokers whose return would be a clean election: ISR and ELR members."""
        return frozenset(self.isr).union(self.elr or ())

    @property
    def may_be_tiered(self) -> bool:
        """Whether it has a remote tier (KIP-405), or nobody could read whether it has one."""
        return self.configs_problem is not None if self.tiered is None else self.tiered

    @property
    def last_known_leader(self) -> BrokerId | None:
        """Whom the controller elects by itself, uncleanly, because nobody is left in ISR and ELR (KIP-966)."""
        known = self.last_known_elr or ()
        return known[0] if len(known) == 1 and not self.isr and not self.elr else None


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker as seen by the controller's metadata and by us.

    `registered` None: this release does not list fenced brokers, so an absent one may be either (before Kafka 4.0).
    `stopping` None: not visible to a client. `reachable`: it answered us during this gather.
    `metadata_advances`: it applied in time what the controller had committed, or, where that is not known, anything at
    all; False means that it is late, cut off from the controller, or that there is none; None: it was not asked twice.
    `epoch`: the one it told its replicas' logs under; None: it did not say (no release tells it).
    """

    id: BrokerId
    host: str | None
    port: int | None
    rack: str | None
    registered: bool | None
    fenced: bool
    stopping: bool | None
    reachable: bool
    metadata_offset: int | None
    metadata_advances: bool | None
    problem: Reason | None = None
    epoch: BrokerEpoch | None = None


BETWEEN_RELEASES = ", "
"""What stands between several releases in `ClusterState.release`."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The cluster as a whole. `view_from` is the broker whose metadata was read.

    `release` of Kafka, as the brokers that answered tell it; while they run several, all of them, oldest first, as in
    `4.0, 4.1`. Brokers tell no patch level, and controllers are not asked. None: nobody told.

    `designated_elections`: an election's request can name the leader here (KIP-1275), and is to, so that no assignment
    order has to be altered.
    `as_of`: the partitions' metadata are at least this new; it was read before they were. None: the broker did not say.
    `committed`: what the active controller said to have committed; None: it did not say, or there is none.
    `history_problem`: why the controllers' metadata log told no history; None: it did, or was not asked for.
    `attestations`: what a person said of brokers before this look; each that does not count in it says why.
    `pods`: of brokers that hold a copy and did not answer, as Kubernetes has them; nothing is decided by them.
    `pods_problem`: why they could not be seen; None: they were, or nobody can know which Pods are the brokers'.
    `log_directories`: of brokers that hold a copy and answered; of whom one has a `problem`, a person is asked.
    """

    cluster_id: str
    release: str | None
    features: tuple[tuple[str, int], ...]
    elr_enabled: bool | None
    view_from: BrokerId
    brokers: tuple[Broker, ...]
    observed_at: datetime
    took: timedelta
    designated_elections: bool = False
    as_of: MetadataOffset | None = None
    committed: MetadataOffset | None = None
    history_problem: Reason | None = None
    attestations: tuple[Attestation, ...] = ()
    pods: tuple[BrokerPod, ...] = ()
    pods_problem: Reason | None = None
    log_directories: tuple[BrokerDirectories, ...] = ()

    @property
    def releases(self) -> tuple[str, ...]:
        """Each of those that `release` holds."""
        return tuple(self.release.split(BETWEEN_RELEASES)) if self.release else ()

    @property
    def lists_fenced(self) -> bool:
        """Whether a broker that is not listed is not registered either; before Kafka 4.0 it may be fenced only."""
        return self.release is not None and not self.release.startswith("3.")  # the oldest of several

    def broker(self, broker: BrokerId) -> Broker | None:
        """The broker's entry, or None for one the cluster does not know."""
        return next((b for b in self.brokers if b.id == broker), None)


@dataclass(frozen=True, slots=True)
class MissingPartition:
    """A partition that was asked for and can't be looked at: unknown, or hidden by a missing ACL."""

    id: TopicPartition
    reason: Reason


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that one gather saw: the only input of a decision besides the policy. Partitions are sorted by id."""

    cluster: ClusterState
    partitions: tuple[PartitionEvidence, ...]
    missing: tuple[MissingPartition, ...] = ()
