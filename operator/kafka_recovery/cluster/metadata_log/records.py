"""The records of the metadata log: which of them matter to a partition's history, and how each is read.

Sources: the record schemas of Kafka 3.9, 4.0 and 4.4; KIP-631 (records), KIP-858 (directories), KIP-966 (ELR).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.api_data import ApiData

from kafka_recovery.cluster.codec import Unreadable, decode
from kafka_recovery.cluster.metadata_log import schemas


class RegisterBrokerRecord(ApiData, load_json=schemas):  # type: ignore[call-arg]
    """A process of a broker; its epoch is this record's offset."""


class UnregisterBrokerRecord(ApiData, load_json=schemas):  # type: ignore[call-arg]
    """A broker was taken out of the cluster."""


class TopicRecord(ApiData, load_json=schemas):  # type: ignore[call-arg]
    """A topic was created."""


class PartitionRecord(ApiData, load_json=schemas):  # type: ignore[call-arg]
    """All of a partition."""


class ConfigRecord(ApiData, load_json=schemas):  # type: ignore[call-arg]
    """One configuration of a topic, of a broker (its id), or of all brokers (""); null takes it away."""


class PartitionChangeRecord(ApiData, load_json=schemas):  # type: ignore[call-arg]
    """What changed of a partition. A leader that is told, were it the same one, begins the next leader epoch."""


class RemoveTopicRecord(ApiData, load_json=schemas):  # type: ignore[call-arg]
    """A topic was deleted, with its partitions and configurations."""


class FeatureLevelRecord(ApiData, load_json=schemas):  # type: ignore[call-arg]
    """The level of a feature, such as metadata.version."""


class BrokerRegistrationChangeRecord(ApiData, load_json=schemas):  # type: ignore[call-arg]
    """A broker was fenced, is stopping, or has other log directories."""


class ClearElrRecord(ApiData, load_json=schemas):  # type: ignore[call-arg]
    """The ELR of a topic's partitions, or of all ("") was emptied."""


BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION = 23, 24, 25
"""What stands between begin and end counts at the end, all at once; after an abort, not at all (KIP-868)."""

READ: Mapping[int, Any] = {
    kind.json["apiKey"]: kind
    for kind in (
        RegisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        RemoveTopicRecord,
        FeatureLevelRecord,
        ClearElrRecord,
    )
}
"""Records that a partition's history is made of."""

OF_FENCING: Mapping[int, Any] = {
    kind.json["apiKey"]: kind for kind in (UnregisterBrokerRecord, BrokerRegistrationChangeRecord)
}
"""Records that tell who is alive, and which log directories failed. One that can't be read leaves only that unknown."""

LEFT_OUT = frozenset({6, 7, 8, 10, 11, 14, 15, 18, 19, 20, 21, 22, 26, 27, 29})
"""Records that take no part in it, in any version: ACLs, quotas, credentials, tokens, producer ids, controllers,
no-ops. Those that fence (7, 8) no controller of these releases writes."""

_FRAME_VERSION = 1


def read(value: bytes) -> tuple[int, Any]:
    """The record's key, and the record if it is one of `READ`, or one of `OF_FENCING` that can be read.

    Raises Unreadable for a record that may matter and is not known here, or not in this version, or not whole.
    """
    if len(value) < 3 or value[0] != _FRAME_VERSION or value[1] > 127 or value[2] > 127:
        raise Unreadable(f"a metadata record that begins with {bytes(value[:3]).hex() or 'nothing'}")
    key, version = value[1], value[2]
    kind = READ.get(key)
    if kind is None:
        if key in OF_FENCING:
            return key, _if_readable(OF_FENCING[key], version, value)
        if key in LEFT_OUT or key in (BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION):
            return key, None
        raise Unreadable(f"a metadata record of the unknown kind {key}")
    if version > kind.valid_versions[1]:
        raise Unreadable(f"{kind.__name__} v{version}; up to v{kind.valid_versions[1]} can be read")
    return key, decode(kind, version, memoryview(value)[3:])


def _if_readable(kind: Any, version: int, value: bytes) -> Any:
    try:
        return decode(kind, version, memoryview(value)[3:]) if version <= kind.valid_versions[1] else None
    except Unreadable:
        return None
