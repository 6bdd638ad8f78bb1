"""`--attest`: a person says on the command line that a broker's disk is lost, and it stands in the plan."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafka_recovery.cli.cluster.journal_place import user
from unit.cli.conftest import Run
from unit.cli.small_cluster import SmallCluster

LOST = ("--attest", "broker=1:disk-lost", "--attest-reason", "INC-7: the volume was deleted")
OFFLINE = ("--all-offline-partitions",)


@pytest.fixture(autouse=True)
def _looked_at_now(cluster: SmallCluster) -> None:
    cluster.offline("orders-17", {2: 27, 3: 15})
    cluster.now = datetime.now(UTC) + timedelta(seconds=1)


@pytest.fixture
def plan_file(recovery: Run, tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    assert recovery("plan", *OFFLINE, *LOST, "--out", path).exit_code == 0
    return path


def digest_of(plan_file: Path) -> str:
    return str(json.loads(plan_file.read_text())["digest"])


def test_a_plan_says_who_attested_what_why_and_until_when(recovery: Run, plan_file: Path) -> None:
    (held,) = json.loads(plan_file.read_text())["plan"]["evidence"]["cluster"]["attestations"]

    assert {key: held[key] for key in ("broker", "witness", "by", "reason", "void")} == {
        "broker": 1,
        "witness": "disk-lost",
        "by": user(),
        "reason": "INC-7: the volume was deleted",
        "void": None,
    }
    given, until = datetime.fromisoformat(held["at"]), datetime.fromisoformat(held["expires"])
    assert until - given == timedelta(hours=1)
    assert abs(datetime.now(UTC) - given) < timedelta(minutes=1)


def test_the_screen_says_it_and_asks_nobody_about_that_disk(recovery: Run) -> None:
    asked = "CAN BROKER 1 BE STARTED WITH ITS OWN, INTACT DISK?"
    assert asked in recovery("plan", *OFFLINE).stdout

    shown = recovery("plan", *OFFLINE, *LOST)

    text = " ".join(shown.stdout.split())
    assert f"{user()} attested at " in text
    assert "that the disk of broker 1 is lost for good (INC-7: the volume was deleted); that holds until" in text
    assert asked not in shown.stdout
    assert (
        "Next: kafka-recovery plan --bootstrap-server kafka-1:9092 --all-offline-partitions --attest "
        "broker=1:disk-lost --attest-reason 'INC-7: the volume was deleted' --out plan.json" in shown.stdout
    )


def test_the_way_to_a_plan_that_names_no_leader_says_it_again(recovery: Run, tmp_path: Path) -> None:
    leaders = tmp_path / "leaders.json"
    leaders.write_text('{"partitions": [{"topic": "orders", "partition": 17, "designatedLeader": 3}]}')

    shown = recovery("plan", "--path-to-json-file", leaders, *LOST).stdout

    assert (
        "\nIn place of executing it: kafka-recovery plan --bootstrap-server kafka-1:9092 --partition orders-17 "
        "--attest broker=1:disk-lost --attest-reason 'INC-7: the volume was deleted'\n"
    ) in shown


def test_explain_says_it_of_a_fresh_look_and_of_a_plan(recovery: Run, plan_file: Path) -> None:
    fresh = recovery("explain", "orders-17", *LOST)
    kept = recovery("explain", "orders-17", "--plan", plan_file)

    for shown in (fresh, kept):
        assert shown.exit_code == 0, shown.stderr
        assert "that the disk of broker 1 is lost for good (INC-7" in " ".join(shown.stdout.split())


def test_an_answer_of_that_broker_voids_it_and_the_plan_says_so(cluster: SmallCluster, recovery: Run) -> None:
    cluster.dead_answers = True

    shown = recovery("plan", *OFFLINE, *LOST)

    text = " ".join(shown.stdout.split())
    assert f"VOID: {user()} attested" in text
    assert "broker 1 answered this look, though its disk was attested lost" in text
    assert "Wait on 1 partition" in text, "it is a member of the ISR, so it is waited for as without the attestation"


def test_a_plan_is_not_executed_once_that_broker_answers(cluster: SmallCluster, recovery: Run, plan_file: Path) -> None:
    cluster.dead_answers = True

    done = recovery("execute", plan_file, "--plan", digest_of(plan_file), "--yes")

    assert done.exit_code == 1
    assert "AttestedBrokerAnswers" in done.stdout
    assert cluster.changes == []


def test_a_broker_that_comes_back_while_recovering_is_decided_about_as_without_it(
    cluster: SmallCluster, recovery: Run, automatic: Path
) -> None:
    """By the last look the plan does not hold; the next one says VOID, waits for the member, and then elects."""
    looks = iter(range(100))
    gather = cluster.gather

    async def back_by_the_last_look(*asked: object, **more: object) -> object:
        cluster.dead_answers = next(looks) >= 3  # the cluster's id, whether it has a copy, the plan, then the last look
        return await gather(*asked, **more)  # type: ignore[arg-type]

    cluster.gather = back_by_the_last_look  # type: ignore[method-assign, assignment]

    done = recovery("recover", *OFFLINE, *LOST, "--policy", automatic, "-o", "json")

    assert done.exit_code == 0, done.stderr
    first, second = json.loads(done.stdout)["plans"]
    assert first != second
    assert "waiting 0.5 s: ElectableBrokerReturning" in done.stderr


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "no form": (("--attest", "3", *LOST[2:]), '--attest "3": must be broker=ID:disk-lost, such as broker=3:disk-lost'),
    "no number": (("--attest", "broker=x:disk-lost", *LOST[2:]), '--attest "broker=x:disk-lost": must be broker=ID:'),
    "too large": (("--attest", "broker=2147483648:disk-lost", *LOST[2:]), "must be broker=ID:disk-lost"),
    "another word": (
        ("--attest", "broker=1:disk-ok", *LOST[2:]),
        "--attest \"broker=1:disk-ok\": what is attested must be disk-lost (got 'disk-ok')",
    ),
    "twice": (("--attest", "broker=1:disk-lost", *LOST), "--attest broker=1 is given twice; did you mean another"),
    "no reason": (("--attest", "broker=1:disk-lost"), "--attest-reason: say how you know it, such as"),
    "an empty reason": ((*LOST[:3], "  "), '--attest-reason "  ": say how you know it'),
    "a reason of two lines": ((*LOST[:3], "one\ntwo"), '--attest-reason "one\\ntwo": must be one line of at most 500'),
    "a long reason": ((*LOST[:3], "x" * 501), "must be one line of at most 500 printable characters"),
    "over at once": ((*LOST, "--attest-for", "0s"), '--attest-for "0s": must be at least 1m and at most 24h'),
    "in the past": ((*LOST, "--attest-for", "-1h"), '--attest-for "-1h": must be a duration such as'),
    "too far": ((*LOST, "--attest-for", "25h"), '--attest-for "25h": must be at least 1m and at most 24h'),
    "a moment": ((*LOST, "--attest-for", "2027-01-01"), '--attest-for "2027-01-01": must be a duration such as'),
    "a reason of nothing": (LOST[2:], '--attest-reason "INC-7: the volume was deleted": says something of --attest'),
    "a time of nothing": (("--attest-for", "1h"), '--attest-for "1h": says something of --attest, and there is none'),
}


@pytest.mark.parametrize(("words", "wrong"), BAD.values(), ids=list(BAD))
@pytest.mark.parametrize("command", ["plan", "recover"])
def test_what_is_wrong_with_it_is_said_before_any_broker_is_asked(
    command: str, words: tuple[str, ...], wrong: str, cluster: SmallCluster, recovery: Run
) -> None:
    refused = recovery.refuses(command, *OFFLINE, *words)

    assert wrong in refused
    assert refused.count("\n") == 1
    assert cluster.target is None


@pytest.mark.parametrize("command", ["plan", "recover", "explain"])
def test_a_broker_without_a_replica_there_is_a_mistake(command: str, cluster: SmallCluster, recovery: Run) -> None:
    which = ("orders-17",) if command == "explain" else OFFLINE
    refused = recovery.refuses(command, *which, "--attest", "broker=33:disk-lost", *LOST[2:])

    assert (
        "--attest broker=33:disk-lost: broker 33 has no replica of the partitions that were looked at; those that have "
        "are 1, 2, 3" in refused
    )
    assert cluster.changes == []


def test_a_plan_that_is_made_holds_its_own(recovery: Run, plan_file: Path, cluster: SmallCluster) -> None:
    commands = [
        recovery("execute", plan_file, "--plan", digest_of(plan_file), "--yes", *LOST),
        recovery("execute", "--plan", digest_of(plan_file), "--yes", *LOST),
        recovery("explain", "orders-17", "--plan", plan_file, *LOST),
    ]

    for refused in commands:
        assert refused.exit_code == 2
        assert "holds what was attested when that plan was made; to attest something else, make a new plan" in (
            refused.stderr
        )
    assert cluster.changes == []


def test_a_file_of_designated_leaders_takes_it(
    cluster: SmallCluster, recovery: Run, automatic: Path, tmp_path: Path, journal: Path
) -> None:
    leaders = tmp_path / "leaders.json"
    leaders.write_text('{"partitions": [{"topic": "orders", "partition": 17, "designatedLeader": 3}]}')

    done = recovery("execute", leaders, "--policy", automatic, *LOST)

    assert done.exit_code == 0, done.stderr
    (kept,) = (journal / cluster.id).glob("*/plan.json")
    assert json.loads(kept.read_text())["evidence"]["cluster"]["attestations"][0]["broker"] == 1


def test_kafkas_own_tool_does_not_have_it(unclean: Run) -> None:
    assert "No such option" in unclean.refuses("generate", *LOST)
