"""What a fact holds: bytes, packed into one RecoveryRecord or several, and not unpacked beyond what it may be."""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import zlib

from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal.broken_records import damaged
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.recovery.ports import JournalUnwritable

LARGEST_PART = 700 * 1024
"""Bytes before base64, which makes 933 KiB of them: `content` holds a million, a request to etcd 1.5 MiB."""
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
    return largest(name) // LARGEST_PART + 1


def chunk_of(record: Object) -> bytes:
    """The bytes that one RecoveryRecord holds. Raises InvalidDocument for what is no base64."""
    try:
        return base64.b64decode(record["spec"]["content"], validate=True)
    except (KeyError, TypeError, binascii.Error):
        raise InvalidDocument(damaged(record["metadata"]["name"], "its content is no base64")) from None


def pack(raw: bytes, name: str, digest: str) -> tuple[list[bytes], str]:
    """A fact's content, compressed, in parts for one RecoveryRecord each, and its SHA-256.

    Raises JournalUnwritable for what could not be read again.
    """
    what = f"{name} of plan {digest[:12]} has"
    if len(raw) > largest(name):
        raise JournalUnwritable(f"{what} {len(raw)} bytes, more than the {largest(name)} it may have: {FEWER}")
    if _is_crowded(raw, largest(name)):
        raise JournalUnwritable(f"{what} more values than could be read again: {FEWER}")
    packed = gzip.compress(raw, 6, mtime=0)
    parts = [packed[at : at + LARGEST_PART] for at in range(0, len(packed), LARGEST_PART)]
    return parts, hashlib.sha256(raw).hexdigest()


def unpack(packed: bytes, at_most: int, name: str, sha256: str | None) -> bytes:
    """The content of a fact. Raises InvalidDocument for what was changed.

    Nothing is decompressed beyond what a fact of its kind may hold: a record of 1 MiB may hold 1 GiB of zeros.
    """
    try:
        unzip = zlib.decompressobj(wbits=31)
        raw = unzip.decompress(packed, at_most + 1)
    except zlib.error as error:
        raise InvalidDocument(damaged(name, f"its content can't be decompressed ({error})")) from None
    if len(raw) > at_most:
        raise InvalidDocument(damaged(name, f"its content is larger than the {at_most} bytes that it may have"))
    if not unzip.eof:
        raise InvalidDocument(damaged(name, "its content is cut off"))
    if _is_crowded(raw, at_most):
        raise InvalidDocument(damaged(name, "its content has more values than any of its kind"))
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise InvalidDocument(damaged(name, "its content has another SHA-256 than it says"))
    return raw


def _is_crowded(raw: bytes, at_most: int) -> bool:
    """Whether JSON has far more lists, objects and commas than a fact of `at_most` bytes: `[1],` takes 120 when read.

    A plan has an object or a list in 50 bytes, and a comma in 20.
    """
    few = 1000
    opened, commas = raw.count(b"[") + raw.count(b"{"), raw.count(b",")
    return opened > max(few, at_most // 40) or commas > max(few, at_most // 10)
