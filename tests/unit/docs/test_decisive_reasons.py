"""A code by which something is decided is declared once, and whoever else comes to say it is noticed here.

To rename one, or to merge two, changes this table: then look at what is decided by them.
"""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from collections.abc import Iterator

from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.kube.fleet.steps import Failure
from unit.docs.said_reasons import PACKAGE, collected, nodes

DECIDING = ("domain", "kube", "recovery")
"""The rooms that must decide by nothing else."""

OF_SPARK = {"kube/fleet/apache.py", "kube/fleet/kubeflow.py"}

SAID_BY: dict[Decisive, dict[str, int]] = {
    Decisive.ABORTED: {
        "domain/outcome.py": 1,
        "kube/recoveries/abort.py": 1,
        "kube/recoveries/supervision.py": 3,
        "recovery/execution.py": 1,
    },
    Decisive.PLAN_NOT_SHOWN: {"kube/journal/notes.py": 1},
    Decisive.JOURNAL_DAMAGED: {
        "kube/clusters/open_cluster.py": 1,
        "kube/recoveries/endings.py": 1,
        "kube/recoveries/recoveries.py": 1,
        "recovery/engine.py": 1,
        "recovery/journal_files.py": 1,
    },
    Decisive.CLUSTER_ID_MISMATCH: {
        "cluster/errors.py": 1,
        "kube/clusters/strimzi_objects.py": 1,
        "kube/recoveries/recoveries.py": 1,
        "kube/recoveries/supervision.py": 1,
    },
    Decisive.WATCHED_ELSEWHERE: {"kube/resources/watched_by.py": 1},
    Decisive.TOO_MANY_RECOVERIES: {"kube/watching/room.py": 1},
    Decisive.RANKING_NOT_READY: {"kube/recoveries/ranked_leaders.py": 1},
    Decisive.OBSERVE_ONLY: {"kube/recoveries/supervision.py": 1, "recovery/supervision.py": 1},
    Decisive.ADMISSION_POLICY_MISSING: {"kube/resources/admission.py": 4},
    Decisive.PLAN_OUTDATED: {
        "cluster/assignment_order.py": 1,
        "cluster/designated.py": 1,
        "decision/recheck.py": 11,
        "decision/sameness.py": 6,
        "kube/recoveries/approvals.py": 2,
        "recovery/supervision.py": 1,
    },
    Decisive.REFUSED_BY_APPROVER: {"domain/outcome.py": 1, "kube/recoveries/approvals.py": 2},
    Decisive.ATTESTED_BROKER_ANSWERS: {"decision/attesting.py": 1, "kube/recoveries/void_attestations.py": 1},
    Decisive.AWAITING_APPROVAL: {
        "kube/recoveries/approvals.py": 1,
        "kube/recoveries/ranked_leaders.py": 2,
        "recovery/supervision.py": 1,
    },
    Decisive.PARTITION_LIMIT_REACHED: {"decision/refusals.py": 1, "recovery/supervision.py": 1},
    Decisive.MEMBER_LEADS: {"recovery/outcomes.py": 1},
    Decisive.PARTITION_GONE: {
        "cluster/metadata.py": 1,
        "decision/recheck.py": 1,
        "recovery/outcomes.py": 1,
    },
    Decisive.UNKNOWN_TOPIC_OR_PARTITION: {},
    Decisive.INVALID_REFERENCE: {
        "kube/clusters/clusters.py": 2,
        "kube/clusters/cant_open.py": 1,
        "kube/clusters/open_cluster.py": 1,
        "kube/clusters/strimzi.py": 2,
        "kube/clusters/strimzi_objects.py": 4,
        "kube/fleet/policy_copies.py": 1,
        "kube/recoveries/ranked_leaders.py": 7,
        "kube/recoveries/supervision.py": 1,
    },
    Decisive.NO_POLICY: {
        "kube/clusters/clusters.py": 2,
        "kube/recoveries/supervision.py": 1,
        "kube/watching/incidents.py": 1,
    },
    Decisive.INVALID_SPEC: {
        "kube/clusters/clusters.py": 1,
        "kube/clusters/opening.py": 1,
        "kube/clusters/policies.py": 1,
        "kube/fleet/policy_copies.py": 1,
        "kube/fleet/prefixes.py": 2,
        "kube/fleet/rankings.py": 3,
        "kube/fleet/results.py": 1,
        "kube/recoveries/approvals.py": 2,
        "kube/recoveries/recoveries.py": 1,
        "kube/recoveries/supervision.py": 1,
    },
    Decisive.INVALID_CONFIGURATION: {"cluster/errors.py": 1},
    Decisive.VIEW_UNAVAILABLE: {"kube/clusters/open_cluster.py": 1, "kube/clusters/status.py": 2},
    Decisive.SCAN_PENDING: {
        "cluster/metadata_log/reader.py": 1,
        "kube/clusters/pod_witness.py": 1,
        "kube/clusters/status.py": 1,
        "kube/recoveries/scopes.py": 1,
        "kube/watching/watch.py": 1,
    },
    Decisive.CONNECTING: {"kube/clusters/status.py": 1, "kube/recoveries/open_recovery.py": 1},
    Decisive.NOT_CONFIGURED: {
        "kube/clusters/history.py": 1,
        "kube/clusters/pod_witness.py": 1,
        "kube/clusters/strimzi_controllers.py": 1,
    },
    Decisive.OBJECTS_UNREADABLE: {
        "kube/clusters/broker_pods.py": 2,
        "kube/clusters/held.py": 1,
        "kube/clusters/strimzi.py": 1,
        "kube/recoveries/approvals.py": 1,
        "kube/recoveries/endings.py": 1,
        "kube/recoveries/ranked_leaders.py": 1,
        "kube/recoveries/supervision.py": 1,
    },
    Decisive.STRIMZI_AT_WORK: {"kube/clusters/strimzi_objects.py": 2},
}
"""How often each is said, and where. One is said by Kafka alone."""

