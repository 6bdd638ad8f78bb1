"""Writes docs/reference.md: reasons, conditions, events, metrics, exit codes and words, as the code has them.

And docs/reference/partition-life.md, from the engine's table of transitions;
and docs/reference/api.md, from crds/.

    PYTHONPATH=operator python docs/generate.py    # after a change in operator/, or in which page explains what

tests/unit/docs holds file and code equal. Text in, text out: `wanted`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # it is run as a file, and by tests

import generate_api
import generate_life
from generate_reasons import FILLED_IN, Unexplained, collected, members

from kafka_recovery.decision.known_bugs import KNOWN_BUGS
from kafka_recovery.kube.machinery.metrics import PREFIX, Metrics

DOCS = Path(__file__).parent
REFERENCE = DOCS / "reference.md"
EXPLAINING = (
    *("explanation/decision-rules", "how-to/strimzi", "reference/commands", "reference/operator"),
    *("explanation/guarantees", "how-to/fleet-rankings"),
)
"""Pages that say more about reasons, the closest first."""

ELSEWHERE: dict[tuple[str, str], tuple[str, ...]] = {
    ("cluster/errors.py", "machine_code"): (),  # Kafka's own names, see HEAD
    ("decision/guards.py", "Told('replica.problem.code', otherwise='NotMeasured')"): ("NotMeasured",),
    ("domain/reason.py", "type(self).__name__"): (),  # of classes below ClusterFault, which are read
    ("domain/reason.py", "type(error).__name__"): (),  # whatever ended a run: JournalUnwritable, or a defect
    ("kube/machinery/conditions.py", "reason"): (),
    ("kube/fleet/apache.py", "_CODES.get(word, word)"): ("DriverFailed", "SubmissionFailed"),  # or Spark's own word
    ("kube/fleet/kubeflow.py", "_CODES[word]"): ("DriverFailed", "SubmissionFailed", "Suspended"),
    ("kube/fleet/pods.py", "_word(each.get('reason'), 'Unschedulable')"): ("Unschedulable",),  # or Kubernetes' own
    ("kube/fleet/pods.py", "_word(waiting['reason'], 'Waiting')"): ("Waiting",),
    ("kube/fleet/rankings.py", "code"): ("InvalidSpec", "InvalidStatus"),  # or one of Failure
    ("kube/fleet/runs.py", "ending"): (),
    ("kube/fleet/status.py", "str(memory.active.state)"): (),
    ("kube/fleet/steps.py", "str(code)"): (),
    ("kube/recoveries/ranked_leaders.py", "code"): (),
    (
        "kube/recoveries/endings.py",
        "'KubernetesUnreachable' if isinstance(trouble, ApiError) else type(trouble).__name__",
    ): (*("KubernetesUnreachable", "JournalUnwritable"),),
    ("kube/recoveries/status.py", "str(outcome.outcome)"): (),
    ("kube/clusters/strimzi_objects.py", "code"): (),
    ("kube/recoveries/supervision.py", "f'{kind}Missing'"): ("RecoveryPolicyMissing", "WatchedClusterMissing"),
    ("kube/watching/watcher.py", "min(codes)"): (),
    ("recovery/execution.py", "str(decision.verdict)"): (),  # a verdict that has no reason of its own: there is none
}
"""Where the code says a reason by a variable: which words it can be; none where it hands on what others said."""

MEETINGS: Sequence[tuple[str, str, tuple[str, ...]]] = (
    (
        "A partition is refused, or waits",
        "Seen in `plan` and `explain`, in `status.refusals`, and as `Ready`'s reason of a PartitionRecovery.",
        ("decision/refusals.py", "decision/judgement.py", "decision/planner.py"),
    ),
    (
        "A replica may not lead",
        "Seen in `explain`, behind `NoCandidate`, and in `kafka_recovery_candidates_rejected_total`.",
        ("decision/guards.py",),
    ),
    (
        "A broker gave no usable answer about a replica",
        "Seen in `inspect` and `explain`; it is why a log is unknown.",
        (
            "cluster/replica_logs.py",
            "cluster/epoch_vectors.py",
            "cluster/kafka_cluster.py",
            "cluster/metadata.py",
            "cluster/gathering.py",
            "cluster/metadata_log/reader.py",
            "cluster/membership.py",
        ),
    ),
    (
        "What changed since the plan was made",
        "The partition drops out of its wave and is decided again, or the plan is void.",
        ("decision/recheck.py", "decision/sameness.py"),
    ),
    (
        "An election and what became of it",
        "Seen beside an [outcome](#outcomes), and in `status.failures`.",
        ("recovery/", "cluster/assignment_order.py", "cluster/designated.py", "cluster/controller_requests.py"),
    ),
    (
        "The way to Kafka",
        "Seen on standard error of the command line, and as reason of a WatchedCluster.",
        ("cluster/errors.py", "cluster/pulse.py", "kube/watching/watcher.py"),
    ),
    (
        "WatchedCluster",
        "Reasons of its conditions.",
        (
            *(
                "kube/clusters/status.py",
                "kube/clusters/history.py",
                "kube/clusters/held.py",
                "kube/clusters/clusters.py",
                "kube/clusters/opening.py",
                "kube/watching/watch.py",
            ),
            *(
                "kube/clusters/credentials.py",
                "kube/clusters/same_kafka.py",
                "kube/clusters/strimzi.py",
                "kube/clusters/strimzi_objects.py",
            ),
        ),
    ),
    (
        "An offline partition that has no recovery yet",
        "Seen in the operator's log, those of `status.waitsFor` in the WatchedCluster as well.",
        ("kube/watching/incidents.py", "kube/recoveries/scopes.py", "kube/watching/waits.py"),
    ),
    (
        "PartitionRecovery",
        "Reasons of its conditions, beside those above.",
        (
            *("domain/outcome.py", "kube/recoveries/status.py", "kube/recoveries/run.py", "kube/recoveries/endings.py"),
            *("kube/recoveries/recoveries.py", "kube/recoveries/progress.py", "kube/resources/house.py"),
            *("kube/recoveries/supervision.py", "kube/clusters/cool_down.py", "kube/clusters/open_cluster.py"),
            *("kube/resources/admission.py", "kube/recoveries/ranked_leaders.py", "kube/recoveries/abort.py"),
            *("kube/journal/record_journal.py", "kube/clusters/housekeeping.py", "kube/recoveries/told.py"),
        ),
    ),
    (
        "RecoveryApproval",
        "Reasons of `Accepted`, and of the recovery that waits for it.",
        ("kube/recoveries/approvals.py",),
    ),
    ("RecoveryPolicy", "Reasons of `Ready`.", ("kube/clusters/policies.py",)),
    ("FleetRanking", "Reasons of its conditions and of its runs.", ("kube/fleet/",)),
)
"""Where a person meets a reason: title, a sentence, files below operator/kafka_recovery that say it."""

CONDITIONS: dict[str, dict[str, str]] = {
    "WatchedCluster": {
        "Ready": "observing works; `Unknown` until the first look",
        "KafkaHealthy": "every partition has a leader; tools that wait for a sync don't look at it",
        "Isolated": "the operator does not trust its own view, and changes nothing",
        "HistoryKnown": "the controllers' metadata log is read: it proves which elections lose nothing",
        "OrdersAltered": "recoveries of it have begun, and may have altered assignment orders; a deletion waits",
        "Reconciling": "it is not `Ready`, for a minute at most: what is missing may come by itself",
        "Stalled": "it is not `Ready`, and needs somebody; until it is, or its spec is another one",
    },
    "RecoveryPolicy": {"Ready": "it can be read and holds", "Reconciling": "never", "Stalled": "it can't be read"},
    "PartitionRecovery": {
        "Ready": "it has ended well",
        "Reconciling": "it is being worked at, or waits",
        "Stalled": "it ended otherwise, or needs somebody",
        "Planned": "there is a plan that elects somebody",
        "Approved": "nobody has to be asked, or somebody said yes to this very plan",
        "Verified": "every new leader answered itself",
    },
    "RecoveryApproval": {"Accepted": "it counts"},
    "FleetRanking": {
        "Ready": "its last run succeeded, or the first one of a schedule is awaited",
        "Reconciling": "a run that is asked for once is under way",
        "Stalled": "its last run failed, or it can't be read",
    },
}

EVENTS = (
    ("Recover", "PartitionRecovery", "each change of `Ready`'s reason; `Warning` while it is `Stalled`"),
    ("Approve", "PartitionRecovery", "`Warning`: why a plan is void, and what came and went between two looks"),
    ("Approve", "RecoveryApproval", "`Warning`: why it does not count"),
    ("Undo", "WatchedCluster, PartitionRecovery", "`Warning` `OrphanedJournal`: orders of a recovery that is gone"),
    ("Watch", "WatchedCluster", "each change of the reason of one of its conditions"),
    ("Rank", "FleetRanking", "each change of `Ready`'s reason"),
)

WORDS = (
    ("Outcomes", "What became of one partition.", "domain/outcome.py", "Outcome", "reference/commands.md#outcomes"),
    ("Verdicts", "What a plan does about one partition.", "domain/plan.py", "Verdict", "explanation/decision-rules.md"),
    ("Loss classes", "Of one election.", "domain/loss_class.py", "LossClass", "explanation/guarantees.md#loss-classes"),
    ("Ends of a recovery", "`status.outcome`.", "domain/outcome.py", "End", "reference/operator.md"),
    (
        "Authority",
        "Of operator and cluster.",
        "recovery/supervision.py",
        "Authority",
        "reference/operator.md#who-may-act",
    ),
    ("Approval", "Of a rule.", "domain/policy.py", "Approval", "reference/operator.md#who-may-act"),
)

HEAD = """\
# Reference

