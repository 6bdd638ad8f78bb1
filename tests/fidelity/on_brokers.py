"""Scripts on a real Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from fidelity import together
from fidelity.requests import DEADLINE_MS, Requests
from fidelity.script import BROKERS, TOPIC, UNCLEAN_CHECK, Partition, Script, Sight
from testbed import metadata
from testbed.cluster import RealKafka
from testbed.waiting import wait_until
from testbed.wire import Connection


def wish(release: str, elr: bool) -> dict[str, Any]:
    """The cluster that scripts want, in the words of RealKafka.

    Sessions outlast a follower's last fetch by far, on a busy machine too: what is written once it is fenced must not
    reach it any more.
    """
    choice = elr if elr else None if release == "3.9" else False
    checks = {"unclean.leader.election.interval.ms": str(UNCLEAN_CHECK * 1000)}
    return {"release": release, "brokers": len(BROKERS), "elr": choice, "properties": checks, "session_timeout": 3.0}


def play(scripts: Sequence[Script], kafka: RealKafka) -> dict[Script, list[Sight]]:
    """The scripts, together, on a running cluster without topics; what they broke there is left so."""
    return together.play({script: BrokerStage(kafka) for script in scripts})


class BrokerStage(Requests):
    """A real cluster; what is changed is asked of the broker that no script touches."""

    def __init__(self, kafka: RealKafka) -> None:
        self.kafka = kafka
        # Brokers keep high watermarks by name: a topic must not inherit that of another script's.
        self.topic = f"{TOPIC}-{uuid.uuid4().hex[:8]}"

    def create(self, replicas: Sequence[int], min_isr: int, unclean: bool) -> None:
        configs: dict[str, str | int] = {"min.insync.replicas": min_isr}
        if unclean:
            configs["unclean.leader.election.enable"] = "true"
        self.kafka.create_topic(self.topic, [replicas], **configs)

    def delete(self) -> None:
        self.kafka.delete_topic(self.topic)

    def configure(self, key: str, value: str) -> None:
        self.kafka.configure_topic(self.topic, key, value)
        self.settle()

    def kill(self, broker: int) -> None:
        self.kafka.kill(broker)

    def stop(self, broker: int) -> None:
        self.kafka.terminate(broker)

    def freeze(self, broker: int) -> None:
        self.kafka.freeze(broker)

    def thaw(self, broker: int) -> None:
        self.kafka.thaw(broker)

    def start(self, broker: int) -> None:
        self.kafka.start(broker)

    def wipe(self, broker: int) -> None:
        self.kafka.wipe(broker)

    def fence(self, broker: int) -> None:
        self.kafka.wait_until_fenced(broker)

    def unfence(self, broker: int) -> None:
        self.kafka.wait_until_unfenced(broker)

    def partition(self) -> Partition:
        seen = self.kafka.describe(self.topic)[0]
        return Partition(
            seen.leader, seen.leader_epoch, frozenset(seen.isr), frozenset(seen.elr), seen.last_known_elr, seen.replicas
        )

    def topic_id(self) -> uuid.UUID:
        return self.kafka.describe(self.topic)[0].topic_id

    def wait(self, what: str, met: Callable[[], bool]) -> None:
        wait_until(what, met, bool)

    def settle(self) -> None:
        current = metadata.committed(self.kafka.controller_address)

        def all_know() -> bool:
            return all(metadata.applied(self.kafka.address(broker)) >= current for broker in self.running())

        self.wait("all brokers have applied the metadata", all_know)
        # Applied is published before the replica manager is done with it: no request tells when that is.
        time.sleep(0.2)

    def running(self) -> Sequence[int]:
        return self.kafka.running

    def ask(self, broker: int, request: Any, version: int) -> Any:
        with Connection(self.kafka.address(broker), deadline=DEADLINE_MS / 1000 + 5) as node:
            return node.ask(request, version)
