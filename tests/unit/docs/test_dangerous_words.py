"""No sentence anywhere has somebody start a broker that destroys data: what is shown, documented, alerted or shipped.

A member of the ISR or ELR that comes back empty is elected by Kafka all the same, and the others truncate to it; after
an election a returning broker truncates to the new leader. docs/explanation/guarantees.md says it all, under "When a
broker comes back".
"""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = (
    "operator",
    "spark",
    "docs",
    "charts",
    "crds",
    "manifests",
    "monitoring",
    "examples",
    "demo",
    "bench",
)
PAGES = (
    *("README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "GOVERNANCE.md", "ROADMAP.md"),
    *("mkdocs.yml", "pyproject.toml"),
)
READ = frozenset({".md", ".py", ".yaml", ".yml", ".json", ".txt", ".tpl", ".html", ".toml", ".lua", ".svg"})
DISK = r"intact|whole|untouched|as they were|empty|replaced|disk is lost"
"""A sentence about a return names the disk."""


@dataclass(frozen=True, slots=True)
class Danger:
    """`pattern` in a sentence that has none of the words of `unless`; `instead`: what to write."""

    pattern: str
    unless: str | None
    why: str
    instead: str
    example: str


DANGERS = (
    Danger(
        r"\b(even )?without (its|their|any) (data|disks?)\b|\bwithout its data tells\b",
        None,
        "an ISR or ELR member that starts empty is elected, and the other replicas are truncated",
        "start it with its own, intact disk; if that is lost, leave it down until another replica leads",
        "Bring it back, even without its data if that is lost.",
    ),
    Danger(
        r"\b(com(e|es|ing) back|returns?|leads? again|elects? it|is back)\b.*"
        r"\bwithout (any )?loss\b",
        DISK,
        "true with its own, intact disk only, and only before another replica leads",
        "name the disk in the same sentence: '… with its own, intact disk …'",
        "broker 1 coming back: the controller elects it without loss",
    ),
    Danger(
        r"\b(com(e|es|ing) back|returns?|elects? it|is back)\b.*\bnothing (\w+ )?is lost\b",
        DISK,
        "true with its own, intact disk only, and only before another replica leads",
        "say of which disk that is true, in the same sentence",
        "If broker 1 comes back, Kafka elects it, and nothing acknowledged is lost.",
    ),
    Danger(
        r"\b(leads?|elects? it) (\w+ )?without (any )?loss\b",
        DISK,
        "an election by Kafka is as good as the disk that it finds",
        "name the disk in the same sentence",
        "Reconnect it to the controllers, and it leads again without loss; or stop it for good, and plan again.",
    ),
    Danger(
        r"\b(lead|elected) without loss is waited for\b|\bfor a clean (replica|return)\b"
        r"|\ba clean replica may come back\b",
        None,
        "calls a return clean before anybody has seen the disk",
        "an ISR or ELR member that is back, and that Kafka may elect",
        "a clean replica may come back: start its broker, or shorten `patience`",
    ),
    Danger(
        r"\b([Bb]ring|[Gg]et) (the |these |their |those |named |all )*brokers? ((up|\d+|\{[^}]*\}) )?back\b",
        DISK,
        "whoever has lost the disk brings it back on a new one",
        "start broker N with its own, intact disk",
        "Bring their brokers back if you can.",
    ),
    Danger(
        r"\b[Bb]ring (it|them|broker \S+|the named brokers) back\b(?! \(KIP-966\))",
        DISK,
        "whoever has lost the disk brings it back on a new one",
        "start it with its own, intact disk",
        "bring the named brokers back; or allow less evidence",
    ),
    Danger(
        r"\b[Ss]tart it if it still exists\b|\b[Ss]tart (the|your) brokers? again\b",
        DISK,
        "says nothing of the disk",
        "start it with its own, intact disk",
        "Start it if it still exists; if it is gone for good, the partition can only be led by another replica.",
    ),
    Danger(
        r"\b[Ss]top(ped)? it for good\b",
        "volume",
        "whoever stops a broker for good throws its disk away, and what it alone holds with it",
        "stop it, KEEP its volume, and copy its directories",
        "Have the broker answer; or stop it for good, so that the controller fences it.",
    ),
    Danger(
        r"\b[Ss]tart that broker\b",
        DISK,
        "says nothing of the disk",
        "start that broker with its own, intact disk",
        "Start that broker, or unregister it; then try again.",
    ),
    Danger(
        r"\bbecomes a candidate\b",
        None,
        "Kafka elects an ISR or ELR member by itself: it is no candidate of a plan",
        "it can't lead before it is unfenced",
        "It becomes a candidate once it is unfenced: check that it runs and reaches the controllers.",
    ),
    Danger(
        r"\b[Aa] clean way out (always wins|costs nothing)",
        None,
        "how clean it is, the disk says",
        "Kafka elects an ISR or ELR member by itself, whatever is on its disk",
        "A clean way out costs nothing but time.",
    ),
    Danger(
        r"`kafka-recovery recover`.*\b(do|does) the same by hand\b",
        None,
        "a second engine beside an open recovery takes a temporary assignment order for the original one",
        "the steps of docs/runbooks/KafkaRecoveryOperatorAbsent.md#recover-by-hand",
        "`kafka-recovery plan` and `kafka-recovery recover` [do the same by hand](../commands.md), with no Kubernetes.",
    ),
    Danger(
        r"REPLACE-WITH-YOUR",
        None,
        "the API server takes it, and a clusterId can't be changed afterwards",
        "<YOUR-CLUSTER-ID>, which it refuses",
        "clusterId: REPLACE-WITH-YOUR-CLUSTER-ID",
    ),
    Danger(
        r"pip3? install\b[^`\n]*?['\" ]kafka-recovery-operator\b|\binstall kafka-recovery-operator\[",
        None,
        "nobody owns that name on a package index: whoever registers it is installed",
        "pip install '.[extra]' in a checkout, or a wheel's path",
        "aiohttp is not installed; pip install 'kafka-recovery-operator[operator]'",
    ),
    Danger(
        r"\bleast loss\b|\bbeforehand what it will cost\b",
        None,
        "every plan of this release says Unknown",
        "the best replica that is left; what is known of the loss",
        "Brings offline Kafka partitions back with the least loss, and explains every choice.",
    ),
    Danger(
        r"\bor are you not sure\b",
        None,
        "whoever does not know what is on a disk starts an empty one",
        "not sure: start nothing, approve nothing, and look at that disk",
        "Can it be started with its own, intact disk, or are you not sure that it can't? Then start it and wait.",
    ),
    Danger(
        r"`kubectl delete pod` is harmless",
        None,
        "a Kafka's Pod may be the one that is deleted",
        "say whose Pod: the operator's",
        "Look at the operator first. `kubectl delete pod` is harmless.",
    ),
)


def files() -> Iterator[Path]:
    yield from (ROOT / page for page in PAGES)
    for room in ROOMS:
        yield from sorted(file for file in (ROOT / room).rglob("*") if file.suffix in READ and file.is_file())


def sentences(text: str) -> Iterator[str]:
    """Roughly: a colon and a semicolon do not end one, a line that is blank or begins a list, cell or heading does."""
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|>#]|\d+\.)\s)|(?<=\|)\s", text):
        yield from re.split(r"(?<=[.!?])[\"']?\s+", " ".join(block.split()))


def spoken(file: Path) -> str:
    """Its text; of a program, strings that stand side by side are one, as it is they that are shown."""
    text = file.read_text()
    if file.suffix == ".svg":
        return "\n".join(unescape(line).replace("\xa0", " ") for line in re.findall(r">([^<>]+)</text>", text))
    if file.suffix != ".py":
        return text
    shown = (node for node in ast.walk(_parsed(text)) if isinstance(node, ast.Constant | ast.JoinedStr))
    return "\n\n".join(_written(node) for node in shown) + "\n\n" + "\n\n".join(re.findall(r"#.*", text))


def _parsed(text: str) -> ast.Module:
    """Python 3.11 counts an AST's depth for all of a process: what is parsed while garbage is collected upsets it."""
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()


def _written(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(part.value if isinstance(part, ast.Constant) else "{…}" for part in node.values)  # type: ignore[misc]


def roughly(text: str) -> str:
    """Its sentences, not taken apart: what is in a sentence of a program's strings is in a line of this.

    To read a program's strings takes ten times as long, and hardly any file has to be.
    """
    text = re.sub(r"\\[nt\n]", " ", text)
    text = re.sub(r"[\"']\s+f?[\"']", "", text)
    text = re.sub(r"\{[^{}]*\}", "{…}", text)
    return "\n".join(re.split(r"(?<=[.!?])[\"']?\s+", " ".join(text.split())))


def worth_reading(file: Path) -> bool:
    if file.suffix == ".svg":
        return True
    text = roughly(file.read_text())
    return any(re.search(danger.pattern, text) for danger in DANGERS)


def found(danger: Danger, sentences: Collection[str]) -> list[str]:
    if not re.search(danger.pattern, "\n".join(sentences)):
        return []  # one look at all of them is much faster, and hardly any file has one
    return [
        sentence
        for sentence in sentences
        if re.search(danger.pattern, sentence) and not (danger.unless and re.search(danger.unless, sentence))
    ]


def dangerous(file: Path) -> list[str]:
    """What it says that it should not, and what to write."""
    told = list(sentences(spoken(file)))
    return [
        f"{file.relative_to(ROOT)}: {sentence}\n{danger.why}. Write instead: {danger.instead}."
        for danger in DANGERS
        for sentence in found(danger, told)
    ]


def test_nobody_is_told_to_destroy_data() -> None:
    wrong = [each for file in files() if worth_reading(file) for each in dangerous(file)]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.full
def test_nobody_is_told_to_destroy_data_in_files_that_are_left_out_by_a_rough_look() -> None:
    missed = [each for file in files() if not worth_reading(file) for each in dangerous(file)]
    assert not missed, "\n\n".join(missed)


def test_what_was_said_once_would_be_found() -> None:
    assert [danger for danger in DANGERS if not found(danger, list(sentences(danger.example)))] == []


@pytest.mark.parametrize(
    "program",
    [
        'say("Start "\n        f"that broker.")',
        'say(f"Bring broker {ids[0]}\\nback if you can.")',
        '"""It must be.\n\n    Start\n    that broker, or unregister it."""',
        "x = 1  # it becomes a candidate",
    ],
)
def test_what_a_program_says_in_pieces_would_be_found(program: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(program)

    assert worth_reading(file)


@pytest.mark.parametrize(
    "harmless",
    [
        "Start broker 1 with its own, intact disk: Kafka elects it by itself, and nothing acknowledged is lost.",
        "An ISR member comes back with its disk whole: it leads, nothing is lost.",
        "It waits for an ISR or ELR member that is back.",
        "pip install '.[operator]' in its checkout",
    ],
)
def test_what_is_true_is_let_through(harmless: str) -> None:
    assert not any(found(danger, [harmless]) for danger in DANGERS)


@pytest.mark.parametrize(
    "alert",
    [
        "OfflinePartitions", "ApprovalWaiting", "Stuck", "Slow", "Failed", "EvidenceMissing", "OperatorAbsent",
        "ProbeStale", "ClusterIsolated",
    ],
)  # fmt: skip
def test_a_runbook_warns_before_it_has_anybody_look_or_act(alert: str) -> None:
    page = (ROOT / "docs" / "runbooks" / f"KafkaRecovery{alert}.md").read_text()
    stuck = (ROOT / "docs" / "runbooks" / "KafkaRecoveryStuck.md").read_text()

    assert box(page) == box(stuck), "the same box everywhere"
    assert page.index("> **Before you start a broker.**") < page.index("## Diagnose")


def box(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith(">")]


def test_alerts_about_offline_partitions_name_the_disk() -> None:
    rules = (ROOT / "monitoring" / "prometheus-rules.yaml").read_text()

    for alert in ("OfflinePartitions", "ApprovalWaiting", "Stuck", "EvidenceMissing"):
        (told,) = re.findall(rf"alert: KafkaRecovery{alert}\n.*?description: \"(.*?)\"\n", rules, re.DOTALL)
        assert "on an empty or replaced disk" in told
