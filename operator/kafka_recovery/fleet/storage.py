"""A folder for files anywhere: this machine's disks, S3 and its likes, whatever pyarrow or fsspec can reach.

Credentials come from where the store's own tools look for them (environment, profile, service account), never from a
URL; no message of ours holds one, nor the text of a server that may quote one.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import SplitResult, parse_qsl, urlsplit
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from kafka_recovery.formats.documents import InvalidDocument

URL_OPTIONS = frozenset({"region", "scheme", "endpoint_override", "blob_storage_authority", "dfs_storage_authority"})
"""What may stand behind the question mark: where the store is, never who asks."""

PARTIAL = ".partial"
_UPLOADS_WHOLE = frozenset({"s3", "gcs", "abfs"})
"""Here an object is seen when its upload is complete, and not before; renaming would copy it."""

_STATUS = re.compile(r"AWS Error ([A-Z_]+) .{0,40}?during (\w+)|Status\(([A-Z_]+)|HTTP status (\d{3})")
"""The words of a store's error that are its own, and no quotation."""

_REFUSALS = frozenset(
    {
        *("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH"),  # S3
        *("PERMISSION_DENIED", "UNAUTHENTICATED", "401", "403"),  # GCS, Azure
    }
)
_NOT_PERMITTED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class StorageUnavailable(Exception):
    """The place for files can't be reached, or does not let us in; the message names it and what was tried.

    `refused`: it does not let us in, or this process may not do that there.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        self.refused = refused
        super().__init__(message)


class TooLarge(StorageUnavailable):
    """A file is larger than anything that would be ours; it was not read."""


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of a folder, by its path below the place's root. `changed`: None where the store does not tell."""

    path: str
    is_folder: bool
    changed: datetime | None


