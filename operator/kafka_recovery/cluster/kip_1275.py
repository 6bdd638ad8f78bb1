"""KIP-1275's messages, which no release of Kafka knows: GetReplicaLogInfo, and ElectLeaders that designates leaders."""

from __future__ import annotations

from typing import Any

from kafka.protocol.api_message import ApiMessage

from kafka_recovery.cluster import schemas

GET_REPLICA_LOG_INFO = 1275
"""The KIP leaves the key open. The next one, 93, is another request in Kafka 4.4; this one stays free for long."""


class GetReplicaLogInfoRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg]
    """How long a broker's replicas are; the first 1000 are served."""

    @classmethod
    def json_patch(cls, json: Any) -> Any:
        """Its key stands in one place."""
        return json | {"apiKey": GET_REPLICA_LOG_INFO}


class GetReplicaLogInfoResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg]
    """`partition_leader_epoch` is the current one as the broker knows it, never the last record's."""

    @classmethod
    def json_patch(cls, json: Any) -> Any:
        """Its key stands in one place."""
        return json | {"apiKey": GET_REPLICA_LOG_INFO}


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
