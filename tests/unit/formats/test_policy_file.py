"""A policy is read whole or not at all, and every mistake in it is named at once."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.domain.policy import (
    Approval,
    CandidateOrder,
    EvidenceRules,
    HoldBack,
    Limits,
    Policy,
    RequiredAnswers,
    Rule,
    TopicSelector,
)
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.policy_file import LARGEST_FILE, load_policy, policy_as_known

WHOLE = """
limits: {partitions: 100, brokersDownPercent: 40, waveSizes: [1, 10], coolDown: 10m, lossBudgetRecords: 500}
holdBack: pods
requireReason: true
rules:
- name: payments
  topics: {names: [ledger], prefixes: [pay-]}
  tier: 1
  minReplicationFactor: 2
  candidateOrder: LongestLog
  approval: AutoApproveLossless
  evidence: {deadline: 1m30s, attempts: 5, requiredAnswers: Any, maxAge: 2m}
  patience: 500ms
- name: the-rest
"""


def problems(text: str) -> list[str]:
    """Every line of the refusal, without the file's name."""
    with pytest.raises(InvalidDocument) as refusal:
        load_policy(text, "prod.yaml")
    lines = str(refusal.value).splitlines()
    assert all(line.startswith("prod.yaml:") for line in lines)
    return [line.removeprefix("prod.yaml:") for line in lines]


def test_every_field_arrives_in_the_policy() -> None:
    payments = Rule(
        "payments",
        TopicSelector(("ledger",), ("pay-",)),
        1,
        2,
        CandidateOrder.LONGEST_LOG,
        Approval.AUTO_LOSSLESS,
        EvidenceRules(timedelta(seconds=90), 5, RequiredAnswers.ANY, timedelta(minutes=2)),
        timedelta(milliseconds=500),
    )

    limits = Limits(100, 40, (1, 10), timedelta(minutes=10), 500)
    assert load_policy(WHOLE, "prod.yaml") == Policy(
        (payments, careful("the-rest")), limits, HoldBack.PODS, require_reason=True
    )


def test_what_is_left_out_waits_for_a_restart_a_single_copy_s_broker_and_most_of_the_brokers() -> None:
    """Only without any policy, where a person reads each plan at a terminal, the domain's own values hold."""
    written = load_policy("rules: [{name: default}]", "prod.yaml")

    assert written == Policy((careful("default"),), Limits(brokers_down_percent=50))


def careful(name: str) -> Rule:
    return Rule(name, min_replication_factor=2, patience=timedelta(minutes=2))


def test_the_kubernetes_document_says_the_same_as_its_spec() -> None:
    spec = "\n".join(f"  {line}" for line in WHOLE.splitlines())
    document = f"apiVersion: kafka-recovery.dev/v1alpha1\nkind: RecoveryPolicy\nmetadata: {{name: p}}\nspec:\n{spec}"

    assert load_policy(document, "prod.yaml") == load_policy(WHOLE, "prod.yaml")


