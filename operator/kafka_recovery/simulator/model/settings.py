"""How fast, how long and how many: the configuration of a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class IsrRpc(Enum):
    """How leaders ask for another ISR."""

    ALTER_PARTITION_V1 = 1
    """Refusals of ineligible replicas are OPERATION_NOT_ATTEMPTED (KIP-841's compatibility)."""
    ALTER_PARTITION_V2 = 2
    """INELIGIBLE_REPLICA."""
    ALTER_PARTITION_V3 = 3
    """With broker epochs (KIP-903)."""
    ISR_CHANGE = 343
    """KIP-343's IsrChangeRequest, with incarnation ids."""


_METADATA_LEVELS = {"3.9": 21, "4.0": 25, "4.1": 27, "4.2": 29, "4.3": 30, "4.4": 33}


def metadata_level(release: str) -> int:
    """The highest metadata.version of a release of Kafka, which a new cluster begins with; of others that of 4.4."""
    return _METADATA_LEVELS.get(release, _METADATA_LEVELS["4.4"])


@dataclass(frozen=True, slots=True)
class Settings:
    """Times in seconds, Kafka's key in brackets; defaults are a real test cluster's, faster than production.

    elr: KIP-966 on (`eligible.leader.replicas.version` = 1). release: what ApiVersions implies.
    fenced_listed: DescribeCluster lists fenced brokers (4.0+).
    fetch_max_wait [replica.fetch.wait.max.ms]; lag_max [replica.lag.time.max.ms]: out of the ISR after;
    fetch_timeout [replica.socket.timeout.ms]; fetch_backoff [replica.fetch.backoff.ms].
    session [broker.session.timeout.ms, KIP-343 controller.heartbeat.timeout.ms]: fenced after so long a silence;
    self_fencing [KIP-343 broker.heartbeat.timeout.ms]: longer, a broker fences itself after.
    no_op [metadata.max.idle.interval.ms]: the metadata log moves at least so often.
    linger [controller.quorum.append.linger.ms]: what is written meanwhile reaches the brokers together.
    forwarding: how long a broker goes on forwarding a request to the controller; forward_timeout
    [controller.socket.timeout.ms]: it sends again what was not answered for so long.
    writeback: what was appended so long ago is on disk even without a flush.
    watermark_checkpoint [replica.high.watermark.checkpoint.interval.ms].
    startup: from start to open port, without recovery; recovery: more for each replica after an unclean stop.
    leading: a new leader needs so long for each partition, one after the other (two fsyncs).
    preferred_check [leader.imbalance.check.interval.seconds]: None is off.
    unclean_check: how often the controller elects by itself where unclean.leader.election.enable is set.
    vector_limit: generations kept in a leader-epoch vector (KAFKA-1211); None keeps all.
    metadata_version [metadata.version]: what brokers may say to each other; from 3.5 on followers name their broker
    epoch (Fetch v15).
    leaders_moved: a stopping broker hands over so many leaderships with each heartbeat (KIP-343); None: all at once.
    Raises ValueError for times that contradict each other.
    """

    elr: bool = True
    release: str = "4.1"
    fenced_listed: bool = True
    isr_rpc: IsrRpc = IsrRpc.ALTER_PARTITION_V3
    delay: float = 0.001
    jitter: float = 0.002
    fetch_max_wait: float = 0.5
    fetch_timeout: float = 5.0
    fetch_backoff: float = 1.0
    fetch_records: int = 10_000
    lag_max: float = 10.0
    heartbeat: float = 1.0
    session: float = 3.0
    self_fencing: float = 4.5
    registration_retry: float = 0.5
    no_op: float = 0.5
    linger: float = 0.002
    forwarding: float = 60.0
    forward_retry: float = 1.0
    forward_timeout: float = 30.0
    controller_election: float = 1.5
    writeback: float = 5.0
    watermark_checkpoint: float = 5.0
    startup: float = 1.0
    recovery: float = 0.01
    leading: float = 0.005
    preferred_check: float | None = 300.0
    unclean_check: float = 300.0
    vector_limit: int | None = None
    metadata_version: tuple[int, int] = (4, 1)
    leaders_moved: int | None = None

    def __post_init__(self) -> None:
        for shorter, longer, why in _IN_ORDER:
            less, more = getattr(self, shorter), getattr(self, longer)
            if not less < more:
                raise ValueError(f"{longer} ({more:g} s) must be longer than {shorter} ({less:g} s): {why}")
        if self.vector_limit is not None and self.vector_limit < 1:
            raise ValueError(f"vector_limit is {self.vector_limit}: a vector keeps at least the newest generation")
        if self.leaders_moved is not None and self.leaders_moved < 1:
            raise ValueError(f"leaders_moved is {self.leaders_moved}: a broker that hands over nothing never stops")

    @property
    def idle_exchanges(self) -> int:
        """How many fetches without news pass as one: so few that no follower seems to lag, and no leader silent."""
        return max(1, int(min(self.lag_max, self.fetch_timeout) / 4 / self.fetch_max_wait))

    @property
    def fetches_name_broker_epochs(self) -> bool:
        """Whether followers say which incarnation they are (KIP-903)."""
        return self.isr_rpc is IsrRpc.ALTER_PARTITION_V3 and self.metadata_version >= (3, 5)


_IN_ORDER = (
    ("session", "self_fencing", "a broker must not fence itself before the controller has declared it inactive"),
    ("heartbeat", "session", "a broker would be declared inactive between two heartbeats"),
    ("fetch_max_wait", "fetch_timeout", "a follower would give up a fetch that its leader has only parked"),
    ("fetch_max_wait", "lag_max", "an idle follower would fall out of the ISR between two fetches"),
)
"""Pairs of times, the shorter one first, and what would happen otherwise."""
