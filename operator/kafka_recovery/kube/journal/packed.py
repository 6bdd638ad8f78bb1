"""A document in objects of the API: compressed, cut into pieces that fit one each, and read with a bound."""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import zlib
from collections.abc import Iterable

LARGEST_PIECE = 700 * 1024
"""Bytes before base64, which makes 933 KiB of them: `content` holds a million, a request to etcd 1.5 MiB."""


class Damaged(ValueError):
    """The pieces are not what was packed. The message says how, as in: its content is cut off."""


def packed(raw: bytes) -> list[bytes]:
    """The pieces, one at least: equal documents have equal ones."""
    whole = gzip.compress(raw, 6, mtime=0)
    return [whole[at : at + LARGEST_PIECE] for at in range(0, len(whole), LARGEST_PIECE)]


def most_pieces(at_most: int) -> int:
    """What does not compress at all takes so many, beside the first."""
    return at_most // LARGEST_PIECE + 1


def as_content(piece: bytes) -> str:
    """A piece as an object's field holds it."""
    return base64.b64encode(piece).decode()


def of_content(content: object) -> bytes:
    """The piece. Raises Damaged."""
    try:
        return base64.b64decode(content, validate=True)  # type: ignore[arg-type]
    except (TypeError, ValueError, binascii.Error):
        raise Damaged("its content is no base64") from None


def unpacked(pieces: Iterable[bytes], at_most: int, sha256: object) -> bytes:
    """The document. Raises Damaged.

    Nothing is decompressed beyond what it may have: an object of 1 MiB may hold 1 GiB of zeros.
    """
    try:
        unzip = zlib.decompressobj(wbits=31)
        raw = unzip.decompress(b"".join(pieces), at_most + 1)
    except zlib.error as error:
        raise Damaged(f"its content can't be decompressed ({error})") from None
    if len(raw) > at_most:
        raise Damaged(f"its content is larger than the {at_most} bytes that it may have")
    if not unzip.eof:
        raise Damaged("its content is cut off")
    if is_crowded(raw, at_most):
        raise Damaged("its content has more values than any of its kind")
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise Damaged("its content has another SHA-256 than it says")
    return raw


def is_crowded(raw: bytes, at_most: int) -> bool:
    """Whether JSON has far more lists, objects and commas than a document of `at_most` bytes: `[1],` takes 120 when
    read. A plan has an object or a list in 50 bytes, and a comma in 20.
    """
    few = 1000
    opened, commas = raw.count(b"[") + raw.count(b"{"), raw.count(b",")
    return opened > max(few, at_most // 40) or commas > max(few, at_most // 10)