def test_all_problems_are_told_at_once_each_with_its_line_its_field_and_its_value() -> None:
    found = problems(
        """
limits: {partitions: 0, waveSizes: []}
rules:
- name: payments
  topics: {names: ["a b"], prefixes: [pay-]}
  aproval: AutoApprove
  tier: high
- name: payments
  topics: {prefixes: [x]}
  evidence: {deadline: 5 sec, attempts: 1.5}
"""
    )

    assert found == [
        "2: limits.partitions: must be a whole number from 1 to 1000000 (got 0)",
        "2: limits.waveSizes: must have at least one entry",
        '5: rules[0].topics.names[0]: has characters other than letters, digits, dot, underscore and dash (got "a b")',
        "6: rules[0].aproval: is an unknown field; did you mean approval?",
        '7: rules[0].tier: must be a whole number from 1 to 9 (got "high")',
        '8: rules[1].name: rule names are unique; rules[0] has it (got "payments")',
        "10: rules[1].evidence.attempts: must be a whole number from 1 to 20 (got 1.5)",
        '10: rules[1].evidence.deadline: must be a duration such as 500ms, 5s or 1m30s, at most 10m (got "5 sec")',
    ]


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("salvage: true", "is not supported by this version; remove it"),
        ("candidateOrder: epochfirst", "did you mean EpochFirst?"),
        ("approval: Maybe", "must be ManualApprove or AutoApproveLossless or AutoApprove"),
        ("min_replication_factor: 2", "is an unknown field; did you mean minReplicationFactor?"),
        ("colour: red", "is an unknown field; known are name, topics"),
        ("tier: 0", "must be a whole number from 1 to 9 (got 0)"),
        ("tier: true", "must be a whole number from 1 to 9 (got true)"),
        ('tier: "3"', 'must be a whole number from 1 to 9 (got "3")'),
        ("tier:", "is empty; give it a value or leave it out"),
        ("patience: 30", "must be a duration such as 500ms, 5s or 1m30s, at most 24h (got 30)"),
        ("patience: -5s", "must be a duration"),
        ("evidence: {deadline: 0s}", "must be at least 1ms and at most 10m"),
        ("patience: 25h", "must be at most 24h (got"),
        ("patience: 5ns", "must be a duration"),  # Go would take it; a timedelta has no nanoseconds
        ("patience: 1.0001ms", "must be a duration"),
        ("patience: 5mm", "must be a duration"),  # durationpy would take this for five months
        ("patience: 1s, then 2s", "must be a duration"),  # durationpy would take this for three seconds
        ("patience: 1d", "must be a duration"),
        (f"patience: {'9' * 400}h", "must be a duration"),
        (f"patience: {'9' * 30}h", "must be at most 24h"),
        ("patience: [1s]", "must be a duration"),
        ("topics: {}", "selects nothing; give names or prefixes, or leave topics out"),
        ("topics: {names: []}", "must have at least one entry"),
        ("topics: {names: orders}", 'must be a list (got "orders")'),
        ("topics: {names: [12]}", "must be text; write it in quotes (got 12)"),
        ("topics: {names: [..]}", "is reserved"),
        ('topics: {prefixes: [""]}', "is empty; leave topics out to select every topic"),
        (f"topics: {{names: [{'a' * 250}]}}", "has 250 characters; Kafka allows 249"),
        ("topics: orders", 'must be a mapping of fields (got "orders")'),
        ("evidence: {maxAge: 2s}", "maxAge must not be shorter than deadline (maxAge 2s, deadline 5s)"),
        ("evidence: {requiredAnswers: Most}", 'must be All or Any (got "Most")'),
        ("tier: 3\n  tier: 4", "rules[0].tier: stands here again; it is at line 3 already"),
    ],
)
def test_a_rule_with_a_mistake_is_refused(field: str, problem: str) -> None:
    found = problems(f"rules:\n- name: payments\n  {field}\n")

    assert len(found) == 1
    assert problem in found[0]
    assert ": rules[0]" in found[0]


def test_no_patience_at_all_is_allowed() -> None:
    assert load_policy("rules: [{name: a, patience: 0s}]", "prod.yaml").rules[0].patience == timedelta(0)


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("lossBudgetRecords: -1", "must be a whole number from 0 to 1000000000000000 (got -1)"),
        ("lossBudgetRecords: some", "must be a whole number from 0"),
        ("coolDown: 169h", 'must be at most 168h (got "169h")'),
        ("waveSizes: [0]", "must be a whole number from 1 to 10000 (got 0)"),
    ],
)
def test_a_limit_with_a_mistake_is_refused(field: str, problem: str) -> None:
    (found,) = problems(f"limits: {{{field}}}\nrules: [{{name: a}}]")

    assert found.startswith("1: limits.")
    assert problem in found


