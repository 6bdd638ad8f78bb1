"""KIP-1275's messages, which no release of Kafka knows: GetReplicaLogInfo, and ElectLeaders that designates leaders."""

from __future__ import annotations

from functools import cache
from typing import Any

from kafka.protocol.api_message import ApiMessage

from kafka_recovery.cluster import schemas

GET_REPLICA_LOG_INFO = 1275
"""The KIP leaves the key open. The next free one, 93, is another request in Kafka 4.4; this is one that stays free."""

LOWEST_FREE_KEY = 94
"""Every number below is another request in some release of Kafka."""

PARTITIONS_A_REQUEST = 1000
"""Of so many partitions both requests are served; what stands behind them is not."""

DESIGNATED_VERSIONS = (3, 3)
"""The version of ElectLeaders that carries designated leaders."""

DESIGNATED = 2
"""The election type that goes with designated leaders."""


@cache
def replica_log_info(key: int) -> tuple[Any, Any]:
    """GetReplicaLogInfo's request and response, under the key that a cluster's release gives it."""

    class GetReplicaLogInfoRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg]
        """How long a broker's replicas are; the first 1000 are served."""

        @classmethod
        def json_patch(cls, json: Any) -> Any:
            """The key is not the schema's to say."""
            return json | {"apiKey": key}

    class GetReplicaLogInfoResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg]
        """`partition_leader_epoch` is the current one as the broker knows it, never the last record's."""

        @classmethod
        def json_patch(cls, json: Any) -> Any:
            """The key is not the schema's to say."""
            return json | {"apiKey": key}

    return GetReplicaLogInfoRequest, GetReplicaLogInfoResponse


GetReplicaLogInfoRequest, GetReplicaLogInfoResponse = replica_log_info(GET_REPLICA_LOG_INFO)


class ElectLeadersRequest(ApiMessage):
    """Up to v2 Kafka's own; v3 has `designated_leaders`, which match `partitions` by their index."""

    @classmethod
    def json_patch(cls, json: Any) -> Any:
        """Kafka's schema with what v3 adds."""
        designated = {
            "name": "DesignatedLeaders", "type": "[]int32", "versions": "3+", "nullableVersions": "3+",
            "default": "null", "entityType": "brokerId",
        }  # fmt: skip
        fields = [
            field | {"fields": [*field["fields"], designated]} if field["name"] == "TopicPartitions" else field
            for field in json["fields"]
        ]
        return json | {"validVersions": "0-3", "fields": fields}


class ElectLeadersResponse(ApiMessage):
    """The same in all versions from 2 on."""

    @classmethod
    def json_patch(cls, json: Any) -> Any:
        """Kafka's schema, one version further."""
        return json | {"validVersions": "0-3"}
