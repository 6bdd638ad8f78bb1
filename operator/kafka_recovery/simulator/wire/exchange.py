"""One request on its way through a simulated broker."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.requests import Request
from kafka_recovery.simulator.wire.frames import response
from kafka_recovery.simulator.wire.whims import FAIR, Whims

if TYPE_CHECKING:
    from kafka_recovery.simulator.wire.sasl import Authentication

Answered = TypeVar("Answered")
Failed = Callable[[Exception], object]
Serve = Callable[[Request[Any], Callable[[Any], None], Failed | None], None]
Addresses = Callable[[BrokerId], tuple[str, int]]

Values = SimpleNamespace
"""A message to encode, or a part of one: fields by name."""


@dataclass(frozen=True, slots=True)
class Line:
    """Between whom: a client, and the broker or controller it is connected to, by node id.

    `addresses`: where they say they listen. `serve`: has a request answered by that process.
    """

    kafka: SimulatedKafka
    broker: BrokerId
    client: str
    addresses: Addresses
    authentication: Authentication
    serve: Serve
    whims: Whims = FAIR
    _batches: Iterator[int] = field(default_factory=itertools.count, compare=False)

    @property
    def principal(self) -> str:
        """Whom a permission is granted to: the user, or the client itself where nobody has to say who they are."""
        return self.authentication.user or self.client

    def another_name(self) -> str:
        """For a batch whose producer has none."""
        return f"{self.client} at broker {self.broker} #{next(self._batches)}"


@dataclass(frozen=True, slots=True)
class Exchange:
    """`asked`: the decoded request; `answered` gets the response frame, or None for no answer, once.

    `failed` hears of what goes wrong later on the broker's side; without it that is raised where it happens.
    """

    line: Line
    version: int
    correlation_id: int
    response_class: Any
    asked: Any
    answered: Callable[[bytes | None], None]
    edited: Callable[[Exchange, Any], object] = lambda exchange, values: None
    """Puts the last hand to an answer."""
    failed: Failed | None = None

    def ask(self, request: Request[Answered], then: Callable[[Answered], None]) -> None:
        """Let the broker's process answer, now or when the controller has."""
        self.line.serve(request, self.contained(then), self.failed)

    def contained(self, action: Callable[..., None]) -> Callable[..., None]:
        """`action` for later: what goes wrong in it ends this exchange, and not whoever lets time pass then."""
        failed = self.failed
        if failed is None:
            return action

        def acted(*given: Any) -> None:
            try:
                action(*given)
            except Exception as error:  # noqa: BLE001 - whoever holds the connection hears of it
                failed(error)

        return acted

    def look(self, request: Request[Answered]) -> Answered | None:
        """The answer from the broker's own memory and logs; None from a process that says nothing."""
        answers: list[Answered] = []
        self.ask(request, answers.append)
        return answers[0] if answers else None

    def answer(self, **values: Any) -> None:
        """Encode the response from its fields."""
        told = Values(**values)
        self.edited(self, told)
        frame = response(self.response_class, self.version, self.correlation_id, told)
        self.answered(frame)
