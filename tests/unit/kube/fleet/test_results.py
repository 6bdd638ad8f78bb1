"""Reading what runs have written, from a real folder: there, not there, damaged, unreachable, slow."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from kafka_recovery.fleet.choices import Choices
from kafka_recovery.fleet.manifest import LARGEST, Expected, checksum, written
from kafka_recovery.fleet.storage import Storage
from kafka_recovery.kube.fleet import results as results_module
from kafka_recovery.kube.fleet.naming import below
from kafka_recovery.kube.fleet.prefixes import Prefixes
from kafka_recovery.kube.fleet.results import StoredResults
from kafka_recovery.kube.fleet.steps import Found, NoResult
from unit.fleet.object_store import serving
from unit.kube.fleet.asked import active, manifest, ranking

ASKED = ranking()
ANSWER = manifest(ASKED, active(ASKED))
EXPECTED = Expected("rank", ANSWER.run, ANSWER.policy_digest)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return tmp_path.as_uri()


def reading(*folders: str) -> StoredResults:
    """By an operator whose options name these folders."""
    return StoredResults(Prefixes.of(folders))


async def test_a_whole_manifest_is_found(tmp_path: Path, url: str) -> None:
    raw = written(ANSWER)
    (tmp_path / "manifest.json").write_bytes(raw)

    assert await reading(url).read(url, EXPECTED) == Found(ANSWER, checksum(raw))


async def test_a_folder_without_manifest_is_no_result(tmp_path: Path, url: str) -> None:
    """A job that was killed half-way leaves files, and no manifest."""
    (tmp_path / "part-0.parquet").write_bytes(b"PAR1")
    (tmp_path / ".manifest.json.partial").write_bytes(written(ANSWER))
    for place in (url, f"{url}/nowhere"):
        found = await reading(url).read(place, EXPECTED)
        assert isinstance(found, NoResult)
        assert (found.reason.code, found.may_pass) == ("ResultMissing", False)


@pytest.mark.parametrize("cut", [0, 1, 200])
async def test_a_cut_off_manifest_is_refused(tmp_path: Path, url: str, cut: int) -> None:
    (tmp_path / "manifest.json").write_bytes(written(ANSWER)[:cut])
    found = await reading(url).read(url, EXPECTED)

    assert isinstance(found, NoResult)
    assert (found.reason.code, found.may_pass) == ("ResultInvalid", False)
    assert f"{url}/manifest.json: is no JSON, or is cut off" in found.reason.message


async def test_a_manifest_that_is_too_large_is_refused_before_it_is_read_whole(tmp_path: Path, url: str) -> None:
    with (tmp_path / "manifest.json").open("wb") as file:
        file.truncate(LARGEST + 1_000_000)
    found = await reading(url).read(url, EXPECTED)

    assert isinstance(found, NoResult)
    assert (found.reason.code, found.may_pass) == ("ResultInvalid", False)
    assert f"{url}/manifest.json: can't be read: it has more than {LARGEST} bytes" in found.reason.message


async def test_a_manifest_of_another_run_is_refused(tmp_path: Path, url: str) -> None:
    (tmp_path / "manifest.json").write_bytes(written(ANSWER))
    found = await reading(url).read(url, Expected("rank", "another", ANSWER.policy_digest))

    assert isinstance(found, NoResult)
    assert "is not the answer to this run: run is" in found.reason.message


async def test_a_place_that_can_t_be_looked_into_is_told_before_anything_runs(url: str) -> None:
    assert await reading(url).trouble(url) is None
    trouble = await reading(url).trouble(url.replace("file:///", "file:///nosuch"))
    assert trouble is not None
    assert (trouble.code, "--fleet-results" in trouble.message) == ("StorageNotAllowed", True)


async def test_an_object_store_is_read_too_and_one_that_lets_nobody_in_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "geheim")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with serving() as store:
        results, folder = "s3://bucket/results", f"s3://bucket/results/{ANSWER.run}"
        Storage.at(below(store.url("bucket", "results"), ANSWER.run)).write("manifest.json", written(ANSWER))
        stored = reading(store.url("bucket", "results"))
        assert await stored.trouble(results) is None
        assert isinstance(await stored.read(folder, EXPECTED), Found)

        store.allows = False
        trouble = await stored.trouble(results)
        refused = await stored.read(folder, EXPECTED)

    assert trouble is not None
    assert trouble.code == "StorageUnavailable"
    assert "ACCESS_DENIED" in trouble.message
    assert isinstance(refused, NoResult)
    assert (refused.reason.code, refused.may_pass) == ("ResultUnreadable", True)


async def test_a_storage_that_hangs_is_not_waited_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(results_module, "PATIENCE", timedelta(milliseconds=20))
    monkeypatch.setattr(results_module, "_result", lambda url, expected: over.wait(5))
    stored = reading(url)
    found = await stored.read(url, EXPECTED)
    over.set()
    stored.close()

    assert isinstance(found, NoResult)
    assert found.may_pass


async def test_a_storage_that_hangs_for_ever_takes_nothing_from_another(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, patience = threading.Event(), results_module.PATIENCE
    monkeypatch.setattr(results_module, "PATIENCE", timedelta(milliseconds=100))
    monkeypatch.setattr(results_module, "_trouble", lambda url: over.wait(60) if "dead" in url else None)
    stored = reading(url, "s3://dead")
    dead = await asyncio.gather(*(stored.trouble("s3://dead/results") for _ in range(5)))
    monkeypatch.setattr(results_module, "PATIENCE", patience)
    alive = await stored.trouble(url)
    over.set()

    assert [each and each.code for each in dead] == ["StorageUnavailable"] * 5
    assert alive is None


async def test_a_ranking_that_could_not_be_read_for_a_defect_of_ours_is_read_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Choices | Exception] = [KeyError("ours"), {"one": {}}]

    def read(*asked: object) -> Choices:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(results_module, "_choices", read)
    results = reading(url)
    with pytest.raises(KeyError):
        await results.choices(url, EXPECTED, "ab" * 32)

    assert [await results.choices(url, EXPECTED, "ab" * 32) for _ in range(3)] == [{"one": {}}] * 3, "read once"
