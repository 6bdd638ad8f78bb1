"""An oracle that never finds anything proves nothing: deliberate defects of the engine, each of which must be caught.

Every defect is a patch of one function. The same seeds with the honest engine give no finding (test_histories), so what
is found is the defect's. Each is pinned to a seed that shows it: searching them all takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.cluster.controller_requests import ControllerRequests
from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.decision import checks, guards, judgement, loss, planner, refusals
from kafka_recovery.decision import recheck as rechecking
from kafka_recovery.decision.waves import waves
from kafka_recovery.domain.election import Answer, ElectionAnswer, Lead, Leadership
from kafka_recovery.domain.evidence import Replica
from kafka_recovery.domain.ids import Offset, TopicPartition
from kafka_recovery.domain.plan import Loss, Plan
from kafka_recovery.domain.policy import Approval, CandidateOrder
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery import partition_run, rollout, supervision
from kafka_recovery.recovery.approval_gate import ApprovalGate
from kafka_recovery.recovery.journal_files import FileJournal
from kafka_recovery.recovery.partition_run import Ending, Led, NotLed, PartitionRun
from kafka_recovery.recovery.rollout import Rollout
from kafka_recovery.recovery.session import Session
from kafka_recovery.recovery.wave import WaveSteps
from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.scenario import (
    Command,
    EngineRun,
    Fault,
    Kind,
    Scenario,
    Topic,
    Traffic,
    Upon,
)
from kafka_recovery.simulator.histories.schedules import draw
from simulation.defects import Patch, everything_is_lossless, restored_without_comparing
from simulation.pinned import shown_by
from simulation.test_narrow_escapes import APART
from unit.decision.written import objection

Adapt = Callable[[Scenario], Scenario]


def rules(**values: Any) -> Adapt:
    """The same scenario under rules that let the defect matter."""
    return lambda scenario: replace(scenario, rules=replace(scenario.rules, **values))


def as_drawn(scenario: Scenario) -> Scenario:
    return scenario


def by_order(scenario: Scenario) -> Scenario:
    return replace(scenario, driver=Driver.ASSIGNMENT_ORDER)


def with_history(scenario: Scenario) -> Scenario:
    return replace(scenario, knows_history=True, rules=replace(scenario.rules, approval=Approval.AUTO))


def slow_to_approve(scenario: Scenario) -> Scenario:
    """An old leader comes and goes while a person thinks."""
    start = scenario.engines[0].at
    return replace(
        scenario,
        brokers=3,
        topics=(Topic("orders", ((1, 2, 3),)),),
        rules=replace(scenario.rules, patience=1.0, min_replication_factor=1, brokers_down_percent=100, partitions=5),
        traffic=(Traffic("orders-0", True, 1, 90, 1),),
        elr=False,
        within=None,
        faults=(
            Fault(5, Kind.KILL, 2),
            Fault(8, Kind.KILL, 3),
            Fault(12, Kind.KILL, 1),
            Fault(16, Kind.START, 2),
            Fault(16, Kind.START, 3),
            Fault(16, Kind.CUT, 1, other=2, upon=Upon.APPROVE),
            Fault(16, Kind.CUT, 1, other=3, upon=Upon.APPROVE),
            Fault(16, Kind.START, 1, upon=Upon.APPROVE),
            Fault(16, Kind.KILL, 1, upon=Upon.APPROVE, later=4),
        ),
        engines=(EngineRun(max(start, 25), Command.EXECUTE, thinking=15),),
        quiet_at=110.0,
    )


@dataclass(frozen=True)
class Defect:
    """What is wrong, and what has to notice. A seed whose history shows it is pinned by its name."""

    name: str
    patch: Patch
    caught_by: tuple[str, ...]
    adapt: Adapt = as_drawn


async def _nothing(*args: Any, **kwargs: Any) -> None:
    """Keeps no record."""


def recovered_from_metadata_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WaveSteps, "_await_leaders", _by_metadata)


async def _by_metadata(self: WaveSteps, runs: Sequence[PartitionRun], *rest: Any, **more: Any) -> None:
    await self.ports.clock.sleep(timedelta(seconds=0.5))
    looks = await self.look(runs)
    for run in runs:
        look = looks.get(run.id)
        if isinstance(look, Leadership) and look.leader is not None and look.leader_epoch > run.decision.leader_epoch:
            run.apply(Led(Lead(look.leader, look.leader_epoch, run.decision.log_end or Offset(0))))
        else:
            run.apply(NotLed(Reason("NotElected", "no leader"), Ending.AGAIN))


def epoch_check_switched_off(patch: pytest.MonkeyPatch) -> None:
    same = tuple(check for check in rechecking.SAME if check.__name__ != "_same_epoch")
    patch.setattr(rechecking, "SAME", same)
    patch.setattr(rechecking, "_same_log", lambda *args: None)
    patch.setattr(rechecking, "_loss_no_worse", lambda *args: None)


def ignored_limit(patch: pytest.MonkeyPatch) -> None:
    honest = planner._tiers
    patch.setattr(planner, "_tiers", lambda standings, limit: honest(standings, 10_000))


def ignored_outage(patch: pytest.MonkeyPatch) -> None:
    for module in (planner, rechecking):
        patch.setattr(module, "cluster_objection", objection(refusals.CLUSTER_GUARDS[:2]))


def ignored_replication_factor(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judgement, "partition_objection", objection(refusals.PARTITION_GUARDS[1:]))


def understated_bound(patch: pytest.MonkeyPatch) -> None:
    """Bounds are 0, and whose copy is intact is taken on trust."""
    patch.setattr(loss, "_is_intact", lambda replica, *rest: replica.log is not None)
    honest = loss._by_containment

    def nothing_lacked(leader: Replica, holder: Replica) -> Loss:
        found = honest(leader, holder)
        return found if found.at_most is None else replace(found, at_most=0)

    patch.setattr(loss, "_by_containment", nothing_lacked)


def changed_without_a_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FileJournal, "wave_started", _nothing)


def approval_carried_over(patch: pytest.MonkeyPatch) -> None:
    honest = ApprovalGate.ask
    remembered: dict[int, str | None] = {}

    async def ask(self: Any, plan: Plan, digest: str, *rest: Any) -> str | None:
        if id(self) not in remembered:
            remembered[id(self)] = await honest(self, plan, digest, *rest)
        return remembered[id(self)]

    patch.setattr(ApprovalGate, "ask", ask)


def approval_never_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(supervision.Permission, "wants_approval", lambda self, decision: False)


def cut_off_brokers_believed(patch: pytest.MonkeyPatch) -> None:
    """Fenced, without the controller's news, under an older epoch: three guards say so, and none is asked."""
    off = (guards.not_fenced, guards.metadata_advances)
    brokers = tuple(guard for guard in guards.BROKER_GUARDS if guard not in off)
    for module in (planner, rechecking):
        patch.setattr(module, "broker_objection", objection(brokers))
    replicas = tuple(guard for guard in guards.REPLICA_GUARDS if guard is not guards.promised)
    patch.setattr(judgement, "replica_objection", objection(replicas))


