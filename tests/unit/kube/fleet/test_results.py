"""Reading what runs have written, from a real folder: there, not there, damaged, unreachable, slow."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from kafka_recovery.domain.election import Ranked as Chosen
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicPartition
from kafka_recovery.fleet.manifest import LARGEST, Expected, Summary, written
from kafka_recovery.fleet.storage import Storage
from kafka_recovery.kube.fleet import leaders as leaders_module
from kafka_recovery.kube.fleet import results as results_module
from kafka_recovery.kube.fleet.leaders import unpacked
from kafka_recovery.kube.fleet.naming import below
from kafka_recovery.kube.fleet.prefixes import Prefixes
from kafka_recovery.kube.fleet.results import StoredResults
from kafka_recovery.kube.fleet.steps import Found, NoResult
from unit.fleet.object_store import serving
from unit.fleet.rankings import POLICY_DIGEST, RUN, TOPIC_ID, Ranked, parquet, run_in
from unit.kube.fleet.asked import active, manifest, ranking

ASKED = ranking()
NOBODY = Summary(clusters=2, partitions=10, lossless=0, bounded=0, unknown=0, none=0)
ANSWER = manifest(ASKED, active(ASKED), summary=NOBODY)
EXPECTED = Expected("rank", ANSWER.run, ANSWER.policy_digest)
RANKED = Expected("rank", RUN, POLICY_DIGEST)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return tmp_path.as_uri()


def reading(*folders: str) -> StoredResults:
    """By an operator whose options name these folders."""
    return StoredResults(Prefixes.of(folders))


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
    assert (trouble.code, "--fleet-results" in trouble.message) == ("InvalidSpec", True)


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

    assert (trouble and trouble.code) == "StorageUnavailable"
    assert "ACCESS_DENIED" in str(trouble)
    assert isinstance(refused, NoResult)
    assert (refused.reason.code, refused.may_pass) == ("StorageUnavailable", True)


async def test_a_storage_that_hangs_is_not_waited_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(results_module, "LONG_PATIENCE", timedelta(milliseconds=20))
    monkeypatch.setattr(results_module, "_result", lambda url, expected: over.wait(5))
    stored = reading(url)
    found = await stored.read(url, EXPECTED)
    over.set()

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


# Leaders


async def test_the_leaders_that_a_ranking_chose_are_read_with_it(tmp_path: Path) -> None:
    place, _ = run_in(tmp_path, [Ranked("orders", 0, [3]), Ranked("orders", 1, [], verdict="Refuse")])
    found = await reading(tmp_path.as_uri()).read(place.as_uri(), RANKED)

    assert isinstance(found, Found)
    leaders = {TopicPartition("orders", 0): Chosen(BrokerId(3), LeaderEpoch(5), TOPIC_ID)}
    assert unpacked(found.leaders or "", "run") == {"one": leaders}


async def test_a_file_that_is_not_the_manifest_s_makes_the_result_invalid(tmp_path: Path) -> None:
    place, _ = run_in(tmp_path, [Ranked("orders", 0, [3])])
    (place / "ranking" / "part-0.parquet").write_bytes(parquet([Ranked("orders", 0, [2])]))
    found = await reading(tmp_path.as_uri()).read(place.as_uri(), RANKED)

    assert isinstance(found, NoResult)
    assert (found.reason.code, found.may_pass) == ("ResultInvalid", False)
    assert "its SHA-256 is another one" in found.reason.message


async def test_more_leaders_than_a_status_holds_make_no_worse_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report can be made of it all the same."""
    monkeypatch.setattr(leaders_module, "LONGEST", 10)
    place, _ = run_in(tmp_path, [Ranked("orders", 0, [3])])
    found = await reading(tmp_path.as_uri()).read(place.as_uri(), RANKED)

    assert isinstance(found, Found)
    assert found.leaders is None
    assert found.no_leaders.startswith("no recovery can name it: it chose 1 leaders, more than")