ELSEWHERE = {
    ("kube/recoveries/endings.py", "first"),  # the same code, whichever it is
    ("kube/recoveries/progress.py", "code"),
    ("kube/recoveries/status_writer.py", "{each.get('reason') for each in old}"),
}
"""What compares codes with one another, and decides by none."""


def test_who_says_a_code_by_which_something_is_decided_is_known() -> None:
    said: dict[Decisive, Counter[str]] = {code: Counter() for code in Decisive}
    for each in collected():
        if each.code in said:
            said[Decisive(each.code)][each.file] += 1

    assert said == SAID_BY


def test_no_failure_of_a_run_is_said_elsewhere() -> None:
    """But what a Spark operator tells of its own is handed on in the same word."""
    others = {(each.code, each.file) for each in collected() if each.code in {*Failure}}

    assert {file for _, file in others} == {"kube/fleet/steps.py", "kube/fleet/results.py", *OF_SPARK}
    assert {code for code, file in others if file in OF_SPARK} == {Failure.FAILED}


def test_nothing_is_decided_by_a_word_that_is_not_declared() -> None:
    undeclared = [
        f"{file}, line {each.lineno}: {ast.unparse(each)}"
        for room in DECIDING
        for file in sorted(path.relative_to(PACKAGE).as_posix() for path in (PACKAGE / room).rglob("*.py"))
        for each, other in _compared(file)
        if (file, ast.unparse(other)) not in ELSEWHERE and not _is_declared(file, other)
    ]

    assert undeclared == []


def _compared(file: str) -> Iterator[tuple[ast.Compare, ast.expr]]:
    """Comparisons of a reason's code, and with what."""
    for node in nodes(file):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            others = [side for side in sides if not (isinstance(side, ast.Attribute) and side.attr == "code")]
            if len(others) < len(sides):
                yield from ((node, other) for other in others)


def _is_declared(file: str, told: ast.expr) -> bool:
    """Whether it is one of these codes, or several of them."""
    module = importlib.import_module("kafka_recovery." + file.removesuffix(".py").replace("/", "."))
    try:
        value = eval(compile(ast.Expression(told), file, "eval"), vars(module))
    except NameError:
        return False
    several = value if isinstance(value, frozenset | set | tuple) else (value,)
    return all(isinstance(each, Decisive | Failure) for each in several)
