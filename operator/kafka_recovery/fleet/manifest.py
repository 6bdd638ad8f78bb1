"""What a run over the fleet has written, as one small JSON file that it writes last: no manifest, no result.

    raw = written(Manifest(task="rank", run=run, …))
    manifest = read_manifest(raw, "s3://fleet/results/nightly-1/manifest.json")
    why_not = foreign(manifest, Expected("rank", run, policy_digest))

`{version, task, run, policyDigest, evidence, outputs, summary, checksum}`; the checksum is the SHA-256, in hex, of the
canonical JSON of all the rest. It tells a damaged file from a whole one. It is no signature: who may write to the
results may forge one, so what a run was asked is compared as well.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from kafka_recovery.formats.documents import InvalidDocument, describe, validator
from kafka_recovery.formats.fields import Text, Whole

VERSION = 1
NAME = "manifest.json"
"""Of the file, in the folder of its run."""

LARGEST = 8 * 1024 * 1024
"""Bytes; some 30,000 clusters."""

_BYTES_A_VALUE = 24
"""At least, in a file of more than a few values: most are digests and paths. Python has 60 bytes for an empty list."""

_FEW_VALUES = 1000

FILE = re.compile(r"(?P<answer>[a-z]+)/[A-Za-z0-9][A-Za-z0-9._-]*\.parquet")
"""An output's path; any other is none of a run's, and might lead out of its folder."""

LARGEST_FILE = 256 * 1024 * 1024
"""Bytes of an output that the operator reads; the rows of millions of partitions."""

_COUNT = Whole(0, 2**63 - 1)
_DIGEST = Text(r"[0-9a-f]{64}", 64, "a digest of 64 hexadecimal digits")
_NAME = Text(None, 1024, "text")
_IN_SNAPSHOT_NAME = re.compile(r"-(?P<digest>[0-9a-f]{16})\.parquet$")

_STRICT = ConfigDict(alias_generator=to_camel, extra="forbid")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One cluster's evidence: the file's path below the evidence's root, and the SHA-256 of its content."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    cluster_id: Annotated[str, _NAME]
    snapshot: Annotated[str, _NAME]
    digest: Annotated[str, _DIGEST]


@dataclass(frozen=True, slots=True)
class Output:
    """One file that was written: its path below the run's folder."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    path: Annotated[str, _NAME]
    rows: Annotated[int, _COUNT]
    sha256: Annotated[str, _DIGEST]


@dataclass(frozen=True, slots=True)
class Loss:
    """What the loss of some brokers would mean. `failing` names them for people; `offline` counts partitions.

    The others count, of those, by the loss class of the best leader; `none` have none that may lead.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    cluster_id: Annotated[str, _NAME]
    failing: Annotated[str, _NAME]
    offline: Annotated[int, _COUNT]
    lossless: Annotated[int, _COUNT]
    bounded: Annotated[int, _COUNT]
    unknown: Annotated[int, _COUNT]
    none: Annotated[int, _COUNT]


@dataclass(frozen=True, slots=True)
class Summary:
    """The headline numbers: partitions by the loss class of their best leader. `worst`: the worst losses first."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    clusters: Annotated[int, _COUNT]
    partitions: Annotated[int, _COUNT]
    lossless: Annotated[int, _COUNT]
    bounded: Annotated[int, _COUNT]
    unknown: Annotated[int, _COUNT]
    none: Annotated[int, _COUNT]
    worst: tuple[Loss, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was asked, what it was answered from, and what the answer is. `task`: rank or readiness."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    task: Annotated[str, _NAME]
    run: Annotated[str, _NAME]
    policy_digest: Annotated[str, _DIGEST]
    evidence: tuple[Snapshot, ...]
    outputs: tuple[Output, ...]
    summary: Summary


@dataclass(frozen=True, slots=True)
class Expected:
    """What a run was asked. `cluster_ids` empty: all clusters there is evidence of."""

    task: str
    run: str
    policy_digest: str
    cluster_ids: tuple[str, ...] = ()


def written(manifest: Manifest) -> bytes:
    """The file's bytes. The same manifest gives the same ones."""
    content = {"version": VERSION, **_adapter().dump_python(manifest, mode="json", by_alias=True)}
    return _canonical({**content, "checksum": _checksum(content)})


def checksum(raw: bytes) -> str:
    """The checksum that a manifest's bytes name; they were read before."""
    return str(json.loads(raw)["checksum"])


def read_manifest(raw: bytes, name: str) -> Manifest:
    """The manifest in a file called `name`. Raises InvalidDocument for one that is not whole, or of another version."""
    if len(raw) > LARGEST:
        raise InvalidDocument(f"{name}: has {len(raw)} bytes; at most {LARGEST} are read")
    values = sum(map(raw.count, (b",", b"[", b"{")))
    if values > _FEW_VALUES + len(raw) // _BYTES_A_VALUE:
        raise InvalidDocument(f"{name}: has {values} values in {len(raw)} bytes, more than a manifest has")
    try:
        content = _content(raw, name)
    except RecursionError:  # what can just be read may be nested too deep to be written again
        raise InvalidDocument(f"{name}: is no JSON, or is cut off") from None
    try:
        manifest: Manifest = validator(Manifest).validate_python(content)
    except ValidationError as error:
        raise InvalidDocument(describe(error, name)) from None
    return manifest


def _content(raw: bytes, name: str) -> dict[str, Any]:
    """The fields of a file that is whole, without its version and checksum."""
    try:
        content = json.loads(raw)
    except ValueError:
        raise InvalidDocument(f"{name}: is no JSON, or is cut off") from None
    if not isinstance(content, dict):
        raise InvalidDocument(f"{name}: must be a mapping of fields")
    version, said = content.get("version"), content.pop("checksum", None)
    if version != VERSION or isinstance(version, bool):
        raise InvalidDocument(f"{name}: version: must be {VERSION} (got {json.dumps(version)[:80]})")
    if said != _checksum(content):
        raise InvalidDocument(f"{name}: checksum: is not that of the content: it was damaged, or changed by hand")
    del content["version"]
    return content


def foreign(manifest: Manifest, expected: Expected) -> str | None:
    """Why a manifest is not the answer to what was asked; None: it is."""
    for what, seen, right in (
        ("task", manifest.task, expected.task),
        ("run", manifest.run, expected.run),
        ("policyDigest", manifest.policy_digest, expected.policy_digest),
    ):
        if seen != right:
            return f"{what} is {seen}, and {right} was asked"
    clusters = [each.cluster_id for each in manifest.evidence]
    if not clusters:
        return "it names no evidence"
    if not manifest.outputs:
        return "it names no results"
    if twice := [id for id, times in Counter(clusters).items() if times > 1]:
        return f"it names evidence of a cluster twice: {_some(twice)}"
    if expected.cluster_ids and set(clusters) != set(expected.cluster_ids):
        return f"its clusters are not those that were asked for: {_some(set(clusters) ^ set(expected.cluster_ids))}"
    for each in manifest.evidence:
        named = _IN_SNAPSHOT_NAME.search(each.snapshot)
        if named and not each.digest.startswith(named["digest"]):
            return f"the digest of {each.snapshot} is not the one in its name"
    return None


def _some(names: Iterable[str]) -> str:
    found = sorted(set(names))
    return ", ".join(found[:3]) + (" and more" if len(found) > 3 else "")


def _checksum(content: object) -> str:
    return hashlib.sha256(_canonical(content)).hexdigest()


def _canonical(content: object) -> bytes:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="surrogatepass")  # a damaged file may hold half a pair


@cache
def _adapter() -> TypeAdapter[Any]:
    return TypeAdapter(Manifest)
