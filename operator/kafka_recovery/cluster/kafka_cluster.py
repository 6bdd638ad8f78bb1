"""Port `Cluster` on a real Kafka: one look at everything a decision needs, from every broker that can be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self, TypeVar

from kafka_recovery.cluster import metadata, scan
from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.drivers import Kip1275
from kafka_recovery.cluster.errors import (
    BrokerRefuses,
    BrokerTimeout,
    BrokerUnreachable,
    ClusterError,
    ClusterUnavailable,
    StaleMetadata,
)
from kafka_recovery.cluster.gathering import Gathering
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.membership import Membership, Route
from kafka_recovery.cluster.metadata import Partitions, PartitionState
from kafka_recovery.cluster.metadata_log.image import Image
from kafka_recovery.cluster.metadata_log.kept import KeptHistory
from kafka_recovery.cluster.metadata_log.reader import MetadataLog
from kafka_recovery.cluster.metadata_log.unfenced import Alive
from kafka_recovery.cluster.pulse import Pulse, Pulses
from kafka_recovery.cluster.replica_logs import ReplicaSurvey
from kafka_recovery.cluster.scan import Scan, UncleanTopics
from kafka_recovery.cluster.security import Security
from kafka_recovery.cluster.sockets import Dial
from kafka_recovery.cluster.threads import Threads
from kafka_recovery.cluster.together import together
from kafka_recovery.domain.election import Lead, Leadership, Relay, Scope, Sighting
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, MetadataOffset, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.domain.reason import Reason

_PAUSE = 0.2
"""Seconds between two tries while no broker can be reached."""

T = TypeVar("T")


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Controllers:
    """The controllers' own listeners, and how to get in there; the brokers' security is another one."""

    addresses: Sequence[Address]
    security: Security

    def metadata_log(self, threads: Threads, dial: Dial | None) -> MetadataLog:
        """The log that is read there."""
        return MetadataLog(Brokers(self.security, threads=threads, dial=dial), self.addresses, threads)


class KafkaCluster:
    """One Kafka cluster over its own wire protocol. Use as an async context manager."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        security: Security,
        expected_cluster_id: str | None = None,
        *,
        dial: Dial | None = None,
        now: Callable[[], datetime] = _utc_now,
        kip_1275: Kip1275 | None = None,
        controllers: Controllers | Reason | None = None,
    ) -> None:
        """`dial`: the way to the brokers, TCP if it is left out. `now`: the wall clock that evidence is dated by.

        `controllers`: where the metadata log is read, for histories, or why it can't be; None: nobody named any.
        """
        self.kip_1275 = kip_1275 or Kip1275()
        threads = Threads(expected_cluster_id or ", ".join(map(str, bootstrap)))
        self.brokers = Brokers(security, threads=threads, dial=dial)
        self._now = now
        self._members = Membership(self.brokers, bootstrap, expected_cluster_id)
        self._pulses = Pulses(self._members)
        self._metadata_log = (
            controllers.metadata_log(threads, dial) if isinstance(controllers, Controllers) else controllers
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._metadata_log, MetadataLog):
            await self._metadata_log.aclose()
        await self._members.aclose()
        await self.brokers.aclose()

    async def gather(
        self, scope: Scope, rules: EvidenceRules, known: Mapping[TopicPartition, PartitionEvidence] | None = None
    ) -> Evidence:
        """Look at everything; see the port.

        Raises UnsupportedRequest where driver `designated` is asked for and not offered.

        A silent broker costs its own answers and at most attempts x deadline: asking for its versions is the first
        attempt, each survey of its replicas another one. Connections that fail are not counted: `Brokers` opens them
        anew, and where it gives up, so does the survey. Raises TooLate after 2 x (attempts + 1) deadlines, each of
        1.2 s at least.
        """
        return await Gathering(
            self.brokers, self._members, self.kip_1275, self._now, scope, rules, known or {}, self._metadata_log
        ).evidence()

    async def read_metadata_log(self, within: timedelta, deadline: timedelta) -> Reason | None:
        """Read all of it, if there is time: a look does not wait so long. Returns why no history is known now, if so.

        `deadline`: for any broker to say which cluster this is, if that is not known; none is waited for that is
        silent. Raises ClusterError if none does.
        """
        image = await self._read_log(within, deadline)
        return None if isinstance(image, Image) else image

    def recall_history(self, kept: KeptHistory) -> None:
        """Before the metadata log is read: what an earlier process kept of it."""
        if isinstance(self._metadata_log, MetadataLog):
            self._metadata_log.recall(kept)

    def history_to_keep(self) -> KeptHistory | None:
        """What a later process would lack where Kafka has cut the metadata log off; None: it is not known now."""
        return self._metadata_log.kept() if isinstance(self._metadata_log, MetadataLog) else None

    async def unfenced(self, within: timedelta, deadline: timedelta) -> Alive | Reason | None:
        """Who is not fenced by all that was committed when this was called; None: no controllers are named.

        Raises ClusterError, as `read_metadata_log` does.
        """
        image = await self._read_log(within, deadline)
        return image.alive() if isinstance(image, Image) else image

    async def _read_log(self, within: timedelta, deadline: timedelta) -> Image | Reason | None:
        log = self._metadata_log
        if not isinstance(log, MetadataLog):
            return log
        listing = self._members.listing
        if listing.cluster_id is None:
            await listing.views(deadline)
        assert listing.cluster_id is not None, "somebody has said it"
        return await log.caught_up(listing.cluster_id, within)

    async def leaders(
        self, partitions: Sequence[TopicPartition], deadline: timedelta, not_before: MetadataOffset | None = None
    ) -> Mapping[TopicPartition, Sighting]:
        """Who leads by the metadata, and whether that broker answers as leader in that epoch; see the port."""
        if not partitions:
            return {}
        found = await self.read_partitions(partitions, deadline, not_before)
        states = {id: found.states[id] for id in partitions if id in found.states}
        led = {id: state.leader for id, state in states.items() if state.leader is not None}
        leads, faults = await self._asked(led, deadline)
        problems = {id: faults.get(broker) for id, broker in led.items()}
        seen = {id: _leadership(state, leads.get(id), problems.get(id), found.as_of) for id, state in states.items()}
        return {id: seen.get(id) or found.absent(id) for id in partitions}

    async def answering(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        """Those of `candidates` that answer as leader at this moment; see the port."""
        leads, _ = await self._asked(candidates, deadline)
        return leads

    async def _asked(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> tuple[Mapping[TopicPartition, Lead], Mapping[BrokerId, Reason]]:
        """What they answer as leaders, and why brokers could not be asked."""
        by_broker: dict[BrokerId, list[TopicPartition]] = {}
        for id, broker in candidates.items():
            by_broker.setdefault(broker, []).append(id)

        async def ask(broker: BrokerId, ids: list[TopicPartition]) -> dict[TopicPartition, Lead] | Reason:
            entry = self._members.listing.known.get(broker)
            if entry is None:
                return Reason("NotRegistered", f"broker {broker} is not registered, and its address is not known")
            survey = ReplicaSurvey(self.brokers, broker, entry.address, deadline, self._now)
            try:
                leading = await survey.leading(ids)
            except ClusterError as fault:
                return fault.reason
            return {id: Lead(broker, epoch, end) for id, (epoch, end) in leading.items()}

        told = await together(*(ask(broker, ids) for broker, ids in by_broker.items()))
        answers = dict(zip(by_broker, told, strict=True))
        leads = {id: lead for said in answers.values() if not isinstance(said, Reason) for id, lead in said.items()}
        return leads, {broker: said for broker, said in answers.items() if isinstance(said, Reason)}

    async def relay_answers(self, relay: Relay, deadline: timedelta) -> bool:
        """Whether it answers, or its process is gone; see the port."""
        try:
            await self.brokers.api_versions(Address(relay.host, relay.port), deadline)
        except ClusterError as error:
            return isinstance(error, BrokerRefuses)
        return True

    def relay(self, at: Address) -> Relay:
        """The broker at this address, as something to be asked about later."""
        ids = [entry.id for entry in self._members.listing.known.values() if entry.address == at]
        return Relay(ids[0] if len(ids) == 1 else None, at.host, at.port)

    async def alive(self, brokers: Iterable[BrokerId], deadline: timedelta) -> frozenset[BrokerId]:
        """Those of these brokers that are registered and not fenced, by the newest metadata. Raises ClusterError."""
        listed = (await self._members.look(deadline, in_a_hurry=True)).cluster.brokers
        return frozenset(id for id in brokers if id in listed and not listed[id].fenced)

    async def unregistered(self, brokers: Iterable[BrokerId], deadline: timedelta) -> tuple[BrokerId, ...]:
        """Those of these brokers that are not registered; none, where this release or the cluster does not tell."""
        try:
            view = await self._members.look(deadline, in_a_hurry=True)
        except ClusterError:
            return ()
        listed = view.cluster.brokers
        return tuple(sorted(set(brokers) - listed.keys())) if view.cluster.lists_fenced else ()

    async def read_partitions(
        self, partitions: Sequence[TopicPartition], deadline: timedelta, not_before: MetadataOffset | None = None
    ) -> Partitions:
        """These partitions by the newest metadata; if the broker that knows them fails, once more through another one.

        Raises ClusterError if that fails too, StaleMetadata as `leaders` does.
        """
        return await self._read(partitions, deadline, lambda left: self._members.route(left, not_before))

    async def read_current(self, partitions: Sequence[TopicPartition], deadline: timedelta) -> Partitions:
        """These partitions by metadata no older than the controller's now; waits for a broker that is behind.

        Raises ClusterError if that fails twice. Without DESCRIBE on the cluster: by the newest metadata there is.
        """
        return await self._read(partitions, deadline, self._members.current)

    async def _read(
        self,
        partitions: Sequence[TopicPartition],
        deadline: timedelta,
        through: Callable[[timedelta], Awaitable[Route]],
    ) -> Partitions:
        """Once at least through another broker than the first; then again while there is time, if connections fail.

        A network that is gone for a second has not changed anything.
        """
        until, tries = loop_time() + deadline.total_seconds(), 0
        at: Address | None
        while True:
            tries, at = tries + 1, None
            try:
                at, as_of = await through(deadline)
                found = await metadata.describe_partitions(self.brokers, at, partitions, deadline)
                return replace(found, as_of=as_of)
            except StaleMetadata:
                raise
            except ClusterError as error:
                left = until - loop_time()
                if tries > 1 and (left <= 0 or not _may_pass(error)):
                    raise
                self._members.forget_route(at)
                await asyncio.sleep(0 if tries == 1 else min(_PAUSE, left))

    async def pulse(self, deadline: timedelta, *, ask_controller: bool = False) -> Pulse:
        """The cheap look, to be taken several times a second; see `Pulses.take`. One at a time."""
        return await self._pulses.take(deadline, ask_controller=ask_controller)

    async def every_partition(self, deadline: timedelta) -> tuple[TopicPartition, ...]:
        """All partitions that the principal may see. Raises ClusterError. `deadline` is for each page."""
        at = await self.route(deadline)
        return tuple((await metadata.describe_partitions(self.brokers, at, None, deadline)).states)

    async def scan(self, deadline: timedelta) -> Scan:
        """Every offline partition there is, through the broker that the last pulse found to know the newest.

        Raises ClusterError if that fails and another one does as well, StaleMetadata if only brokers answer that know
        less than was seen before: that nothing is offline would be no news from them. `deadline` is for each page of
        some thousand.
        """
        return await self._through_the_newest(lambda at: scan.scan(self.brokers, at, deadline), deadline)

    async def unclean_topics(self, topics: Sequence[str], deadline: timedelta) -> UncleanTopics:
        """Those of `topics` in which Kafka would elect uncleanly by itself. Raises as `scan` does."""
        return await self._through_the_newest(
            lambda at: scan.unclean_topics(self.brokers, at, topics, deadline), deadline
        )

    async def _through_the_newest(self, read: Callable[[Address], Awaitable[T]], deadline: timedelta) -> T:
        at = None
        try:
            at = await self.route(deadline)
            return await read(at)
        except StaleMetadata:
            raise
        except ClusterError:
            self._members.forget_route(at)
            return await read(await self.route(deadline))

    async def route(self, deadline: timedelta) -> Address:
        """A broker to read metadata from and to reach the controller through."""
        return (await self._members.route(deadline)).address

    def forget_route(self, at: Address) -> None:
        """This broker could not be reached: another one is to be found."""
        self._members.forget_route(at)


def _may_pass(error: ClusterError) -> bool:
    """Whether it may be over in a moment."""
    return isinstance(error, (BrokerUnreachable, BrokerTimeout, ClusterUnavailable))


def _leadership(
    state: PartitionState, lead: Lead | None, fault: Reason | None, as_of: MetadataOffset | None
) -> Leadership:
    answers = lead is not None and lead.leader_epoch == state.leader_epoch
    problem = None
    if state.leader is not None and not answers:
        message = f"broker {state.leader} does not answer as leader of {state.id} in epoch {state.leader_epoch}"
        problem = Reason("LeaderUnresponsive", f"{message}: {fault.message}" if fault else message)
    return Leadership(
        state.id,
        state.topic_id,
        state.leader,
        state.leader_epoch,
        state.replicas,
        state.isr,
        lead.log_end if lead is not None and answers else None,
        problem,
        as_of,
    )
