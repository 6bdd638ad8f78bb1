"""How a story is told: a cluster with one partition, faults in their order, and what was lost in the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.log import RecordId
from kafka_recovery.simulator.model.metadata import PartitionState
from kafka_recovery.simulator.model.requests import Request
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.model.switches import WITH_KIP_1275
from kafka_recovery.simulator.model.truth import Sent

ORDERS = TopicPartition("orders", 0)
CONTROLLER = "controller-1"
A, B, C = BrokerId(1), BrokerId(2), BrokerId(3)


def unless(on: bool, *switches: str) -> tuple[str, ...]:
    """The switches to turn off."""
    return () if on else switches


class Story(SimulatedKafka):
    """A cluster with one partition, `orders-0`, told step by step; its timeline is printed where a test fails."""

    def __init__(
        self,
        *replicas: int,
        min_isr: int = 1,
        elr: bool = False,
        brokers: tuple[int, ...] = (1, 2, 3),
        off: tuple[str, ...] = (),
        on: tuple[str, ...] = (),
        settings: Settings | None = None,
        controllers: int = 1,
    ) -> None:
        switches = replace(WITH_KIP_1275, **dict.fromkeys(off, False), **dict.fromkeys(on, True))
        chosen = settings or Settings(elr=elr, preferred_check=None)
        super().__init__(1211, brokers=brokers, settings=chosen, switches=switches, controllers=controllers)
        self.chronicle = Chronicle(self)
        self.chronicle.listen()
        self.create_topic("orders", [replicas], min_isr=min_isr)
        self.run_for(0.4)

    def write(self, name: str, acks: str = "all", records: int = 1) -> Sent:
        """A producer of that name sends records and has them acknowledged."""
        sent = self.begin_to_write(name, acks, records)
        assert not self.run_while(lambda: sent.acknowledged_at is None, at_most=20), f"{name} was not acknowledged"
        return sent

    def begin_to_write(self, name: str, acks: str = "all", records: int = 1, at: int | None = None) -> Sent:
        """The same, without waiting for the acknowledgement. `at`: the one broker it asks who leads."""
        return self.producer(name, ORDERS, acks=acks, bootstrap=at).send(records)

    def until_fenced(self, *brokers: int) -> None:
        """Until the controller has given these up."""
        assert not self.run_while(lambda: not all(self.truth.fenced(broker) for broker in brokers))
        self.run_for(0.1)

    def until_unfenced(self, *brokers: int) -> None:
        """Until these serve again."""
        assert not self.run_while(lambda: any(self.truth.fenced(broker) for broker in brokers))

    def kill_and_fence(self, *brokers: int) -> None:
        """Their processes end, and the controller has given them up."""
        for broker in brokers:
            self.kill(broker)
        self.until_fenced(*brokers)

    def bring_back(self, *brokers: int) -> None:
        """New processes of theirs, until they serve."""
        for broker in brokers:
            self.start(broker)
        self.until_unfenced(*brokers)

    def until_isr(self, *isr: int) -> None:
        """Until exactly these are in sync."""
        assert not self.run_while(lambda: set(self.isr) != set(isr)), f"the ISR stays {self.isr}"
        self.run_for(0.1)

    def until_led(self) -> BrokerId:
        """Until a leader answers as such; returns it."""
        assert not self.run_while(lambda: not any(self._leads(broker) for broker in self.brokers)), "nobody leads"
        return next(broker for broker in self.brokers if self._leads(broker))

    @property
    def state(self) -> PartitionState:
        """By the controller."""
        state = self.truth.state(ORDERS)
        assert state is not None
        return state

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """By the controller."""
        return self.state.isr

    @property
    def leader(self) -> BrokerId | None:
        """By the controller."""
        return self.state.leader

    def ask(self, broker: int, request: Request[Any]) -> Any:
        """The answer to a client's request; it must come."""
        answers: list[Any] = []
        self.request("client", broker, request, answers.append)
        assert not self.run_while(lambda: not answers, at_most=70), f"no answer from broker {broker}"
        return answers[0]

    def lost(self) -> set[str]:
        """Names of the producers whose acknowledged records (acks=all) the present leader lacks."""
        return {record.producer for record in self.missing()}

    def missing(self) -> tuple[RecordId, ...]:
        """The acknowledged records (acks=all) that the present leader lacks."""
        assert self.leader is not None, "nobody leads"
        return self.truth.missing(self.leader, ORDERS)

    def holds(self, broker: int) -> list[str]:
        """Names of the producers of a replica's records, in order."""
        return [batch.producer for batch in self.truth.log(broker, ORDERS) for _ in range(batch.records)]

    def _leads(self, broker: int) -> bool:
        return self.alive(broker) and self.truth.leads(broker, ORDERS) and self.leader == broker
