"""Fields of an object that a newer release's definition has, and this release does not know.

The API server fills the defaults of the definitions that are installed into every object, also into those that were
stored before. To refuse what is unknown would stop an operator that is older than the definitions. To ignore it might
do what its author forbade. So it is ignored where it is empty, for a field of v1alpha1 means by that what there was
without it (docs/how-to/upgrading.md); what was given asks a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.fields import Path, plain
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.machinery.applied import is_empty
from kafka_recovery.kube.machinery.conditions import condition, merged

CONDITION = "UnknownFields"
"""Type and reason of the condition that names them, which is there only while there are any. kstatus knows no such."""

ASKED = "each plan wants an approver, whatever the rules say"
"""What becomes of an object by which leaders are elected."""

_TOLD = 10
"""So many are named; in lists each place counts once."""


@dataclass(frozen=True, slots=True)
class UnknownFields:
    """Where they stand, a list's entries as `[]`. `given`: those that say something, so that they may forbid it."""

    empty: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: Mapping[Path, object]) -> UnknownFields:
        """By their values."""
        given = {_place(path) for path, value in found.items() if not is_empty(value)}
        empty = {_place(path) for path in found} - given
        return cls(tuple(sorted(empty)), tuple(sorted(given)))

    @property
    def restricts(self) -> Reason | None:
        """Why nothing may be done by this object alone, if so: what its author meant can't be known."""
        if not self.given:
            return None
        named = _named(self.given)
        return Reason(CONDITION, f"this release does not know {named}, which may forbid what it would do")


NONE = UnknownFields()


def told(status: dict[str, Any], unknown: UnknownFields, follows: str, seen: Object, now: datetime) -> dict[str, Any]:
    """A status with the condition that names them, if there are any. `follows`: what becomes of the object `seen`."""
    if unknown == NONE:
        return status
    parts = []
    if unknown.given:
        parts.append(f"{_named(unknown.given)} may forbid something: {follows}")
    if unknown.empty:
        parts.append(f"{_named(unknown.empty)} says nothing")
    said = f"the definitions are newer than the operator, which ignores what it does not know: {'; '.join(parts)}"
    new = condition(CONDITION, True, CONDITION, said, seen["metadata"]["generation"])
    old = (seen.get("status") or {}).get("conditions") or ()
    return {**status, "conditions": [*status["conditions"], *merged(old, [new], now)]}


def _named(places: tuple[str, ...]) -> str:
    more = f" and {len(places) - _TOLD} more" if len(places) > _TOLD else ""
    return ", ".join(islice(places, _TOLD)) + more


def _place(path: Path) -> str:
    return "".join("[]" if isinstance(part, int) else f".{plain(part)}" for part in path).lstrip(".")
