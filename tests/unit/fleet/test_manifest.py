"""The manifest of a result: written and read back it is the same; damaged, stale or forged it is refused."""

from __future__ import annotations

import hashlib
import json
import random
import time
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from kafka_recovery.fleet.manifest import (
    Expected,
    Loss,
    Manifest,
    Output,
    Snapshot,
    Summary,
    checksum,
    foreign,
    read_manifest,
    written,
)
from kafka_recovery.formats.documents import InvalidDocument
from unit.documents import document

DIGEST = "cd" * 32
SNAPSHOT = Snapshot("one", f"cluster_id=one/day=2026-11-21/20261121T120000Z-{DIGEST[:16]}.parquet", DIGEST)
WHOLE = Manifest(
    task="rank",
    run="nightly-29921040-1-0f4f8e2c",
    policy_digest="ab" * 32,
    evidence=(SNAPSHOT, replace(SNAPSHOT, cluster_id="zwölf")),
    outputs=(Output("ranking/part-0.parquet", 2**62, "00" * 32),),
    summary=Summary(2, 10, 4, 3, 2, 1, worst=(Loss("one", "rack é", 5, 2, 1, 1, 1),)),
)
EXPECTED = Expected(WHOLE.task, WHOLE.run, WHOLE.policy_digest)


def changed(**fields: Any) -> bytes:
    """The manifest with other fields, by their names in it, and a checksum that fits them; None takes one away."""
    content = json.loads(written(WHOLE)) | fields
    content = {name: value for name, value in content.items() if value is not None and name != "checksum"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return json.dumps({**content, "checksum": hashlib.sha256(canonical).hexdigest()}).encode()


def test_what_is_written_is_read() -> None:
    assert read_manifest(written(WHOLE), "m") == WHOLE
    assert written(WHOLE) == written(WHOLE)


def test_its_form_is_the_documented_one() -> None:
    content = document("fleet-run", written(WHOLE).decode())

    assert sorted(content) == ["checksum", "evidence", "outputs", "policyDigest", "run", "summary", "task", "version"]
    assert sorted(content["evidence"][0]) == ["clusterId", "digest", "snapshot"]
    assert sorted(content["outputs"][0]) == ["path", "rows", "sha256"]
    assert content["checksum"] == checksum(written(WHOLE))


def test_white_space_and_order_count_for_nothing() -> None:
    assert read_manifest(json.dumps(json.loads(written(WHOLE)), indent=2).encode(), "m") == WHOLE


@pytest.mark.parametrize("seed", range(5))
def test_any_change_by_chance_is_noticed(seed: int) -> None:
    chance = random.Random(seed)
    whole = written(WHOLE)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        try:
            assert read_manifest(bytes(damaged), "m") == WHOLE, f"seed {seed}"
        except InvalidDocument:
            continue


@pytest.mark.parametrize("length", [0, 1, 100, -1])
def test_a_cut_off_file_is_refused(length: int) -> None:
    with pytest.raises(InvalidDocument, match=r"m: is no JSON, or is cut off"):
        read_manifest(written(WHOLE)[:length], "m")


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"[]", "m: must be a mapping of fields"),
        (b'"\xff"', "m: is no JSON"),
        (b"[" * 1000, "m: is no JSON"),
        (b"[" * 100_000, "m: has 100000 values in 100000 bytes"),
        (b'{"version": 1}', "m: checksum"),
        (changed(version=2), "m: version: must be 1 (got 2)"),
        (changed(version=True), "m: version: must be 1 (got true)"),
        (changed(extra=1), "m: extra"),
        (changed(run=None), "m: run"),
        (changed(run=7), "m: run"),
        (changed(policyDigest="AB" * 32), "m: policyDigest"),
        (changed(evidence={"one": 1}), "m: evidence"),
        (changed(outputs=[{"path": "p", "rows": -1, "sha256": "00" * 32}]), "m: outputs[0].rows"),
        (changed(summary={"clusters": 1}), "m: summary.partitions"),
        (b" " * (8 * 1024 * 1024 + 1), "at most 8388608 are read"),
    ],
)
def test_what_is_no_manifest_is_refused_by_name(raw: bytes, says: str) -> None:
    with pytest.raises(InvalidDocument) as refusal:
        read_manifest(raw, "m")

    assert says in str(refusal.value)


