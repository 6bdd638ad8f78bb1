"""Reading what people hand in, within bounds, and writing files that were not there before."""

from __future__ import annotations

import codecs
import contextlib
import os
from pathlib import Path

from kafka_recovery.formats.documents import InvalidDocument


def read_text(path: Path, largest: int) -> str:
    """The file's text, without a byte order mark, which editors on Windows write.

    Raises InvalidDocument if it can't be read, has more than `largest` bytes, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(largest + 1)
    except OSError as error:
        raise InvalidDocument(f"{path}: can't be read: {os.strerror(error.errno or 0)}") from None
    if len(raw) > largest:
        raise InvalidDocument(f"{path}: has more than {largest} bytes; it is not read")
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidDocument(f"{path}: is UTF-16 text, as PowerShell writes it; save it as UTF-8")
    try:
        return raw.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise InvalidDocument(f"{path}: is not UTF-8 text (byte {error.start})") from None


def refuse_existing(path: Path) -> None:
    """Raises InvalidDocument if something is at `path`: no result is worth another one overwritten."""
    if os.path.lexists(path):
        raise InvalidDocument(f"{path}: exists already and is not overwritten; choose another name")
    if not path.absolute().parent.is_dir():
        raise InvalidDocument(f"{path}: its directory does not exist")


def refuse_unwritable(path: Path) -> None:
    """Raises InvalidDocument if `write_new` would: asked before long work, whose result is to be written there.

    It tries, and takes away what it wrote: what a directory, a file system or its quota allows, nobody knows better.
    """
    refuse_existing(path)
    write_new(path, b"")
    path.unlink()


def write_new(path: Path, content: str | bytes) -> None:
    """Write a new file, whole or not at all. Raises InvalidDocument if it exists or can't be written."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(partial)  # unlike a rename, it fails where something stands already
    except FileExistsError:
        raise InvalidDocument(f"{path}: exists already and is not overwritten; choose another name") from None
    except OSError as error:
        raise InvalidDocument(f"{path}: can't be written: {os.strerror(error.errno or 0)}") from None
    finally:
        with contextlib.suppress(OSError):  # a name that is too long can't be removed either
            partial.unlink(missing_ok=True)