<!-- Written by docs/generate.py. Change the code, or that file. -->

Reasons, conditions, events, metrics, exit codes and words of the code, generated from it. A few words that it puts
together otherwise stand elsewhere: `NotYet` of `Verified` in [the operator](reference/operator.md), the webhook's
outcomes in [the webhook](how-to/alertmanager.md), `brokerStates` in the definition of WatchedCluster.

Sentences are those of the code, `…` stands for what is
filled in; for guards and errors it is the rule behind them. The last column says which page explains more.

Not listed are the words of others, which are handed on: **Kafka's own errors** have their names in this form, such as
`NotController` for `NOT_CONTROLLER`; what Kubernetes says of a Pod, and a Spark operator of its states, stands as they
say it.
"""


_BUGS_FILE = "decision/known_bugs.py"
BUGS = """\
A plan says which of these its partitions may meet. Brokers tell their release without the patch level, and controllers
are not asked for theirs: **that a plan names none does not mean that none is there.** While brokers run several
releases, the bugs of all of them count; if none told its release, all of these. *Met on*: releases on which the project
saw it; `–`: known from reading only, and the releases are as far as was found.
"""


def wanted() -> str:
    """What docs/reference.md should hold. Raises Unexplained."""
    parts = [HEAD, "## Reasons\n", *_reasons(), "## Conditions\n", *_conditions(), "## Events\n", *_events()]
    parts += ["## Metrics\n", *_metrics(), "## Exit codes\n", *_exit_codes(), "## Words\n", *_words()]
    return "\n".join([*parts, "## Known bugs of Kafka\n", *_known_bugs()])


def life() -> str:
    """What docs/reference/partition-life.md should hold."""
    return generate_life.wanted(_table)


def _reasons() -> Iterator[str]:
    said = collected(ELSEWHERE)
    places = tuple(file for _, _, files in MEETINGS for file in files)
    homeless = {each.file for each in said if not each.file.startswith(places)}
    if homeless:
        raise Unexplained(f"where does a person meet the reasons of {sorted(homeless)}? Say so in docs/generate.py")
    for title, sentence, files in MEETINGS:
        here: dict[str, str] = {}
        for each in (each for file in files for each in said if each.file.startswith(file)):
            here[each.code] = max(here.get(each.code, ""), each.sentence, key=len)
        rows = ((f"`{code}`", _cell(says or FILLED_IN), _told_in(code, title)) for code, says in here.items())
        yield f"### {title}\n\n{sentence}\n"
        yield _table(("reason", "it says", "more"), rows)


def _conditions() -> Iterator[str]:
    for kind, conditions in CONDITIONS.items():
        rows = ((f"`{name}`", says) for name, says in conditions.items())
        yield f"### Of a {kind}\n"
        yield _table(("condition", "is true if"), rows)


def _events() -> Iterator[str]:
    yield "Written by the controller `kafka-recovery-operator`. Their reason is one of those above.\n"
    yield _table(("action", "of", "when"), ((f"`{action}`", kind, when) for action, kind, when in EVENTS))


def _metrics() -> Iterator[str]:
    rows = []
    for each in Metrics().registry.collect():
        if each.name.startswith(PREFIX):
            name = each.name + {"counter": "_total", "info": "_info"}.get(each.type, "")
            rows.append((f"`{name}`", each.type, _cell(each.documentation)))
    yield "Labels and their meaning: [the operator](reference/operator.md#metrics).\n"
    yield _table(("metric", "type", ""), sorted(rows))


def _exit_codes() -> Iterator[str]:
    """Members without a docstring of their own share the next one's."""
    rows: list[tuple[str, str]] = []
    for code, says in reversed(members("cli/terminal/exit_codes.py", "ExitCode")):
        rows.insert(0, (f"`{code}`", _cell(says or rows[0][1])))
    theirs = "[Those of the operator](reference/operator.md#options-and-exit-codes)"
    yield f"Of the command line; [more](reference/commands.md#exit-codes). {theirs}.\n"
    yield _table(("code", "says"), rows)


