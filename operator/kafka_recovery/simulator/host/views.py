"""Whose metadata an engine reads on the simulated cluster: the rules of `cluster/view`, on simulated answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.reason import Reason
from kafka_recovery.simulator.host.wire import ATTEMPTS, Fault, SimulatedWire, Unavailable, reason_of
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import (
    ApiVersions,
    BrokerListed,
    ClusterDescribed,
    DescribeCluster,
    DescribeQuorum,
    Versions,
)

_STANDSTILL = 1.2
_BRIEF = timedelta(seconds=1)
_AT_ONCE = 0.2
_NO_OPS_A_SECOND = 2
_ROUTE_AGE = 2.0
_POLL = 0.05


@dataclass(frozen=True, slots=True)
class View:
    """The metadata of one gather: whose it is, the brokers, and what each broker said of itself."""

    at: BrokerListed
    cluster: ClusterDescribed
    versions: Mapping[BrokerId, Versions]
    faults: Mapping[BrokerId, Reason]

    @property
    def listed(self) -> dict[BrokerId, BrokerListed]:
        """The brokers that the chosen one lists."""
        return {broker.id: broker for broker in self.cluster.brokers}


class Views:
    """Finds the broker that is alive and knows the newest. `known`: every broker seen so far."""

    def __init__(self, wire: SimulatedWire, bootstrap: Sequence[BrokerId]) -> None:
        self._wire = wire
        self._bootstrap = tuple(bootstrap)
        self.known: dict[BrokerId, BrokerListed] = {}
        self._silent: set[BrokerId] = set()
        self._route: tuple[BrokerId, float] | None = None

    def forget_route(self) -> None:
        """The broker chosen last failed: choose again."""
        self._route = None

    async def route(self, deadline: timedelta) -> BrokerId:
        """A broker to read metadata from and to reach the controller through."""
        if self._route is not None and self._now() - self._route[1] <= _ROUTE_AGE:
            return self._route[0]
        return (await self.look(deadline, in_a_hurry=True)).at.id

    async def look(self, deadline: timedelta, *, in_a_hurry: bool = False) -> View:
        """Find the brokers, ask each for its applied metadata offset, choose whose metadata to read."""
        first = await self._first_answer(deadline)
        cluster = await self._wire.ask(first, DescribeCluster(), deadline)
        self.known |= {broker.id: broker for broker in cluster.brokers}
        asked_at = self._now()
        patience = min(deadline, _BRIEF) if in_a_hurry else deadline
        versions, answered_at, faults = await self._versions(cluster.brokers, patience)
        newest = {id: said.metadata_offset - _no_ops(answered_at[id] - asked_at) for id, said in versions.items()}
        best = max(newest, key=lambda id: (newest[id], -id), default=first)
        if best != first:
            # who is cut off from the controller lists everybody else as fenced: the newest says who is alive
            cluster = await self._wire.ask(best, DescribeCluster(), deadline)
            self.known |= {broker.id: broker for broker in cluster.brokers}
        listed = {broker.id: broker for broker in cluster.brokers}
        self._silent = {id for id in faults if id in listed and listed[id].fenced}
        alive = [listed[id] for id in versions if id in listed and not listed[id].fenced]
        if not alive and in_a_hurry:
            return await self.look(deadline)
        if not alive:
            raise Unavailable("ClusterUnavailable", f"none of {len(listed)} brokers that are not fenced answered")
        at = max(alive, key=lambda broker: (newest[broker.id], -broker.id))
        if at.id != best:
            cluster = await self._wire.ask(at.id, DescribeCluster(), deadline)
        self.known |= {broker.id: broker for broker in cluster.brokers}
        self._route = at.id, self._now()
        return View(at, cluster, versions, faults)

    async def current(self, deadline: timedelta) -> BrokerId:
        """A broker that has applied all that the controller had committed when this was called."""
        view = await self.look(deadline, in_a_hurry=True)
        watermark = await self.quorum(view, deadline)
        stale = Unavailable("StaleMetadata", f"what broker {view.at.id} shows may be old")
        if isinstance(watermark, Reason):
            raise stale
        applied, until = view.versions[view.at.id].metadata_offset, self._now() + deadline.total_seconds()
        while applied < watermark - 1:
            if self._now() > until:
                raise stale
            await asyncio.sleep(_POLL)
            applied = (await self._wire.ask(view.at.id, ApiVersions(), deadline)).metadata_offset
        return view.at.id

    async def quorum(self, view: View, deadline: timedelta) -> int | Reason:
        """What the controller had committed, if it says."""
        try:
            answer = await self._wire.ask(view.at.id, DescribeQuorum(), deadline)
        except Fault as fault:
            return fault.reason
        return reason_of(answer.error, "DescribeQuorum") if answer.error is not Error.NONE else answer.high_watermark

    async def advances(self, view: View, watermark: int | Reason, deadline: timedelta) -> Mapping[BrokerId, bool]:
        """Whether each broker has applied all that was committed when this gather began; silence is no standstill."""
        target = {
            id: watermark - 1 if isinstance(watermark, int) else before.metadata_offset + 1
            for id, before in view.versions.items()
        }
        advanced = [id for id, before in view.versions.items() if before.metadata_offset >= target[id]]
        behind: list[BrokerId] = []
        until = self._now() + _STANDSTILL
        while (waiting := [id for id in view.versions if id not in advanced]) and self._now() < until:
            await asyncio.sleep(_POLL)
            now, _, _ = await self._versions([self.known[id] for id in waiting], deadline)
            advanced += [id for id, said in now.items() if said.metadata_offset >= target[id]]
            behind += now
        return {id: id in advanced for id in sorted({*advanced, *behind})}

    async def _first_answer(self, deadline: timedelta) -> BrokerId:
        """The first broker that answers, among those known from before and the bootstrap servers."""
        brokers = tuple(dict.fromkeys([*self.known, *self._bootstrap]))
        tasks = [asyncio.create_task(self._wire.ask(broker, ApiVersions(), deadline)) for broker in brokers]
        try:
            waiting = set(tasks)
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for broker, task in zip(brokers, tasks, strict=True):  # in a fixed order: sets have none
                    if task in done and task.exception() is None:
                        return broker
                    if task in done and not isinstance(task.exception(), Fault):
                        task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        raise Unavailable("ClusterUnavailable", f"none of {len(brokers)} brokers answered")

    async def _versions(
        self, brokers: Iterable[BrokerListed], deadline: timedelta
    ) -> tuple[dict[BrokerId, Versions], dict[BrokerId, float], dict[BrokerId, Reason]]:
        listed = list(brokers)
        answered_at: dict[BrokerId, float] = {}

        async def ask(broker: BrokerListed) -> Versions | Fault:
            silent = broker.id in self._silent
            patience, attempts = (
                (min(deadline, _BRIEF) if silent else deadline),
                1 if silent or broker.fenced else ATTEMPTS,
            )
            try:
                answer = await self._wire.ask(broker.id, ApiVersions(), patience, attempts)
            except Fault as fault:
                return fault
            answered_at[broker.id] = self._now()
            return answer

        answers = await asyncio.gather(*map(ask, listed))
        pairs = list(zip(listed, answers, strict=True))
        versions = {broker.id: answer for broker, answer in pairs if isinstance(answer, Versions)}
        return versions, answered_at, {broker.id: a.reason for broker, a in pairs if isinstance(a, Fault)}

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _no_ops(waited: float) -> int:
    """A slow broker answers last, so it seems to know the newest; it must not be chosen for that."""
    return 0 if waited < _AT_ONCE else math.ceil(waited * _NO_OPS_A_SECOND) + 1
