"""The ports of one engine together: all that its steps read, change, write down and wait by."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kafka_recovery.recovery.approval_gate import ApprovalGate
from kafka_recovery.recovery.ports import Clock, Cluster, Election, Journal, Observer
from kafka_recovery.recovery.signs_of_life import SignsOfLife
from kafka_recovery.recovery.supervision import Permission
from kafka_recovery.recovery.timing import Timing


@dataclass(frozen=True, slots=True)
class EnginePorts:
    """Built once, by the engine. `permission` reads at each call what the owners of the run allow.

    `signs`: what a look finds of attestations is kept there.
    """

    cluster: Cluster
    election: Election
    journal: Journal
    gate: ApprovalGate
    clock: Clock
    observer: Observer
    timing: Timing
    permission: Callable[[], Awaitable[Permission]]
    signs: SignsOfLife