def test_the_answer_to_what_was_asked_is_taken() -> None:
    assert foreign(WHOLE, EXPECTED) is None
    assert foreign(WHOLE, replace(EXPECTED, cluster_ids=("zwölf", "one"))) is None


@pytest.mark.parametrize(
    ("manifest", "expected", "says"),
    [
        (replace(WHOLE, task="readiness"), EXPECTED, "task is readiness, and rank was asked"),
        (replace(WHOLE, run="nightly-1"), EXPECTED, "run is nightly-1, and nightly-29921040-1-0f4f8e2c was asked"),
        (replace(WHOLE, policy_digest="00" * 32), EXPECTED, "policyDigest is 00"),
        (replace(WHOLE, evidence=()), EXPECTED, "it names no evidence"),
        (replace(WHOLE, outputs=()), EXPECTED, "it names no results"),
        (replace(WHOLE, evidence=(SNAPSHOT, SNAPSHOT)), EXPECTED, "a cluster twice: one"),
        (replace(WHOLE, evidence=(replace(SNAPSHOT, digest="00" * 32),)), EXPECTED, "is not the one in its name"),
        (WHOLE, replace(EXPECTED, cluster_ids=("one",)), "not those that were asked for: zwölf"),
        (WHOLE, replace(EXPECTED, cluster_ids=("one", "zwölf", "c", "d", "e", "f")), "asked for: c, d, e and more"),
    ],
)
def test_another_answer_is_not(manifest: Manifest, expected: Expected, says: str) -> None:
    assert says in (foreign(manifest, expected) or "")


# Of a results folder that somebody else writes


def test_no_depth_of_nesting_is_more_than_a_file_that_is_refused() -> None:
    """Just below what can't be read at all is what can be read, and not be written again for its checksum."""
    for depth in range(900, 1100):
        with pytest.raises(InvalidDocument):
            read_manifest(b'{"version":1,"more":%s%s}' % (b"[" * depth, b"]" * depth), "m")
        with pytest.raises(InvalidDocument):
            read_manifest(b'{"version":%s%s}' % (b"[" * depth, b"]" * depth), "m")


def test_of_a_list_in_which_everything_is_wrong_the_first_is_told() -> None:
    assert most_memory_for(changed(outputs=["x" * 30] * 50_000), r"^m: outputs\[0\]: [^\n]+$") < 22 << 20


@pytest.mark.parametrize(
    "value", [b"[]", b'{"a":0}', b"1.5", b'"\xc3\xa9a"'], ids=["lists", "mappings", "numbers", "text"]
)
def test_more_values_than_a_manifest_has_are_not_even_read(value: bytes) -> None:
    """Of such a file each byte would take some thirty of memory."""
    raw = b'{"version":1,"evidence":[%s]}' % b",".join([value] * 200_000)

    assert most_memory_for(raw, r"^m: has \d+ values in \d+ bytes, more than a manifest has$") < 1 << 20


@pytest.mark.parametrize("value", [b'{"%042x":0}', b'"%021x"', b'["%043x"]'], ids=["mappings", "text", "lists"])
def test_whatever_may_be_read_takes_a_dozen_times_its_size_at_most(value: bytes) -> None:
    count = 1 << 15
    raw = b'{"version":1,"evidence":[%s]}' % b",".join(value % number for number in range(count))

    assert most_memory_for(raw, "checksum") < 12 * len(raw)


def most_memory_for(raw: bytes, says: str) -> int:
    """Bytes, to refuse a file in these words."""
    tracemalloc.start()
    try:
        with pytest.raises(InvalidDocument, match=says):
            read_manifest(raw, "m")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_evidence_that_is_named_twice_is_found_in_no_time_in_the_longest_list() -> None:
    evidence = tuple(replace(SNAPSHOT, cluster_id=str(number)) for number in range(40_000))
    began = time.process_time()

    assert "twice: 0, 1, 10 and more" in (foreign(replace(WHOLE, evidence=evidence * 2), EXPECTED) or "")
    assert time.process_time() - began < 5
