"""A journal that was found in the field, judged by those promises that need no knowledge of the true logs."""

from __future__ import annotations

import json
from dataclasses import replace
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
from kafka_recovery.simulator.histories.kept_documents import PLAN, Document, documents
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


def judge_journal(journal: Path) -> Verdict:
    """Judge every plan of a journal; see `documents`. Raises InvalidDocument for one that can't be read."""
    kept = sorted(documents(journal), key=lambda document: document.written)
    plans = {(each.journal, each.run): read(Plan, each.raw, each.where) for each in kept if each.name == PLAN}
    if not plans:
        raise InvalidDocument(f"{journal}: holds no plan; a journal has <cluster id>/<digest>/{PLAN}")
    story = Chronicle(SimulatedKafka(seed=0, brokers=(1,)))
    digests = {run: digest(plan) for run, plan in plans.items()}
    for run, plan in plans.items():
        story.known(digests[run], plan)
    facts = [_fact(each, digests[run]) for each in kept if (run := (each.journal, each.run)) in digests]
    first = min(at for at, _ in facts)
    for at, fact in sorted(facts, key=lambda told: told[0]):
        story.kept.append(replace(fact, at=(at - first).total_seconds()))
    story.wished.append(Wished(0.0, next(story.plans())[1].policy))
    return judged(story, _NOTHING, OF_JOURNALS)


def _fact(document: Document, of: str) -> tuple[datetime, Kept]:
    """A fact, and when it was written: as it says itself, or as whoever kept it says."""
    told: dict[str, Any] = {} if document.name == PLAN else _told(document)
    at = datetime.fromisoformat(told["at"]) if "at" in told else document.written
    wave = frozenset(map(TopicPartition.parse, told.get("partitions", ())))
    outcomes = json.dumps(told.get("outcomes", [])).encode()
    said = read(tuple[PartitionOutcome, ...], outcomes, document.where)
    return at, Kept(0.0, "journal", document.journal, of, document.name, wave, said)


def _told(document: Document) -> dict[str, Any]:
    try:
        told = json.loads(document.raw)
    except ValueError as error:
        raise InvalidDocument(f"{document.where}: can't be read: {error}") from None
    if not isinstance(told, dict):
        raise InvalidDocument(f"{document.where}: is no fact of a journal")
    return told
