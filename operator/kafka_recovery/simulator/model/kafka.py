"""The simulated cluster as a whole: build it, let time pass, ask it, break it, know the truth about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, TypeVar

from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafka_recovery.simulator.model.broker import Broker
from kafka_recovery.simulator.model.controller import Controllers
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.faults import Faults
from kafka_recovery.simulator.model.fetch_sessions import FetchAnswer
from kafka_recovery.simulator.model.following import Carry
from kafka_recovery.simulator.model.grants import Grants
from kafka_recovery.simulator.model.log import Batch, LoadedLog
from kafka_recovery.simulator.model.messages import Fetch, Produced
from kafka_recovery.simulator.model.metadata import PartitionState
from kafka_recovery.simulator.model.network import Kind, Network
from kafka_recovery.simulator.model.producer import Producer
from kafka_recovery.simulator.model.requests import Refused, Request
from kafka_recovery.simulator.model.scheduler import Scheduler
from kafka_recovery.simulator.model.serving import Serving
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.model.switches import AS_RELEASED, Switches
from kafka_recovery.simulator.model.timeline import Timeline, What
from kafka_recovery.simulator.model.truth import Truth

Answered = TypeVar("Answered")


@dataclass(frozen=True, slots=True)
class LoadedPartition:
    """A partition given as a whole, with its replicas' logs; brokers without one hold nothing."""

    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    logs: Mapping[BrokerId, LoadedLog]
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()


