"""Brokers that leave and come back, in all the ways that a broker can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from brokers.kubelets import Kubelets
from testbed.cluster import RealKafka


class Way(StrEnum):
    """How a broker leaves."""

    FREEZE = "freezes"
    KILL = "is killed"
    STOP = "stops"
    CUT_OFF = "is cut off from the controller"
    """Clients and other brokers still reach it. Only the broker behind the detour can be."""
    WIPE = "loses its disk"
    """It comes back with an empty one, and the identity it had."""
    CRASH = "crashes with its host"
    """It comes back without the last half of each log, on another boot."""


GONE_FROM_DISK = frozenset({Way.WIPE, Way.CRASH})


@dataclass
class Departures:
    """On one cluster. `partitions`: how many each topic has whose logs a crash cuts back. `told`: what happened.

    `away`: how each left that is not back yet; `cut_back`: those that have lost something of their disk so far.
    """

    kafka: RealKafka
    kubelets: Kubelets
    partitions: Mapping[str, int]
    told: list[str] = field(default_factory=list)
    away: dict[int, Way] = field(default_factory=dict)
    cut_back: set[int] = field(default_factory=set)

    def leaves(self, broker: int, way: Way) -> None:
        """Does not wait until the controller has noticed."""
        self.says(f"{broker} {way}")
        self.away[broker] = way
        match way:
            case Way.FREEZE:
                self.kafka.freeze(broker)
            case Way.STOP:
                self.kafka.terminate(broker)
            case Way.CUT_OFF:
                self.kafka.detour.stall()
            case _:
                self.kafka.kill(broker)
                self._loses(broker, way)

    def comes_back(self, broker: int) -> None:
        """Does not wait until it could be made a leader."""
        self.says(f"{broker} comes back")
        way = self.away.pop(broker)
        if way is Way.FREEZE:
            self.kafka.thaw(broker)
        elif way is Way.CUT_OFF:
            self.kafka.detour.restore()
        else:
            self.kafka.start(broker)
            self.kubelets.started_again(broker)

    def all_come_back(self) -> None:
        """Returns when each broker could be made a leader."""
        for broker in tuple(self.away):
            self.comes_back(broker)
        self.kafka.wait_until_unfenced(*self.kafka.brokers)

    def says(self, what: str) -> None:
        self.told.append(what)

    def _loses(self, broker: int, way: Way) -> None:
        if way in GONE_FROM_DISK:
            self.cut_back.add(broker)
        if way is Way.WIPE:
            self.kafka.wipe(broker)
            self.kubelets.lost_its_disk(broker)
        if way is Way.CRASH:
            self.kubelets.crashed(broker)
            for topic, count in self.partitions.items():
                for index in range(count):
                    self.kafka.lose_page_cache(broker, topic, index)
