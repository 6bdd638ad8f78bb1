"""The plans of a recovery and what became of each: what `status.plans` says, the newest first. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from kafka_recovery.kube.machinery.conditions import cut, instant

LISTED = 20
"""So many plans a status lists; those that were begun stay named in `status.begun`."""
KEPT = 10
"""So many of those that were never begun stay readable after another took their place: there may be hundreds."""
LONGEST = 512


class Became(StrEnum):
    """What became of a plan."""

    CURRENT = "Current"
    """It is carried out, or waits for its approval."""
    CARRIED_OUT = "CarriedOut"
    IN_VAIN = "InVain"
    """It was begun, and nobody was elected by it."""
    REPLACED = "Replaced"
    VOID = "Void"
    """It holds no more, and none has taken its place yet."""
    REFUSED_BY_APPROVER = "RefusedByApprover"
    """A person said no."""
    NOT_BEGUN = "NotBegun"
    """The recovery ended before it was begun."""


@dataclass(frozen=True, slots=True)
class PlanTold:
    """One plan. `differs`: how the plan that came next is another one. `readable`: whether the journal keeps it."""

    digest: str
    made_at: str
    elections: int
    became: Became = Became.CURRENT
    at: str = ""
    message: str = ""
    replaced_by: str = ""
    differs: str = ""
    readable: bool = True

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> PlanTold:
        """As a status has it."""
        return cls(
            said.get("digest", ""),
            said.get("madeAt", ""),
            said.get("elections", 0),
            _became(said.get("became", Became.CURRENT)),
            said.get("at", ""),
            said.get("message", ""),
            said.get("replacedBy", ""),
            said.get("differs", ""),
            said.get("readable", True),
        )

    def as_said(self) -> dict[str, Any]:
        """As a status has it; what is empty is left out."""
        fields = {
            "madeAt": self.made_at,
            "at": self.at,
            "message": cut(self.message, LONGEST),
            "replacedBy": self.replaced_by,
            "differs": cut(self.differs, LONGEST),
        }
        told = {name: value for name, value in fields.items() if value}
        return {
            "digest": self.digest,
            "became": str(self.became),
            "elections": self.elections,
            "readable": self.readable,
            **told,
        }


@dataclass
class PlanHistory:
    """The plans, oldest first, by digest."""

    plans: dict[str, PlanTold] = field(default_factory=dict)

    @classmethod
    def of(cls, status: Mapping[str, Any]) -> PlanHistory:
        """What an earlier process told."""
        return cls({told.digest: told for told in map(PlanTold.of, reversed(status.get("plans") or ()))})

    def shows(self, plan: PlanTold, before: str | None = None, differs: str = "") -> None:
        """It is the plan of this moment. `differs`: how it is another one than `before`, which was shown last."""
        known = self.plans.pop(plan.digest, None)
        for digest, told in self.plans.items():
            self.plans[digest] = _followed(told, plan.digest, differs if digest == before else "")
        self.plans[plan.digest] = replace(plan, readable=known.readable if known else True)

    def ends(self, digest: str, became: Became, message: str = "") -> None:
        """It is not the plan of this moment any more."""
        if digest in self.plans:
            self.plans[digest] = replace(
                self.plans[digest], became=became, at=instant(datetime.now(UTC)), message=message
            )

    def knows(self, plan: PlanTold) -> None:
        """A plan that is in the journal: one that is told of already is left as it is."""
        if plan.digest not in self.plans:
            self.plans = {plan.digest: plan, **self.plans}

    def surplus(self) -> Iterator[str]:
        """Digests of plans that were never begun and are too many to keep; they are not readable from now on."""
        never = [told for told in self.plans.values() if told.became is Became.REPLACED and told.readable]
        for told in never[:-KEPT]:
            self.plans[told.digest] = replace(told, readable=False)
            yield told.digest

    def forgets(self, digests: Iterable[str]) -> None:
        """These are not readable any more."""
        for digest in digests:
            if digest in self.plans:
                self.plans[digest] = replace(self.plans[digest], readable=False)

    def told(self, current: str | None) -> Sequence[PlanTold]:
        """The newest first. `current`: the digest of the plan that is shown; any other one is not the current one."""
        found = [
            replace(told, became=Became.VOID) if told.became is Became.CURRENT and told.digest != current else told
            for told in reversed(self.plans.values())
        ]
        return tuple(found[:LISTED])


def _became(word: str) -> Became:
    """What a later release wrote that this one does not know is at least not the plan of this moment."""
    return Became(word) if word in set(Became) else Became.VOID


def _followed(told: PlanTold, by: str, differs: str) -> PlanTold:
    """An earlier plan, now that this one is shown; what was followed before stays as it is."""
    if told.became in (Became.CURRENT, Became.VOID):
        told = replace(told, became=Became.REPLACED, at=told.at or instant(datetime.now(UTC)))
    return told if told.replaced_by else replace(told, replaced_by=by, differs=differs)