class SimulatedKafka(Faults):
    """One cluster, one seed, one history: the same seed and the same calls at the same times give the same events.

    `legacy`: brokers of an old release, for KIP-343. `endpoints`: where brokers say they are, if not where they are.
    `inactive_at_first`: processes start with the history, and nobody is a member yet; else all are from its beginning.
    `keep_timeline` off saves memory where nobody will read it.
    """

    def __init__(
        self,
        seed: int,
        *,
        brokers: Sequence[int] = (1, 2, 3),
        racks: Mapping[int, str] | None = None,
        controllers: int = 1,
        settings: Settings | None = None,
        switches: Switches = AS_RELEASED,
        legacy: Sequence[int] = (),
        endpoints: Mapping[int, str] | None = None,
        inactive_at_first: bool = False,
        keep_timeline: bool = True,
        cluster_id: str | None = None,
    ) -> None:
        self.seed, self.settings, self.switches = seed, settings or Settings(), switches
        self.random = Random(seed)
        self.cluster_id = cluster_id or f"simulated-{seed}"
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, self.random, self.settings)
        self.timeline = Timeline(lambda: self.scheduler.now, keep_timeline)
        names = [f"controller-{number}" for number in range(1, controllers + 1)]
        self.controllers = Controllers(self.scheduler, self.network, self.settings, switches, self.timeline, names)
        racks, endpoints = racks or {}, endpoints or {}
        found = {
            BrokerId(id): self._build(
                BrokerId(id), racks.get(id), id in legacy, endpoints.get(id, f"broker-{id}.simulated:9092")
            )
            for id in brokers
        }
        self.brokers = found
        self.grants = Grants()
        self._serving = {id: Serving(broker, self.cluster_id, self.grants) for id, broker in found.items()}
        self.truth = Truth(self.controllers, found)
        for broker in found.values():
            if inactive_at_first:
                broker.start(recovery=0.0)
            else:
                broker.join_at_once()
        for broker in found.values():
            broker.applied = self.controllers.log.end

    def _build(self, id: BrokerId, rack: str | None, legacy: bool, endpoint: str) -> Broker:
        node = self.network.node(id, Kind.BROKER)
        return Broker(
            id, node, self.network, self.controllers, self.settings, self.switches, self.timeline, self._carry,
            rack=rack, legacy=legacy, endpoint=endpoint,
        )  # fmt: skip

    @property
    def broker_ids(self) -> tuple[BrokerId, ...]:
        """All brokers, dead or alive."""
        return tuple(self.brokers)

    def run_until(self, time: float) -> None:
        """Let everything happen up to this virtual second."""
        self.scheduler.run_until(time)

    def run_for(self, seconds: float) -> None:
        """Let so much virtual time pass."""
        self.scheduler.run_until(self.scheduler.now + seconds)

    def run_while(self, condition: Callable[[], bool], at_most: float = 60.0) -> bool:
        """Let time pass event by event until the condition ends; True if it still held after `at_most` seconds."""
        limit = self.scheduler.now + at_most
        while condition():
            due = self.scheduler.next_time()
            if due is None or due > limit:
                self.scheduler.run_until(limit)
                return condition()
            self.scheduler.step()
        return False

    def note(self, actor: str, text: str) -> None:
        """A line of your own in the timeline."""
        self.timeline.tell(actor, What.NOTE, text=text)

    def create_topic(
        self,
        name: str,
        assignments: Sequence[Sequence[int]],
        *,
        min_isr: int = 1,
        unclean: bool = False,
        min_isr_source: str = "topic",
    ) -> TopicId:
        """Created at the controller at once; brokers hear of it as of every change. ValueError if the name is taken."""
        replicas = [tuple(map(BrokerId, assignment)) for assignment in assignments]
        return self.controllers.administration.create_topic(name, replicas, min_isr, unclean, min_isr_source)

    def delete_topic(self, name: str) -> None:
        """Deleted at the controller at once; an unknown topic is left alone."""
        self.controllers.administration.delete_topic(name)

    def load(
        self,
        name: str,
        partitions: Sequence[LoadedPartition],
        *,
        min_isr: int = 1,
        unclean: bool = False,
        idle: bool = False,
    ) -> TopicId:
        """A topic with a past, in bulk and without any protocol.

        `idle`: brokers take up their roles only when asked about a partition or when its metadata changes, so that
        hundreds of thousands cost next to nothing.
        """
        administration, state = self.controllers.administration, self.controllers.state
        topic_id = administration.new_topic(name, len(partitions), min_isr, unclean, "topic")
        for index, given in enumerate(partitions):
            id = TopicPartition(name, index)
            loaded = PartitionState(
                topic_id,
                given.replicas,
                given.isr,
                given.leader,
                given.leader_epoch,
                0,
                given.elr,
                given.last_known_elr,
            )
            self.controllers.log.load_partition(id, loaded)
            state.keep(id, loaded)
            for holder, log in given.logs.items():
                self.brokers[holder].storage.loaded[id] = (topic_id, log)
        for broker in self.brokers.values():
            broker.applied = self.controllers.log.end
        if not idle:
            for index, given in enumerate(partitions):
                for replica in given.replicas:
                    self.brokers[replica].take_up(TopicPartition(name, index))
        return topic_id

    def producer(
        self,
        name: str,
        partition: TopicPartition,
        *,
        acks: str = "all",
        every: float | None = None,
        records: int = 1,
        bootstrap: int | None = None,
    ) -> Producer:
        """A new producer; its name must be its own. See `Producer`."""
        self.network.node(name)
        asked = None if bootstrap is None else BrokerId(bootstrap)
        producer = Producer(self, name, partition, acks, every, records, asked)
        producer.begin()
        return producer

    def request(
        self, client: str, broker: int, request: Request[Answered], on_answer: Callable[[Answered | Refused], None]
    ) -> None:
        """Ask a broker as a client. The answer may never come; a refused connection is told at once."""
        id = BrokerId(broker)
        self.network.node(client)

        def answered(answer: Any) -> None:
            self.network.send(id, client, "answer", partial(on_answer, answer))

        def arrived() -> None:
            if not self.brokers[id].is_open:
                answered(Refused(id))
            else:
                self.serve(id, request, answered)

        self.network.send(client, id, type(request).__name__, arrived, partial(on_answer, Refused(id)))

    def serve(
        self,
        broker: BrokerId,
        request: Request[Answered],
        reply: Callable[[Answered], None],
        failed: Callable[[Exception], object] | None = None,
    ) -> None:
        """Let a broker's process answer a request that has reached it, now or when the controller has decided.

        There is no answer from a broker that is down or fenced itself, nor from a process that is no more.
        `failed` hears of what goes wrong at the controller; else it is raised when that happens.
        """
        target = self.brokers[broker]
        if not target.is_open or target.refuses_work():
            return
        generation = target.node.generation

        def answered(answer: Answered) -> None:
            if target.node.generation == generation:
                reply(answer)

        self._serving[broker].answer(request, answered, failed)

    def produce(
        self,
        client: str,
        broker: BrokerId,
        partition: TopicPartition,
        batch: Batch,
        acks: str,
        reply: Callable[[Produced], None],
        appended: Callable[[TopicId], None],
    ) -> None:
        """Send records to a broker as a producer; `appended` hears the topic's id when a leader has them."""
        refused = Produced(Error.NOT_LEADER_OR_FOLLOWER)

        def answered(answer: Produced) -> None:
            self.network.send(broker, client, "Produce answer", partial(reply, answer))

        def arrived() -> None:
            target = self.brokers[broker]
            copy = target.hosted(partition) if target.is_open else None
            if target.refuses_work():
                return
            if copy is None or copy.leading is None:
                answered(refused)
                return
            appended(copy.log.topic_id)
            stamp = self.scheduler.now + target.node.skew
            copy.leading.append(batch._replace(stamp=stamp), acks, answered)

        self.network.send(client, broker, "Produce", arrived, partial(reply, refused))

    def _carry(self, follower: BrokerId, leader: BrokerId) -> Carry:
        def carry(
            request: Fetch,
            reply: Callable[[FetchAnswer], None],
            refused: Callable[[], None],
            idles: Callable[[], bool],
        ) -> None:
            asker, target = self.brokers[follower], self.brokers[leader]
            generation = asker.node.generation

            def received(answer: FetchAnswer) -> None:
                if asker.node.generation == generation:
                    reply(answer)

            def still_idles() -> bool:
                there = asker.node.generation == generation and not asker.node.paused
                calm = there and not target.refuses_work() and self.network.calm(follower, leader)
                return calm and idles()

            def arrived() -> None:
                if not target.is_open:
                    self.network.send(leader, follower, "Fetch refused", refused)
                elif not target.refuses_work():
                    target.sessions.fetch(
                        request,
                        lambda answer: self.network.send(leader, follower, "Fetch answer", partial(received, answer)),
                        still_idles,
                    )

            self.network.send(follower, leader, "Fetch", arrived, refused)

        return carry
