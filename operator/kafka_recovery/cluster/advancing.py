"""Whether brokers keep up with the controller: what each has applied, held to what was committed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta

from kafka_recovery.cluster import metadata
from kafka_recovery.cluster.asking import applied
from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.errors import ClusterError
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.membership import Membership, View
from kafka_recovery.cluster.together import together
from kafka_recovery.cluster.versions import ApiVersions
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.reason import Reason

STANDSTILL = timedelta(milliseconds=1200)
"""A broker applies metadata twice a second, if only no-ops (metadata.max.idle.interval.ms). One that did not in this
time stands still."""


async def committed(brokers: Brokers, view: View, deadline: timedelta) -> int | Reason:
    """What the controller has committed by now, asked through the view's broker, or why it does not say."""
    try:
        return await metadata.quorum_high_watermark(brokers, view.at.address, deadline)
    except ClusterError as fault:
        return fault.reason


async def advances(
    members: Membership, view: View, watermark: int | Reason, deadline: timedelta
) -> Mapping[BrokerId, bool]:
    """Whether each broker has applied all that the controller had committed when this gather began.

    Where the controller does not tell what it had committed, whether its applied offset moves at all. A broker that
    did not answer after the time in which it should have is absent: silence is no standstill.
    """
    told = {id: _number(before) for id, before in view.versions.items()}
    target = {id: watermark - 1 if isinstance(watermark, int) else before + 1 for id, before in told.items()}
    behind = [id for id, before in told.items() if before < target[id]]
    places = {id: members.listing.known[id].address for id in behind}
    found = await together(*(_arrives(members.brokers, places[id], target[id], deadline) for id in behind))
    late = dict(zip(behind, found, strict=True))
    return {id: arrived for id in view.versions if (arrived := late.get(id, True)) is not None}


async def _arrives(brokers: Brokers, at: Address, target: int, deadline: timedelta) -> bool | None:
    """Whether the broker applies metadata up to `target` in time; None if it falls silent.

    Only an answer to a question that was put after that time shows a standstill: a busy one may be asked but once.
    """
    began = loop_time()
    in_time = began + STANDSTILL.total_seconds()
    give_up_at = began + max(deadline, 2 * STANDSTILL).total_seconds()
    while True:
        await asyncio.sleep(0.01)
        put_at = loop_time()
        try:
            left = timedelta(seconds=max(0.0, give_up_at - put_at))
            now = _number(await brokers.api_versions(at, left))
        except ClusterError:
            now = None
        if now is not None and now >= target:
            return True
        if put_at >= in_time:
            return None if now is None else False


def _number(versions: ApiVersions) -> int:
    told = applied(versions)
    return -1 if told is None else told
