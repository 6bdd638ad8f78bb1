"""The journal in records after a write that failed: what was half begun is taken back, and nothing false is said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafka_recovery.domain.plan import Plan
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.resources.kinds import FINALIZER
from kafka_recovery.recovery.ports import JournalUnwritable
from unit.kube.journal.journals import NAME, another, journal_of
from unit.kube.kubernetes_in_memory import KubernetesInMemory
from unit.recovery.world import World

QUOTA = ApiError(403, "Forbidden", "exceeded quota: objects")


async def failing_to_begin(api: KubernetesInMemory, plan: Plan, after: int) -> tuple[RecordJournal, str]:
    """A run whose beginning fails after so many writes."""
    journal = journal_of(api)
    name = await journal.record(plan)
    api.faults = {len(api.writes) + after: (False, QUOTA)}
    with pytest.raises(JournalUnwritable):
        await journal.approved(name, "ann")
    return journal, name


FINALIZER_ON, PLAN_HELD, NAMED = 1, 2, 3


async def test_a_plan_that_could_not_be_begun_and_was_replaced_is_not_called_deleted(
    api: KubernetesInMemory, plan: Plan
) -> None:
    journal, name = await failing_to_begin(api, plan, NAMED)

    await journal.forget(name)

    await journal_of(api).check_whole()
    assert api.records() == {}


async def test_the_plan_of_a_run_that_never_began_is_not_held_for_ever(
    api: KubernetesInMemory, plan: Plan, world: World
) -> None:
    journal, name = await failing_to_begin(api, plan, PLAN_HELD)
    head = api.records()[f"{NAME}-{name[:16]}-plan"]["metadata"]
    assert FINALIZER in head["finalizers"]
    await journal.record(await another(world))

    await journal_of(api).settle()

    assert [each["metadata"]["finalizers"] for each in api.records().values()] == [[], []]


async def test_nothing_is_begun_where_the_definition_lacks_the_field_that_names_what_is(
    api: KubernetesInMemory, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash nobody would believe its facts, and altered orders would stay as they are."""
    kept = api.apply_status

    async def older(path: str, seen: Object, status: Mapping[str, Any]) -> Object:
        return await kept(path, seen, {name: value for name, value in status.items() if name != "begun"})

    monkeypatch.setattr(api, "apply_status", older)
    journal = journal_of(api)
    name = await journal.record(plan)

    with pytest.raises(JournalUnwritable, match="is its CustomResourceDefinition older"):
        await journal.approved(name, "ann")

    assert not await journal.has_begun(name)
