"""Writes docs/reference.md: reasons, conditions, events, metrics, exit codes and words, as the code has them.

And docs/reference/partition-life.md, from the engine's table of transitions;
docs/reference/api.md, from crds/; and docs/reference/schemas/, from the types that programs read.

    PYTHONPATH=operator python docs/generate.py    # after a change in operator/, or in which page explains what

tests/unit/docs holds file and code equal. Text in, text out: `wanted`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # it is run as a file, and by tests

import generate_api
import generate_life
import generate_schemas
from generate_words import members

from kafka_recovery.decision.known_bugs import KNOWN_BUGS
from kafka_recovery.formats.catalogue import Place, catalogue
from kafka_recovery.kube.machinery.metrics import PREFIX, Metrics

DOCS = Path(__file__).parent
REFERENCE = DOCS / "reference.md"
PLACES: dict[Place, tuple[str, str]] = {
    Place.REFUSAL: (
        "A partition is refused, or waits",
        "Seen in `plan` and `explain`, in `status.refusals`, and as `Ready`'s reason of a PartitionRecovery.",
    ),
    Place.REPLICA: (
        "A replica may not lead",
        "Seen in `explain`, behind `NoCandidate`, and in `kafka_recovery_candidates_rejected_total`.",
    ),
    Place.MEASUREMENT: (
        "A broker gave no usable answer about a replica",
        "Seen in `inspect` and `explain`: why a log is unknown.",
    ),
    Place.CHANGE: (
        "What changed since the plan was made",
        "The partition drops out of its wave and is decided again, or the plan is void.",
    ),
    Place.FAILURE: (
        "An election and what became of it",
        "Seen beside an [outcome](#outcomes), and in `status.failures`.",
    ),
    Place.OUTCOME: ("Outcomes", "What became of one partition."),
    Place.CONNECTION: (
        "The way to Kafka",
        "Seen on standard error of the command line, and as reason of a WatchedCluster.",
    ),
    Place.WATCHED_CLUSTER: ("WatchedCluster", "Reasons of its conditions."),
    Place.WAITING: (
        "An offline partition that has no recovery yet",
        "Seen in the operator's log, those of `status.waitsFor` in the WatchedCluster as well.",
    ),
    Place.PARTITION_RECOVERY: (
        "PartitionRecovery",
        "Reasons of its conditions, beside those of refusals above; four of them are `status.outcome` as well.",
    ),
    Place.RECOVERY_APPROVAL: ("RecoveryApproval", "Reasons of `Accepted`, and of the recovery that waits for it."),
    Place.RECOVERY_POLICY: ("RecoveryPolicy", "Reasons of `Ready`."),
    Place.FLEET_RANKING: ("FleetRanking", "Reasons of its conditions and of its runs."),
}
"""Where a person meets a reason: title, a sentence."""

CONDITIONS: dict[str, dict[str, str]] = {
    "WatchedCluster": {
        "Ready": "observing works; `Unknown` until the first look",
        "KafkaHealthy": "every partition has a leader; tools that wait for a sync don't look at it",
        "ViewTrusted": "the operator trusts its own view; while it is false, the operator changes nothing",
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
    (
        "Recover",
        "PartitionRecovery",
        "each change of `Ready`'s reason, and of what `InvalidReference` names; `Warning` while it is `Stalled`",
    ),
    ("Approve", "PartitionRecovery", "`Warning`: why a plan is void, and what came and went between two looks"),
    ("Approve", "RecoveryApproval", "`Warning`: why it does not count"),
    ("HoldBack", "PartitionRecovery", "a dead broker's Pod is held back, is let go; `Warning`: could not be held"),
    ("Undo", "WatchedCluster, PartitionRecovery", "`Warning` `OrphanedJournal`: orders of a recovery that is gone"),
    (
        "Watch",
        "WatchedCluster",
        "each change of the reason of one of its conditions, and of what `InvalidReference` names",
    ),
    ("Rank", "FleetRanking", "each change of `Ready`'s reason, and of what `InvalidReference` names"),
)

WORDS = (
    ("Verdicts", "What a plan does about one partition.", "domain/plan.py", "Verdict", "explanation/decision-rules.md"),
    ("Loss classes", "Of one election.", "domain/loss_class.py", "LossClass", "explanation/guarantees.md#loss-classes"),
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

<!-- Written by docs/generate.py. Change operator/kafka_recovery/domain/reasons.toml, the code, or that file. -->

Conditions, events, metrics, exit codes, words and reasons of the code. A few words stand elsewhere: the webhook's
outcomes in [the webhook](how-to/alertmanager.md), `brokerStates` in the definition of WatchedCluster.

Not listed are the words of others, which are handed on: **Kafka's own errors** have their names in this form, such as
`NotController` for `NOT_CONTROLLER`. What Kubernetes says of a Pod, and a Spark operator of its states, stands as they
say it.
"""

