"""The journal in records while its namespace is being deleted: nothing is created there any more, and all must end."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval
from kafka_recovery.kube.journal.facts import FACT_LABEL, OWNED_LABEL
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.resources.kinds import FINALIZER
from unit.kube.journal.journals import NAME, NAMESPACE, UID, begin, engine, journal_of
from unit.kube.kubernetes_in_memory import KubernetesInMemory
from unit.recovery.brokers import Crash
from unit.recovery.world import ORDERS, PAYMENTS, World, dies_in, policy

ONE_BY_ONE = policy(Approval.AUTO, 1, 1)


class MortalNamespace(KubernetesInMemory):
    """Once it is being deleted, what is there can be patched, and goes when nobody holds it; nothing comes."""

    dying = False

    async def create(self, path: str, body: Mapping[str, Any]) -> Object:
        if self.dying:
            self._write(f"create {path}")
            name = body["metadata"]["name"]
            why = f'recoveryrecords "{name}" is forbidden: unable to create new content: it is being terminated'
            raise ApiError(403, "Forbidden", why)
        return await super().create(path, body)

    def die(self) -> None:
        """What the namespace's controller does."""
        self.dying, self.faults, self.died = True, {}, None
        for path, each in list(self.objects.items()):
            each["metadata"]["deletionTimestamp"] = f"{self.now:%Y-%m-%dT%H:%M:%SZ}"
            self._keep(path, each)
        self.writes.clear()


async def cut_short(directory: Path, deaths: int, *, done: bool = True) -> tuple[World, MortalNamespace, bool]:
    """A process that died at its write of this number, in a namespace that is deleted then; whether it did die."""
    world, api = World(directory), MortalNamespace()
    world.offline({3: 15, 2: 27})
    world.offline({3: 15, 4: 40}, PAYMENTS)
    api.put_recovery(NAMESPACE, NAME, UID)
    api.faults = {deaths: (done, Crash())}
    api.at_death = partial(setattr, world.steps, "dead", True)
    try:
        await engine(world, api, ONE_BY_ONE).recover(ALL_OFFLINE)
    except Crash:
        api.die()
        return world, api, True
    return world, api, False


@pytest.mark.parametrize("done", [False, True])
async def test_whatever_a_dead_process_left_is_undone_and_the_namespace_ends(tmp_path: Path, done: bool) -> None:
    for deaths in count():
        world, api, died = await cut_short(tmp_path / str(deaths), deaths, done=done)
        if not died:
            break
        await engine(world, api, ONE_BY_ONE).undo()
        await journal_of(api).settle()

        assert world.unrestored() == [], deaths
        assert world.kept_its_promises(), deaths
        assert api.objects == {}, deaths

    assert deaths > 12


async def test_a_process_that_dies_while_it_ends_a_journal_there_is_followed_by_one_that_ends_it(
    tmp_path: Path,
) -> None:
    for deaths in count():
        world, api = World(tmp_path / str(deaths)), MortalNamespace()
        world.offline({3: 15, 2: 27})
        api.put_recovery(NAMESPACE, NAME, UID)
        world.after("elect", crash)
        await dies_in(engine(world, api).recover(ALL_OFFLINE))
        api.die()
        assert world.unrestored()
        api.faults = {deaths: (True, Crash())}
        try:
            await engine(world, api, ONE_BY_ONE).undo()
        except Crash:
            api.faults, api.died = {}, None
            await engine(world, api, ONE_BY_ONE).undo()
            await journal_of(api).settle()
        assert (world.unrestored(), list(api.objects)) == ([], []), deaths
        if api.faults:
            break

    assert deaths > 5


async def test_a_running_process_ends_its_wave_there(tmp_path: Path) -> None:
    world, api = World(tmp_path), MortalNamespace()
    world.offline({3: 15, 2: 27})
    api.put_recovery(NAMESPACE, NAME, UID)

    world.after("elect", api.die)
    await engine(world, api).recover(ALL_OFFLINE)

    assert (world.leader(), world.unrestored(), api.objects) == (2, [], {})


def crash() -> None:
    raise Crash


async def test_one_record_that_is_labelled_as_owned_ends_no_run(api: KubernetesInMemory, plan: Plan) -> None:
    """Who may label records made the run seem to have ended, and its plan be one that never began."""
    name = await begin(journal_of(api), plan)
    (begun,) = [each for each in api.records().values() if each["metadata"]["labels"][FACT_LABEL] == "begun"]
    begun["metadata"]["labels"][OWNED_LABEL] = "true"

    (run,) = await journal_of(api).unfinished()
    await journal_of(api).settle()

    assert (run.digest, run.begun) == (name, frozenset({ORDERS}))
    assert FINALIZER in api.finalizers(NAMESPACE, NAME)
