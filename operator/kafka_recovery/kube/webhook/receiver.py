"""One request to the webhook: let in or not, read, and whom it wakes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.credentials import TokenFile
from kafka_recovery.kube.machinery.metrics import Heard, Metrics
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.webhook.limits import Bucket, Recent
from kafka_recovery.kube.webhook.notification import NotANotification, Notification, understood

_LOG = logging.getLogger(__name__)

PATH = "/alerts"

LARGEST_BODY = 128 * 1024
"""Bytes; an alert is about one KiB of it."""

BODY_WITHIN = 3.0
"""Seconds for a body to arrive."""

REPEATED = 30.0
"""Seconds within which the same group wakes a cluster once: the watcher looks by itself as often as that."""

REMEMBERED = 10_000
"""Groups and their clusters, about 2 MB."""

AT_ONCE, A_SECOND = 100, 5
"""Requests with the right credentials. An Alertmanager sends one a group: an outage of a hundred clusters has room."""

TOLD_EVERY = 60.0
"""Seconds between two lines about refusals of one kind."""

_TEXT: Mapping[Heard, tuple[int, str]] = {
    Heard.UNAUTHENTICATED: (401, "send the operator's token: Authorization: Bearer TOKEN"),
    Heard.TOO_LARGE: (413, f"send at most {LARGEST_BODY} bytes: set max_alerts, or group by namespace and name"),
    Heard.TOO_SLOW: (408, f"the body did not arrive within {BODY_WITHIN:g} s"),
    Heard.TOO_MANY: (429, "too many requests: the operator looks by itself as well"),
    Heard.DEFECT: (500, "an internal error"),
}


class _Refused(Exception):
    """A request that wakes nobody."""

    def __init__(self, what: Heard, status: int = 0, why: str = "") -> None:
        self.what = what
        self.status, self.why = (status, why) if status else _TEXT[what]
        super().__init__(self.why)
        self.headers: dict[str, str] = {}


@dataclass(slots=True)
class Receiver:
    """`wake`: have the watcher of a cluster look; returns why that can't be. `token` None: TLS has seen to it."""

    wake: Callable[[Key], Reason | None]
    token: TokenFile | None
    metrics: Metrics
    clock: Callable[[], float]
    _bucket: Bucket = field(default_factory=lambda: Bucket(AT_ONCE, A_SECOND))
    _recent: Recent = field(default_factory=lambda: Recent(REPEATED, REMEMBERED))
    _told: Recent = field(default_factory=lambda: Recent(TOLD_EVERY, len(Heard)))

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answers whatever comes, and closes the connection. Never raises."""
        headers: Mapping[str, str] = {}
        try:
            what, status, said = await self._heard(request)
        except _Refused as refused:
            self._tell(refused, request.remote)
            what, status, said, headers = refused.what, refused.status, {"refused": refused.why}, refused.headers
        except Exception:  # noqa: BLE001 - whatever comes in, the operator goes on
            _LOG.exception("a request met an internal error")
            what = Heard.DEFECT
            status, said = 500, {"refused": _TEXT[what][1]}
        self.metrics.heard(what)
        response = web.json_response(said, status=status, headers=headers)
        response.force_close()
        return response

    async def _heard(self, request: web.BaseRequest) -> tuple[Heard, int, Mapping[str, object]]:
        self._let_in(request)
        notification = _understood(await _body(request))
        now = self.clock()
        woken, repeated, refused = [], [], {}
        for key in sorted(notification.clusters):
            cluster = "/".join(key)
            if self._recent.again((notification.group, key), now):
                repeated.append(cluster)
            elif why := self.wake(key):
                refused[cluster] = str(why)
                self._recent.forget((notification.group, key))
            else:
                woken.append(cluster)
                _LOG.info("an alert wakes the watcher of %s", cluster)
        what = _outcome(notification, woken, repeated)
        if what is Heard.NOT_WATCHED:
            raise _Refused(what, 404, _unknown(notification, refused))
        return what, 202, {"woken": woken, "repeated": repeated, "refused": refused}

    def _let_in(self, request: web.BaseRequest) -> None:
        """The cheapest questions first; nothing of the body is read before all are answered."""
        if request.path != PATH:
            raise _Refused(Heard.NOT_SERVED, 404, f"alerts go to {PATH}")
        if self.token and not self.token.admits(request.headers.get("Authorization", "")):
            refused = _Refused(Heard.UNAUTHENTICATED)
            refused.headers["WWW-Authenticate"] = "Bearer"
            raise refused
        if request.method != "POST":
            refused = _Refused(Heard.NOT_SERVED, 405, "alerts are sent by POST")
            refused.headers["Allow"] = "POST"
            raise refused
        if wait := self._bucket.take(self.clock()):
            refused = _Refused(Heard.TOO_MANY)
            refused.headers["Retry-After"] = str(int(wait) + 1)
            raise refused
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise _Refused(Heard.INVALID, 415, "send it uncompressed, as Alertmanager does")

    def _tell(self, refused: _Refused, sender: str | None) -> None:
        """A flood of refusals is one line a minute for each kind; the metrics have their number."""
        again = self._told.again(refused.what, self.clock())
        level = logging.DEBUG if again else logging.WARNING
        _LOG.log(level, "a request from %s is refused: %s: %s", sender, refused.what, refused.why)


async def _body(request: web.BaseRequest) -> bytes:
    """All of it, or no more than is allowed; what a sender says about its length is believed only if it is too much."""
    if (request.content_length or 0) > LARGEST_BODY:
        raise _Refused(Heard.TOO_LARGE)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_WITHIN):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > LARGEST_BODY:
                    raise _Refused(Heard.TOO_LARGE)
    except TimeoutError:
        raise _Refused(Heard.TOO_SLOW) from None
    except (HttpProcessingError, web.RequestPayloadError, ConnectionError):
        raise _Refused(Heard.INVALID, 400, "the body was cut off, or its chunks are none") from None
    return bytes(body)


def _understood(body: bytes) -> Notification:
    try:
        return understood(body)
    except NotANotification as wrong:
        raise _Refused(Heard.INVALID, 400, str(wrong)) from None


def _outcome(notification: Notification, woken: list[str], repeated: list[str]) -> Heard:
    if woken:
        return Heard.WOKEN
    if repeated:
        return Heard.REPEATED
    return Heard.NOT_WATCHED if notification.clusters or notification.nameless else Heard.RESOLVED


def _unknown(notification: Notification, refused: Mapping[str, str]) -> str:
    if refused:
        return json.dumps(refused)
    return "no alert has labels `namespace` and `name`, those of a WatchedCluster"
