"""What goes wrong between an engine and the brokers it asks, drawn apart: everything else stays as it is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from kafka_recovery.simulator.histories.scenario import Fault, Kind, Upon
from kafka_recovery.simulator.host.weather import WireFault
from kafka_recovery.simulator.model.grants import OF_TOPICS, Operation

SHARE = 4
"""One seed of so many has bad weather on its wires."""

_KINDS = (
    Kind.WIRE, Kind.WIRE, Kind.WIRE, Kind.WIRE, Kind.RIGHTS, Kind.RIGHTS, Kind.MISREPORT, Kind.MISREPORT, Kind.STALL,
    Kind.NAMELESS, Kind.SHARED,
)  # fmt: skip
_ODDS = (0.1, 0.3, 0.3, 1.0)


@dataclass(frozen=True, slots=True)
class Wires:
    """One seed's weather."""

    chance: random.Random
    brokers: int
    partitions: tuple[str, ...]

    def drawn(self, called: float, begins: float, quiet: float) -> Iterator[Fault]:
        """From when the first engine is called until all is well again; some of it at an engine's very steps.

        `begins`: when it does. A run asks most of its questions in its first seconds, and answers are struck there.
        """
        for _ in range(self.chance.choice((1, 2, 2, 4))):
            kind = self.chance.choice(_KINDS)
            at = round(self.chance.uniform(called - 1, min(called + 30, quiet - 1)), 2)
            upon = self.chance.choice((None, None, Upon.DESIGNATE, Upon.ELECT, Upon.RESTORE, Upon.LOOKED))
            broker, other = self.chance.sample(range(1, self.brokers + 1), 2)
            lasting = round(self.chance.uniform(0.5, 60), 2)
            if kind is Kind.WIRE:
                at = round(self.chance.uniform(begins - 1, begins + 2), 2)
                wire, odds = self.chance.choice(tuple(WireFault)), self.chance.choice(_ODDS)
                yield Fault(at, kind, upon=upon, wire=wire, chance=odds, lasting=lasting)
            elif kind is Kind.RIGHTS:
                right = self.chance.choice(tuple(Operation))
                topic = self.chance.choice(self.partitions) if right in OF_TOPICS else None
                yield Fault(at, kind, upon=upon, right=right, partition=topic, lasting=lasting)
            elif kind is Kind.MISREPORT:
                off, began = self.chance.choice((-20, -3, -1, 1, 3, 20, 1000)), round(called - 1, 2)
                yield Fault(began, kind, broker=broker, upon=upon, delay=float(off), lasting=lasting + 20)
            else:
                shared = other if kind is Kind.SHARED else None
                yield Fault(at, kind, broker=broker, other=shared, upon=upon, lasting=lasting)
