"""Every plan of a recovery can be read, and says what became of it."""

from __future__ import annotations

import pytest

from kafka_recovery.domain.outcome import End
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.recoveries.status import Phase
from kafka_recovery.kube.resources.kinds import RECOVERIES
from unit.cli.kubectl.conftest import Plugin
from unit.cli.kubectl.person import NAMESPACE, Incidents, SmallKubernetes
from unit.cli.kubectl.test_plans import one_line
from unit.cli.small_cluster import SmallCluster
from unit.documents import document


@pytest.fixture
def two(incidents: Incidents, cluster: SmallCluster) -> tuple[Plan, Plan]:
    """orders-17 was to be led by broker 2; then payments-0 was planned in its place."""
    first = incidents.awaiting()

    def change() -> None:
        cluster.online("orders-17", 2, 27)
        cluster.offline("payments-0", {3: 5})

    return first, incidents.replanned("prod-1", first, change)


def test_the_plans_of_a_recovery_are_listed_the_newest_first(two: tuple[Plan, Plan], plugin: Plugin) -> None:
    first, second = (digest(each)[:12] for each in two)

    listed = plugin("plans", "prod-1")

    heading, *rows = listed.stdout.splitlines()
    assert heading.split() == ["Plan", "Became", "Made", "at", "Elections"]
    assert [row.split()[:2] for row in rows[:2]] == [[second, "Current"], [first, "Replaced"]]
    told = one_line(listed.stdout)
    assert f"{first}: Replaced at " in told
    assert (
        f": orders-17 can't be seen any more, followed by plan {second} (1 added (payments-0), 1 removed "
        "(orders-17))." in told
    )
    assert listed.stdout.endswith(f"\nTo read one: kubectl kafka-recovery plan prod-1 --plan {second}\n")
    assert f"{first} Replaced" in one_line(plugin("status", "prod-1").stdout)


def test_an_earlier_plan_is_shown_as_such_and_nobody_is_asked_about_it(two: tuple[Plan, Plan], plugin: Plugin) -> None:
    first = digest(two[0])

    shown = plugin.says("plan", "prod-1", "--plan", first[:6])

    assert one_line(shown).startswith(f"NOT the plan of this moment: plan {first[:12]} of prod-1. Replaced at ")
    assert f"Digest: {first}\n" in shown
    assert "orders-17  Elect" in shown
    for word in ("Approve:", "Refuse:", "approve"):
        assert word not in shown
    assert "This plan was to elect broker 2 on 1 partition. Kafka calls" in one_line(shown)
    told = document("plan", plugin("plan", "prod-1", "--plan", first, "-o", "json").stdout)
    assert (told["digest"], told["became"]) == (first, "Replaced")


def test_the_plan_of_this_moment_is_the_same_by_its_digest(two: tuple[Plan, Plan], plugin: Plugin) -> None:
    by_digest = plugin("plan", "prod-1", "--plan", digest(two[1])[:8]).stdout

    assert by_digest == plugin("plan", "prod-1").stdout
    assert "\nApprove: " in by_digest


def test_a_partition_of_an_earlier_plan_is_explained_with_and_without_its_digest(
    two: tuple[Plan, Plan], plugin: Plugin
) -> None:
    first = digest(two[0])

    for words in (["--plan", first[:7]], []):
        shown = plugin.says("explain", "prod-1", "orders-17", *words)
        assert one_line(shown).startswith(f"NOT the plan of this moment: plan {first[:12]} of prod-1. Replaced")
        assert "orders-17: Elect broker 2" in shown
    assert plugin("explain", "prod-1", "payments-0").stdout.startswith("payments-0: ")


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        ("12345", "not the beginning of a plan's digest (6 to 64 hexadecimal digits)"),
        ("xyzxyz", "not the beginning of a plan's digest"),
        ("000000", "prod-1 has no plan whose digest begins 000000; kubectl kafka-recovery plans prod-1 lists"),
    ],
)
def test_a_digest_that_names_no_plan_is_refused(two: tuple[Plan, Plan], plugin: Plugin, prefix: str, said: str) -> None:
    for command in (("plan", "prod-1"), ("explain", "prod-1", "orders-17")):
        refused = plugin(*command, "--plan", prefix)
        assert (refused.exit_code, said in refused.stderr) == (2, True)


def test_a_digest_that_two_plans_begin_with_names_them(
    two: tuple[Plan, Plan], plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    plans = kubernetes.memory.objects[RECOVERIES.path(NAMESPACE, "prod-1")]["status"]["plans"]
    plans.append({**plans[1], "digest": plans[1]["digest"][:20] + "0" * 44})

    refused = plugin.refuses("plan", "prod-1", "--plan", plans[1]["digest"][:6])

    assert "the digests of 2 plans of prod-1 begin " in refused
    for each in plans[1:]:
        assert f"  {each['digest']} Replaced\n" in refused


def test_one_that_is_not_kept_any_more_says_so(
    two: tuple[Plan, Plan], plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    kubernetes.memory.objects[RECOVERIES.path(NAMESPACE, "prod-1")]["status"]["plans"][1]["readable"] = False

    refused = plugin.refuses("plan", "prod-1", "--plan", digest(two[0])[:12])

    assert "is not kept any more: Replaced; kubectl kafka-recovery plans prod-1 says what is known" in refused
    assert "(not kept)" in plugin("plans", "prod-1").stdout


def test_of_an_operator_that_told_of_no_plans_what_was_begun_is_listed(incidents: Incidents, plugin: Plugin) -> None:
    plan = incidents.awaiting()
    incidents.carried_out("prod-1", plan)
    incidents.tell("prod-1", Phase.ENDED, Reason("Recovered", "1 of 1"), plan, end=End.RECOVERED)

    assert (
        one_line(plugin("plans", "prod-1").stdout).split("Elections ")[1].startswith(f"{digest(plan)[:12]} CarriedOut")
    )


def test_who_approves_a_plan_that_was_replaced_is_shown_what_changed(
    two: tuple[Plan, Plan], plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    first, second = map(digest, two)

    refused = plugin.refuses("approve", "prod-1", "--plan", first[:12], "--yes", code=4)

    told = one_line(refused)
    assert "Partition As read Now" in told
    assert "orders-17 broker 2, Unknown" in told
    assert "payments-0 not in the plan broker 3, Unknown" in told
    assert f"plan {first[:12]} of prod-1 does not hold any more: the plan is {second[:12]} now" in told
    assert kubernetes.said() == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--yes"], "--yes says yes to a plan that was read: name it with --plan DIGEST"),
        (["--plan", "abcdef", "--yes"], "--plan 'abcdef': not a plan's digest (12 to 64 hexadecimal digits"),
    ],
)
def test_nobody_approves_without_asking_what_they_do_not_name(
    two: tuple[Plan, Plan], plugin: Plugin, kubernetes: SmallKubernetes, words: list[str], says: str
) -> None:
    assert says in plugin.refuses("approve", "prod-1", *words)
    assert kubernetes.said() == []


def test_twelve_digits_name_the_plan_that_is_approved(
    two: tuple[Plan, Plan], plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    done = plugin("approve", "prod-1", "--plan", digest(two[1])[:12], "--yes")

    assert done.exit_code == 0, done.output
    assert [each["planDigest"] for each in kubernetes.said()] == [digest(two[1])]
