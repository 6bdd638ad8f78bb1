"""What happened, as a story: every event of a history that a person would tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kafka_recovery.domain.ids import TopicPartition


class What(StrEnum):
    """Kinds of events. An oracle may rely on the details named in the comment of each."""

    FAULT = "fault"
    """details: what it was and whatever it was given."""
    STARTED = "started"
    """A broker's port is open again; details: incarnation, broker_epoch."""
    REGISTERED = "registered"
    """details: broker, epoch, clean (it had stopped cleanly)."""
    UNFENCED = "unfenced"
    """details: broker."""
    FENCED = "fenced"
    """details: broker, why."""
    SELF_FENCED = "fenced itself"
    ELECTED = "elected"
    """details: leader (None: offline), leader_epoch, isr, elr, unclean, by (who asked, or why the controller did)."""
    ISR = "ISR changed"
    """details: isr, elr, leader_epoch, by."""
    REJECTED = "refused an ISR change"
    """details: isr, error, by."""
    ORDER = "order altered"
    """details: before, after, by."""
    REASSIGNMENT = "reassignment"
    """details: replicas, adding, removing, by; when it is done: done=True."""
    LEADS = "leads"
    """A broker took over as leader; details: leader_epoch, log_end."""
    TRUNCATED = "truncated"
    """details: to, records (dropped), leader."""
    ACKNOWLEDGED = "acknowledged"
    """Told by a producer that does not send by itself; details: records, offset, acks."""
    GAVE_UP = "gave up"
    """A producer; details: records, acks, error."""
    TOPIC = "topic"
    CONTROLLER = "controller"
    CLIENT = "client"
    """A client's request reached the controller; details: request, by."""
    NOTE = "note"
    """Written by whoever drives the history, with `SimulatedKafka.note`."""


@dataclass(frozen=True, slots=True)
class Event:
    """`at` in virtual seconds; `actor` as a person would name it: `broker 2`, `controller-1`, `network`, `engine-1`."""

    at: float
    actor: str
    what: What
    partition: TopicPartition | None
    details: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.at:9.3f} s  {self.actor:<14} {self._sentence()}"

    def _sentence(self) -> str:
        if self.what is What.NOTE:
            return str(self.details.get("text", ""))
        details = dict(self.details)
        what = self.what.value
        if self.what is What.ELECTED and details["leader"] is None:
            what = "left without a leader"
            details = {name: value for name, value in details.items() if name not in ("leader", "unclean")}
        elif self.what is What.ELECTED:
            details["unclean" if details.pop("unclean", False) else "clean"] = True
        where = f" {self.partition}" if self.partition else ""
        told = ", ".join(_named(name.replace("_", " "), value) for name, value in details.items())
        return f"{what}{where}{': ' if told else ''}{told}"


Listener = Callable[[Event], None]


@dataclass(slots=True)
class Timeline:
    """Keeps every event (unless `keep` is off) and tells those who listen, in the order of virtual time."""

    now: Callable[[], float]
    keep: bool = True
    events: list[Event] = field(default_factory=list)
    _listeners: list[Listener] = field(default_factory=list)

    @property
    def heard(self) -> bool:
        """Whether anybody will ever know: telling costs time."""
        return self.keep or bool(self._listeners)

    def tell(self, actor: str, what: What, partition: TopicPartition | None = None, **details: Any) -> None:
        """Add an event that happens now."""
        if not self.heard:
            return
        event = Event(self.now(), actor, what, partition, details)
        if self.keep:
            self.events.append(event)
        for listener in self._listeners:
            listener(event)

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with every event from now on, at once; it must not change the cluster."""
        self._listeners.append(listener)

    def of(self, *kinds: What) -> Iterable[Event]:
        """The events of these kinds, oldest first."""
        return (event for event in self.events if event.what in kinds)

    def __str__(self) -> str:
        """A line an event; a producer that gives up again and again on the same partition has one for all of it."""
        lines: list[str] = []
        repeated: dict[tuple[str, TopicPartition | None], tuple[int, int]] = {}
        for event in self.events:
            who = event.actor, event.partition
            if event.what is What.GAVE_UP and who in repeated:
                line, times = repeated[who]
                repeated[who] = line, times + 1
                lines[line] = f"{lines[line].split(' (and')[0]} (and {times} more until {event.at:.3f} s)"
                continue
            for other in [
                other for other in repeated if event.partition == other[1] and event.what is not What.GAVE_UP
            ]:
                del repeated[other]
            if event.what is What.GAVE_UP:
                repeated[who] = len(lines), 1
            lines.append(str(event))
        return "\n".join(lines)


def _named(name: str, value: object) -> str:
    return name if value is True else f"not {name}" if value is False else f"{name} {_told(value)}"


def _told(value: object) -> str:
    if isinstance(value, tuple | list | frozenset):
        return "[" + ", ".join(_told(one) for one in value) + "]"
    if isinstance(value, StrEnum):
        return value.value
    return "none" if value is None else str(getattr(value, "name", value))
