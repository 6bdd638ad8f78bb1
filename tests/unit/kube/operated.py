"""One recovery as the operator carries it out: real run, approvals, supervision and journal on a small Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self, cast

import pytest

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import End
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.api import Api
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.recoveries.approvals import KubeApprovals
from kafka_recovery.kube.recoveries.progress import Progress
from kafka_recovery.kube.recoveries.run import RecoveryRun
from kafka_recovery.kube.recoveries.status import ApprovedBy, Phase
from kafka_recovery.kube.recoveries.supervision import KubeSupervision
from kafka_recovery.kube.resources.kinds import Meta
from kafka_recovery.kube.resources.objects import Key, Objects
from kafka_recovery.kube.resources.operator_switch import KnownSwitch, OperatorSwitch
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.signs_of_life import SignsOfLife
from kafka_recovery.recovery.supervision import Authority
from unit.kube.journal.journals import UID, WatchedJournal
from unit.kube.our_objects import KEY, OurObjects
from unit.recovery.brokers import Crash
from unit.recovery.world import COARSE, ORDERS, World
from unit.virtual import awaited

FULL = OperatorSwitch(Authority.AUTOMATIC)


@dataclass
class SeenCluster:
    """Port `ClusterState`."""

    alone: Reason | None = None
    cools: Reason | None = None

    def isolated(self) -> Reason | None:
        return self.alone

    def cooling(self, recovery_uid: str, lasts: timedelta | None) -> Reason | None:
        return self.cools

    def goes_first(self, recovery_uid: str) -> None:
        """There are no others."""


@dataclass
class Operated:
    """Everything a test turns: objects, Kafka, the operator's own settings; `runs` are processes, one after another."""

    world: World
    api: OurObjects
    scope: Sequence[TopicPartition] = (ORDERS,)
    switch: OperatorSwitch = FULL
    state: SeenCluster = field(default_factory=SeenCluster)
    unchecked: Reason | None = None
    unchecked_attestations: Reason | None = None
    elsewhere: Mapping[TopicPartition, str] = field(default_factory=dict)
    answers: list[tuple[str, str | None]] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    automatic: int = 0
    in_vain: list[bool] = field(default_factory=list)
    """Of each try, whether it surely changed nothing."""
    known_switch: KnownSwitch = field(init=False)

    def __post_init__(self) -> None:
        async def read() -> OperatorSwitch:
            return self.switch

        self.known_switch = KnownSwitch(read)

    def process(self, shown: str | None = None, approval: ApprovedBy | None = None) -> RecoveryRun:
        """A run as a process that has just started makes it."""
        world, objects = self.world, Objects(cast(Api, self.api))
        world.steps.dead = False
        journal = WatchedJournal(world, self.api)
        progress = Progress(lambda: self._noted(progress), self._electing, Metrics(), "kafka/prod")
        progress.tried = self.in_vain.append
        approvals: KubeApprovals
        signs = SignsOfLife()
        supervision = self.supervision(
            lambda: journal.begun,
            progress.any_failed,
            lambda: approvals.refused or journal.never_shown,
            signs=signs,
        )
        approvals = KubeApprovals(
            objects,
            KEY,
            UID,
            world.kafka,
            supervision,
            progress,
            self._checked,
            attesting=self._attesting_checked,
            answered=self._answered,
            signs=signs,
            clock=world.clock,
        )

        def engine() -> Engine:
            kafka = world.kafka
            return Engine(
                *(kafka, kafka, journal, approvals, supervision),
                clock=world.clock,
                observer=progress,
                timing=COARSE,
                signs=signs,
            )

        return RecoveryRun(
            engine=engine,
            journal=journal,
            approvals=approvals,
            supervision=supervision,
            progress=progress,
            scope=self.scope,
            held_elsewhere=lambda: self.elsewhere,
            designated={},
            ranked={},
            shown=shown,
            approval=approval,
        )

    def supervision(
        self,
        begun: object = None,
        failed: object = None,
        refused: object = None,
        *,
        named: Reason | None = None,
        signs: SignsOfLife | None = None,
        lease: Key | None = None,
    ) -> KubeSupervision:
        """What owners say now."""
        return KubeSupervision(
            Objects(cast(Api, self.api)),
            KEY,
            UID,
            "prod",
            self.known_switch,
            self.state,
            begun=begun if callable(begun) else lambda: False,
            failed=failed if callable(failed) else lambda: False,
            named=named,
            refused=refused if callable(refused) else lambda: None,
            signs=signs,
            lease=lease,
        )

    def _noted(self, progress: Progress) -> None:
        if not self.phases or self.phases[-1] is not progress.phase:
            self.phases.append(progress.phase)

    def _electing(self, approved: bool) -> None:
        self.automatic += not approved

    async def _checked(self, approval: Meta) -> Reason | None:
        return self.unchecked

    async def _attesting_checked(self) -> Reason | None:
        return self.unchecked_attestations

    async def _answered(self, approval: Meta, against: Reason | None) -> bool:
        self.answers.append((approval.name, against.code if against else None))
        return True


def plans(api: OurObjects) -> list[str]:
    """Plans that are kept."""
    return [name for name in api.records() if name.endswith("-plan")]


async def died(operated: Operated) -> None:
    """A first process met its end as the test arranged it."""
    with pytest.raises(Crash):
        await operated.process().go()
    operated.world.calm_down()


class Going:
    """A run that goes on in the background, until the story is over or it is killed."""

    def __init__(self, run: RecoveryRun) -> None:
        self.run = run
        self.task = asyncio.get_running_loop().create_task(run.go())

    @classmethod
    async def up_to(cls, phase: Phase, run: RecoveryRun) -> Self:
        going = cls(run)
        await going.until(phase)
        return going

    @classmethod
    async def to_its_end(cls, run: RecoveryRun) -> End:
        """How it ends if nothing else happens."""
        return await cls(run).end()

    async def until(self, phase: Phase, within: float = 1000) -> RecoveryRun:
        """Wait (virtual seconds) for a phase."""
        await awaited(lambda: self.run.progress.phase is phase, within)
        return self.run

    async def end(self, within: float = 1000) -> End:
        """How it ended."""
        await asyncio.wait_for(self.task, within)
        assert self.run.progress.end
        return self.run.progress.end

    async def killed(self) -> None:
        """The process ends without another word."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def digest(self) -> str:
        """Of the plan that people see."""
        assert self.run.progress.plan_shown
        return self.run.progress.plan_shown.digest
