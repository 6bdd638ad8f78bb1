"""plans, and explain --plan DIGEST: every plan of the journal on this machine can be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kafka_recovery.cli import main
from unit.cli.conftest import Run
from unit.cli.small_cluster import SmallCluster
from unit.documents import document


def plans(*words: object) -> Result:
    """`kafka-recovery plans WORDS…`: it asks no cluster."""
    return CliRunner().invoke(main.app, ["plans", *map(str, words)])


@pytest.fixture
def two(cluster: SmallCluster, recovery: Run, automatic: Path) -> list[str]:
    """The newest first: one of pay-0 that nobody approved, and one of orders-17 that was carried out."""
    cluster.offline("orders-17", {2: 27, 3: 15})
    assert recovery("recover", "--all-offline-partitions", "--policy", automatic).exit_code == 0
    cluster.offline("pay-0", {3: 4})
    assert recovery("recover", "--partition", "pay-0").exit_code == 4
    return [plan["plan"] for plan in document("plans", plans("--output", "json").stdout)["plans"]]


def test_the_plans_of_the_journal_are_listed_the_newest_first(
    two: list[str], recovery: Run, cluster: SmallCluster
) -> None:
    heading, *rows = plans().stdout.splitlines()

    assert heading.split() == ["Plan", "State", "Made", "at", "Elections", "Cluster"]
    assert [row.split()[:2] for row in rows] == [[two[0], "NotBegun"], [two[1], "Finished"]]
    assert all(row.split()[-2:] == ["1", cluster.id] for row in rows)


def test_each_of_them_can_be_shown_and_explained_by_the_beginning_of_its_digest(two: list[str], recovery: Run) -> None:
    shown = plans(two[1][:6]).stdout
    why = recovery("explain", "orders-17", "--plan", two[1][:6])

    assert "Finished.\n" in shown.splitlines()[0] + "\n"
    assert "orders-17  Elect" in shown
    assert f"Digest: {two[1]}" in shown
    assert why.stdout.startswith("orders-17: Elect broker 2")
    assert "does not hold orders-17" in recovery("explain", "orders-17", "--plan", two[0][:8]).stderr


def test_what_can_be_saved_before_an_election_is_told_until_it_was_held(
    cluster: SmallCluster, recovery: Run, automatic: Path, tmp_path: Path
) -> None:
    cluster.offline("orders-17", {2: 27, 3: 15})
    leaders = tmp_path / "leaders.json"
    leaders.write_text('{"partitions": [{"topic": "orders", "partition": 17, "designatedLeader": 3}]}')
    for policy in ((), ("--policy", automatic)):
        recovery("recover", "--path-to-json-file", leaders, *policy)
    kept = document("plans", plans("--output", "json").stdout)["plans"]

    shown = {plan["state"]: " ".join(plans(plan["plan"]).stdout.split()) for plan in kept}

    assert "first of all copy its directory FROM broker 2 and broker 3 to a place" in shown["NotBegun"]
    assert "first of all copy" not in shown["Finished"]
    assert "Electing as planned may lose up to 12 records that broker 2 holds" in shown["Finished"]


@pytest.mark.parametrize(
    ("prefix", "said"),
    [("12345", "6 to 64 hexadecimal digits"), ("000000", "has no plan whose digest begins 000000")],
)
def test_what_names_no_plan_is_refused(two: list[str], recovery: Run, prefix: str, said: str) -> None:
    refused = plans(prefix)

    assert (refused.exit_code, said in refused.stderr) == (2, True)


def test_a_whole_digest_whose_end_is_another_one_names_none(two: list[str], recovery: Run) -> None:
    assert "has no plan whose digest begins" in plans(two[0][:16] + "0" * 48).stderr


def test_what_two_plans_begin_with_names_both(
    two: list[str], recovery: Run, journal: Path, cluster: SmallCluster
) -> None:
    kept = journal / cluster.id / two[0][:16]
    other = kept.with_name(two[0][:6] + "0" * 10)
    other.mkdir()
    (other / "plan.json").write_bytes((kept / "plan.json").read_bytes())

    refused = plans(two[0][:6])

    assert refused.exit_code == 2
    assert f"the digests of 2 plans begin {two[0][:6]}:" in refused.stderr
    assert f"  {two[0][:16]} NotBegun (cluster {cluster.id})" in refused.stderr
    assert f"  {other.name} NotBegun" in refused.stderr


def test_one_that_was_changed_is_told_of_and_hides_no_other(
    two: list[str], recovery: Run, journal: Path, cluster: SmallCluster
) -> None:
    file = journal / cluster.id / two[0][:16] / "plan.json"
    file.write_bytes(file.read_bytes().replace(b"pay", b"pax"))

    listed = plans()

    assert listed.exit_code == 0
    assert "it was changed" in listed.stderr
    assert [line.split()[1] for line in listed.stdout.splitlines()[1:]] == ["NotBegun", "Finished"]


def test_where_there_is_no_journal_that_is_said(recovery: Run) -> None:
    assert "there is no journal" in plans().stderr
