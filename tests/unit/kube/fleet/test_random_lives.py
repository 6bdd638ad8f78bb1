"""Many lives of a FleetRanking, full of accidents: whatever happens, it comes to an end, and to no false one."""

from __future__ import annotations

import random
from collections.abc import Callable

from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.outcome import RunOutcome
from kafka_recovery.kube.fleet.dialect import PLURAL, Adapter
from kafka_recovery.kube.fleet.runs import remembered
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.machinery.work_queue import Requeue
from kafka_recovery.kube.resources.kinds import POLICIES
from unit.kube.fleet.asked import ended, waiting
from unit.kube.fleet.spark_world import RUNNING_POD, SparkWorld
from unit.kube.specs import POLICY

SEEDS = range(30)
SILENCE = Reason("StorageUnavailable", "s3://fleet/results: can't be read")


class Life:
    """A world in which things happen by chance; `honest`: folders whose manifest the job itself wrote whole."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        schedule = {"schedule": "0 * * * *"} if self.chance.random() < 0.5 else {}
        self.world = SparkWorld(timeout="30m", retries=self.chance.randrange(3), **schedule)
        self.honest: set[str] = set()

    @property
    def has_application(self) -> bool:
        active = remembered(self.world.raw["status"]).active
        return active is not None and active.application in self.world.applications()

    async def look(self, **later: float) -> None:
        """A look that may be cut off; the next one is another process's."""
        try:
            await self.world.look(1, **later)
        except (ApiError, Requeue):
            return

    @property
    def submissions(self) -> set[str]:
        """Names under which an application was ever asked for."""
        asked = (each for each in self.world.api.writes if each.startswith("create") and f"/{PLURAL}/" in each)
        return {each.rpartition("/")[2] for each in asked}

    def happen(self) -> None:
        """One thing by chance."""
        always: list[Callable[[], object]] = [
            self.cut_off,
            lambda: self.world.ask(suspend=self.chance.random() < 0.3),
            lambda: self.world.ask(retries=self.chance.randrange(3)),
            lambda: self.world.api.put(POLICIES, "prod", {"rules": [{"name": f"r{self.chance.randrange(9)}"}]}),
            lambda: self.world.api.installed.symmetric_difference_update({Adapter.APACHE}),
            self.fall_silent,
        ]
        on_application: list[Callable[[], object]] = [
            lambda: self.world.state("SUBMITTED", phase="Pending", **waiting("ErrImagePull", "no such image")),
            lambda: self.world.state("RUNNING", **RUNNING_POD),
            lambda: self.world.state("FAILED", phase="Failed", **ended(1, "no evidence")),
            lambda: self.world.state("COMPLETED"),
            self.succeed,
            lambda: self.world.succeed(run="another"),
            self.world.edit_application,
            self.world.delete_application,
        ]
        self.chance.choice(always + (on_application * 2 if self.has_application else []))()

    def cut_off(self) -> None:
        at = len(self.world.api.writes) + self.chance.randrange(4)
        self.world.api.faults[at] = (self.chance.random() < 0.5, ApiError(0, "Unanswered", "cut off"))

    def fall_silent(self) -> None:
        self.world.results.silent = SILENCE if self.chance.random() < 0.5 else None

    def succeed(self) -> None:
        self.honest.add(self.world.active.result)
        self.world.succeed()

    def heal(self) -> None:
        """Nothing more goes wrong from now on."""
        self.world.api.faults.clear()
        self.world.api.installed = {Adapter.KUBEFLOW, Adapter.APACHE}
        self.world.results.silent = None
        self.world.api.put(POLICIES, "prod", POLICY)
        self.world.ask(suspend=False)


async def lived(seed: int) -> set[str]:
    """How the runs of one life ended; it is an error if they ended wrongly, or not at all."""
    life = Life(seed)
    for _ in range(50):
        life.happen()
        await life.look(minutes=life.chance.choice((0, 0, 1, 5, 40)))

    life.heal()
    for _ in range(60):  # no driver ever starts: deadlines have to do it
        await life.look(minutes=5)
        if life.world.raw["status"]["runs"] and "active" not in life.world.raw["status"]:
            break

    remembers = remembered(life.world.raw["status"])
    assert remembers.active is None, f"seed {seed}"
    for run in remembers.runs:
        assert run.attempts <= 3, f"seed {seed}: {run}"
        if run.outcome is RunOutcome.SUCCEEDED:
            assert run.result in life.honest, f"seed {seed}: {run}"
            assert run.checksum, f"seed {seed}: {run}"
    return {run.reason.code for run in remembers.runs}


async def test_whatever_happens_a_run_ends_and_succeeds_only_with_its_own_result() -> None:
    endings = [await lived(seed) for seed in SEEDS]

    rich = {
        "Succeeded",
        "ApplicationFailed",
        "ApplicationNotOurs",
        "ResultInvalid",
        "ResultMissing",
        "DeadlineExceeded",
    }
    assert rich <= set().union(*endings), "lives without accidents prove nothing"


async def test_however_often_its_operator_dies_a_run_is_submitted_once() -> None:
    for seed in SEEDS:
        life = Life(seed)
        for _ in range(25):
            life.cut_off()
            await life.look(seconds=life.chance.choice((0, 5)))

        assert life.submissions <= {"prod-29921040-1"}, f"seed {seed}"
        assert len(life.world.applications()) <= 1, f"seed {seed}"
