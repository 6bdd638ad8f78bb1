"""What comes right before the command that approves a plan: copies, room, and whom to keep off. Words only."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kafka_recovery.decision.bad_leaders import Elections, elections_of
from kafka_recovery.decision.fenced_members import fenced_members
from kafka_recovery.decision.holding import keep_off, may_return
from kafka_recovery.decision.kubectl import Kubectl
from kafka_recovery.decision.log_directories import full_leaders
from kafka_recovery.decision.moments import incident_at
from kafka_recovery.decision.pods import SILENT_BROKER, dangers, is_likely_whole, pods_of
from kafka_recovery.decision.questions import Question
from kafka_recovery.decision.returns import away, before_consent, has_failed_disk, named_brokers
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.plan import Plan

BEFORE = "Before you approve:"


def before_a_yes(plan: Plan, kubectl: Kubectl) -> Iterator[Question]:
    """The last thing before the command: nobody is to run it for a broker that only can't be reached.

    Where nobody is asked it is the plan's own way: what it can't wait for it does not tell.
    """
    elections = [each for each in elections_of(plan) if each[0].needs_approval]
    if elections and (first := "; ".join(_do_first(plan, elections, kubectl))):
        yield Question(BEFORE, (("", f"{first}."),))


def _do_first(plan: Plan, elections: Elections, kubectl: Kubectl) -> Iterator[str]:
    if any(before_consent(plan)):
        yield "copy as said above"
    if any(full_leaders(plan)):
        yield "make room as said above"
    if back := sorted({*_silent(elections), *fenced_members(plan)}):
        cluster = plan.evidence.cluster
        seen, at = pods_of(cluster, back[0]), incident_at(plan.evidence.partitions, cluster)
        told = len(back) > 1 or any(dangers(seen, at)) or is_likely_whole(seen, at)  # above, or it is not to be typed
        its = plan.policy.hold_back is not None and back[0] in may_return(plan)  # the operator deletes its Pod
        how = SILENT_BROKER if told or its else keep_off(cluster, back[0], kubectl)
        yield f"keep {named_brokers(back)} off until another leads (silent is not off): {how}"
    if failed := sorted({id for _, each in elections for id in away(each) if has_failed_disk(each, id)}):
        yield f"do not restart {named_brokers(failed)} until another leads"


def _silent(elections: Elections) -> Collection[BrokerId]:
    """Who can't be reached from here may still be reached by clients (an old leader that is cut off)."""
    return frozenset({id for _, each in elections for id in away(each) if not has_failed_disk(each, id)})
