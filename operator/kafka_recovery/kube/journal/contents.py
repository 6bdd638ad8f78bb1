"""What a fact holds: bytes, packed into one RecoveryRecord or several, and not unpacked beyond what it may be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal.broken_records import damaged
from kafka_recovery.kube.journal.packed import Damaged, is_crowded, most_pieces, of_content, packed, unpacked
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.recovery.ports import JournalUnwritable

LARGEST = {"plan": 128 << 20, "begun": 16, "finished": 16, "approval": 4 << 10}
"""Bytes that a fact of each kind may have, after decompression."""
LARGEST_WAVE = 16 << 20
LARGEST_NOTE = 64
"""The same of the begin or end of a wave."""

FEWER = "recover fewer partitions at a time, named in spec.scope.partitions"


def largest(name: str) -> int:
    """How many bytes a fact of this name may have, after decompression."""
    small = "-doubt-" in name or name.startswith("stage-")
    return LARGEST.get(name, LARGEST_NOTE if small else LARGEST_WAVE)


def most_parts(name: str) -> int:
    """What does not compress at all takes so many parts beside its head."""
    return most_pieces(largest(name))


def chunk_of(record: Object) -> bytes:
    """The bytes that one RecoveryRecord holds. Raises InvalidDocument for what is no base64."""
    try:
        return of_content(record["spec"].get("content"))
    except Damaged as how:
        raise InvalidDocument(damaged(record["metadata"]["name"], str(how))) from None


def pack(raw: bytes, name: str, digest: str) -> tuple[list[bytes], str]:
    """A fact's content, compressed, in parts for one RecoveryRecord each, and its SHA-256.

    Raises JournalUnwritable for what could not be read again.
    """
    what = f"{name} of plan {digest[:12]} has"
    if len(raw) > largest(name):
        raise JournalUnwritable(f"{what} {len(raw)} bytes, more than the {largest(name)} it may have: {FEWER}")
    if is_crowded(raw, largest(name)):
        raise JournalUnwritable(f"{what} more values than could be read again: {FEWER}")
    return packed(raw), hashlib.sha256(raw).hexdigest()


def unpack(chunks: Iterable[bytes], at_most: int, name: str, sha256: str | None) -> bytes:
    """The content of a fact. Raises InvalidDocument for what was changed."""
    try:
        return unpacked(chunks, at_most, sha256)
    except Damaged as how:
        raise InvalidDocument(damaged(name, str(how))) from None