def shortest_log_first(patch: pytest.MonkeyPatch) -> None:
    worst = {name: lambda log, position, cost: (-log.end, 0, -position) for name in CandidateOrder}
    patch.setattr(judgement, "MERITS", worst)


def other_order_than_asked(patch: pytest.MonkeyPatch) -> None:
    swapped = {
        CandidateOrder.EPOCH_FIRST: checks.MERITS[CandidateOrder.LONGEST_LOG],
        CandidateOrder.LONGEST_LOG: checks.MERITS[CandidateOrder.EPOCH_FIRST],
    }
    patch.setattr(judgement, "MERITS", swapped)


def waves_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(planner, "waves", lambda work, sizes: waves(work, (1000,)))
    patch.setattr(Rollout, "_size", lambda self, verified: 1000)


def a_failed_wave_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rollout, "_stops_the_next", lambda run, outcome: False)
    patch.setattr(Rollout, "_stumbled", lambda self: False)


def unanswered_taken_for_accepted(patch: pytest.MonkeyPatch) -> None:
    """What was sent and not answered counts as done."""
    honest = ControllerRequests.decided

    async def decided(self: ControllerRequests, *asked: Any, **how: Any) -> Mapping[TopicPartition, ElectionAnswer]:
        answers = await honest(self, *asked, **how)
        return {
            id: ElectionAnswer(Answer.ACCEPTED) if told.answer is Answer.UNANSWERED else told
            for id, told in answers.items()
        }

    patch.setattr(ControllerRequests, "decided", decided)


def accepted_taken_for_unanswered(patch: pytest.MonkeyPatch) -> None:
    """What was answered counts as in doubt."""
    honest = ControllerRequests.decided

    async def decided(self: ControllerRequests, *asked: Any, **how: Any) -> Mapping[TopicPartition, ElectionAnswer]:
        answers = await honest(self, *asked, **how)
        why = Reason("BrokerTimeout", "it did not answer")
        return {
            id: ElectionAnswer(Answer.UNANSWERED, why) if told.answer is Answer.ACCEPTED else told
            for id, told in answers.items()
        }

    patch.setattr(ControllerRequests, "decided", decided)


