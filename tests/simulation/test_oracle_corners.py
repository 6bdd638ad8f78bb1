"""Where an oracle grows soft: excuses that cover too much, bounds of somebody else's rule, evidence that is forgotten.

As in test_oracle_teeth each defect is a patch of the engine, here in the very history that shows it. The same history
with the honest engine keeps every promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.cluster import brokers, connection
from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.cluster.controller_requests import Change, ControllerRequests
from kafka_recovery.cluster.errors import ClusterUnavailable
from kafka_recovery.cluster.kip_1275 import ElectLeadersRequest
from kafka_recovery.decision import cluster_index, judgement, planner, recheck
from kafka_recovery.decision.checks import MERITS
from kafka_recovery.domain.election import ElectionAnswer
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import Report
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval, CandidateOrder, Policy, Rule, TopicSelector
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.recovery.approval_gate import ApprovalGate
from kafka_recovery.recovery.engine import Effort, Engine
from kafka_recovery.recovery.requests import request_of
from kafka_recovery.recovery.session import Session
from kafka_recovery.recovery.timing import Timing
from kafka_recovery.recovery.wave import WaveSteps
from kafka_recovery.simulator.histories import history
from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.scenario import (
    Command,
    EngineRun,
    Fault,
    Kind,
    Rules,
    Scenario,
    Topic,
    Traffic,
    Upon,
)
from kafka_recovery.simulator.host.disks import SimulatedStorage
from kafka_recovery.simulator.rehearsal.rehearse import given
from simulation.defects import Patch, everything_is_lossless, restored_without_comparing
from simulation.telling import Story

ONE_AFTER_THE_OTHER = (
    Fault(5, Kind.KILL, 2),
    Fault(10, Kind.KILL, 3),
    Fault(15, Kind.KILL, 1),
    Fault(20, Kind.START, 2),
    Fault(20, Kind.START, 3),
)
"""Broker 1 leads what 2 and 3 have not, and does not come back; 3 has more than 2."""

ORDERS = (Topic("orders", ((1, 2, 3),)),)


def incident(*more: Fault, **changed: Any) -> Scenario:
    """One partition whose last leader stays away; one engine is called."""
    usual = Scenario(
        1,
        seed=7,
        brokers=3,
        topics=ORDERS,
        elr=False,
        rules=Rules(patience=1.0),
        traffic=(Traffic("orders-0", True, 1, 80, 1),),
        faults=(*ONE_AFTER_THE_OTHER, *more),
        engines=(EngineRun(30),),
        quiet_at=100.0,
    )
    return replace(usual, **changed)


def found(scenario: Scenario) -> set[str]:
    return {finding.invariant for finding in happen(scenario).findings}


@dataclass(frozen=True)
class Corner:
    """A defect, the history that shows it, and what has to notice."""

    name: str
    patch: Patch
    scenario: Scenario
    caught_by: str


# The deadline.


def no_time_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "Effort", lambda within: Effort())


def waits_ten_minutes_for_every_leader(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "TIMING", Timing(verify=timedelta(minutes=10)))


TWO_TURNS = incident(
    topics=(Topic("orders", ((1, 2, 3), (1, 3, 2), (1, 2, 3))),),
    rules=Rules(patience=1.0, approval=Approval.MANUAL),
    engines=(EngineRun(30, thinking=10),),
    within=5.0,
)
"""The person who is asked takes longer than the run may take."""

SILENT_LEADER = incident(
    Fault(30, Kind.HIDE, upon=Upon.ELECT, designated=True),
    within=5.0,
    quiet_at=700.0,
)


# Approvals.


def approval_carried_over_to_an_equal_request(patch: pytest.MonkeyPatch) -> None:
    """Only the leaders are compared, not what they were chosen on."""
    honest = ApprovalGate.ask
    remembered: dict[tuple[object, ...], str | None] = {}

    async def ask(self: Any, plan: Plan, digest: str, *rest: Any) -> str | None:
        key = tuple(sorted(map(str, map(request_of, plan.elections.values()))))
        if key not in remembered:
            remembered[key] = await honest(self, plan, digest, *rest)
        return remembered[key]

    patch.setattr(ApprovalGate, "ask", ask)


MANUAL = Rules(patience=1.0, approval=Approval.MANUAL)
PLANNED_TWICE = incident(
    Fault(29, Kind.HIDE, upon=Upon.APPROVE, designated=True, lasting=9),
    rules=MANUAL,
    engines=(EngineRun(30, thinking=2),),
)
"""The designated broker is silent at the last look; a little later it is designated again, on the same log."""


# Changes that nobody asked for.


def another_order_than_announced(patch: pytest.MonkeyPatch) -> None:
    honest = AssignmentOrderElection._order

    async def order(
        self: AssignmentOrderElection, orders: Mapping[TopicPartition, tuple[Any, ...]]
    ) -> Mapping[TopicPartition, ElectionAnswer]:
        return await honest(self, {id: (*order[:1], *reversed(order[1:])) for id, order in orders.items()})

    patch.setattr(AssignmentOrderElection, "_order", order)


def elects_whatever_is_offline(patch: pytest.MonkeyPatch) -> None:
    honest = ControllerRequests.decided

    async def decided(self: ControllerRequests, ids: Any, change: Change) -> Mapping[TopicPartition, ElectionAnswer]:
        if isinstance(change.request, ElectLeadersRequest):
            change.request.topic_partitions = None
        return await honest(self, ids, change)

    for module in (brokers, connection):
        patch.setattr(module, "require_safe", lambda address, request: None)
    patch.setattr(ControllerRequests, "decided", decided)


TWO_TOPICS = incident(
    topics=(*ORDERS, Topic("payments", ((1, 2),))),
    rules=Rules(patience=1.0, min_replication_factor=3),
)
"""Nobody asked for payments: too few replicas."""


# Orders of others.


def finished_plans_are_undone(patch: pytest.MonkeyPatch) -> None:
    """What the journal calls finished is taken for unfinished."""
    honest = SimulatedStorage.names
    patch.setattr(SimulatedStorage, "names", lambda self, directory: honest(self, directory) - {"finished.json"})


SOMEBODY_REORDERS = Fault(30, Kind.REASSIGN, upon=Upon.ELECT, later=0.02, partition="orders-0", replicas=(1, 3, 2))
SAME_IDEA_LATER = incident(
    Fault(60, Kind.REASSIGN, partition="orders-0", replicas=(3, 2, 1)),
    engines=(EngineRun(30), EngineRun(70, Command.UNDO)),
)
"""Long after the plan was finished, somebody wants for good the very order that it had used."""


# Patience.


def patience_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judgement, "clean_return", lambda *args: None)


def patience_counts_from_the_first_look(patch: pytest.MonkeyPatch) -> None:
    honest = Engine._decide

    async def decide(self: Engine, evidence: Any, designated: Any, ranked: Any, session: Session) -> Any:
        for partition in evidence.partitions:
            session.clean_members.waited(partition.id, self._ports.clock.monotonic())
        return await honest(self, evidence, designated, ranked, session)

    patch.setattr(Engine, "_decide", decide)


BACK_WHILE_ASKED = incident(
    topics=(Topic("orders", ((1, 2, 3),), min_isr=2),),
    elr=True,
    faults=(
        Fault(5, Kind.KILL, 3),
        Fault(10, Kind.FREEZE, 2),
        Fault(15, Kind.KILL, 1),
        Fault(20, Kind.START, 3),
        Fault(29, Kind.ISOLATE, 2, upon=Upon.APPROVE),
        Fault(29, Kind.THAW, 2, upon=Upon.APPROVE, later=1),
    ),
    rules=Rules(patience=20.0, approval=Approval.MANUAL),
    engines=(EngineRun(30, thinking=15),),
    quiet_at=140.0,
)
"""A member of the ELR answers again while a person thinks, but the controller does not hear it."""


# Policies of several rules.


def the_first_rule_for_all(patch: pytest.MonkeyPatch) -> None:
    honest = cluster_index.index_of

    def index_of(cluster: Any, policy: Policy, guard: Any) -> Any:
        return honest(cluster, replace(policy, rules=(replace(policy.rules[0], topics=TopicSelector()),)), guard)

    for module in (planner, recheck):
        patch.setattr(module, "index_of", index_of)


def newest_epoch_first_for_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judgement, "MERITS", dict.fromkeys(CandidateOrder, MERITS[CandidateOrder.EPOCH_FIRST]))


SMALL_ARE_REFUSED = given(
    incident(),
    Policy(
        (
            Rule("others", TopicSelector(names=("others",)), approval=Approval.AUTO),
            Rule("orders", min_replication_factor=4, approval=Approval.AUTO),
        )
    ),
)
LONGEST_OF_ORDERS = given(
    incident(
        traffic=(Traffic("orders-0", True, 1, 80, 1), Traffic("orders-0", False, 1, 7.5, 0.2, 5)),
        faults=(
            Fault(4, Kind.CUT, 1, other=2, lasting=40),
            Fault(4, Kind.CUT, 1, other=3, lasting=40),
            Fault(8, Kind.KILL, 1),
            Fault(16, Kind.KILL, 3),
            Fault(22, Kind.KILL, 2),
            Fault(24, Kind.START, 1),
            Fault(24, Kind.START, 3),
        ),
    ),
    Policy(
        (
            Rule("others", TopicSelector(names=("others",)), approval=Approval.AUTO),
            Rule("orders", candidate_order=CandidateOrder.LONGEST_LOG, approval=Approval.AUTO),
        )
    ),
)
"""Broker 1 has the longest log and broker 3 the newest epoch."""
NOT_SELECTED = given(incident(), Policy((Rule("others", TopicSelector(names=("others",)), approval=Approval.AUTO),)))


# What a class promises.


OVERTHROWN = incident(
    faults=(
        Fault(26, Kind.FREEZE, 2),
        Fault(26, Kind.FREEZE, 3),
        Fault(30, Kind.ISOLATE, 1),
        Fault(30, Kind.HIDE, 1),
        Fault(31, Kind.THAW, 2),
        Fault(31, Kind.THAW, 3),
    ),
    traffic=(Traffic("orders-0", True, 0, 60, 25),),
    engines=(EngineRun(36),),
    knows_history=True,
    quiet_at=80.0,
)
"""Broker 1 alone is in sync, cut off from the controller and hidden from the engine, and still has its producer.

