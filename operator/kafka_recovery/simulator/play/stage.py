"""What is played: a scenario's cluster, traffic and faults, up to the moment at which somebody takes over."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable

from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.scenario import OF_ENGINES, OF_WIRES, Fault, Kind, Scenario
from kafka_recovery.simulator.histories.scenario_files import load_scenario
from kafka_recovery.simulator.histories.stage import send_traffic, staged
from kafka_recovery.simulator.histories.troubles import Machine, Troubles
from kafka_recovery.simulator.model.kafka import SimulatedKafka

_NOT_PLAYED = OF_ENGINES | OF_WIRES | {Kind.HIDE}
"""What strikes the engines of a history, or the wires to them. Whoever plays is none of them."""

_SETTLED = 6.0
"""Seconds after the last fault until every broker knows of it: fencing takes three."""


@dataclass(frozen=True, slots=True)
class Incident:
    """A scenario, and what it is about in a few sentences."""

    name: str
    story: str
    scenario: Scenario

    @property
    def begins_at(self) -> float:
        """The virtual second at which everything has gone wrong."""
        ends = [fault.at + (fault.lasting or 0.0) for fault in self._faults]
        return max(ends, default=0.0) + _SETTLED

    @property
    def _faults(self) -> tuple[Fault, ...]:
        return tuple(f for f in self.scenario.faults if f.upon is None and f.kind not in _NOT_PLAYED)

    def staged(self) -> SimulatedKafka:
        """Another cluster each time, at virtual second 0, with all that is to happen before it.

        Its id is its own: a journal of what was done to an earlier one must not be taken for this one's.
        """
        scenario = self.scenario
        kafka = staged(scenario, keep_timeline=False, cluster_id=f"played-{secrets.token_hex(8)}")
        send_traffic(kafka, scenario)
        troubles = Troubles(Chronicle(kafka), scenario, _no_machine, [])
        for fault in self._faults:
            kafka.scheduler.at(fault.at, partial(troubles.happens, fault))
        return kafka


def _no_machine(number: int) -> Machine:
    raise LookupError(f"no engine runs here, on machine {number} or another one")


def incident_names() -> tuple[str, ...]:
    """Incidents that come with the package."""
    return tuple(sorted(file.name.removesuffix(".yaml") for file in _folder().iterdir() if file.name.endswith(".yaml")))


def named_incident(name: str) -> Incident:
    """One that comes with the package; raises InvalidDocument for an unknown name."""
    if name not in incident_names():
        raise InvalidDocument(f"there is no incident {name!r}; known are {', '.join(incident_names())}")
    return read_incident(_folder().joinpath(f"{name}.yaml").read_text(), name)


def read_incident(text: str, name: str) -> Incident:
    """A scenario as YAML; the comment at its beginning is its story. Raises InvalidDocument."""
    lines = text.splitlines()
    told = []
    for line in lines:
        if not line.startswith("#"):
            break
        told.append(line.removeprefix("#").strip())
    return Incident(name, " ".join(told), load_scenario(text, name))


def _folder() -> Traversable:
    return files("kafka_recovery.simulator.play").joinpath("incidents")
