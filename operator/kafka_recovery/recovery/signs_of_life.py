"""Attestations that a sign of life made void: they never count again, however silent their broker is by then.

What answered once had a disk. Whoever still knows better says it again, and with that says it of this moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from kafka_recovery.decision.attesting import ANSWERS
from kafka_recovery.domain.attestation import Attestation
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.reason import Reason

Said = tuple[BrokerId, str, datetime]
"""Of which broker, by whom, and when: who says it once more gives another time."""


class SignsOfLife:
    """What was found void in any look of a run. `told`: called when there is more of it, at once."""

    def __init__(self, known: Mapping[Said, Reason] | None = None, told: Callable[[], None] = lambda: None) -> None:
        self._void = dict(known or {})
        self._told = told

    @property
    def void(self) -> Mapping[Said, Reason]:
        """All of it, the oldest first, with what the broker did."""
        return self._void

    def saw(self, looked_at: Iterable[Attestation]) -> None:
        """Keep those that a look found void by an answer. What is out of its time may count at another time."""
        found = {_said(each): each.void for each in looked_at if each.void and each.void.code == ANSWERS}
        if found.keys() - self._void.keys():
            self._void = {**self._void, **{each: why for each, why in found.items() if each not in self._void}}
            self._told()

    def applied(self, given: Iterable[Attestation]) -> tuple[Attestation, ...]:
        """The same attestations, those void that were found to be."""
        return tuple(replace(each, void=self._void.get(_said(each))) for each in given)


def _said(attestation: Attestation) -> Said:
    return attestation.broker, attestation.by, attestation.at
