"""Scripts on the simulated Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from kafka.protocol.api_header import ResponseClassRegistry

from fidelity import together
from fidelity.requests import Requests
from fidelity.script import BROKERS, TOPIC, UNCLEAN_CHECK, Partition, Script, Sight
from kafka_recovery.cluster.metadata import topic_uuid
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.metadata import PartitionState
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.model.switches import AS_RELEASED
from kafka_recovery.simulator.wire.session import Session

SEED = 4
PARTITION = TopicPartition(TOPIC, 0)
CLIENT = "script"
PATIENCE = 60.0


def play(script: Script) -> list[Sight]:
    """The script on a model of its own, as released Kafka behaves; deterministic."""
    return together.play({script: ModelStage(script.elr)})[script]


class ModelStage(Requests):
    """A simulated cluster. Waiting is virtual, so it costs nothing."""

    def __init__(self, elr: bool) -> None:
        # lag_max as on real brokers: there too a follower leaves the ISR when it is fenced, long before it lags out.
        settings = Settings(elr=elr, preferred_check=None, unclean_check=UNCLEAN_CHECK, lag_max=30.0)
        self.kafka = SimulatedKafka(SEED, brokers=BROKERS, settings=settings, switches=AS_RELEASED)
        self.topic = TOPIC
        self._connections = count(1)

    def create(self, replicas: Sequence[int], min_isr: int, unclean: bool) -> None:
        self.kafka.create_topic(TOPIC, [replicas], min_isr=min_isr, unclean=unclean)
        leader = self._state.leader
        assert leader is not None
        self.wait("a leader answers", lambda: self.kafka.alive(leader) and self.kafka.truth.leads(leader, PARTITION))

    def delete(self) -> None:
        self.kafka.delete_topic(TOPIC)
        self.settle()

    def configure(self, key: str, value: str) -> None:
        match key:
            case "min.insync.replicas":
                self.kafka.set_min_isr(TOPIC, int(value))
            case "unclean.leader.election.enable":
                self.kafka.set_unclean(TOPIC, value == "true")
            case _:
                raise ValueError(f"the model has no config {key}")
        self.settle()

    def kill(self, broker: int) -> None:
        self.kafka.kill(broker)

    def stop(self, broker: int) -> None:
        self.kafka.shut_down(broker)
        self.wait(f"broker {broker} is gone", lambda: not self.kafka.alive(broker))

    def freeze(self, broker: int) -> None:
        self.kafka.pause(broker)

    def thaw(self, broker: int) -> None:
        self.kafka.thaw(broker)

    def start(self, broker: int) -> None:
        self.kafka.start(broker)
        self.wait(f"broker {broker} answers", lambda: broker in self.running())

    def wipe(self, broker: int) -> None:
        self.kafka.replace_disk(broker)

    def fence(self, broker: int) -> None:
        self.wait(f"broker {broker} is fenced", lambda: self.kafka.truth.fenced(broker))

    def unfence(self, broker: int) -> None:
        self.wait(f"broker {broker} is unfenced", lambda: not self.kafka.truth.fenced(broker))

    def partition(self) -> Partition:
        seen = self._state
        return Partition(
            seen.leader, seen.leader_epoch, frozenset(seen.isr), frozenset(seen.elr), seen.last_known_elr, seen.replicas
        )

    def topic_id(self) -> uuid.UUID:
        return topic_uuid(self._state.topic_id)

    def wait(self, what: str, met: Callable[[], bool]) -> None:
        limit = self.kafka.scheduler.now + PATIENCE
        while not met():
            assert self.kafka.scheduler.now < limit, f"waited {PATIENCE:g} s until {what}\n{self.kafka.timeline}"
            self.kafka.run_for(0.05)

    def settle(self) -> None:
        end = self.kafka.controllers.log.end

        def all_know() -> bool:
            return all(self.kafka.brokers[BrokerId(broker)].applied >= end for broker in self.running())

        self.wait("all brokers have applied the metadata", all_know)
        self.kafka.run_for(0.05)

    def running(self) -> Sequence[int]:
        return [b for b in BROKERS if not self.kafka.paused(b) and self.kafka.brokers[BrokerId(b)].is_open]

    @property
    def _state(self) -> PartitionState:
        state = self.kafka.truth.state(PARTITION)
        assert state is not None, f"{PARTITION} does not exist"
        return state

    def ask(self, broker: int, request: Any, version: int) -> Any:
        answers: list[bytes] = []
        session = Session(self.kafka, BrokerId(broker), f"{CLIENT}-{next(self._connections)}", _address)
        request.API_VERSION = version
        request.with_header(correlation_id=1, client_id=CLIENT)
        response = ResponseClassRegistry.get_response_class(request.header)
        # Its way takes time, in which brokers hear what the controller has just done, as on a real network.
        self.kafka.run_for(0.01)
        session.received(bytes(request.encode(version=version, header=True)), answers.append)
        silent = self.kafka.run_while(lambda: not answers, at_most=PATIENCE)
        assert not silent, f"broker {broker} does not answer {request}"
        return response[None].decode(answers[0], version=version, header=True)


def _address(broker: BrokerId) -> tuple[str, int]:
    return f"broker-{broker}", 9092
