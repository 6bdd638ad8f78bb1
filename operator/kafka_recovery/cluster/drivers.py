"""How leaders are designated in a cluster, and what else of KIP-1275 is used there: settings, no requests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kafka_recovery.cluster.errors import InvalidConfiguration, UnsupportedRequest
from kafka_recovery.cluster.kip_1275 import DESIGNATED_VERSIONS, LOWEST_FREE_KEY, ElectLeadersRequest
from kafka_recovery.cluster.versions import ApiVersions, choose_version

HIGHEST_KEY = 2**15 - 1


class Driver(StrEnum):
    """By what an election takes the designated replica."""

    AUTO = "auto"
    """DESIGNATED where brokers offer it, else ASSIGNMENT_ORDER."""
    ASSIGNMENT_ORDER = "assignment-order"
    """The order of the assignment is altered while electing: any KRaft release."""
    DESIGNATED = "designated"
    """The election's own request names the leader (KIP-1275)."""


@dataclass(frozen=True, slots=True)
class Kip1275:
    """What is used of KIP-1275 where brokers offer it.

    `replica_log_info_key`: the number of GetReplicaLogInfo in this cluster's release; None: it is never sent. A number
    that a broker lists proves nothing: in Kafka 4.4, 93 is another request.
    """

    driver: Driver = Driver.AUTO
    replica_log_info_key: int | None = None

    def __post_init__(self) -> None:
        key = self.replica_log_info_key
        if key is not None and not LOWEST_FREE_KEY <= key <= HIGHEST_KEY:
            raise InvalidConfiguration(
                f"{key} can't be GetReplicaLogInfo's API key: Kafka's releases have other requests below "
                f"{LOWEST_FREE_KEY}, and none above {HIGHEST_KEY}"
            )


def designates_leaders(driver: Driver, at: object, versions: ApiVersions) -> bool:
    """Whether elections through a broker with these versions are to name their leader.

    Raises UnsupportedRequest where that is asked for and not offered.
    """
    if driver is Driver.ASSIGNMENT_ORDER:
        return False
    try:
        choose_version(at, ElectLeadersRequest, DESIGNATED_VERSIONS, versions)
    except UnsupportedRequest as missing:
        if driver is Driver.AUTO:
            return False
        raise missing.advising(
            "the driver designated is for brokers that have KIP-1275; assignment-order works here"
        ) from None
    return True
