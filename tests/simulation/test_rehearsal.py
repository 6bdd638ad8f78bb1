"""Rehearsing a policy: the same accidents under every method, sums that add up, and what a seed means."""

from __future__ import annotations

from functools import cache

import pytest

from kafka_recovery.domain.policy import Approval, CandidateOrder, Policy, Rule, TopicSelector
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.scenario import Kind, Scenario
from kafka_recovery.simulator.histories.scenario_files import load_scenario
from kafka_recovery.simulator.histories.schedules import VERSION, seeds
from kafka_recovery.simulator.rehearsal.fates import Ending, Fate
from kafka_recovery.simulator.rehearsal.rehearse import Method, Rehearsed, drawn, given, never_rehearsed, rehearse
from kafka_recovery.simulator.rehearsal.sums import Allowed, broken, by_rule, costliest, tally
from simulation.lagging import LAGGING

AUTOMATIC = Policy((Rule("all", approval=Approval.AUTO),))
PAYMENTS = Rule("payments", TopicSelector(prefixes=("pay-",)), approval=Approval.AUTO)
TWO_RULES = Policy((PAYMENTS, Rule("rest", approval=Approval.AUTO)))


def lagging(policy: Policy) -> Scenario:
    return given(load_scenario(LAGGING, "lagging.yaml"), policy)


@cache
def of_two_rules(seed: int) -> Rehearsed:
    return rehearse(str(seed), drawn(seed, TWO_RULES))


def test_the_engine_loses_less_than_kafkas_own_choice_and_waiting_loses_nothing() -> None:
    fates = {method: told[0] for method, told in rehearse("lagging", lagging(AUTOMATIC)).fates.items()}

    assert fates[Method.POLICY].ending is Ending.ELECTED
    assert fates[Method.KAFKA].ending is Ending.ELECTED
    assert fates[Method.WAIT].ending is Ending.UNTOUCHED
    assert 0 < fates[Method.POLICY].lost < fates[Method.KAFKA].lost
    assert fates[Method.WAIT].lost == fates[Method.WAIT].lost_otherwise == 0
    assert fates[Method.POLICY].offline < fates[Method.WAIT].offline


def test_what_a_policy_refuses_stays_offline_for_its_reason() -> None:
    strict = Policy((Rule("all", approval=Approval.AUTO, min_replication_factor=4),))

    fate = rehearse("lagging", lagging(strict)).fates[Method.POLICY][0]

    assert (fate.ending, fate.reason) == (Ending.REFUSED, "ReplicationFactorTooLow")
    assert fate.lost == 0


def test_the_same_rehearsal_again_tells_the_same() -> None:
    assert rehearse("9", drawn(9, TWO_RULES)) == of_two_rules(9)


@pytest.mark.parametrize("seed", range(12))
def test_no_promise_is_broken_and_every_offline_partition_has_one_ending(seed: int) -> None:
    history = of_two_rules(seed)

    assert history.findings == ()
    for fates in history.fates.values():
        sums = tally(fates)
        assert sums.offline == sums.elected + sums.clean + sums.refusals + sums.failed + sums.untouched


def test_topics_are_named_so_that_every_rule_is_rehearsed() -> None:
    rules = {TWO_RULES.rule_for(topic.name) for seed in range(4) for topic in drawn(seed, TWO_RULES).topics}

    assert rules == set(TWO_RULES.rules)


def test_names_of_one_history_are_different_even_where_a_policy_allows_only_one() -> None:
    narrow = Policy((Rule("one", TopicSelector(names=("orders",))),))

    for seed in range(20):
        names = [topic.name for topic in drawn(seed, narrow).topics]
        assert len(set(names)) == len(names), f"seed {seed}"


def test_a_rule_that_no_topic_can_reach_is_named() -> None:
    hidden = Rule("hidden", TopicSelector(prefixes=("pay-in-",)))

    assert never_rehearsed(Policy((PAYMENTS, hidden))) == ("hidden",)


def test_accidents_that_only_the_engine_could_have_are_left_out() -> None:
    for seed in range(30):
        scenario = drawn(seed, AUTOMATIC)
        assert not [f for f in scenario.faults if f.upon or f.kind in (Kind.KILL_ENGINE, Kind.DISK_FULL)], f"{seed}"
        assert all(run.approves and run.kill_at is None for run in scenario.engines), f"seed {seed}"


def test_a_policy_of_two_candidate_orders_is_not_accused_of_either() -> None:
    longest = Rule("rest", approval=Approval.AUTO, candidate_order=CandidateOrder.LONGEST_LOG)

    for seed in range(8):
        assert not happen(drawn(seed, Policy((PAYMENTS, longest)))).findings, f"seed {seed}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("3", (0, 1, 2)), ("7..9", (7, 8)), (f"v{VERSION}:7..9", (7, 8)), (f"v{VERSION}:2", (0, 1))],
)
def test_seeds_as_they_are_written(text: str, wanted: tuple[int, ...]) -> None:
    assert seeds(text) == wanted


@pytest.mark.parametrize("text", ["", "x", "-1", "3..", "1.5", "٣", "5..5", "0"])
def test_what_is_no_range_of_seeds(text: str) -> None:
    with pytest.raises(InvalidDocument, match=r"--seeds"):
        seeds(text)


def test_seeds_of_another_version_say_so() -> None:
    with pytest.raises(InvalidDocument, match=f"version {VERSION + 1}, and this simulator draws version {VERSION}"):
        seeds(f"v{VERSION + 1}:3..4")


def fate(partition: str, ending: Ending | None, offline: float = 0.0, lost: int = 0, reason: str | None = None) -> Fate:
    return Fate(partition, "all", ending, offline, lost, 0, 10, reason=reason)


def test_sums_count_each_partition_once_and_times_only_of_those_that_went_offline() -> None:
    sums = tally(
        [
            fate("a-0", None),
            fate("a-1", Ending.ELECTED, 10, lost=3),
            fate("a-2", Ending.REFUSED, 50, reason="NoCandidate"),
            fate("a-3", Ending.CLEAN, 20),
        ]
    )

    assert (sums.partitions, sums.offline, sums.elected, sums.clean, sums.refusals) == (4, 3, 1, 1, 1)
    assert (sums.acknowledged, sums.lost, sums.refused) == (40, 3, {"NoCandidate": 1})
    assert (sums.median, sums.p95) == (20, 50)


def test_only_what_was_limited_and_is_exceeded_is_told() -> None:
    sums = tally([fate("a-1", Ending.ELECTED, lost=3), fate("a-2", Ending.REFUSED, reason="NoCandidate")])

    assert broken(Allowed(), sums) == ()
    assert broken(Allowed(lost=3, refused=1, failed=0), sums) == ()
    assert [text.split(":")[0] for text in broken(Allowed(lost=2, refused=0), sums)] == [
        "--max-lost 2",
        "--max-refused 0",
    ]


def test_sums_by_rule_add_up_and_the_costliest_history_comes_first() -> None:
    histories = [of_two_rules(seed) for seed in range(4)]

    sums = by_rule(histories, [rule.name for rule in TWO_RULES.rules])

    everything = tally(f for history in histories for f in history.fates[Method.POLICY])
    assert sum(sums[rule][Method.POLICY].lost for rule in sums) == everything.lost
    losses = [lost for _, lost in costliest(histories)]
    assert losses == sorted(losses, reverse=True)
