"""What a person is asked, and what follows from each answer: the form of it, and words that several questions share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_recovery.domain.evidence import PartitionEvidence

APPROVE = "do BEFORE YOU APPROVE, then approve this plan"


@dataclass(frozen=True, slots=True)
class Question:
    """What a person can find out or do. `answers`: each one, and what follows; an empty one goes without saying.

    `known`: what was seen that may help to answer it, in sentences.
    """

    asked: str
    answers: tuple[tuple[str, str], ...]
    known: tuple[str, ...] = ()


def on_how_many(count: int, waiting: Sequence[PartitionEvidence]) -> str:
    """On how many of these partitions; empty: on all."""
    return "" if count == len(waiting) else f" on {count:,} of {len(waiting):,} partitions"
