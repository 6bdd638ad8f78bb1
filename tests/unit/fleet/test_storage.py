"""Places for evidence: disks, object stores, fsspec; and what is said when one does not let us in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow import fs

from kafka_recovery.fleet.export import Archive
from kafka_recovery.fleet.storage import Storage, StorageUnavailable, TooLarge
from kafka_recovery.formats.documents import InvalidDocument
from unit.fleet.looks import NOON, look, newest
from unit.fleet.object_store import ObjectStore, serving

SECRET = "geheim"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """An object store, and the credentials for it where they belong."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with serving() as store:
        yield store


def test_a_url_of_a_file_a_path_and_a_relative_path_are_the_same_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written = Archive.at("kept").write(look())

    for url in (f"{tmp_path}/kept", f"file://{tmp_path}/kept", f"{tmp_path}/kept/"):
        assert Archive.at(url).latest("prod") == written


def test_a_file_is_never_seen_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def broken(number: int) -> None:
        seen.append([path.name for path in tmp_path.iterdir()])
        raise OSError(28, "")

    monkeypatch.setattr(os, "fsync", broken)

    with pytest.raises(StorageUnavailable, match="can't be written: No space left on device"):
        Storage.at(str(tmp_path)).write("a.parquet", b"x")

    ((name,),) = seen
    assert name.startswith(".a.parquet.")  # hidden from whoever reads Parquet
    assert list(tmp_path.iterdir()) == []


def test_an_object_store_holds_an_archive_too(store: ObjectStore) -> None:
    archive = Archive.at(store.url("bucket", "fleet"))
    old = archive.write(look(at=NOON - timedelta(days=3)))
    new = archive.write(look())

    assert newest(archive, "prod") == look()
    assert archive.expire("prod", NOON) == (old,)
    assert archive.snapshots("prod") == (new,)
    assert archive.name(new) == f"s3://bucket/fleet/{new.path}"
    assert [key for key in store.objects if not key.endswith("/")] == [f"fleet/{new.path}"]
    assert not any("day=2026-11-18" in key for key in store.objects)
    assert all("AKIDEXAMPLE" in said for said in store.authorizations)


def test_an_upload_that_breaks_off_leaves_nothing(store: ObjectStore) -> None:
    store.cuts = 1

    with pytest.raises(StorageUnavailable, match=r"can't be written: [A-Z_]+ in CompleteMultipartUpload") as broken:
        Archive.at(store.url("bucket", "fleet")).write(look())

    assert store.objects == {}
    assert not broken.value.refused


def test_a_store_that_lets_nobody_in_is_named_and_nothing_is_quoted(store: ObjectStore) -> None:
    """Its own text may hold anything."""
    archive = Archive.at(store.url("bucket", "fleet"))
    written = archive.write(look())
    store.allows = False

    for attempt, said in (
        (lambda: archive.write(look()), "written: ACCESS_DENIED in CreateMultipartUpload"),
        (lambda: archive.read(written), "read: ACCESS_DENIED in HeadObject"),
        (lambda: archive.latest("prod"), "listed: ACCESS_DENIED in ListObjectsV2"),
        (lambda: archive.expire("prod", NOON), "listed: ACCESS_DENIED in ListObjectsV2"),
    ):
        with pytest.raises(StorageUnavailable) as refused:
            attempt()
        assert str(refused.value).startswith("s3://bucket/fleet/cluster_id=prod")
        assert str(refused.value).endswith(f": can't be {said}")
        assert SECRET not in str(refused.value)
        assert refused.value.refused


def test_fsspec_reaches_what_pyarrow_does_not() -> None:
    archive = Archive.at("memory://fleet/evidence")
    archive.write(look(at=NOON - timedelta(days=3)))
    new = archive.write(look())

    archive.expire("prod", NOON)

    assert newest(Archive.at("fsspec+memory://fleet/evidence"), "prod") == look()
    assert archive.snapshots("prod") == (new,)


def test_a_file_that_is_gone_when_it_is_to_be_removed_is_no_error(tmp_path: Path) -> None:
    Storage.at(str(tmp_path)).remove("gone")


@pytest.mark.parametrize(
    "url",
    [
        f"s3://AKIDEXAMPLE:{SECRET}@bucket/fleet",
        f"s3://{SECRET}@bucket/fleet",
        f"abfs://container:{SECRET}@account.dfs.core.windows.net/fleet",
        f"fsspec+sftp://ann:{SECRET}@host/fleet",
        f"s3://bucket/fleet?secret_key={SECRET}",
        f"s3://bucket/fleet?region=x&{SECRET}",
        f"s3://bucket/fleet?{SECRET}",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        Storage.at(url)

    assert SECRET not in str(refused.value)
    assert "no credentials in a URL" in str(refused.value) or "behind the question mark" in str(refused.value)


@pytest.mark.parametrize("url", ["", "gopher://host/x", "file:relative", "fsspec+nonsense://x", "s3://", "s3://[x"])
def test_a_place_that_is_none(url: str) -> None:
    with pytest.raises(InvalidDocument):
        Storage.at(url)


def test_a_container_of_azure_is_no_person() -> None:
    """Spark needs the container as much as we do."""
    place = Storage.at("abfs://container@account.dfs.core.windows.net/fleet")

    assert place.name("a.parquet") == "abfs://container@account.dfs.core.windows.net/fleet/a.parquet"


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """S3 can't be reached as long as something stands here."""
    outage, reached = ["AWS Error NETWORK_CONNECTION during HeadBucket operation"], fs.FileSystem.from_uri

    def asked(url: str) -> object:
        if outage:
            raise OSError(outage[0])
        return reached(f"file://{tmp_path}")

    monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=asked))
    return outage


def test_a_store_that_is_away_is_refused_where_a_person_waits(away: list[str]) -> None:
    with pytest.raises(StorageUnavailable, match="s3://bucket/fleet: can't be opened: NETWORK_CONNECTION"):
        Storage.at("s3://bucket/fleet")


def test_an_operator_starts_while_the_store_is_away_and_opens_it_later(away: list[str]) -> None:
    place = Storage.at("s3://bucket/fleet", patient=True)
    with pytest.raises(StorageUnavailable, match="can't be opened"):
        place.write("a.parquet", b"x")
    away.clear()

    place.write("a.parquet", b"x")
    assert place.read("a.parquet") == b"x"


def test_of_a_file_that_is_too_large_no_more_is_read_than_is_allowed(tmp_path: Path) -> None:
    place = Storage.at(str(tmp_path))
    place.write("manifest.json", b"12345")

    assert place.read("manifest.json", at_most=5) == b"12345"
    with pytest.raises(TooLarge, match=r"manifest\.json: can't be read: it has more than 4 bytes"):
        place.read("manifest.json", at_most=4)


def test_a_pipe_is_no_file_also_behind_a_link(tmp_path: Path) -> None:
    """To open one waits for whoever writes into it: here somebody has, so that no defect holds the test up."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    end = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(end, b"more")
        for name in ("pipe", "link"):
            with pytest.raises(StorageUnavailable, match=f"{name}: can't be read: it is no regular file"):
                Storage.at(str(tmp_path)).read(name, at_most=1)
    finally:
        os.close(end)


def test_a_link_to_nowhere_and_a_folder_are_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")

    for name, says in (("folder", "Is a directory|can't be read"), ("link", "No such file")):
        with pytest.raises(StorageUnavailable, match=says):
            Storage.at(str(tmp_path)).read(name, at_most=1)
