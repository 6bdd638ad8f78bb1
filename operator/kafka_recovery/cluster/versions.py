"""Which version of a request a broker is spoken to in, and the proof that this version carries all of it.

kafka-python's codec drops a field that a version lacks without a word: an ElectLeaders v0 asked for an unclean election
would be a preferred one. So nothing is sent before every field that was set is known to travel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any
from uuid import UUID

from kafka_recovery.cluster.errors import UnsupportedRequest
from kafka_recovery.cluster.kip_1275 import DESIGNATED

_METADATA_VERSION = "metadata.version"

_RELEASES = (
    (20, "3.8 or earlier"),
    (21, "3.9"),
    (25, "4.0"),
    (27, "4.1"),
    (29, "4.2"),
    (30, "4.3"),
    (33, "4.4"),
)
"""The highest metadata.version of each release, oldest first. Request versions tell less: 4.0 and 4.1 offer the same
ListOffsets."""


@dataclass(frozen=True, slots=True)
class ApiVersions:
    """What one broker says of itself.

    `min_versions` and `max_versions` by API key. `finalized_features_epoch` is the offset of the metadata log that this
    broker has applied; it stands still when the broker is cut off or the controller is gone. None: it did not say.
    `metadata_version`: the highest one that it supports; None: it did not say (ApiVersions tells that from v3 on).
    """

    min_versions: Mapping[int, int]
    max_versions: Mapping[int, int]
    finalized_features: Mapping[str, int]
    finalized_features_epoch: int | None
    metadata_version: int | None = None

    @classmethod
    def of(cls, response: Any) -> ApiVersions:
        """Read an ApiVersionsResponse."""
        epoch, supported = response.finalized_features_epoch, response.supported_features or ()
        return cls(
            {api.api_key: api.min_version for api in response.api_keys},
            {api.api_key: api.max_version for api in response.api_keys},
            {feature.name: feature.max_version_level for feature in response.finalized_features or ()},
            epoch if epoch is not None and epoch >= 0 else None,
            next((each.max_version for each in supported if each.name == _METADATA_VERSION), None),
        )

    @property
    def release(self) -> str | None:
        """Which release of Kafka it runs, without the patch level: that no broker tells. None: it did not say."""
        if self.metadata_version is None:
            return None
        newest = (release for highest, release in _RELEASES if self.metadata_version <= highest)
        return next(newest, f"newer than {_RELEASES[-1][1]}")

    def range_of(self, api_key: int) -> tuple[int, int] | None:
        """Lowest and highest version of a request, or None if the broker does not know it."""
        if api_key not in self.max_versions:
            return None
        return self.min_versions[api_key], self.max_versions[api_key]


def request_name(request: Any) -> str:
    """`ListOffsets` for a ListOffsetsRequest or its class."""
    return str(request.name).removesuffix("Request")


def choose_version(address: object, request: Any, wanted: tuple[int, int], broker: ApiVersions) -> int:
    """The highest version of `request` (a message or its class) that is wanted, offered, and known to the codec.

    Raises UnsupportedRequest if there is none.
    """
    offered = broker.range_of(request.API_KEY)
    if offered is not None:
        lowest = max(wanted[0], offered[0])
        highest = min(wanted[1], offered[1], request.max_version)
        if lowest <= highest:
            return int(highest)
    raise UnsupportedRequest.no_version(address, request_name(request), wanted, offered)


def require_safe(address: object, request: Any) -> None:
    """Raises UnsupportedRequest for an ElectLeaders that names no partitions: Kafka would elect in *all* of them.

    And for one that designates leaders, but not exactly one for each partition.
    """
    if request.API_KEY != _ELECT_LEADERS:
        return
    topics = request.topic_partitions
    if not topics or not all(topic.partitions for topic in topics):
        raise UnsupportedRequest(
            address,
            request_name(request),
            "it must name its partitions; without any, every offline one would be elected",
        )
    designates = request.election_type == DESIGNATED
    if designates and not all(len(topic.designated_leaders or ()) == len(topic.partitions) for topic in topics):
        raise UnsupportedRequest(
            address, request_name(request), "it must designate a leader for each of its partitions"
        )


def require_carried(address: object, request: Any, version: int, ignorable: Collection[str]) -> None:
    """Raises UnsupportedRequest if `version` can't carry a field as it is set.

    `ignorable`: dotted paths (`topics.partitions.current_leader_epoch`) of fields that may be lost.
    """
    for path in _lost_fields(request, version):
        if path not in ignorable:
            raise UnsupportedRequest.not_carried(address, request_name(request), path, version)


_ELECT_LEADERS = 43
_NO_UUID = UUID(int=0)


@dataclass(frozen=True, slots=True)
class _Layout:
    """What has to be looked at in a message of one class at one version; the rest travels whatever it holds.

    `plain`: whether it has structures neither in what is lost nor elsewhere; of such a one `values_lost` have to be
    `defaults`, and no value of `values_needed` may be null.
    """

    lost: tuple[Any, ...]
    never_null: tuple[Any, ...]
    nested: tuple[tuple[Any, bool], ...]
    plain: bool
    values_lost: Callable[[Any], tuple[Any, ...]]
    defaults: tuple[Any, ...]
    values_needed: Callable[[Any], tuple[Any, ...]]


@cache
def _layout(kind: Any, version: int, in_tagged: bool) -> _Layout:
    """`kind`: the message's class. `in_tagged`: it stands in a tagged field; the codec writes none of its own then."""
    lost, never_null, nested = [], [], []
    for field in kind.fields.values():
        tagged = field.tagged_field_q(version)
        if not field.for_version_q(version) or (in_tagged and tagged):
            lost.append(field)
            continue
        if field.is_struct() or field.is_struct_array():
            nested.append((field, in_tagged or tagged))
        if not field.nullable_for_version_q(version) and not _defaults_to_null(field):
            never_null.append(field)
    plain = not nested and not any(field.is_struct() or field.is_struct_array() for field in lost)
    return _Layout(
        tuple(lost),
        tuple(never_null),
        tuple(nested),
        plain,
        _values_of(lost if plain else ()),
        tuple(field.default for field in lost if plain),
        _values_of(never_null if plain else ()),
    )


