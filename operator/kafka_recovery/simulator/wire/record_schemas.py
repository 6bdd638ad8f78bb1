"""The records of Kafka's metadata log, as far as the model writes them: their fields, and how they are encoded.

kafka-python encodes them, but has the schemas of requests and responses only.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from kafka.protocol.schemas import StructField
from kafka.protocol.schemas.fields.codecs import EncodeBufferPool

_FRAME_VERSION = 1


def _field(name: str, type: str, since: int = 0, /, *, tag: int | None = None, **more: Any) -> dict[str, Any]:
    """One field, in records of version `since` or later; one with a tag is left out where it has its default."""
    versions = f"{since}+"
    field = {"name": name, "type": type, "versions": versions, **more}
    if tag is not None:
        field |= {"tag": tag, "taggedVersions": versions}
        if type.startswith("[]"):
            field |= {"nullableVersions": versions, "default": "null"}
    return field


def _nullable(name: str, type: str) -> dict[str, Any]:
    return _field(name, type, nullableVersions="0+", default="null")


_ENDPOINTS = [
    _field("Name", "string"),
    _field("Host", "string"),
    _field("Port", "uint16"),
    _field("SecurityProtocol", "int16"),
]
_FEATURES = [_field("Name", "string"), _field("MinSupportedVersion", "int16"), _field("MaxSupportedVersion", "int16")]
_VOTERS = [_field("VoterId", "int32")]

_KEYS = {
    "RegisterBroker": 0,
    "Topic": 2,
    "Partition": 3,
    "Config": 4,
    "PartitionChange": 5,
    "RemoveTopic": 9,
    "FeatureLevel": 12,
    "BrokerRegistrationChange": 17,
    "NoOp": 20,
    "ClearElr": 28,
}

_FIELDS = {
    "RegisterBroker": [
        _field("BrokerId", "int32"),
        _field("IsMigratingZkBroker", "bool", 2),
        _field("IncarnationId", "uuid"),
        _field("BrokerEpoch", "int64"),
        _field("EndPoints", "[]BrokerEndpoint", fields=_ENDPOINTS),
        _field("Features", "[]BrokerFeature", fields=_FEATURES),
        _nullable("Rack", "string"),
        _field("Fenced", "bool"),
        _field("InControlledShutdown", "bool", 1),
        _field("LogDirs", "[]uuid", 3, tag=0),
    ],
    "Topic": [_field("Name", "string"), _field("TopicId", "uuid")],
    "Partition": [
        _field("PartitionId", "int32"),
        _field("TopicId", "uuid"),
        _field("Replicas", "[]int32"),
        _field("Isr", "[]int32"),
        _field("RemovingReplicas", "[]int32"),
        _field("AddingReplicas", "[]int32"),
        _field("Leader", "int32"),
        _field("LeaderEpoch", "int32"),
        _field("PartitionEpoch", "int32"),
        _field("Directories", "[]uuid", 1),
        _field("LeaderRecoveryState", "int8", tag=0, default="0"),
        _field("EligibleLeaderReplicas", "[]int32", 2, tag=1),
        _field("LastKnownElr", "[]int32", 2, tag=2),
    ],
    "Config": [
        _field("ResourceType", "int8"),
        _field("ResourceName", "string"),
        _field("Name", "string"),
        _nullable("Value", "string"),
    ],
    "PartitionChange": [
        _field("PartitionId", "int32"),
        _field("TopicId", "uuid"),
        _field("Isr", "[]int32", tag=0),
        _field("Leader", "int32", tag=1, default="-2"),
        _field("Replicas", "[]int32", tag=2),
        _field("RemovingReplicas", "[]int32", tag=3),
        _field("AddingReplicas", "[]int32", tag=4),
        _field("LeaderRecoveryState", "int8", tag=5, default="-1"),
        _field("EligibleLeaderReplicas", "[]int32", 2, tag=6),
        _field("LastKnownElr", "[]int32", 2, tag=7),
        _field("Directories", "[]uuid", 1, tag=8),
    ],
    "RemoveTopic": [_field("TopicId", "uuid")],
    "FeatureLevel": [_field("Name", "string"), _field("FeatureLevel", "int16")],
    "BrokerRegistrationChange": [
        _field("BrokerId", "int32"),
        _field("BrokerEpoch", "int64"),
        _field("Fenced", "int8", tag=0, default="0"),
        _field("InControlledShutdown", "int8", 1, tag=1, default="0"),
        _field("LogDirs", "[]uuid", 2, tag=2),
    ],
    "NoOp": [],
    "ClearElr": [_field("TopicName", "string")],
    "LeaderChange": [
        _field("Version", "int16"),
        _field("LeaderId", "int32"),
        _field("Voters", "[]Voter", fields=_VOTERS),
        _field("GrantingVoters", "[]Voter", fields=_VOTERS),
    ],
}


def record(name: str, version: int, values: Any) -> bytes:
    """A metadata record: the value of a record in the log. `values` has the fields as attributes."""
    head = bytes((_FRAME_VERSION, _KEYS[name], version))
    return head + fields(name, version, values)


def fields(name: str, version: int, values: Any) -> bytes:
    """The fields alone, as control records have them."""
    if not _FIELDS[name]:
        return b"\0"  # no tagged fields; kafka-python has no structures of nothing
    encode = _encoder(name, version)
    with EncodeBufferPool.acquire() as out:
        encode(values, out)
        return bytes(out.result())


@cache
def _encoder(name: str, version: int) -> Any:
    layout = StructField({"name": name, "type": "data", "versions": "0+", "fields": _FIELDS[name]})
    return layout.compiled_encode_into(version, compact=True, tagged=True)