def test_a_resource_s_spec_is_refused_with_the_same_words_but_no_lines() -> None:
    spec = {"rules": [{"name": "a", "tier": 0}, {"name": "a", "topics": {"names": []}}]}

    with pytest.raises(InvalidDocument) as refusal:
        policy_as_known(spec, "RecoveryPolicy kafka/prod", ("spec",))

    assert str(refusal.value).splitlines() == [
        "RecoveryPolicy kafka/prod: spec.rules[0].tier: must be a whole number from 1 to 9 (got 0)",
        "RecoveryPolicy kafka/prod: spec.rules[1].topics.names: must have at least one entry",
        'RecoveryPolicy kafka/prod: spec.rules[1].name: rule names are unique; rules[0] has it (got "a")',
        "RecoveryPolicy kafka/prod: spec.rules[1]: never holds: the first match wins, "
        "and rules[0] selects every topic; move it up",
    ]


def test_a_rule_behind_one_that_selects_every_topic_is_refused_for_it_never_holds() -> None:
    found = problems("rules:\n- name: default\n- name: payments\n  topics: {prefixes: [pay-]}\n")

    assert found == ["3: rules[1]: never holds: the first match wins, and rules[0] selects every topic; move it up"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        ("rules: []", "1: rules: must have at least one entry"),
        ("limits: {}", "1: rules: is missing"),
        ("- name: a", "1: document: must be a mapping of fields"),
        ("rules", '1: document: must be a mapping of fields (got "rules")'),
        ("rules: [{name: a}", "not YAML that can be read"),
        ("rules: [{name: a}]\n---\nrules: [{name: b}]", "expected a single document"),
        ("a: &a [x]\nb: *a", "aliases are not supported"),
        ("rules: !!python/object:os.system x", "can't be read as"),
        ("rules: !!int many", "can't be read as int"),
        ("1: x\nrules: [{name: a}]", "a field's name must be text"),
        ("[" * 5000, "nested too deeply"),
        ('rules: [{name: "\\UFFFFFFFF"}]', "not YAML that can be read"),
        ("rules: [{name: \x00}]", "not YAML that can be read"),
        ("kind: RecoveryPolicy\nspec: {rules: [{name: a}]}", "apiVersion: is missing"),
        ("apiVersion: v1\nkind: RecoveryPolicy\nspec: {rules: [{name: a}]}", "must be 'kafka-recovery.dev/v1alpha1'"),
        ("apiVersion: kafka-recovery.dev/v1alpha1\nkind: RecoveryPolicy", "spec: is empty"),
        ("x" * (LARGEST_FILE + 1), f"at most {LARGEST_FILE} are read"),
    ],
)
def test_what_is_no_policy_is_refused(text: str, problem: str) -> None:
    assert any(problem in line for line in problems(text))


def test_yaml_s_old_words_are_topics_like_any_other() -> None:
    policy = load_policy("rules: [{name: a, topics: {names: [on, no, 1_000, 2026-11-21]}}]", "prod.yaml")

    assert policy.rules[0].topics.names == ("on", "no", "1_000", "2026-11-21")


@given(st.text(alphabet=st.sampled_from("rules:-[]{}&*!|>'\"\\ \n\tname0.5s#%@\x00\ud800é"), max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        load_policy(text, "fuzz.yaml")
    except InvalidDocument as refusal:
        assert str(refusal).startswith("fuzz.yaml")  # noqa: PT017 - any text may also be a policy


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["5s", "All", "orders", "", "1h"])
FIELDS = st.sampled_from(
    ["name", "topics", "names", "prefixes", "tier", "approval", "evidence", "deadline", "maxAge", "patience", "salvage"]
)
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4))


@given(st.lists(TREES, max_size=4), TREES)
def test_no_tree_breaks_the_models(rules: list[object], limits: object) -> None:
    text = json.dumps({"rules": rules, "limits": limits})  # JSON is YAML
    try:
        load_policy(text, "fuzz.yaml")
    except InvalidDocument as refusal:
        assert str(refusal).startswith("fuzz.yaml")  # noqa: PT017
