"""How an engine's questions travel over the simulated network: deadlines, attempts, and what no answer means.

The same promises as the real connections give: looking may be repeated, what changes something is sent at most once,
and a change that was sent and not answered is *unanswered*, never *failed*.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, TypeVar

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.simulator.host.mortality import Process
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.requests import ApiVersions, Refused, Request

A = TypeVar("A")

ATTEMPTS = 3
_FIRST_PAUSE = 0.05


class Fault(ClusterFault):
    """Anything that keeps an answer away; `reason` as the real connections would give it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self._reason = Reason(code, message)

    @property
    def reason(self) -> Reason:
        """The code and the sentence."""
        return self._reason


class Unreachable(Fault):
    """The connection was refused."""


class NotSent(Fault):
    """A change that was certainly never sent."""


class Unanswered(Fault):
    """A change that was sent and not answered: it may still take effect."""


class Unavailable(Fault):
    """No broker answers."""


class SimulatedWire:
    """One engine's way to the brokers; every message is an IO step of its process."""

    def __init__(self, kafka: SimulatedKafka, process: Process) -> None:
        self.kafka = kafka
        self.process = process

    async def ask(self, broker: BrokerId, request: Request[A], deadline: timedelta, attempts: int = ATTEMPTS) -> A:
        """Up to so many attempts within the deadline, as long as connections are refused."""
        seconds = deadline.total_seconds()
        silent = Fault("BrokerSilent", f"broker {broker} did not answer {type(request).__name__} within {seconds:g}s")
        refused = Unreachable("BrokerUnreachable", f"broker {broker}: connection refused")
        try:
            async with asyncio.timeout(seconds):
                for attempt in range(attempts):
                    answer = await self._exchange(broker, request)
                    if not isinstance(answer, Refused):
                        return answer
                    if attempt < attempts - 1:
                        await asyncio.sleep(_FIRST_PAUSE * 2**attempt)
        except TimeoutError:
            raise silent from None
        raise refused

    async def ask_once(self, broker: BrokerId, request: Request[A], deadline: timedelta) -> A:
        """Connect, which is an exchange of versions, then send it once."""
        sent = False
        why = f"no answer within {deadline.total_seconds():g}s"
        try:
            async with asyncio.timeout(deadline.total_seconds()):
                hello: Request[Any] = ApiVersions()
                if not isinstance(await self._exchange(broker, hello), Refused):
                    sent = True
                    answer = await self._exchange(broker, request)
                    if not isinstance(answer, Refused):
                        return answer
                    sent = False  # refused: no process listens any more, so none has read it
                why = "connection refused"
        except TimeoutError:
            pass
        kind, name = (Unanswered if sent else NotSent), type(request).__name__
        raise kind(kind.__name__, f"{name} to broker {broker}: {why}")

    async def _exchange(self, broker: BrokerId, request: Request[A]) -> A | Refused:
        name = f"{type(request).__name__} to broker {broker}"
        self.process.step(f"send {name}")
        answered: asyncio.Future[A | Refused] = asyncio.get_running_loop().create_future()

        def on_answer(answer: A | Refused) -> None:
            if not answered.done():
                answered.set_result(answer)

        self.kafka.request(self.process.name, broker, request, on_answer)
        answer = await answered
        self.process.step(f"answer to {name}")
        return answer


def reason_of(error: Error, what: str) -> Reason:
    """A Kafka error code as the real adapter words it."""
    code = "".join(word.capitalize() for word in error.name.split("_"))
    return Reason(code, f"{what}: Kafka answered {error.name} ({error.value})")
