"""Two live processes with one broker id (KIP-343's "major problems"): the former one goes on on another host."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from kafka_recovery.simulator.model.broker import Broker
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.messages import BrokerStatus, Heartbeat, HeartbeatAnswer
from kafka_recovery.simulator.model.network import Node


@dataclass(slots=True)
class Twin:
    """A process that calls itself by a broker's id and reaches nobody but the controller, which it sends heartbeats.

    `incarnation_id`: the one it was registered with. `answers`: the errors it has been given, oldest first.
    """

    broker: Broker
    node: Node
    incarnation_id: int
    answers: list[Error] = field(default_factory=list)

    @classmethod
    def of(cls, broker: Broker) -> Twin:
        """A copy of the process that runs now, as when a virtual machine is restored from its snapshot."""
        return cls(broker, broker.network.node(f"{broker.node.title} elsewhere"), broker.epoch)

    def begin(self) -> None:
        """Send heartbeats from now on."""
        broker, controllers = self.broker, self.broker.controllers
        active = controllers.active
        if active is not None:
            request = Heartbeat(broker.id, self.incarnation_id, BrokerStatus.ACTIVE, controllers.log.end)
            question = partial(controllers.membership.heartbeat, request)
            ask = partial(controllers.ask, active, question, partial(self._reply, active))
            broker.network.send(self.node.name, active, "Heartbeat", ask)
        self.node.after(broker.settings.heartbeat, self.begin)

    def stop(self) -> None:
        """It is found and killed."""
        self.node.stop()

    def _reply(self, controller: str, answer: HeartbeatAnswer | None) -> None:
        if answer is not None:
            heard = partial(self.answers.append, answer.error)
            self.broker.network.send(controller, self.node.name, "Heartbeat answer", heard)