Nothing is lost at the moment of the election; what broker 1 acknowledges afterwards is.
"""


# How a run ends.


def breaks_off_with_a_sentence(patch: pytest.MonkeyPatch) -> None:
    async def verify(self: WaveSteps, *args: Any, **kwargs: Any) -> Any:
        raise InvalidDocument("the plan does not hold together")

    patch.setattr(WaveSteps, "verify", verify)


def gives_up_without_a_report(patch: pytest.MonkeyPatch) -> None:
    honest = Session.report

    def report(self: Session) -> Report:
        told = honest(self)
        if told.outcomes:
            raise ClusterUnavailable({})
        return told

    patch.setattr(Session, "report", report)


def refuses_without_a_word(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Session, "refuse", lambda self, partition, reason: None)


FOUND_BY_ITSELF = incident(
    rules=Rules(min_replication_factor=4), engines=(EngineRun(30, whole_cluster=True),), quiet_at=60.0
)
"""Nobody names a partition, and no plan elects one."""

CORNERS = (
    Corner("no time limit", no_time_limit, TWO_TURNS, "the_deadline_is_kept"),
    Corner("waits ten minutes", waits_ten_minutes_for_every_leader, SILENT_LEADER, "the_deadline_is_kept"),
    Corner(
        "approval of an equal request",
        approval_carried_over_to_an_equal_request,
        PLANNED_TWICE,
        "approval_is_for_this_plan",
    ),
    Corner("another order than announced", another_order_than_announced, incident(), "nothing_that_was_not_asked"),
    Corner("elects whatever is offline", elects_whatever_is_offline, TWO_TOPICS, "nothing_that_was_not_asked"),
    Corner(
        "an order put back in a topic that is deleted later",
        restored_without_comparing,
        incident(SOMEBODY_REORDERS, Fault(90, Kind.RECREATE, partition="orders-0")),
        "only_own_orders_are_replaced",
    ),
    Corner("finished plans are undone", finished_plans_are_undone, SAME_IDEA_LATER, "no_order_is_left_behind"),
    Corner("patience ignored", patience_ignored, BACK_WHILE_ASKED, "patience_is_kept"),
    Corner("patience from the first look", patience_counts_from_the_first_look, BACK_WHILE_ASKED, "patience_is_kept"),
    Corner("another rule's replication factor", the_first_rule_for_all, SMALL_ARE_REFUSED, "limits_hold"),
    Corner("another rule's candidate order", newest_epoch_first_for_all, LONGEST_OF_ORDERS, "best_first"),
    Corner("a topic without a rule", the_first_rule_for_all, NOT_SELECTED, "limits_hold"),
    Corner("an overthrown leader forgotten", everything_is_lossless, OVERTHROWN, "loss_stays_in_its_class"),
    Corner("breaks off with a sentence", breaks_off_with_a_sentence, incident(), "engines_never_break"),
    Corner("refuses without a word", refuses_without_a_word, FOUND_BY_ITSELF, "everybody_has_an_outcome"),
    Corner("gives up without a report", gives_up_without_a_report, incident(), "engines_never_break"),
)


@pytest.mark.parametrize("corner", CORNERS, ids=lambda corner: corner.name)
def test_the_honest_engine_keeps_every_promise_there(corner: Corner) -> None:
    assert "\n".join(map(str, happen(corner.scenario).findings)) == ""


@pytest.mark.parametrize("corner", CORNERS, ids=lambda corner: corner.name)
def test_a_defect_in_a_corner_is_caught(corner: Corner, monkeypatch: pytest.MonkeyPatch) -> None:
    corner.patch(monkeypatch)

    assert corner.caught_by in found(corner.scenario)


def test_a_partition_that_never_was_has_no_states() -> None:
    """Garbled answers name such ones, and the oracle judges what an engine says of them."""
    story = Story(BrokerId(1))
    story.run_for(1)

    assert story.chronicle.states(TopicPartition("nobody-made-it", 0), 0.0, 1.0) == ()
