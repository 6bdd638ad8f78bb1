"""A broker's way to the active controller: it goes on trying, so an effect may come long after anybody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka_recovery.simulator.model.controller import Controllers
from kafka_recovery.simulator.model.network import Network, Node


@dataclass(slots=True)
class Forwarded:
    """One request on its way. `sent_to`: the controller that has it, or had it when it was lost."""

    kind: str
    question: Callable[[], Any]
    answered: Callable[[Any], None]
    until: float | None
    sent_to: str | None = None
    sent_at: float = 0.0
    done: bool = False


@dataclass(slots=True)
class Forwarding:
    """Sends to whoever is active; again if the connection broke, the controller died or was not the active one, or did
    not answer for long. A request that waits at a paused controller is not sent again: it is handled when that goes on.
    """

    node: Node
    network: Network
    controllers: Controllers

    def forward(
        self, kind: str, question: Callable[[], Any], answered: Callable[[Any], None], timeout: float | None
    ) -> None:
        """Ask; `answered(None)` after `timeout` seconds without an answer (None: never give up)."""
        until = None if timeout is None else self.node.scheduler.now + timeout
        self._try(Forwarded(kind, question, answered, until))

    def _try(self, request: Forwarded) -> None:
        if request.done:
            return
        if request.until is not None and self.node.scheduler.now >= request.until:
            request.done = True
            request.answered(None)
            return
        active = self.controllers.active
        if active is not None and request.sent_to is None and self.network.joined(self.node.name, active):
            request.sent_to, request.sent_at = active, self.node.scheduler.now
            refused = partial(self._not_there, request)
            self.network.send(self.node.name, active, request.kind, partial(self._arrived, request, active), refused)
        elif request.sent_to is not None and self._broken(request.sent_to, request.sent_at):
            request.sent_to = None
        self.node.after(self.controllers.settings.forward_retry, partial(self._try, request))

    def _arrived(self, request: Forwarded, controller: str) -> None:
        generation = self.node.generation

        def received(answer: Any) -> None:
            if generation != self.node.generation or request.done:
                return
            if answer is None:
                request.sent_to = None
                return
            request.done = True
            request.answered(answer)

        def reply(answer: Any) -> None:
            self.network.send(controller, self.node.name, request.kind + " answer", partial(received, answer))

        self.controllers.ask(controller, request.question, reply)

    def _not_there(self, request: Forwarded) -> None:
        request.sent_to = None

    def _broken(self, controller: str, since: float) -> bool:
        node = self.network.nodes[controller]
        silent = self.node.scheduler.now - since > self.controllers.settings.forward_timeout and not node.paused
        return silent or not node.running or not self.network.joined(self.node.name, controller)
