"""The journal as a person meets it: where there is none, who holds it, and what nobody approved in time."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kafka_recovery.cli.cluster.journal_place import STALE, Holder, JournalPlace
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import digest, read
from kafka_recovery.recovery.local_storage import local_journal
from kafka_recovery.recovery.ports import JournalLocked
from unit.cli.conftest import Run
from unit.cli.small_cluster import SmallCluster

DIGEST = "a" * 64
FROM_JOURNAL = [["resume"], ["undo"], ["execute", "--plan", DIGEST, "--yes"]]


@pytest.fixture
def place(journal: Path, cluster: SmallCluster) -> JournalPlace:
    return JournalPlace(journal / cluster.id, Holder.here("recover"))


def unapproved(cluster: SmallCluster, recovery: Run, journal: Path) -> Path:
    """A plan that recover left in the journal because nobody was there to approve it."""
    before = set((journal / cluster.id).glob("*/plan.json"))
    assert recovery("recover", "--all-offline-partitions").exit_code == 4
    (plan,) = set((journal / cluster.id).glob("*/plan.json")) - before
    return plan


def grow_old(plan: Path) -> None:
    then = time.time() - STALE.total_seconds() - 1
    os.utime(plan, (then, then))


@pytest.mark.parametrize("words", FROM_JOURNAL, ids=lambda words: words[0])
def test_a_mistyped_journal_is_said_not_to_be_there_and_not_made(
    cluster: SmallCluster, recovery: Run, tmp_path: Path, words: list[str]
) -> None:
    mistyped = tmp_path / "jornal"

    refused = recovery(*words, "--journal", mistyped)

    assert refused.exit_code == 2
    assert f"Error: there is no journal in {mistyped}" in refused.stderr
    assert refused.stdout == ""
    assert not mistyped.exists()
    assert cluster.target is None


@pytest.mark.parametrize("words", FROM_JOURNAL, ids=lambda words: words[0])
def test_a_directory_without_this_cluster_s_journal_is_left_as_it_is(
    cluster: SmallCluster, recovery: Run, tmp_path: Path, words: list[str]
) -> None:
    another = tmp_path / "another"
    another.mkdir()

    refused = recovery.refuses(*words, "--journal", another)

    assert f"Error: there is no journal of cluster {cluster.id} in {another / cluster.id}" in refused
    assert list(another.iterdir()) == []


def test_whoever_comes_second_learns_who_is_first(cluster: SmallCluster, journal: Path, place: JournalPlace) -> None:
    with place.locked(local_journal(journal, cluster.id)), pytest.raises(JournalLocked) as refused:
        place.locked(local_journal(journal, cluster.id)).__enter__()

    assert str(place.holder) in str(refused.value)
    assert f"(recover by {place.holder.who} on {place.holder.host}) since " in str(refused.value)
    assert f"stop it (kill -INT {os.getpid()}): it can be resumed" in str(refused.value)


def test_whoever_comes_while_a_person_is_asked_learns_that_too(
    cluster: SmallCluster, recovery: Run, journal: Path, place: JournalPlace
) -> None:
    with place.locked(local_journal(journal, cluster.id)):
        place.awaits(DIGEST)
        refused = recovery("recover", "--all-offline-partitions")
        place.awaits(None)
        answered = recovery("recover", "--all-offline-partitions")

    assert (refused.exit_code, answered.exit_code) == (5, 5)
    assert f"waits for approval of plan {DIGEST[:12]}: process {os.getpid()} " in refused.stderr
    assert f"end it, which approves nothing: kill -INT {os.getpid()}" in refused.stderr
    assert "approval" not in answered.stderr


def test_the_refused_run_does_not_unlock_the_first_or_take_its_name_away(
    cluster: SmallCluster, recovery: Run, journal: Path, place: JournalPlace
) -> None:
    with place.locked(local_journal(journal, cluster.id)):
        refusals = [recovery("undo").stderr for _ in range(2)]

    assert refusals[0] == refusals[1]
    assert "recover by" in refusals[1]
    assert recovery("undo").exit_code == 0


def test_a_name_that_a_killed_run_left_is_not_taken_for_the_holder_s(
    cluster: SmallCluster, recovery: Run, journal: Path, place: JournalPlace
) -> None:
    place.root.mkdir(parents=True)
    (place.root / "holder.json").write_text(
        '{"process": 1, "who": "ann", "host": "h", "command": "recover", "since": "noon", "awaits": null}'
    )

    with local_journal(journal, cluster.id):
        refused = recovery("undo")

    assert refused.exit_code == 5
    assert "ann" not in refused.stderr
    assert f"process {os.getpid()}" in refused.stderr


def test_a_plan_nobody_approved_in_time_is_removed_at_the_next_recovery(
    cluster: SmallCluster, recovery: Run, journal: Path
) -> None:
    cluster.offline("orders-17", {2: 27})
    old, young = (unapproved(cluster, recovery, journal) for _ in range(2))
    grow_old(old)

    said = recovery("recover", "--all-offline-partitions").stderr

    assert "removed from the journal: 1 plan that nobody approved within 7 days" in said
    assert not old.parent.exists()
    assert young.exists()


@pytest.mark.parametrize("fact", ["approval.json", "begun.json", "finished.json", "wave-0001-started.json"])
def test_of_a_run_that_began_nothing_is_ever_removed(
    cluster: SmallCluster, recovery: Run, journal: Path, place: JournalPlace, fact: str
) -> None:
    cluster.offline("orders-17", {2: 27})
    plan = unapproved(cluster, recovery, journal)
    (plan.parent / fact).write_text("{}")
    grow_old(plan)

    place.remove_stale_plans()

    assert plan.exists()


def test_an_old_plan_can_be_approved_as_long_as_nobody_recovers_anew(
    cluster: SmallCluster, recovery: Run, journal: Path
) -> None:
    orders = cluster.offline("orders-17", {2: 27})
    plan = unapproved(cluster, recovery, journal)
    grow_old(plan)
    recovery("resume")

    done = recovery("execute", "--plan", digest(read(Plan, plan.read_bytes(), str(plan))), "--yes")

    assert done.exit_code == 0
    assert cluster.leader(orders) == 2
