"""What a person on call sees first of each incident; the files are made by unit.cli.terminal.incidents."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest

from kafka_recovery.decision.card import AtHand
from kafka_recovery.decision.kubectl import Kubectl
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan, Verdict
from kafka_recovery.domain.policy import Approval, HoldBack
from kafka_recovery.formats.documents import digest
from unit.cli.terminal.incidents import (
    INCIDENTS,
    SHOWN,
    as_shown,
    at_hand,
    file_of,
    planned,
    silent,
    the_last_member_is_dead,
)
from unit.decision.incident import NOON, evidence, log, partition

FIRST_SCREEN = 24
"""Lines of a terminal that nobody made larger."""


@cache
def plan_of(incident: str) -> Plan:
    return INCIDENTS[incident]()


@cache
def card_of(incident: str) -> str:
    return as_shown(plan_of(incident))


@pytest.mark.parametrize("incident", INCIDENTS)
def test_each_incident_is_shown_as_it_was_read_and_found_good(incident: str) -> None:
    assert card_of(incident) == file_of(incident).read_text()


def test_every_file_belongs_to_an_incident() -> None:
    assert sorted(path.stem for path in SHOWN.iterdir()) == sorted(INCIDENTS)
    assert len(INCIDENTS) >= 16


@pytest.mark.parametrize("incident", INCIDENTS)
def test_who_is_elected_what_it_loses_and_whom_to_repair_first_stand_on_the_first_screen(incident: str) -> None:
    plan = plan_of(incident)
    first = " ".join("\n".join(card_of(incident).splitlines()[:FIRST_SCREEN]).split())
    if not plan.elections:
        assert "This plan elects nobody" in first
        return
    for decision in plan.elections.values():
        assert re.search(rf"elect .*\b{decision.leader}\b[^.]* on \d", first)
        assert decision.loss is not None
        assert re.search(rf"\. {decision.loss.loss_class}( on [^:]+)?: ", first)
    assert any(word in first for word in ("CAN ", "DANGER: STOP BROKER", "Waiting saves no record"))
    assert any(each.verdict is Verdict.ELECT for each in plan.decisions)


@pytest.mark.parametrize("incident", INCIDENTS)
def test_all_that_decides_stands_on_one_screen_down_to_the_command_or_where_there_is_none_to_the_last_answer(
    incident: str,
) -> None:
    plan = plan_of(incident)
    first = card_of(incident).splitlines()[:FIRST_SCREEN]
    if plan.elections and not at_hand(plan).better:
        assert at_hand(plan).approve in "\n".join(first)
    else:
        last = max((n for n, line in enumerate(first) if line.startswith(("  No:", "  No, "))), default=0)
        assert any(
            line == "" or line.startswith("AFTER THE ELECTION") for line in card_of(incident).splitlines()[last:27]
        )
        assert last < FIRST_SCREEN


@pytest.mark.parametrize(
    ("incident", "why"),
    [
        ("the_only_copy_is_empty", "Broker 3 is EMPTY: it holds no record of orders-0, orders-1."),
        (
            "retention_emptied_the_only_copy",
            "Broker 3 is EMPTY: it holds no record of orders-0 (log end 500: retention may be why). Once it",
        ),
        (
            "a_few_records_are_lost_at_most",
            "Broker 3 was named (designatedLeader or rankingRef) as leader of orders-0: by",
        ),
    ],
)
def test_a_plan_beside_which_a_better_one_may_be_had_opens_with_that(incident: str, why: str) -> None:
    _, first, *_ = card_of(incident).splitlines()
    assert first.startswith(f"DO NOT APPROVE. {why}")

    over = as_shown(plan_of(incident), over=True)
    assert f"\n{why}" in over
    assert "DO NOT APPROVE" not in over


def test_a_member_that_only_lacks_heartbeats_is_heard_again_before_anybody_copies_its_disk_for_hours() -> None:
    shown = " ".join(card_of("a_member_answers_and_is_fenced").split())
    assert "first of all copy" not in shown, "it deletes nothing if it leads"
    assert "No: stop broker 1 for now (docs/how-to/silent-broker.md), KEEP its volume, copy its directories" in shown
    assert "BEFORE YOU APPROVE: copy as said above; keep broker 1 off" in shown


def test_a_pod_that_crashes_again_and_again_is_kept_off_while_the_others_are_copied() -> None:
    shown = " ".join(card_of("the_pod_of_the_last_member_is_killed").split())
    assert "restored: first keep its Pod off, then copy the directories FROM broker 2 and 3: they delete" in shown


def test_a_pending_pod_is_not_left_to_start_and_the_card_has_the_commands_that_keep_it_off() -> None:
    shown = " ".join(card_of("the_claim_of_the_last_member_is_new").split())
    assert "a Pod that is Pending starts on it as soon as it can" in shown
    assert (
        "Keep it off NOW, until another leads: first kubectl scale deployment strimzi-cluster-operator "
        "--replicas 0 --namespace STRIMZI (STRIMZI: docs/how-to/silent-broker.md); once Strimzi's Pod is gone, kubectl "
        "delete pod prod-brokers-1 --namespace kafka; once another leads, scale it to 1: until then Strimzi mends no "
        "Kafka."
    ) in shown
    assert shown.count("kubectl delete pod") == 1
    assert "Nobody knows yet: keep its Pod off, approve nothing: look" in shown, "nobody starts it: it starts by itself"
    assert "The same, but its machine may have crashed: first keep its Pod off, then copy" in shown, (
        "not on the new claim"
    )
    assert card_of("the_claim_of_the_last_member_is_new").splitlines()[1].startswith("DANGER: claim "), "it may be now"
    assert "It runs, but can't be reached" in shown, "that the new Pod is on no node says nothing of the one before"


def test_an_empty_leader_about_whom_nobody_is_asked_is_to_be_stopped() -> None:
    plan = plan_of("the_only_copy_is_empty")
    unasked = tuple(replace(each, approval=Approval.AUTO) for each in plan.decisions)
    _, first, *_ = as_shown(replace(plan, decisions=unasked)).splitlines()
    assert first.startswith("STOP THIS PLAN. Broker 3 is EMPTY: it holds no record of orders-0, orders-1.")


@pytest.mark.parametrize("incident", INCIDENTS)
def test_what_must_never_be_done_stands_above_the_first_thing_to_start(incident: str) -> None:
    shown = card_of(incident)
    if "start it, wait" in shown:
        assert shown.index("NEVER start") < shown.index("start it, wait")


@pytest.mark.parametrize("incident", INCIDENTS)
def test_above_each_column_stands_under_which_act_a_broker_deletes(incident: str) -> None:
    plan = plan_of(incident)
    (headings,) = [line for line in card_of(incident).splitlines() if line.startswith("Broker  ")]
    if not plan.elections:
        assert "Deletes if broker 1 leads" in headings
        assert "approve" not in headings
        return
    approved = all(each.needs_approval for each in plan.elections.values())
    planned = f"Deletes if {'you approve' if approved else 'the plan elects'}"
    assert re.search(rf" {planned} +Deletes if (broker [12] leads|Kafka elects another)$", headings)


def test_where_kafka_can_elect_several_the_column_tells_what_a_broker_deletes_by_any_of_them_but_itself() -> None:
    assert "Deletes if Kafka elects another\n" in card_of("several_brokers_are_dead")


def test_a_broker_that_is_to_be_stopped_is_told_with_the_commands_that_stop_it() -> None:
    _, *told = card_of("a_member_is_back_with_less").splitlines()
    shown = " ".join(told)
    assert shown.startswith("DANGER: STOP BROKER 1 NOW: first kubectl scale deployment strimzi-cluster-operator --repl")
    assert "; once Strimzi's Pod is gone, kubectl delete pod prod-brokers-1 --namespace kafka; " in shown, (
        "it is Ready: it runs"
    )
    assert "until then Strimzi mends no Kafka. Do not approve yet." in shown


def test_what_is_elected_unasked_is_said_first_with_when_it_begins_and_what_stops_it() -> None:
    shown = " ".join(card_of("nothing_is_lost_and_nobody_is_asked").split())
    assert (
        "12:00:00 UTC UNASKED: leaders of orders-0, orders-1 are elected WITHOUT anybody's yes, at once. Let it go on: "
        "no record acknowledged with acks=all is lost. To stop that: kubectl kafka-recovery suspend prod-1; to go "
        "on later: kubectl kafka-recovery unsuspend prod-1 3 partitions have no leader"
    ) in shown
    assert "would elect broker 2 on 3 partitions: on 1 if it is approved, 2 UNASKED. Kafka" in shown
    assert "Unknown on payments-0: whether" in shown
    assert "BEFORE THIS PLAN ELECTS" not in shown, "that is over when it is read"
    assert "IF NOBODY APPROVES: 1 partition waits; what is UNASKED is elected all the same." in shown
    assert "UNASKED" not in as_shown(plan_of("nothing_is_lost_and_nobody_is_asked"), over=True)


def test_of_unasked_elections_of_which_one_is_not_proven_nobody_is_told_to_let_them_go_on() -> None:
    plan = INCIDENTS["nothing_is_lost_and_nobody_is_asked"]()
    unasked = tuple(replace(each, approval=Approval.AUTO) for each in plan.decisions)
    shown = " ".join(as_shown(replace(plan, decisions=unasked)).split())
    assert "UNASKED: leaders of orders-0, orders-1, payments-0 are elected WITHOUT anybody's yes, at once. To" in shown
    assert "BEFORE YOU APPROVE" not in shown, "nobody is asked"


def test_where_a_person_is_asked_about_what_the_policy_asks_nobody_about_the_card_says_so_and_why() -> None:
    plan = plan_of("the_only_copy_is_empty")
    unasked = replace(plan, decisions=tuple(replace(each, approval=Approval.AUTO) for each in plan.decisions))
    asks = replace(at_hand(unasked), asked="authority is Approve", begins="after that")
    lines = as_shown(unasked, asks).splitlines()
    shown = " ".join(" ".join(lines).split())

    assert lines[1].startswith("DO NOT APPROVE. Broker 3 is EMPTY: it holds no record of orders-0, orders-1.")
    assert (
        "ASKED ALL THE SAME: the policy asks nobody about the election of orders-0, orders-1. A person is asked now: "
        "authority is Approve. They begin after that. To stop that: kubectl kafka-recovery suspend prod-1; to go "
        "on later: kubectl kafka-recovery unsuspend prod-1 2 partitions have"
    ) in shown
    assert "This plan would elect broker 3 on 2 partitions, if it is approved." in shown
    assert "IF NOBODY APPROVES" not in shown, "it would read as a reason to approve"
    assert f"ONLY IF NO OTHER COPY IS LEFT: {asks.approve}" in shown
    assert "Deletes if you approve" in shown
    assert f"Digest: {digest(unasked)}" in shown, "what is approved is the plan as it was made"


STOPPED = {
    "the_only_copy_is_empty": "ONLY IF NO OTHER COPY IS LEFT",
    "retention_emptied_the_only_copy": "ONLY IF NO OTHER COPY IS LEFT",
    "a_member_is_back_with_less": "ONLY IF THE OWN VOLUME OF BROKER 1 IS LOST",
    "a_member_answers_and_is_fenced": "ONLY IF IT CAN'T BE HEARD AGAIN, AND IS OFF BY NOW",
}
"""Where a plan opens with why nobody may approve it, and when its command may be typed all the same."""
BETTERED = ("a_few_records_are_lost_at_most", "the_longest_log_is_not_the_proven_one")
"""Where a better plan can be had."""


@pytest.mark.parametrize("incident", [each for each in INCIDENTS if each not in BETTERED])
def test_the_next_command_stands_on_the_card_in_one_piece_below_what_is_to_be_done_before(incident: str) -> None:
    plan = plan_of(incident)
    shown = card_of(incident)
    told = [line for line in shown.splitlines() if " kafka-recovery approve " in line]
    when = STOPPED.get(incident, "THEN, IF YOU APPROVE")
    assert told == [f"{when}: {at_hand(plan).approve}"] * bool(plan.elections)
    assert not told or shown.index("\nBEFORE YOU APPROVE: ") < shown.index(told[0])
    assert at_hand(plan).approve not in as_shown(plan, over=True)


@pytest.mark.parametrize("incident", BETTERED)
def test_in_place_of_a_plan_beside_which_a_better_one_can_be_had_the_way_to_that_is_told(incident: str) -> None:
    plan = plan_of(incident)
    shown = card_of(incident)
    assert f"\nIN PLACE OF APPROVING: {at_hand(plan).better}\n" in shown
    assert "kafka-recovery approve" not in shown
    assert "BEFORE YOU APPROVE" not in shown
    assert at_hand(plan).better not in as_shown(plan, over=True)


def test_columns_and_lines_that_say_the_same_of_each_partition_are_left_out() -> None:
    assert "\norders-0 to orders-2  Elect    2       27       Unknown  first of 2 by LeastLoss\n" in as_shown(
        the_last_member_is_dead()
    )
    mixed = card_of("nothing_is_lost_and_nobody_is_asked")
    assert re.search(r"^Partition +Verdict +Leader +Log end +Loss +Approval +Why$", mixed, re.MULTILINE)
    assert re.search(r"^orders-0, orders-1 +Elect +2 +30 +Lossless +by policy +", mixed, re.MULTILINE)


def test_of_what_has_no_room_in_the_table_the_partitions_are_counted_not_the_lines() -> None:
    seen = [
        partition({1: silent(1), 2: log(27 + number // 2), 3: log(15)}, id=TopicPartition("orders", number))
        for number in range(20)
    ]
    assert "\n… and 4 more; --output json shows all of them\n" in as_shown(planned(evidence(*seen)))


def test_a_shorter_log_is_said_to_be_the_newer_one() -> None:
    shown = card_of("the_longest_log_is_the_wrong_one")
    assert (
        "\nOn orders-0, orders-1 the log of broker 1 is longer than that of broker 3, but older: it ends in leader "
        "epoch\n0, the other in 1.\n"
    ) in shown
    assert "the log of broker" not in as_shown(the_last_member_is_dead())


def test_the_card_of_a_pod_that_is_killed_for_memory_has_the_way_to_have_it_run_and_no_command_that_deletes_it() -> (
    None
):
    shown = " ".join(card_of("the_pod_of_the_last_member_is_killed").split())
    assert "LIKELY WHOLE, if node-b did not boot anew (kubectl describe node node-b)" in shown
    assert "give its container more memory (Strimzi: kubectl edit kafkanodepool --namespace kafka; it may" in shown
    assert "kubectl delete pod" not in shown
    assert "BEFORE YOU APPROVE: keep broker 1 off until another leads (silent is not off): docs/how-to/sil" in shown
    assert "claim data-0-prod-brokers-1 is Bound, made 2026-08-23 (what is on it is not known)" in shown


@pytest.mark.parametrize("incident", INCIDENTS)
def test_each_command_about_kubernetes_says_which_one_and_which_namespace_it_is_for(incident: str) -> None:
    hand = AtHand(kubectl=Kubectl("kafka", " --context production"))
    shown = " ".join(as_shown(plan_of(incident), hand).split())
    for command in re.findall(r"kubectl (?:get|describe|edit|logs|delete|scale) [^(),;.]*", shown):
        assert "--context production" in command
        assert "--namespace" in command or command.startswith(("kubectl get pv ", "kubectl describe node "))


def test_what_the_operator_keeps_off_by_itself_nobody_is_told_to_keep_off_by_hand() -> None:
    plan = plan_of("the_pod_of_the_last_member_is_killed")
    cluster = plan.evidence.cluster
    pods = (replace(cluster.pods[0], ended=None),)  # nobody knows why it ends
    seen = replace(plan, evidence=replace(plan.evidence, cluster=replace(cluster, pods=pods)))
    assert "kubectl delete pod prod-brokers-1 --namespace kafka" in " ".join(as_shown(seen).split())

    held = " ".join(as_shown(replace(seen, policy=replace(seen.policy, hold_back=HoldBack.PODS))).split())

    assert "the operator keeps broker 1 away, if down: its Pod is deleted (holdBack: pods)." in held
    assert "kubectl delete pod" not in held
    assert "scale deployment" not in held, "Strimzi is to make the Pod again that the operator lets go"


def test_whoever_reads_that_a_broker_is_just_back_is_told_to_do_nothing_yet() -> None:
    shown = " ".join(card_of("a_member_is_back_a_moment_ago").split())
    assert (
        "Do nothing yet: broker 1 is back, answers, and holds every record of orders-0, orders-1 that was re" in shown
    )
    assert "CAN THE HEARTBEATS" not in shown


def test_what_is_to_be_done_before_an_approval_names_the_copy_the_room_and_the_broker() -> None:
    before = {incident: " ".join(card_of(incident).split()) for incident in INCIDENTS}
    assert "BEFORE YOU APPROVE: copy as said above; keep broker 2 off" in before["the_longest_log_is_the_wrong_one"]
    full = before["the_volume_of_the_next_leader_is_almost_full"]
    assert "BEFORE YOU APPROVE: make room as said above; keep broker 1 off until another leads" in full
    assert "keep broker 1 off until another leads" in before["a_member_answers_and_is_fenced"], "it runs"
    assert "keep broker 1 and broker 2 off until another leads" in before["many_partitions"]


def test_once_nothing_is_elected_by_it_nobody_is_told_what_to_do_before() -> None:
    shown = as_shown(the_last_member_is_dead(), over=True)

    assert "3 partitions had no leader when this plan was made" in shown
    for advice in ("CAN BROKER", "NEVER", "NEXT", "IF NOBODY APPROVES"):
        assert advice not in shown


def test_the_docs_show_what_is_shown() -> None:
    shown = file_of("the_longest_log_is_the_wrong_one").read_text()
    card = shown.split("\n", 1)[1].split("\n\nPartition  ")[0].rstrip()

    card = re.sub(r"(?<=--plan )\w{12}", "3f1c20c9aa5d", card)
    assert card in (Path(__file__).parents[4] / "docs" / "reference" / "commands.md").read_text()


class TestSinceWhen:
    """The card opens with since when partitions are offline, as far as a clock tells."""

    def opens(self, *since: timedelta | None, over: bool = False) -> str:
        """With partitions that are known to be offline for so long."""
        seen = [
            partition(
                {1: silent(1), 2: log(27), 3: log(15)},
                id=TopicPartition("orders", number),
                offline_since=None if ago is None else NOON - ago,
            )
            for number, ago in enumerate(since)
        ]
        _, first, *_ = as_shown(planned(evidence(*seen)), over=over).splitlines()
        return first

    def test_one_partition(self) -> None:
        assert self.opens(timedelta(minutes=13)) == (
            "1 partition has no leader, at least since 2026-11-21 11:47:00 UTC: orders-0."
        )

    def test_of_several_the_first_one_counts_and_those_of_which_nothing_is_known_say_nothing(self) -> None:
        assert self.opens(timedelta(minutes=2), None, timedelta(minutes=13)) == (
            "3 partitions have no leader, the first at least since 2026-11-21 11:47:00 UTC: orders-0 to orders-2."
        )

    def test_where_no_clock_tells_that_is_said(self) -> None:
        assert (
            self.opens(None, None) == "2 partitions have no leader (since when is not known here): orders-0, orders-1."
        )

    def test_of_a_plan_that_is_over(self) -> None:
        assert self.opens(timedelta(minutes=13), over=True) == (
            "1 partition had no leader when this plan was made, at least since 2026-11-21 11:47:00 UTC: orders-0."
        )
