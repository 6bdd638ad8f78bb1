"""ApiVersions: what a broker says of itself, the request every connection begins with."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kafka.protocol.metadata import ApiVersionsResponse

from kafka_recovery.simulator.model.requests import ApiVersions, Versions
from kafka_recovery.simulator.model.settings import metadata_level
from kafka_recovery.simulator.wire.exchange import Exchange, Values
from kafka_recovery.simulator.wire.frames import body, response, response_head

API_VERSIONS = 18

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_INVALID_REQUEST, _UNSUPPORTED_VERSION = 42, 35
_PLACE = 0x0BADC0DE0DDBA115

Features = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _Template:
    """An encoded answer around the one number in it that changes; `without`: the answer that does not have it."""

    before: bytes
    after: bytes
    without: bytes

    def filled(self, metadata_offset: int) -> bytes:
        """The answer of a broker that has applied the metadata log up to this offset."""
        if metadata_offset < 0 or not self.before:
            return self.without
        return self.before + metadata_offset.to_bytes(8) + self.after


@dataclass(frozen=True, slots=True)
class ApiVersionsAnswers:
    """`ranges`: lowest and highest version by api key. Encoded answers are kept: brokers are asked all the time."""

    ranges: Mapping[int, tuple[int, int]]
    _templates: dict[tuple[int, str, Features], _Template] = field(default_factory=dict, compare=False)

    def serve(self, exchange: Exchange) -> None:
        """Answer, if the client says properly what it is (KIP-511)."""
        version, asked = exchange.version, exchange.asked
        if version >= 3:
            names = asked.client_software_name, asked.client_software_version
            if not all(_SOFTWARE.fullmatch(name) for name in names):
                refused = Values(error_code=_INVALID_REQUEST, api_keys=[])
                exchange.answered(response(ApiVersionsResponse, 0, exchange.correlation_id, refused))
                return

        def told(versions: Versions) -> None:
            key = version, versions.release, versions.features
            template = self._templates.get(key)
            if template is None:
                template = self._templates[key] = self._template(*key)
            head = response_head(ApiVersionsResponse, version, exchange.correlation_id)
            exchange.answered(head + template.filled(versions.metadata_offset))

        exchange.ask(ApiVersions(), told)

    def refuse_version(self, correlation_id: int, reply: Callable[[bytes], None]) -> None:
        """KIP-511: who asks in a version that the broker does not know is told in v0 which it knows."""
        lowest, highest = self.ranges[API_VERSIONS]
        known = Values(api_key=API_VERSIONS, min_version=lowest, max_version=highest)
        values = Values(error_code=_UNSUPPORTED_VERSION, api_keys=[known])
        reply(response(ApiVersionsResponse, 0, correlation_id, values))

    def _template(self, version: int, release: str, features: Features) -> _Template:
        offered = [
            Values(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in self.ranges.items()
        ]
        levels = {"metadata.version": metadata_level(release)}
        levels |= {name: level for name, level in features if level}
        values = Values(
            error_code=0,
            api_keys=offered,
            throttle_time_ms=0,
            supported_features=[Values(name=name, min_version=1, max_version=at) for name, at in levels.items()],
            finalized_features=[
                Values(name=name, min_version_level=at, max_version_level=at) for name, at in levels.items()
            ],
            finalized_features_epoch=-1,
            zk_migration_ready=False,
        )
        without = body(ApiVersionsResponse, version, values)
        values.finalized_features_epoch = _PLACE
        before, place, after = body(ApiVersionsResponse, version, values).partition(_PLACE.to_bytes(8))
        return _Template(before, after, without) if place else _Template(b"", b"", without)
