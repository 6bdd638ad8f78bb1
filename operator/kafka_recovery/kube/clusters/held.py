"""Our finalizer on a WatchedCluster: it stands while recoveries of it have begun, and its deletion waits for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.journal.finalizer import OrderFinalizer
from kafka_recovery.kube.machinery.api import Api, ApiError, Object
from kafka_recovery.kube.resources.kinds import CLUSTERS, FINALIZER, RECOVERIES, UNFINISHED
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.recovery.ports import JournalUnwritable

_LOG = logging.getLogger(__name__)

NAMED = 3
"""So many recoveries are named."""

WAITS = "WatchedClusterDeleted"
UNKNOWN = Decisive.OBJECTS_UNREADABLE
NONE_ALTERED = Reason("AsExpected", "no recovery of it has begun to alter orders")


class HeldClusters:
    """`is_restored`: whether no order of a recovery is altered any more, as this process has seen itself."""

    def __init__(self, api: Api, is_restored: Callable[[Key], bool]) -> None:
        self._api = api
        self._is_restored = is_restored
        self._looked: set[tuple[Key, str]] = set()

    async def altered(self, key: Key, raw: Object, *, at_work: bool) -> Reason:
        """What is to be said of the orders of a cluster; our finalizer then stands if any may be altered.

        Nothing is asked for while it can't be that one is. `at_work`: a run is known that may have altered some. `raw`
        then has the metadata of what was written. What can't be read holds what it holds: nothing is taken off.
        """
        meta = raw["metadata"]
        held, seen = FINALIZER in meta.get("finalizers", ()), (key, meta["uid"])
        if not held and not at_work and seen in self._looked:
            return NONE_ALTERED
        leaving = bool(meta.get("deletionTimestamp"))
        try:
            begun = await self._begun(key, leaving=leaving)
        except ApiError as error:
            return Reason(UNKNOWN, f"whether recoveries of it have begun can't be read: {error.message}")
        self._looked.add(seen)
        finalizer = OrderFinalizer(self._api, CLUSTERS, *key, meta["uid"])
        try:
            if held and not begun:
                raw["metadata"] = ((await finalizer.take_off()) or raw)["metadata"]
                begun = () if leaving else await self._begun(key)  # one that began meanwhile found it standing
                held = False
            if begun and not held and not leaving:
                raw["metadata"] = (await finalizer.put_on())["metadata"]
        except JournalUnwritable as trouble:
            _LOG.warning("the finalizer of WatchedCluster %s is not as it should be: %s", "/".join(key), trouble)
        return _told(begun, leaving=leaving)

    async def _begun(self, key: Key, *, leaving: bool = False) -> Sequence[str]:
        """The recoveries that hold it: those that have begun; of one that leaves, those that are not restored yet."""
        namespace, name = key

        def held(each: Object) -> str | None:
            meta, ours = each["metadata"], each["spec"]["clusterRef"]["name"] == name
            return meta["name"] if ours and FINALIZER in meta.get("finalizers", ()) else None

        found = await self._api.list_kept(RECOVERIES.path(namespace), held, params={"fieldSelector": UNFINISHED})
        names = filter(None, found)
        return sorted(each for each in names if not (leaving and self._is_restored((namespace, each))))


def _told(begun: Sequence[str], *, leaving: bool) -> Reason:
    if not begun:
        return NONE_ALTERED
    names = ", ".join(begun[:NAMED]) + (f" and {len(begun) - NAMED} more" if len(begun) > NAMED else "")
    if leaving:
        return Reason(
            WAITS,
            f"the deletion waits until the assignment orders are restored that PartitionRecovery {names} may have "
            "altered; leave the Secrets and the Kafka user that are named here until then. Where that can't be: delete "
            "the recovery, and ten minutes later it holds this no more",
        )
    return Reason("AsExpected", f"PartitionRecovery {names} has begun, and may have altered assignment orders")
