"""Journals whose PartitionRecovery is gone: what is to be restored all the same, and what only lies about.

A recovery that was deleted in an emergency, its finalizer removed by hand, leaves its ConfigMaps behind, for nobody
owns them. `orphaned` finds those with an unfinished run, for `Engine.undo`; `prune` removes what has nothing left to
undo once it is old enough that nobody asks what happened: finished orphans, and plans that never began.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from kafka_recovery.domain.plan import Plan
from kafka_recovery.kube.api import Conflict, NotFound
from kafka_recovery.kube.config_map_journal import ConfigMapJournal, by_plan, is_unfinished
from kafka_recovery.kube.facts import FACT_LABEL, OWNED_LABEL, ConfigMaps, Fact, RecoveryRef, path
from kafka_recovery.kube.resources import CLUSTER_LABEL, RECOVERIES, label_value
from kafka_recovery.recovery.ports import JournalUnwritable


class OrphanedJournal(ConfigMapJournal):
    """Port `Journal` for undoing only. Once finished its ConfigMaps stay, as a record, until they are pruned."""

    async def record(self, plan: Plan) -> str:
        """Never: there is no recovery to make a plan for."""
        raise JournalUnwritable(f"PartitionRecovery {self.recovery.name} is gone: its runs can only be undone")

    async def approved(self, digest: str, by: str | None) -> None:
        """Never."""
        raise JournalUnwritable(f"PartitionRecovery {self.recovery.name} is gone: its runs can only be undone")

    async def settle(self) -> None:
        """Nothing: there is no owner to hand over to, and no finalizer."""


async def orphaned(
    api: ConfigMaps, namespace: str, cluster_id: str, living_uids: Collection[str]
) -> list[OrphanedJournal]:
    """Journals of this cluster with an unfinished run and without their recovery, oldest first.

    `living_uids` spares questions only: who is not among them is looked up again, for it may be younger than they are.
    """
    found = await _unowned(api, namespace, cluster_id, f",{FACT_LABEL} in (begun,finished)")
    return [
        OrphanedJournal(api, namespace, recovery.name, recovery.uid, cluster_id)
        for recovery, facts in found.items()
        if any(map(is_unfinished, by_plan(facts)))
        if recovery.uid not in living_uids and await _is_gone(api, namespace, recovery)
    ]


async def prune(
    api: ConfigMaps, namespace: str, cluster_id: str, living_uids: Collection[str], before: datetime
) -> int:
    """Delete unowned ConfigMaps of this cluster whose recovery is gone; returns how many.

    Of a plan all or nothing: none if its run is unfinished or any of them was written after `before` (API server's
    clock). What says that it is finished goes last, so that half of it never looks unfinished.
    """
    deleted = 0
    for recovery, facts in (await _unowned(api, namespace, cluster_id)).items():
        old = [each for each in by_plan(facts) if not is_unfinished(each) and _youngest(each) < before]
        if old and recovery.uid not in living_uids and await _is_gone(api, namespace, recovery):
            for fact in sorted((fact for each in old for fact in each), key=lambda fact: fact.name == "finished"):
                try:
                    await api.delete(path(namespace, fact.config_map), uid=fact.head["metadata"]["uid"])
                except Conflict:
                    continue
                deleted += 1
    return deleted


async def _unowned(
    api: ConfigMaps, namespace: str, cluster_id: str, selector: str = ""
) -> dict[RecoveryRef, list[Fact]]:
    """Facts by their recovery, oldest first."""
    params = {"labelSelector": f"{CLUSTER_LABEL}={label_value(cluster_id)},{FACT_LABEL},!{OWNED_LABEL}{selector}"}
    found = [Fact.of(head) for head in await api.list_all(path(namespace), params=params)]
    recoveries: dict[RecoveryRef, list[Fact]] = {}
    for fact in sorted(found, key=lambda fact: fact.written):
        recoveries.setdefault(fact.recovery, []).append(fact)
    return recoveries


async def _is_gone(api: ConfigMaps, namespace: str, recovery: RecoveryRef) -> bool:
    try:
        seen = await api.get(RECOVERIES.path(namespace, recovery.name))
    except NotFound:
        return True
    return bool(seen["metadata"]["uid"] != recovery.uid)


def _youngest(facts: Collection[Fact]) -> datetime:
    return datetime.fromisoformat(max(fact.written for fact in facts)[0])