def _words() -> Iterator[str]:
    for title, sentence, file, name, where in WORDS:
        yield f"### {title}\n\n{sentence} [More]({where})\n"
        yield _table(("word", ""), ((f"`{word}`", _cell(says)) for word, says in members(file, name)))


def _known_bugs() -> Iterator[str]:
    yield BUGS
    yield _table(("answer", ""), ((f"`{word}`", _cell(says)) for word, says in members(_BUGS_FILE, "Answer")))
    rows = (
        (
            bug.issue,
            bug.releases,
            ", ".join(bug.seen) or "–",
            _cell(f"{bug.happens} {bug.costs}"),
            _cell(bug.to_do),
            f"`{bug.answer}`",
        )
        for bug in KNOWN_BUGS
    )
    yield _table(("bug", "Kafka", "met on", "what happens", "what to do", "answer"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*") or "–"


def _told_in(code: str, title: str) -> str:
    pages = EXPLAINING[-1:] if title == "FleetRanking" else EXPLAINING
    told = [name for name in pages if re.search(rf"`{code}[`:]", _text_of(name))]
    return ", ".join(f"[{Path(name).name}]({name}.md)" for name in told[:2])


@cache
def _text_of(page: str) -> str:
    return (DOCS / f"{page}.md").read_text()


if __name__ == "__main__":
    REFERENCE.write_text(wanted())
    generate_life.PAGE.write_text(life())
    generate_api.PAGE.write_text(generate_api.wanted())
