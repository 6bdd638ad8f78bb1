"""The records of Kafka's metadata log, as far as the model writes them, as bytes."""

from __future__ import annotations

from functools import cache
from typing import Any

from kafka.protocol.schemas import StructField
from kafka.protocol.schemas.fields.codecs import EncodeBufferPool

from kafka_recovery.cluster.metadata_log import records

_FRAME_VERSION = 1
_NO_OP = 20

_KINDS = {
    kind.__name__.removesuffix("Record"): kind
    for kind in (
        records.RegisterBrokerRecord,
        records.TopicRecord,
        records.PartitionRecord,
        records.ConfigRecord,
        records.PartitionChangeRecord,
        records.RemoveTopicRecord,
        records.FeatureLevelRecord,
        records.BrokerRegistrationChangeRecord,
        records.ClearElrRecord,
    )
}
_KEYS = {name: kind.json["apiKey"] for name, kind in _KINDS.items()} | {"NoOp": _NO_OP}

_VOTER = {"name": "VoterId", "type": "int32", "versions": "0+"}
_LEADER_CHANGE = StructField(
    {
        "name": "LeaderChange",
        "type": "data",
        "versions": "0+",
        "fields": [
            {"name": "Version", "type": "int16", "versions": "0+"},
            {"name": "LeaderId", "type": "int32", "versions": "0+"},
            {"name": "Voters", "type": "[]Voter", "versions": "0+", "fields": [_VOTER]},
            {"name": "GrantingVoters", "type": "[]Voter", "versions": "0+", "fields": [_VOTER]},
        ],
    }
)
"""The control record about the quorum's leader."""


def record(name: str, version: int, values: Any) -> bytes:
    """A metadata record: the value of a record in the log. `values` has the fields as attributes."""
    head = bytes((_FRAME_VERSION, _KEYS[name], version))
    return head + fields(name, version, values)


def fields(name: str, version: int, values: Any) -> bytes:
    """The fields alone, as control records have them."""
    if name == "NoOp":
        return b"\0"  # no tagged fields; kafka-python has no structures of nothing
    encode = _encoder(name, version)
    with EncodeBufferPool.acquire() as out:
        encode(values, out)
        return bytes(out.result())


@cache
def _encoder(name: str, version: int) -> Any:
    layout = _KINDS[name]._struct if name in _KINDS else _LEADER_CHANGE
    return layout.compiled_encode_into(version, compact=True, tagged=True)