@dataclass(frozen=True, slots=True)
class Storage:
    """Files below one root; `shown` is its URL, fit for messages. Every method raises StorageUnavailable."""

    shown: str
    _store: _Store

    @classmethod
    def at(cls, url: str, *, patient: bool = False) -> Self:
        """The place that a URL or local path names. Raises InvalidDocument if it names none.

        `patient`: a store that can't be reached now is opened when it is first needed, instead of StorageUnavailable.
        """
        parts = _split(url)
        if not parts.scheme:
            if not url or "\0" in url:
                raise InvalidDocument("a place for evidence is a directory or a URL such as s3://bucket/folder")
            return cls(url, _Store(url, "", url, (fs.LocalFileSystem(), str(Path(url).absolute()))))
        _refuse_secrets(parts, f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")
        shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
        place = cls(shown, _Store(url, parts.scheme, shown))
        with suppress(*([StorageUnavailable] if patient else [])):
            place._store.opened()
        return place

    @property
    def _files(self) -> Any:
        return self._store.opened()[0]

    def name(self, path: str) -> str:
        """A file as messages name it."""
        return f"{self.shown.rstrip('/')}/{path}"

    def write(self, path: str, content: bytes) -> None:
        """Write a new file, whole or not at all. One that stands there with the same name is replaced."""
        whole = self._at(path)
        with self._told(path, "written"):
            if isinstance(self._files, fs.LocalFileSystem):
                _write_on_disk(Path(whole), content)
            elif self._files.type_name in _UPLOADS_WHOLE:
                self._upload(whole, content)
            else:
                folder, _, name = whole.rpartition("/")
                partial = f"{folder}/.{name}.{uuid4().hex}{PARTIAL}"
                self._files.create_dir(folder, recursive=True)
                self._upload(partial, content)
                self._files.move(partial, whole)

    def read(self, path: str, *, at_most: int | None = None) -> bytes:
        """A file's bytes. Raises TooLarge for one of more than `at_most`, of which no more than that is read."""
        whole = self._at(path)
        if isinstance(self._files, fs.LocalFileSystem) and _is_no_file(Path(whole)):
            raise StorageUnavailable(f"{self.name(path)}: can't be read: it is no regular file")
        with self._told(path, "read"), self._files.open_input_stream(whole) as stream:
            content: bytes = stream.read() if at_most is None else stream.read(at_most + 1)
        if at_most is not None and len(content) > at_most:
            raise TooLarge(f"{self.name(path)}: can't be read: it has more than {at_most} bytes")
        return content

    def listed(self, folder: str) -> tuple[Found, ...]:
        """What lies in a folder itself; nothing if it does not exist."""
        with self._told(folder, "listed"):
            entries = self._files.get_file_info(fs.FileSelector(self._at(folder), allow_not_found=True))
        return tuple(
            Found(f"{folder}/{entry.base_name}", entry.type == fs.FileType.Directory, entry.mtime) for entry in entries
        )

    def remove(self, path: str) -> None:
        """Remove a file; one that is gone is no error."""
        with self._told(path, "removed"), suppress(FileNotFoundError):
            self._files.delete_file(self._at(path))

    def remove_if_empty(self, folder: str) -> None:
        """Remove a folder in which nothing lies; where folders are no more than names, what stands for it."""
        if isinstance(self._files, fs.LocalFileSystem):
            with suppress(OSError):
                Path(self._at(folder)).rmdir()
        elif not self.listed(folder):
            with self._told(folder, "removed"), suppress(FileNotFoundError):
                self._files.delete_dir(self._at(folder))

    def _at(self, path: str) -> str:
        return f"{self._store.opened()[1].rstrip('/')}/{path}"

    def _upload(self, whole: str, content: bytes) -> None:
        with self._files.open_output_stream(whole) as stream:
            stream.write(content)

    @contextmanager
    def _told(self, path: str, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise _unavailable(self.name(path), what, error) from None


@dataclass(slots=True)
class _Store:
    """A file system and the root in it, opened once; S3 is asked for a bucket's region unless the URL says it."""

    url: str
    scheme: str
    shown: str
    found: tuple[Any, str] | None = None

    def opened(self) -> tuple[Any, str]:
        """Raises StorageUnavailable, and InvalidDocument for a URL that names no place."""
        if self.found is None:
            files, root = _file_system(self.url, self.scheme, self.shown)
            if not root.strip("/") and not isinstance(files, fs.LocalFileSystem):
                raise InvalidDocument(f"{self.shown}: names no bucket or folder")
            self.found = files, root
        return self.found


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url) if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", url) else SplitResult("", "", url, "", "")
    except ValueError:
        raise InvalidDocument("this place for evidence is no URL that can be read") from None
    return parts


def _refuse_secrets(parts: SplitResult, shown: str) -> None:
    """A URL stands in shell histories, process lists and manifests."""
    user, at, _ = parts.netloc.rpartition("@")
    if at and (":" in user or "abfs" not in parts.scheme):  # abfs://container@account names no person
        raise InvalidDocument(
            f"{shown}: no credentials in a URL; they come from the environment, such as AWS_ACCESS_KEY_ID"
        )
    options = {key for key, _ in parse_qsl(parts.query, keep_blank_values=True)}
    if parts.query and not (options and options <= URL_OPTIONS):
        known = ", ".join(sorted(URL_OPTIONS))
        raise InvalidDocument(f"{shown}: only {known} may stand behind the question mark")


def _file_system(url: str, scheme: str, shown: str) -> tuple[Any, str]:
    """pyarrow's own file system, or fsspec's where pyarrow has none. Their errors quote the URL, ours do not."""
    try:
        files, root = fs.FileSystem.from_uri(url)
    except OSError as error:
        raise _unavailable(shown, "opened", error) from None
    except (ImportError, ValueError, TypeError, pa.ArrowException) as error:
        if scheme.startswith("fsspec+"):
            missing = "does not know it, or lacks a package for it, such as s3fs or sshfs"
            raise InvalidDocument(f"{shown}: can't be opened: fsspec {missing}") from None
        if "Unrecognized filesystem" in str(error):
            return _file_system(f"fsspec+{url}", f"fsspec+{scheme}", shown)
        raise InvalidDocument(f"{shown}: is not a whole URL of its kind, such as s3://bucket/folder") from None
    return files, str(root)


def _is_no_file(path: Path) -> bool:
    """Whether something else lies there, such as a pipe: to open one may take for ever."""
    with suppress(OSError, ValueError):
        mode = path.stat().st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def _write_on_disk(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid4().hex}{PARTIAL}")
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # a rename that a power cut takes back was no rename
    finally:
        os.close(folder)


def _unavailable(name: str, what: str, error: Exception) -> StorageUnavailable:
    return StorageUnavailable(f"{name}: can't be {what}: {_why(error)}", refused=_refused(error))


def _why(error: Exception) -> str:
    said = _STATUS.search(str(error))
    if said:
        return " in ".join(word for word in said.groups() if word)
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number else type(error).__name__


def _refused(error: Exception) -> bool:
    """Whether to try again is of no use: somebody has to give a right, or other credentials."""
    said = _STATUS.search(str(error))
    if said:
        return not _REFUSALS.isdisjoint(said.groups())
    return isinstance(error, OSError) and error.errno in _NOT_PERMITTED
