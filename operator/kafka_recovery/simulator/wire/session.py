"""One client's connection to one simulated broker or controller, above the transport: frames in, frames out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from kafka_recovery.cluster.codec import Unreadable, decode
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.wire import controlling, rights
from kafka_recovery.simulator.wire.api_versions import API_VERSIONS
from kafka_recovery.simulator.wire.apis import Api, apis_of, controller_apis_of
from kafka_recovery.simulator.wire.exchange import Addresses, Exchange, Failed, Line
from kafka_recovery.simulator.wire.frames import BadFrame, Head, read_head, skip_tagged_fields
from kafka_recovery.simulator.wire.sasl import Authentication
from kafka_recovery.simulator.wire.whims import FAIR, Whims, spoil

__all__ = ["BadFrame", "Session"]

_BEFORE_AUTHENTICATION = frozenset({API_VERSIONS, SaslHandshakeRequest.API_KEY, SaslAuthenticateRequest.API_KEY})

Reply = Callable[[bytes], None]
_Work = Callable[[Callable[[bytes | None], None]], None]


class Session:
    """As a broker does it: one request of a connection at a time, answers in order. `broker`: its or a controller's id.

    `strict`: a request ends where its message ends. Kafka's brokers don't mind what follows, and librdkafka sends it.
    `passwords`: by user, where clients have to say who they are. `whims`: how else brokers treat them.
    `failed`: hears of an error of the model itself, after which this session answers nothing; else it is raised.
    """

    def __init__(
        self,
        kafka: SimulatedKafka,
        broker: BrokerId,
        client: str,
        addresses: Addresses,
        *,
        strict: bool = True,
        passwords: Mapping[str, str] | None = None,
        whims: Whims = FAIR,
        failed: Failed | None = None,
    ) -> None:
        self._strict = strict
        self._failed = failed
        self._authentication = Authentication(passwords)
        controls = kafka.controllers.name_of(broker) is not None
        serve = partial(controlling.answer, kafka) if controls else partial(kafka.serve, broker)
        self._apis = (controller_apis_of if controls else apis_of)(kafka.settings, kafka.switches)
        self._line = Line(kafka, broker, client, addresses, self._authentication, serve, whims)
        self._waiting: deque[tuple[_Work, Reply]] = deque()
        self._busy = self._working = self._ended = self._muted = False

    def received(self, frame: bytes, reply: Reply) -> None:
        """One whole request without its length; `reply` gets the response without its length, once, now or later.

        Raises BadFrame for what is no Kafka request, or one that this broker does not know.
        """
        self._waiting.append((self._read(memoryview(frame)), reply))
        self._work()

    @property
    def waiting(self) -> int:
        """Requests that are not answered yet."""
        return len(self._waiting) + self._busy

    def _read(self, frame: memoryview) -> _Work:
        head = read_head(frame)
        api = self._apis.find(head.api_key, head.version)
        if api is None and head.api_key == API_VERSIONS:
            return partial(self._apis.versions.refuse_version, head.correlation_id)
        if api is None:
            raise BadFrame(f"this broker does not know request {head.api_key} v{head.version}")
        if self._authentication.failed or not (self._authentication.done or head.api_key in _BEFORE_AUTHENTICATION):
            raise BadFrame(f"request {head.api_key} of somebody who is not authenticated")
        begin = skip_tagged_fields(frame, head.end) if api.request.flexible_version_q(head.version) else head.end
        try:
            asked = decode(api.request, head.version, frame[begin:], all_of_it=self._strict)
        except Unreadable as error:
            raise BadFrame(str(error)) from error
        return partial(self._serve, api, head, asked)

    def _serve(self, api: Api, head: Head, asked: object, reply: Callable[[bytes | None], None]) -> None:
        code = self._line.whims.error()
        edited = partial(self._edited, code)
        failed = None if self._failed is None else partial(self._end, head)
        exchange = Exchange(self._line, head.version, head.correlation_id, api.response, asked, reply, edited, failed)
        exchange.contained(partial(self._decide, api, code))(exchange)

    def _decide(self, api: Api, code: int | None, exchange: Exchange) -> None:
        if not (rights.refuses(exchange) or rights.refuses_for(exchange, code)):
            api.serve(exchange)

    def _end(self, head: Head, error: Exception) -> None:
        """What went wrong in the model is told once, and nothing is answered any more."""
        if self._ended or self._failed is None:
            return
        self._ended = True
        self._waiting.clear()
        error.add_note(f"while request {head.api_key} v{head.version} was answered")
        self._failed(error)

    def _edited(self, code: int | None, exchange: Exchange, answer: Any) -> None:
        rights.with_what_may_be_seen(exchange, answer)
        pause = self._line.whims.throttle()
        if code is not None:
            spoil(answer, code, self._line.whims.random)
        if pause and hasattr(answer, "throttle_time_ms"):
            answer.throttle_time_ms, self._muted = pause, True
            self._line.kafka.brokers[self._line.broker].node.after(pause / 1000, self._unmute)

    def _unmute(self) -> None:
        """KIP-219: a client that was throttled is heard again."""
        self._muted = False
        self._work()

    def _work(self) -> None:
        """Work off what waits, unless a request is being worked on; nested calls leave it to the outermost."""
        if self._working:
            return
        self._working = True
        try:
            while self._waiting and not self._busy and not self._muted:
                work, reply = self._waiting.popleft()
                self._busy = True
                work(partial(self._answered, reply))
        finally:
            self._working = False

    def _answered(self, reply: Reply, frame: bytes | None) -> None:
        if self._ended:
            return
        self._busy = False
        if frame is not None:
            reply(frame)
        self._work()
