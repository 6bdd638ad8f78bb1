"""A WatchedCluster that recoveries need stays until what they altered is restored, and says what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafka_recovery.kube.clusters import clusters as module
from kafka_recovery.kube.clusters.held import NONE_ALTERED
from kafka_recovery.kube.clusters.status import ALTERED
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.resources.kinds import CLUSTERS, FINALIZER, RECOVERIES
from unit.kube.clusters.watched import Watched, loses_its_secret
from unit.kube.journal.journals import NAME, OTHERS
from unit.kube.our_objects import PROD

PATH = CLUSTERS.path(*PROD)


def begun(watched: Watched) -> Object:
    """Its recovery has begun, by whatever process."""
    recovery = watched.api.recovery()
    recovery["metadata"]["finalizers"] = [OTHERS, FINALIZER]
    return recovery


def finalizers(watched: Watched) -> list[str]:
    found: list[str] = watched.api.objects[PATH]["metadata"].get("finalizers", [])
    return found


async def test_a_process_that_starts_holds_the_clusters_of_runs_that_have_begun(watched: Watched) -> None:
    """An earlier release began them, or somebody took the finalizer off, or made the WatchedCluster anew."""
    watched.api.objects[PATH]["metadata"]["finalizers"] = [OTHERS]
    begun(watched)

    await watched.settle(PROD)

    assert finalizers(watched) == [OTHERS, FINALIZER]
    reason, message = watched.ready(PROD, ALTERED)
    assert (reason, f"{NAME} has begun" in message) == ("AsExpected", True)


async def test_it_goes_with_the_last_run(watched: Watched) -> None:
    recovery = begun(watched)
    await watched.settle(PROD)

    recovery["metadata"]["finalizers"] = [OTHERS]
    await watched.settle(PROD)

    assert (finalizers(watched), watched.ready(PROD, ALTERED)) == ([], (NONE_ALTERED.code, NONE_ALTERED.message))


async def test_one_that_begins_while_it_goes_finds_it_again(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run saw it standing, and put no other one on."""
    recovery = begun(watched)
    await watched.settle(PROD)
    recovery["metadata"]["finalizers"] = []
    patched = watched.api.patch

    async def another_begins(path: str, change: Mapping[str, Any]) -> Object:
        begun(watched)
        return await patched(path, change)

    monkeypatch.setattr(watched.api, "patch", another_begins)
    await watched.settle(PROD)

    assert finalizers(watched) == [FINALIZER]
    assert f"{NAME} has begun" in watched.ready(PROD, ALTERED)[1]


async def test_while_nothing_has_begun_no_recovery_is_asked_for(watched: Watched) -> None:
    await watched.settle(PROD)
    watched.api.reads.clear()

    await watched.settle(PROD)

    assert RECOVERIES.path(PROD[0]) not in watched.api.reads


async def test_what_belongs_to_another_cluster_holds_nothing(watched: Watched) -> None:
    begun(watched)["spec"]["clusterRef"] = {"name": "another"}

    await watched.settle(PROD)

    assert finalizers(watched) == []


async def test_a_deletion_waits_until_orders_are_restored_and_says_so(watched: Watched) -> None:
    begun(watched)
    await watched.settle(PROD)
    await watched.api.delete(PATH)

    await watched.settle(PROD)

    (cluster,) = watched.all.open()
    reason, message = watched.ready(PROD, ALTERED)
    assert (reason, NAME in message, "ten minutes" in message) == ("WatchedClusterDeleted", True, True)
    assert watched.events.said.count(("Warning", "WatchedClusterDeleted")) == 1
    assert watched.all.policy(PROD) is None, "no incident is opened any more"
    assert cluster.only_restores is not None
    assert cluster.only_restores.code == "WatchedClusterDeleted"
    assert await watched.all.reconcile(PROD) == module.AGAIN

    watched.restored = True
    await watched.settle(PROD, PROD)
    assert (PATH in watched.api.objects, watched.all.open()) == (False, ())


@pytest.mark.parametrize("deleted", [False, True])
async def test_with_its_secret_gone_it_goes_on_saying_whose_orders_are_altered(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, deleted: bool
) -> None:
    """Nobody can restore them: neither is the deletion done, nor is anything called restored."""
    begun(watched)
    monkeypatch.setattr(module, "way_in", loses_its_secret)
    await watched.settle(PROD)
    if deleted:
        await watched.api.delete(PATH)

    await watched.settle(PROD)

    reason, message = watched.ready(PROD, ALTERED)
    assert (watched.ready(PROD)[0], "Secret ca is not there" in watched.ready(PROD)[1]) == ("InvalidReference", True)
    assert (reason, NAME in message) == ("WatchedClusterDeleted" if deleted else "AsExpected", True)
    assert finalizers(watched) == [FINALIZER]

    watched.api.remove(RECOVERIES, NAME)  # its owner gave up
    await watched.settle(PROD)
    assert (PATH in watched.api.objects) != deleted


async def test_a_right_that_is_missing_hides_no_other_trouble(watched: Watched) -> None:
    """Who may not list recoveries opens no cluster: its status has to say why, and claims nothing of orders."""
    forbidden, real = RECOVERIES.path(PROD[0]), watched.api.list_all

    async def lists(path: str, **asked: Any) -> list[Object]:
        if path == forbidden:
            raise ApiError(403, "Forbidden", "cannot list resource partitionrecoveries", path)
        return await real(path, **asked)

    watched.api.list_all = lists  # type: ignore[method-assign]
    await watched.settle(PROD)

    assert watched.ready(PROD)[0] == "Forbidden"
    reason, message = watched.ready(PROD, ALTERED)
    assert (reason, "recoveries of it have begun can't be read: cannot list" in message) == ("ObjectsUnreadable", True)
    conditions = {each["type"]: each["status"] for each in watched.api.objects[PATH]["status"]["conditions"]}
    assert conditions[ALTERED] == "Unknown"


async def test_a_finalizer_that_can_not_be_written_is_tried_again(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    begun(watched)
    watched.api.refusing = lambda what: what == f"patch {PATH}"

    await watched.settle(PROD)
    assert (finalizers(watched), f"{NAME} has begun" in watched.ready(PROD, ALTERED)[1]) == ([], True)
    assert "the finalizer of WatchedCluster kafka/prod is not as it should be" in caplog.text

    watched.api.refusing = lambda what: False
    watched.at_work = True
    await watched.settle(PROD)
    assert finalizers(watched) == [FINALIZER]
