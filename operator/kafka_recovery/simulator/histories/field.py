"""A journal that was found in the field, judged by those promises that need no knowledge of the true logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument, digest, read
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Kept, Wished
from kafka_recovery.simulator.histories.findings import Invariant, Verdict
from kafka_recovery.simulator.histories.judging.choices import best_first, nothing_forbids_it, the_rest_in_order
from kafka_recovery.simulator.histories.judging.journals import (
    facts_in_their_order,
    finished_is_finished,
    outcomes_fit_the_plan,
    waves_are_of_their_plan,
    what_began_was_approved,
)
from kafka_recovery.simulator.histories.judging.limits import limits_hold, waves_hold
from kafka_recovery.simulator.histories.judging.losses import class_has_its_number, class_is_proven
from kafka_recovery.simulator.histories.oracle import judged
from kafka_recovery.simulator.histories.scenario import VERSION, Scenario, Topic
from kafka_recovery.simulator.model.kafka import SimulatedKafka

OF_JOURNALS: tuple[Invariant, ...] = (
    class_has_its_number,
    class_is_proven,
    nothing_forbids_it,
    best_first,
    the_rest_in_order,
    limits_hold,
    waves_hold,
    facts_in_their_order,
    waves_are_of_their_plan,
    what_began_was_approved,
    finished_is_finished,
    outcomes_fit_the_plan,
)
"""What can be asked of plans and facts alone; times are seconds since the first fact."""

_NOTHING = Scenario(VERSION, seed=0, brokers=1, topics=(Topic("none", ((1,),)),), knows_history=True)


def judge_journal(folder: Path) -> Verdict:
    """Judge every plan below a folder as `FileJournal` writes it. Raises InvalidDocument for one that can't be read."""
    facts = sorted(_facts(folder), key=lambda fact: fact[0])
    if not facts:
        raise InvalidDocument(f"{folder}: holds no plan; a journal has <cluster id>/<digest>/plan.json")
    first = facts[0][0]
    story = Chronicle(SimulatedKafka(seed=0, brokers=(1,)))
    for at, path, kept in facts:
        story.kept.append(_since(kept, (at - first).total_seconds()))
        if kept.name == "plan.json":
            story.known(kept.digest, _plan(path))
    story.wished.append(Wished(0.0, next(story.plans())[1].policy))
    return judged(story, _NOTHING, OF_JOURNALS)


def _facts(folder: Path) -> Iterator[tuple[datetime, Path, Kept]]:
    """Every fact, and when it was written: as it says itself, or as its file does."""
    for plan in sorted(folder.rglob("plan.json")):
        name = digest(_plan(plan))
        for path in sorted(plan.parent.glob("*.json")):
            told: dict[str, Any] = {} if path == plan else _read(path)
            at = datetime.fromisoformat(told["at"]) if "at" in told else None
            began = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
            wave = frozenset(map(TopicPartition.parse, told.get("partitions", ())))
            outcomes = _outcomes(path, told) if path.name.endswith("-ended.json") else ()
            yield at or began, path, Kept(0.0, "journal", str(plan.parent.parent), name, path.name, wave, outcomes)


def _plan(path: Path) -> Plan:
    return read(Plan, path.read_bytes(), str(path))


def _read(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidDocument(f"{path}: can't be read: {error}") from None
    if not isinstance(told, dict):
        raise InvalidDocument(f"{path}: is no fact of a journal")
    return told


def _outcomes(path: Path, told: dict[str, Any]) -> tuple[PartitionOutcome, ...]:
    return read(tuple[PartitionOutcome, ...], json.dumps(told.get("outcomes", [])).encode(), str(path))


def _since(kept: Kept, at: float) -> Kept:
    return Kept(at, kept.process, kept.machine, kept.digest, kept.name, kept.wave, kept.outcomes)
