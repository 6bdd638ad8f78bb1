"""What becomes of partitions that have a leader, whoever elected it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from kafka_recovery.domain.election import Leadership
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Decision, Plan, Verdict
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.ledger import Ledger
from kafka_recovery.recovery.ports import Clock, Cluster
from kafka_recovery.recovery.verification import lead_of, leader_silent, shown, silent, verified
from kafka_recovery.recovery.wave import Timing


@dataclass(frozen=True, slots=True)
class Conclusions:
    """Looking at who leads now, and concluding what that settles."""

    cluster: Cluster
    clock: Clock
    timing: Timing

    async def led(
        self,
        plan: Plan,
        decisions: Mapping[TopicPartition, Decision],
        ledger: Ledger,
        patience: timedelta,
        unrestored: Collection[TopicPartition] = (),
    ) -> dict[TopicPartition, Decision]:
        """Verify what has a leader, whoever elected it; returns the decisions on partitions that have none."""
        evidence = {partition.id: partition for partition in plan.evidence.partitions}
        looks = await self._await_leaders(decisions, patience)
        left = {}
        for id, decision in decisions.items():
            look, restored = looks.get(id), id not in unrestored
            lead = lead_of(look)
            if look is None or look.leader is None or look.topic_id != decision.topic_id:
                left[id] = decision
            elif lead is None:
                ledger.conclude(replace(leader_silent(id, look), order_restored=restored))
            elif decision.verdict is Verdict.ELECT and (
                id in ledger.begun or lead.leader == decision.leader or lead.leader in evidence[id].clean_members
            ):
                ledger.conclude(verified(decision, evidence[id], lead, look, restored=restored))
            else:
                ledger.conclude(replace(ledger.online(decision, lead, look), order_restored=restored))
        return left

    async def changed(self, plan: Plan, again: Mapping[TopicPartition, Reason], ledger: Ledger) -> None:
        """Conclude what would have to be decided again: a leader that is back is verified, the rest refused."""
        decisions = {decision.id: decision for decision in plan.decisions if decision.id in again}
        for id in await self.led(plan, decisions, ledger, self.timing.patience(len(decisions))):
            ledger.refuse(id, again[id])

    async def online(self, plan: Plan, ledger: Ledger) -> dict[TopicPartition, Reason]:
        """Conclude the partitions that were found with a leader; returns those whose leader does not answer (yet)."""
        found = {decision.id: decision for decision in plan.decisions if decision.verdict is Verdict.NOTHING}
        looks = shown(await self.cluster.leaders(tuple(found), self.timing.rpc)) if found else {}
        again = {}
        for id, decision in found.items():
            look = looks.get(id)
            if lead := lead_of(look):
                ledger.conclude(ledger.online(decision, lead, look))
            elif look is not None and silent(look):
                again[id] = leader_silent(id, look).reason or Reason("LeaderSilent", "it does not answer")
            else:
                again[id] = Reason("LeaderGone", "it had a leader a moment ago, and has none any more")
        return again

    async def _await_leaders(
        self, partitions: Iterable[TopicPartition], patience: timedelta
    ) -> dict[TopicPartition, Leadership]:
        """Look until each partition's leader answers, or has none, or had time enough to begin to lead."""
        looks: dict[TopicPartition, Leadership] = {}
        pending = sorted(partitions)
        until = self.clock.monotonic() + patience
        while pending:
            found = shown(await self.cluster.leaders(pending, self.timing.rpc))
            looks |= found
            pending = [id for id in pending if silent(found.get(id))]
            if self.clock.monotonic() >= until:
                break
            if pending:
                await self.clock.sleep(self.timing.look)
        return looks
