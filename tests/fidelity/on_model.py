"""Scripts on the simulated Kafka."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from fidelity.script import BROKERS, OBSERVER, TOPIC, UNCLEAN_CHECK, Partition, Script, Sight
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicPartition
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.log import Batch
from kafka_recovery.simulator.model.messages import Produced
from kafka_recovery.simulator.model.metadata import PartitionState
from kafka_recovery.simulator.model.requests import (
    AlterReassignments,
    ElectionType,
    ElectLeaders,
    ListOffsets,
    ListReassignments,
    Request,
)
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.model.switches import AS_RELEASED

SEED = 4
PARTITION = TopicPartition(TOPIC, 0)
CLIENT = "script"
PATIENCE = 60.0


def play(script: Script) -> list[Sight]:
    """The script on a model of its own, as released Kafka behaves; deterministic."""
    return script.play(ModelStage(script.elr))


class ModelStage:
    """A simulated cluster. Waiting is virtual, so it costs nothing."""

    def __init__(self, elr: bool) -> None:
        # lag_max as on real brokers: there too a follower leaves the ISR when it is fenced, long before it lags out.
        settings = Settings(elr=elr, preferred_check=None, unclean_check=UNCLEAN_CHECK, lag_max=30.0)
        self.kafka = SimulatedKafka(SEED, brokers=BROKERS, settings=settings, switches=AS_RELEASED)
        self._names = count(1)

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

    def log_end(self, broker: int) -> int | str:
        error, offset, _ = self.offsets(broker, -1, True)
        return offset if error == "NONE" else error

    def reassignment(self) -> tuple[list[int], list[int]]:
        answer = self._ask(OBSERVER, ListReassignments((PARTITION,)))
        ongoing = answer.partitions.get(PARTITION)
        return (sorted(ongoing.adding), sorted(ongoing.removing)) if ongoing else ([], [])

    def write(self, broker: int, records: int, acks: int) -> str:
        answers: list[Produced] = []
        batch = Batch(0, records, 0, f"script-{next(self._names)}", 0, 0.0)
        self.kafka.network.node(CLIENT)
        self.kafka.produce(
            CLIENT,
            BrokerId(broker),
            PARTITION,
            batch,
            "all" if acks < 0 else str(acks),
            answers.append,
            lambda _: None,
        )
        self.wait("the producer is answered", lambda: bool(answers))
        return answers[0].error.name

    def offsets(self, broker: int, epoch: int, debugging: bool) -> tuple[str, int, int]:
        answer = self._ask(broker, ListOffsets({PARTITION: LeaderEpoch(epoch)}, debugging=debugging))
        found = answer.partitions[PARTITION]
        return found.error.name, found.offset, found.leader_epoch

    def elect(self, preferred: bool, topic: str) -> str:
        id = TopicPartition(topic, 0)
        kind = ElectionType.PREFERRED if preferred else ElectionType.UNCLEAN
        return str(self._ask(OBSERVER, ElectLeaders(kind, (id,), CLIENT)).partitions[id].name)

    def reassign(self, replicas: Sequence[int] | None, same_count: bool) -> str:
        target = None if replicas is None else tuple(map(BrokerId, replicas))
        request = AlterReassignments({PARTITION: target}, CLIENT, allow_replication_factor_change=not same_count)
        return str(self._ask(OBSERVER, request).partitions[PARTITION].name)

    @property
    def _state(self) -> PartitionState:
        state = self.kafka.truth.state(PARTITION)
        assert state is not None, f"{PARTITION} does not exist"
        return state

    def _ask(self, broker: int, request: Request[Any]) -> Any:
        answers: list[Any] = []
        self.kafka.request(CLIENT, broker, request, answers.append)
        limit = self.kafka.scheduler.now + PATIENCE
        while not answers:
            assert self.kafka.scheduler.now < limit, f"broker {broker} does not answer {request}"
            self.kafka.scheduler.step()
        return answers[0]