LEVELS = """\
Every reason is a heading below, so a link can lead to it: `reference.md#nocandidate`. It says what is the case,
what you do about it, and what ends it. On an **info** all is as it should be, or goes on by itself. On a **warning**
something is held up, or was refused. On an **error** a person has to mend something.
"""


_BUGS_FILE = "decision/known_bugs.py"
BUGS = """\
A plan says which of these its partitions may meet. Brokers tell their release without the patch level, and controllers
are not asked for theirs: **that a plan names none does not mean that none is there.** While brokers run several
releases, the bugs of all of them count; if none told its release, all of these. *Met on*: releases on which the project
saw it; `–`: known from reading only, and the releases are as far as was found.
"""


def wanted() -> str:
    """What docs/reference.md should hold."""
    first = [HEAD, "## Conditions\n", *_conditions(), "## Events\n", *_events(), "## Metrics\n", *_metrics()]
    words = ["## Exit codes\n", *_exit_codes(), "## Words\n", *_words()]
    words += ["## Known bugs of Kafka\n", *_known_bugs()]
    return "\n".join([*first, *words, "## Reasons\n", LEVELS, *_places(), "### All reasons\n", *_reasons()])


def life() -> str:
    """What docs/reference/partition-life.md should hold."""
    return generate_life.wanted(_table)


def _places() -> Iterator[str]:
    for place, (title, sentence) in PLACES.items():
        here = [_link(code) for code, entry in catalogue().items() if place in entry.seen]
        yield f"### {title}\n\n{sentence}\n\n{', '.join(here)}\n"


def _reasons() -> Iterator[str]:
    for code, entry in catalogue().items():
        yield f"#### `{code}`\n"
        yield f"{entry.level.capitalize()}: {_linked(entry.means, code)}\n"
        yield f"- **You do:** {_linked(entry.do, code)}"
        if entry.ends:
            yield f"- **It ends:** {_linked(entry.ends, code)}"
        if entry.runbook:
            yield f"- **Runbook:** [{entry.runbook}](runbooks/{entry.runbook}.md)"
        yield f"- **Seen:** {', '.join(_seen(place) for place in PLACES if place in entry.seen)}\n"


def _seen(place: Place) -> str:
    title, _ = PLACES[place]
    return f"[{title}](#{re.sub('[^a-z -]', '', title.lower()).replace(' ', '-')})"


def _link(code: str) -> str:
    return f"[`{code}`](#{code.lower()})"


def _linked(text: str, own: str) -> str:
    """With a link at each other reason that it names."""
    return re.sub(r"`(\w+)`", lambda found: _link(found[1]) if _is_other(found[1], own) else found[0], text)


def _is_other(word: str, own: str) -> bool:
    return word != own and word in catalogue()


def _conditions() -> Iterator[str]:
    for kind, conditions in CONDITIONS.items():
        rows = ((f"`{name}`", says) for name, says in conditions.items())
        yield f"### Of a {kind}\n"
        yield _table(("condition", "is true if"), rows)


def _events() -> Iterator[str]:
    by = "Written by `kafka-recovery-operator`, those of FleetRankings by `kafka-recovery-operator-fleet`."
    yield f"{by} Their reason is one of [those below](#reasons).\n"
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
    """One row for a code; members without a docstring of their own stand in the row of the next one that has one."""
    rows: dict[str, list[str]] = {}
    codes: list[str] = []
    for code, says in members("cli/terminal/exit_codes.py", "ExitCode"):
        codes.append(f"`{code}`")
        if says:
            rows.setdefault(", ".join(codes), []).append(_cell(says))
            codes = []
    operator, plugin = "reference/operator.md#options-and-exit-codes", "reference/kubectl-plugin.md"
    yield f"Of `kafka-recovery`. [The operator]({operator}) and [the plugin]({plugin}) have their own.\n"
    yield _table(("code", "says"), ((code, " ".join(says)) for code, says in rows.items()))


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


if __name__ == "__main__":
    REFERENCE.write_text(wanted())
    generate_life.PAGE.write_text(life())
    generate_api.PAGE.write_text(generate_api.wanted())
    generate_schemas.write()
