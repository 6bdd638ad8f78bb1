"""What a cluster says about itself now, and waiting for it to say something else."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial

from testbed import metadata, replicas
from testbed.client_history import Record
from testbed.layout import INTERNAL
from testbed.metadata import PartitionState
from testbed.node import State
from testbed.nodes import Nodes
from testbed.waiting import PATIENCE, Seen, wait_until
from testbed.wire import Refused

UNKNOWN_TOPIC = 3


class View:
    """Asks the brokers of a cluster, never through a proxy, and only those that know what the controller knows."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def address(self, broker: int) -> str:
        return self._nodes.layout.listeners[broker][INTERNAL].address

    @property
    def bootstrap(self) -> str:
        """All brokers that run."""
        return ",".join(map(self.address, self._nodes.running))

    def up_to_date(self) -> str:
        """The address of a broker that has applied all the controller has."""
        return self.wait_until("a broker has caught up with the controller", self._caught_up, bool)

    def unfenced(self) -> frozenset[int]:
        """The brokers that could be made a leader; ConnectionError while nobody knows."""
        return metadata.unfenced(self._caught_up())

    def describe(self, topic: str) -> dict[int, PartitionState]:
        """The topic's partitions; Refused if there is no such topic, ConnectionError while nobody knows."""
        return metadata.describe(self._caught_up(), topic)

    def read(self, topic: str, partition: int) -> list[Record]:
        """What the partition's leader lets a client read; ConnectionError while there is no leader."""
        state = self.describe(topic)[partition]
        if state.leader is None:
            raise ConnectionError(f"there is no leader to read from: {state}")
        return replicas.read_as_client(self.address(state.leader), topic, state.topic_id, partition)

    def exists(self, topic: str) -> bool:
        try:
            return bool(self.describe(topic))
        except Refused as refusal:
            if refusal.code == UNKNOWN_TOPIC:
                return False
            raise

    def wait_until(
        self, what: str, look: Callable[[], Seen], good: Callable[[Seen], bool], patience: float = PATIENCE
    ) -> Seen:
        """As `waiting.wait_until`; ends at once with NodeDied if a node does."""
        return wait_until(what, look, good, patience, alive=self._nodes.check)

    def wait_until_led(self, states: Mapping[int, PartitionState], patience: float = PATIENCE) -> None:
        """Until the leaders named there answer as such: a broker leads some time after the metadata say so."""
        for leader in {state.leader for state in states.values() if state.leader is not None}:
            led = {index: state for index, state in states.items() if state.leader == leader}
            topic = next(iter(led.values())).topic
            self.wait_until(
                f"broker {leader} answers as the leader of {len(led)} partitions of {topic}",
                partial(replicas.led, self.address(leader), topic, led),
                partial(operator.eq, led.keys()),
                patience,
            )

    def wait_until_all_know(self) -> None:
        """Until every running broker has applied what the controller has by now."""
        current = self.wait_until("a controller leads", self.committed, lambda _: True)
        self.wait_until(
            f"all brokers have applied the metadata up to {current}",
            lambda: {broker: metadata.applied(self.address(broker)) for broker in self._nodes.running},
            lambda seen: all(offset >= current for offset in seen.values()),
        )

    def committed(self) -> int:
        """The offset of the last committed record, by the controller that leads; ConnectionError while none does."""
        return self.leading_controller()[1]

    def leading_controller(self) -> tuple[int, int]:
        """Its number, and what it has committed; ConnectionError while none leads."""
        seen: dict[int, str] = {}
        for number, address in self._controllers().items():
            try:
                return number, metadata.committed(address)
            except (OSError, Refused) as trouble:
                seen[number] = str(trouble)
        raise ConnectionError(f"no controller leads: {seen}")

    def _controllers(self) -> dict[int, str]:
        """Those that run, with their addresses."""
        addresses = self._nodes.layout.controller_addresses
        return {each: addresses[each] for each in addresses if self._nodes[each].state is State.RUNNING}

    def _caught_up(self) -> str:
        """A broker that was just thawed or started tells yesterday's news as if it were today's: pick another one.

        Without a controller there is nothing to catch up with, and any broker that answers will do.
        """
        if not self._nodes.running:
            raise RuntimeError("no broker is running: nobody to ask")
        current = self.committed() if self._controllers() else -1
        seen: dict[int, int | str] = {}
        for broker in self._nodes.running:
            try:
                seen[broker] = offset = metadata.applied(self.address(broker))
            except OSError as trouble:
                seen[broker] = str(trouble)
                continue
            if offset >= current:
                return self.address(broker)
        raise ConnectionError(
            f"no broker has applied the metadata up to {current}, as the controller committed it; theirs: {seen}"
        )