def no_outcome_at_the_deadline(patch: pytest.MonkeyPatch) -> None:
    honest = Session.refuse

    def refuse(self: Session, partition: TopicPartition, reason: Any) -> None:
        if reason.code not in ("Interrupted", "NoCandidate", "ApprovalMissing"):
            honest(self, partition, reason)

    patch.setattr(Session, "refuse", refuse)


def orders_left_by_a_crash(patch: pytest.MonkeyPatch) -> None:
    async def put_back(self: WaveSteps, runs: Sequence[PartitionRun]) -> Any:
        return {}

    patch.setattr(WaveSteps, "put_back", put_back)
    patch.setattr(partition_run, "order_is_ours", lambda sighting, run: False)


def orders_never_restored(patch: pytest.MonkeyPatch) -> None:
    async def restore(self: WaveSteps, runs: Sequence[PartitionRun]) -> Any:
        return await self.look(runs), {}, False

    patch.setattr(WaveSteps, "restore", restore)
    patch.setattr(partition_run, "order_is_ours", lambda sighting, run: False)


def no_last_look(patch: pytest.MonkeyPatch) -> None:
    async def recheck(self: WaveSteps, *runs: Any, **rest: Any) -> dict[TopicPartition, Any]:
        return {}

    patch.setattr(WaveSteps, "recheck", recheck)


def breaks_off_waiting(patch: pytest.MonkeyPatch) -> None:
    async def run(self: Rollout, runs: Any) -> dict[TopicPartition, Any]:
        raise KeyError("wave")

    patch.setattr(Rollout, "run", run)


DEFECTS = (
    Defect("recovered from metadata alone", recovered_from_metadata_alone, ("recovered_means_verified",)),
    Defect("epoch check switched off", epoch_check_switched_off, ("nobody_from_silence",), slow_to_approve),
    Defect("ignored limit on partitions", ignored_limit, ("limits_hold",), rules(partitions=1)),
    Defect("ignored limit on brokers down", ignored_outage, ("limits_hold",), rules(brokers_down_percent=1)),
    Defect("ignored replication factor", ignored_replication_factor, ("limits_hold",), rules(min_replication_factor=5)
    ),
    Defect("everything is lossless", everything_is_lossless, ("loss_stays_in_its_class",)),
    Defect("understated bound", understated_bound, ("loss_stays_in_its_class",), with_history),
    Defect(
        "restored without comparing", restored_without_comparing,
        ("only_own_orders_are_replaced", "no_order_is_left_behind"), by_order,
    ),
    Defect("changed without a record", changed_without_a_record, ("nothing_without_its_record",)),
    Defect("approval carried over", approval_carried_over, ("approval_is_for_this_plan",),
        rules(approval=Approval.MANUAL, patience=1.0),
    ),
    Defect("approval never asked", approval_never_asked, ("approval_is_for_this_plan",), rules(approval=Approval.MANUAL)
    ),
    Defect("cut-off brokers believed", cut_off_brokers_believed, ("nobody_from_silence",), rules(patience=1.0)),
    Defect("shortest log first", shortest_log_first, ("best_first",)),
    Defect("another order than asked for", other_order_than_asked, ("best_first",)),
    Defect("waves ignored", waves_ignored, ("waves_hold",), rules(wave_sizes=(1,))),
    Defect("a failed wave ignored", a_failed_wave_ignored, ("a_failed_wave_stops_the_next",), lambda scenario: APART),
    Defect(
        "unanswered taken for accepted", unanswered_taken_for_accepted,
        ("doubt_is_what_the_wire_shows", "requests_in_doubt_are_waited_out"), by_order,
    ),
    Defect("accepted taken for unanswered", accepted_taken_for_unanswered, ("doubt_is_what_the_wire_shows",)),
    Defect("no outcome at the deadline", no_outcome_at_the_deadline, ("everybody_has_an_outcome",)),
    Defect(
        "orders left by a crash", orders_left_by_a_crash,
        ("no_order_is_left_behind", "restored_is_restored"), by_order,
    ),
    Defect("orders never restored", orders_never_restored, ("no_order_is_left_behind", "restored_is_restored"), by_order
    ),
    Defect("no last look", no_last_look, ("nobody_from_silence",)),
    Defect("breaks off", breaks_off_waiting, ("engines_never_break",)),
)  # fmt: skip


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_caught(defect: Defect, monkeypatch: pytest.MonkeyPatch) -> None:
    defect.patch(monkeypatch)

    def caught(seed: int) -> bool:
        history = happen(defect.adapt(draw(seed)))
        return bool({finding.invariant for finding in history.findings}.intersection(defect.caught_by))

    shown_by(f"teeth: {defect.name}", caught)
