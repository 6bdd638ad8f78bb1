"""Known bugs of Kafka: which ones a plan tells, on which release, of which partitions; it never calls one absent."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_recovery.decision.card import at_the_prompt, card
from kafka_recovery.decision.known_bugs import KNOWN_BUGS, Answer, KnownBug, known_bugs, met, which_releases
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.plan import Plan, Verdict
from kafka_recovery.domain.policy import Approval
from kafka_recovery.domain.reason import Reason
from unit.decision.incident import evidence, history, log, partition, policy, step

COPIES = {1: None, 2: log(27), 3: log(15)}
LAST = (BrokerId(1),)
ALL_RELEASES = ("3.8 or earlier", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4", "newer than 4.4")

TIERED = partition(COPIES, id=TopicPartition("tiered", 0), tiered=True)
LAST_LEADER_GONE = partition(COPIES, isr=(), elr=(), last_known_elr=LAST)
LAST_LEADER_IN_ELR = partition(COPIES, isr=(), elr=LAST, last_known_elr=LAST)
ANOTHER_IN_ELR = partition(COPIES, isr=LAST, elr=(BrokerId(3),))
CLEARED = partition(COPIES, isr=(), elr=(), last_known_elr=())
DISK_OFFLINE = partition({1: None, 2: log(27), 3: Replica(BrokerId(3), None, Reason("LogDirOffline", "no such file"))})
PLAIN = partition(COPIES)

TIER = "Tier deleted below a moved log start"
LOOP = "Controller loop after a topic's deletion"
BY_CONFIGURATION, RAISED = "ELR cleared by configuration", "ELR counts a raise too early"


def seen(*partitions: PartitionEvidence, elr: bool = True, release: str | None = "4.0") -> Evidence:
    return evidence(*partitions, release=release, elr_enabled=elr)


def issues(found: Evidence) -> list[str]:
    return [each.bug.issue for each in met(found.cluster, found.partitions)]


def bug(issue: str) -> KnownBug:
    return next(bug for bug in KNOWN_BUGS if bug.issue == issue)


@pytest.mark.parametrize(
    ("meets", "elr", "expected"),
    [
        (PLAIN, False, []),
        (PLAIN, True, [LOOP]),
        (TIERED, False, ["KAFKA-20732", TIER]),
        (LAST_LEADER_GONE, True, ["KAFKA-19522", LOOP]),
        (LAST_LEADER_GONE, False, []),
        (LAST_LEADER_IN_ELR, True, ["KAFKA-19522", LOOP]),
        (ANOTHER_IN_ELR, True, [RAISED, LOOP]),
        (CLEARED, True, [BY_CONFIGURATION, "Kafka's PR 20716", LOOP]),
        (CLEARED, False, []),
        (DISK_OFFLINE, False, ["KAFKA-19571"]),
    ],
    ids=[
        "nothing special", "ELR on", "a tiered topic", "the last leader was killed", "ELR is off by now",
        "the last leader may come back", "another stayed behind in the ELR", "nobody is left", "nobody, ELR off",
        "a disk is called offline",
    ],
)  # fmt: skip
def test_a_partition_of_4_0_meets_what_concerns_it(meets: PartitionEvidence, elr: bool, expected: list[str]) -> None:
    assert issues(seen(meets, elr=elr)) == expected


@pytest.mark.parametrize(
    ("issue", "in_it"),
    [
        ("KAFKA-20732", "3.8 or earlier, 3.9, 4.0, 4.1, 4.2, 4.3"),
        (TIER, "3.8 or earlier, 3.9, 4.0, 4.1, 4.2, 4.3, 4.4, newer than 4.4"),
        ("KAFKA-19522", "4.0"),
        (BY_CONFIGURATION, "4.0, 4.1, 4.2, 4.3, 4.4, newer than 4.4"),
        ("Kafka's PR 20716", "4.0, 4.1, 4.2"),
        (RAISED, "4.0, 4.1, 4.2, 4.3, 4.4, newer than 4.4"),
        (LOOP, "4.0, 4.1, 4.2, 4.3, 4.4, newer than 4.4"),
        ("KAFKA-19571", "3.8 or earlier, 3.9, 4.0, 4.1"),
    ],
)
def test_a_bug_is_in_its_releases_and_where_only_a_later_patch_level_has_the_fix(issue: str, in_it: str) -> None:
    """4.3.2 has the fix of KAFKA-20732, and a broker of 4.3.1 tells no more than that it is a 4.3."""
    assert ", ".join(filter(bug(issue).may_be_in, ALL_RELEASES)) == in_it


def test_every_bug_has_its_story_here() -> None:
    stories = (TIERED, LAST_LEADER_GONE, ANOTHER_IN_ELR, CLEARED, DISK_OFFLINE)
    assert {issue for each in stories for issue in issues(seen(each))} == {bug.issue for bug in KNOWN_BUGS}


def test_while_brokers_run_several_releases_the_bugs_of_all_of_them_count() -> None:
    upgrading = seen(LAST_LEADER_GONE, release="4.0, 4.4")

    assert "KAFKA-19522" in issues(upgrading)
    (note,) = which_releases(upgrading)
    assert "several releases of Kafka (4.0, 4.4)" in note


@pytest.mark.parametrize(
    ("release", "says"), [(None, "No broker told which release"), ("newer than 4.4", "not known here")]
)
def test_of_an_unknown_release_it_is_said_that_its_bugs_are_not_known(release: str | None, says: str) -> None:
    (note,) = which_releases(seen(PLAIN, release=release))
    assert says in note


def test_where_nobody_told_the_release_no_bug_counts_as_absent() -> None:
    assert issues(seen(TIERED, LAST_LEADER_GONE, release=None)) == ["KAFKA-20732", TIER, "KAFKA-19522", LOOP]


def test_of_one_known_release_nothing_is_said_and_nothing_is_called_absent() -> None:
    assert not list(which_releases(seen(PLAIN)))
    assert known_bugs(seen(PLAIN, elr=False), *Answer) == ()


def test_what_has_a_leader_meets_nothing() -> None:
    led = partition(COPIES, tiered=True, leader=BrokerId(2))
    assert issues(seen(led)) == []
    assert not list(which_releases(seen(led, release=None)))
    assert list(which_releases(seen(led, PLAIN, release=None))), "another one may meet any"


# What a plan does about them


def planned(found: Evidence, approval: Approval = Approval.AUTO, **rule: Any) -> Plan:
    return decide(found, policy(approval=approval, **rule))


def test_nobody_elects_a_leader_of_a_tiered_topic_unasked_where_it_may_delete_what_is_to_be_kept() -> None:
    """KAFKA-20732: not even what is proven to lose nothing, for it is the new leader that deletes."""
    other = partition(COPIES, id=TopicPartition("plain", 0))
    plain, tiered = planned(seen(TIERED, other, elr=False)).decisions

    assert (tiered.verdict, tiered.needs_approval, plain.needs_approval) == (Verdict.ELECT, True, False)
    assert tiered.warnings[-1] == "KAFKA-20732 can make any election delete records: a person has to approve it"
    (fixed,) = planned(seen(TIERED, elr=False, release="4.4")).decisions
    assert not fixed.needs_approval


def test_a_topic_whose_configs_nobody_could_read_may_be_a_tiered_one_and_a_person_is_asked_about_it() -> None:
    unread = Reason("TopicAuthorizationFailed", "DescribeConfigs of secret is not allowed")
    secret = partition(COPIES, id=TopicPartition("secret", 0), configs_problem=unread)

    (decision,) = planned(seen(secret, elr=False)).decisions
    (told,) = known_bugs(seen(secret, TIERED, elr=False), Answer.ASK)

    assert (decision.verdict, decision.needs_approval) == (Verdict.ELECT, True)
    assert "if the topic is tiered, which could not be read: a person has to approve it" in decision.warnings[-1]
    assert "; topics secret, tiered)" in told
    assert "Whether secret is tiered could not be read." in told
    (fixed,) = planned(seen(secret, elr=False, release="4.4")).decisions
    assert not fixed.needs_approval


def test_what_only_local_logs_prove_lossless_is_not_elected_unasked_on_any_release() -> None:
    known = history(step(1, 2, 3), step(1, 2), step(1), intact=[2, 3])

    def needs_a_person(release: str, tiered: bool) -> bool:
        proven = partition({1: None, 2: log(27), 3: log(27)}, tiered=tiered, history=known)
        (decision,) = planned(seen(proven, elr=False, release=release), Approval.AUTO_LOSSLESS).decisions
        return decision.needs_approval

    assert [needs_a_person(release, True) for release in ("4.0", "4.4")] == [True, True]
    assert not needs_a_person("4.4", False)


def test_what_is_to_be_done_before_a_yes_stands_in_the_card_and_at_the_prompt() -> None:
    plan = planned(seen(LAST_LEADER_GONE, TIERED), Approval.MANUAL)
    choice = card(plan).choice
    assert choice
    told = [sentence for sentence in choice.first if "KAFKA-" in sentence]

    assert [sentence.split()[0] for sentence in told] == ["KAFKA-20732", "KAFKA-19522"]
    assert any(sentence.startswith(TIER) and "let nobody have it lead" in sentence for sentence in choice.first)
    assert "(Kafka from 4.0 on, fixed in 4.1.0; topic orders)" in told[1]
    assert "could not be read" not in told[1]
    assert set(told) <= set(at_the_prompt(plan))
    assert not any(LOOP in sentence for sentence in choice.sentences())


def test_of_many_topics_the_first_are_named_and_the_others_counted() -> None:
    topics = [partition(COPIES, id=TopicPartition(name, at), tiered=True) for name in "fedcba" for at in (0, 1)]

    (told,) = known_bugs(seen(*topics, elr=False), Answer.ASK)
    assert "; topics a, b, c, d and 2 more)" in told
