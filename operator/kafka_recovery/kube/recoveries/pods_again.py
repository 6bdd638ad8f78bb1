"""Pods that are held back no more: it is told that they may be created again, and Strimzi is woken to create them.

Strimzi makes the missing Pods of a StrimziPodSet one after the other, and stops at one that is refused. It tries again
when the StrimziPodSet changes, or after five minutes (seen in 1.2).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import timedelta

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.pod_sets import PodSets, PodSetsApi, not_woken, pod_set_of
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.resources.objects import Key

_LOG = logging.getLogger(__name__)

HEARD = timedelta(seconds=1)
"""So long after the status Strimzi is woken: an API server that has not heard of it would refuse the Pods once more."""


@dataclass(frozen=True, slots=True)
class PodsAgain:
    """`told`: told of the recovery, a reason, and whether it is good news."""

    api: PodSetsApi
    told: Callable[[Object, Reason, bool], Awaitable[None]]

    async def let_go(self, key: Key, recovery: Object | None, pods: Collection[str]) -> None:
        """These are held back no more by this recovery; None: it is gone. Raises nothing of the API's."""
        if not pods:
            return
        names = ", ".join(sorted(pods))
        _LOG.info("Pods may be created again: %s", names)
        if recovery is not None:
            again = "this recovery holds it back no more; it may be created again, unless another recovery holds it"
            why = Reason("PodLetGo", f"{again}: {names}")
            await self.told(recovery, why, True)
        await asyncio.sleep(HEARD.total_seconds())
        for name in sorted(set(map(pod_set_of, pods))):
            await self._wake(key, recovery, name)

    async def _wake(self, key: Key, recovery: Object | None, name: str) -> None:
        namespace, own = key
        try:
            woken = await PodSets(self.api, namespace).wake(
                name, f"PartitionRecovery {own} holds none of its Pods back"
            )
        except ApiError as error:
            why = Reason("StrimziNotWoken", not_woken(name, namespace, error))
            _LOG.warning("%s", why)
            if recovery is not None:
                await self.told(recovery, why, False)
            return
        _LOG.info("StrimziPodSet %s %s", name, "is woken" if woken else "is not there, so it is not woken")
