"""The honest histories of which lies are told: short, and by hand, so that nothing that is drawn moves them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from kafka_recovery.domain.policy import Approval
from kafka_recovery.simulator.histories.history import History, happen
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
from simulation.test_oracle_corners import LONGEST_OF_ORDERS, OVERTHROWN, incident

PLAIN, FORKED, KILLED = "two waves", "two logs that forked", "an engine that is killed once it has elected"
REFUSED, ANOTHER, OVERTHROWING = "a refusal", "somebody else's election", "an old leader that goes on"
ON_DISK = "a follower without room, and copies that begin elsewhere on their disks"
WRONG, CROSSED = "a broker that is wrong about a log end", "an owner's order that crosses a restore"

SCENARIOS: Mapping[str, Scenario] = {
    PLAIN: incident(
        topics=(Topic("orders", ((1, 2, 3), (1, 2, 3))),),
        traffic=tuple(Traffic(f"orders-{index}", True, 1, 80, 1) for index in (0, 1)),
        rules=Rules(patience=1.0, approval=Approval.MANUAL, wave_sizes=(1, 1)),
        knows_history=True,
        witnessed=0.5,
        within=300.0,
    ),
    FORKED: LONGEST_OF_ORDERS,
    KILLED: incident(
        Fault(29, Kind.KILL_ENGINE, upon=Upon.ELECT, later=0.004),
        engines=(EngineRun(30), EngineRun(100, Command.RESUME)),
        quiet_at=200.0,
    ),
    REFUSED: incident(rules=Rules(min_replication_factor=4), quiet_at=60.0, lost=(1,)),
    ANOTHER: incident(Fault(29, Kind.ELECT, upon=Upon.PLANNED, partition="orders-0")),
    OVERTHROWING: OVERTHROWN,
    ON_DISK: incident(
        *(Fault(4, Kind.CLEANED_DISK, broker, partition="orders-0", count=broker - 1) for broker in (1, 2, 3)),
        Fault(28, Kind.FULL_VOLUME, 2),
    ),
    WRONG: incident(Fault(29, Kind.MISREPORT, 2, delay=20.0)),
    CROSSED: incident(
        Fault(29, Kind.REASSIGN, upon=Upon.RESTORE, later=0.005, partition="orders-0", replicas=(3, 2, 1))
    ),
}


@cache
def honest(name: str) -> History:
    """The history of that name; it happens once."""
    return happen(SCENARIOS[name])