def _values_of(fields: Sequence[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Reads these fields of a message at once; one that was never set has its default."""
    names = [field.name for field in fields]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda message: tuple([getattr(message, name) for name in names])


def _lost_fields(message: Any, version: int, prefix: str = "", in_tagged: bool = False) -> Iterator[str]:
    """Dotted paths of the fields that encoding `message` in `version` would lose."""
    kind: Any = type(message)
    layout = _layout(kind, version, in_tagged)
    yield from (f"{prefix}{tag}" for tag in message.unknown_tags or ())
    yield from (f"{prefix}{field.name}" for field in layout.lost if not _is_default(message, field))
    yield from (f"{prefix}{field.name}" for field in layout.never_null if _value(message, field) is None)
    for field, tagged in layout.nested:
        items = _items(field, _value(message, field))
        if not _travel_whole(items, version, tagged):
            for item in items:
                yield from _lost_fields(item, version, f"{prefix}{field.name}.", tagged)


def _travel_whole(items: Sequence[Any], version: int, in_tagged: bool) -> bool:
    """Whether all of plain structures is carried: the quick answer, for there may be thousands of them."""
    kinds: set[Any] = set(map(type, items))
    if len(kinds) != 1:
        return not items
    layout = _layout(kinds.pop(), version, in_tagged)
    if not layout.plain or any(item.unknown_tags for item in items):
        return False
    if any(None in needed for needed in map(layout.values_needed, items)):
        return False
    return all(
        lost == layout.defaults
        or all(value in (default, _NO_UUID) for value, default in zip(lost, layout.defaults, strict=True))
        for lost in map(layout.values_lost, items)
    )


def _value(message: Any, field: Any) -> Any:
    """What the field is set to, or its default. A struct that was never set has none."""
    try:
        return getattr(message, field.name)
    except NotImplementedError:
        return None


def _items(field: Any, value: Any) -> list[Any]:
    """The messages inside a struct or an array of structs."""
    if value is None:
        return []
    items = [value] if field.is_struct() else list(value)
    kinds: set[Any] = set(map(type, items))
    for kind in kinds:
        # The codec also takes tuples and bare values, whose fields shift with the version: nothing could be proven.
        if not hasattr(kind, "unknown_tags"):
            raise TypeError(f"{field.name} holds a {kind.__name__}; use the request's own {field.type_str} class")
    return items


def _is_default(message: Any, field: Any) -> bool:
    """Whether leaving the field out says the same."""
    value = _value(message, field)
    if field.is_struct():
        return value is None or all(_is_default(value, inner) for inner in value.fields.values())
    return bool(value == field.default) or value == _NO_UUID


def _defaults_to_null(field: Any) -> bool:
    """Whether null is what is said by saying nothing: absent tagged structs, the zero UUID, nullable fields."""
    if field.is_struct():
        return field.tag is not None
    return field.default is None
