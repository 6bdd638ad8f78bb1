"""Calls to the Kubernetes API over one shared aiohttp session: deadlines, tries, errors by name, and the fence.

    recovery = await api.get(RECOVERIES.path("kafka", "orders-1"))
    await api.apply_status(RECOVERIES.path("kafka", "orders-1"), recovery, {"finished": True})     # may raise Conflict

The errors stand in `answers`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any, TypeVar

import aiohttp
from tenacity import AsyncRetrying, retry_if_exception

from kafka_recovery.kube.machinery.answers import (
    LONGEST_TEXT,
    NO_ANSWER,
    AlreadyExists,
    ApiError,
    Conflict,
    Expired,
    NotFound,
    NotServed,
    Unanswered,
    Undeclared,
    understood,
)
from kafka_recovery.kube.machinery.applied import FIELD_MANAGER, left_over, says
from kafka_recovery.kube.machinery.fenced_body import FencedBody
from kafka_recovery.kube.machinery.tries import AsAsked, Question
from kafka_recovery.kube.machinery.turns import Turns

__all__ = [
    "LONGEST_TEXT",
    "AlreadyExists",
    "Api",
    "ApiError",
    "Conflict",
    "Effort",
    "Expired",
    "Fence",
    "Kept",
    "NotFound",
    "NotServed",
    "Object",
    "Unanswered",
    "Undeclared",
    "unfenced",
]

_LOG = logging.getLogger(__name__)

PAGE = 500
"""Objects a page of a list: what kubectl asks for."""
FEW = 10
"""The same of objects that may be large, of which little is kept: one takes a dozen MB while it is read."""

LIST_ATTEMPTS = 3
"""How often a list begins anew because it expired half-way (410)."""

Object = dict[str, Any]
"""An object as the API gave it: untrusted; `resources` reads it."""

Fence = Callable[[], None]
"""Asked before every write; it does not return if this process may write no more."""

CONNECTIONS = 16
"""Calls under way at once."""

AFTERMATH = timedelta(seconds=30)
"""So long after an outage of the API server a 403 may only mean that it has not loaded its RBAC rules yet."""

_APPLY = "application/apply-patch+yaml"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_PATH = re.compile(r"(/[A-Za-z0-9._:-]+)+")


Kept = TypeVar("Kept")


def unfenced() -> None:
    """The fence of who needs none: a person's own command."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long one call may take with all its tries, how long one try, and the first and longest pause between two."""

    deadline: timedelta = timedelta(seconds=30)
    attempt: timedelta = timedelta(seconds=10)
    first_pause: timedelta = timedelta(milliseconds=250)
    longest_pause: timedelta = timedelta(seconds=8)


class Api:
    """The API of one server. The session authenticates. `at_once`: calls under way, and so connections.

    `asked`: told of each try, by its method and HTTP's status.

    Every call raises ApiError or what is below it, and is tried again within its deadline on 429, 5xx and lost
    connections. A write that is tried again may meet its own first try: AlreadyExists for `create`, Conflict for the
    others. Who treats those as "look again" needs nothing else. Waiting for a turn is no part of a call's deadline, as
    long as others are answered meanwhile.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: str,
        fence: Fence,
        effort: Effort | None = None,
        at_once: int = CONNECTIONS,
        asked: Callable[[str, int], None] = lambda method, status: None,
    ) -> None:
        self._session = session
        self._server = server.rstrip("/")
        self._fence = fence
        self._effort = effort or Effort()
        self._turns = Turns(at_once)
        self._asked = asked
        self._troubled_at = -math.inf
        self._lacking: set[tuple[str, frozenset[str]]] = set()
        """Of which kind which fields are not declared, as it was told: once."""

    async def get(self, path: str, *, deadline: timedelta | None = None) -> Object:
        """The object as it is now, never a cached one."""
        return await self._call("GET", path, deadline=deadline)

    async def metadata(self, path: str, *, deadline: timedelta | None = None) -> Object:
        """An object's metadata as it is now, and none of the rest: the object may be a megabyte long."""
        found = await self._call("GET", path, deadline=deadline, accept=_METADATA)
        metadata: Object = found["metadata"]
        return metadata

    async def list_all(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        page: int = PAGE,
        deadline: timedelta | None = None,
    ) -> list[Object]:
        """All objects of a collection at one moment, read in pages. `params`: `labelSelector`, `fieldSelector`.

        `deadline`: of one page. A list that expires half-way is begun anew.
        """
        return await self.list_kept(path, _whole, params=params, page=page, deadline=deadline)

    async def list_kept(
        self,
        path: str,
        kept: Callable[[Object], Kept],
        *,
        params: Mapping[str, str] | None = None,
        page: int = FEW,
        deadline: timedelta | None = None,
    ) -> list[Kept]:
        """The same of objects that may be large: no more than a page of them is there at a time, and what is `kept`."""
        first = {**(params or {}), "limit": str(page)}
        for _ in range(LIST_ATTEMPTS - 1):
            try:
                return await self._pages(path, kept, first, deadline)
            except Expired:
                continue
        return await self._pages(path, kept, first, deadline)

    async def first(self, path: str) -> list[Object]:
        """One object of a collection, if there is any: whether it can be listed at all."""
        page = await self._call("GET", path, params={"limit": "1"})
        return list(page.get("items") or ())

    async def create(self, path: str, body: Mapping[str, Any], *, deadline: timedelta | None = None) -> Object:
        """Create an object with a name in the collection `path`; a field that the server does not know is an error."""
        params = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        return await self._call("POST", path, body, params=params, deadline=deadline)

    async def apply_status(
        self, path: str, seen: Object, status: Mapping[str, Any], *, deadline: timedelta | None = None
    ) -> Object:
        """Make `status` all that this operator says of the object at `path`; nothing is sent if it says so already.

        What `status` lacks is removed, whoever wrote it; others' conditions stay. `seen`: what `status` was worked out
        from; its resourceVersion guards the write (a uid alone does not, on a subresource). A field that the definition
        lacks is left out: an operator may be newer. Returns the object as it is now. Raises Conflict, NotFound.
        """
        try:
            return seen if says(seen, status) else await self._apply_status(path, seen, status, deadline)
        except Undeclared as older:
            known = {name: value for name, value in status.items() if name not in older.fields}
            if len(known) == len(status):
                raise
            lacks = str(seen["kind"]), older.fields
            level = logging.DEBUG if lacks in self._lacking else logging.WARNING
            self._lacking.add(lacks)
            _LOG.log(level, "not written, for the definition is older than this release: %s", older.message)
            return await self.apply_status(path, seen, known, deadline=deadline)

    async def _apply_status(
        self, path: str, seen: Object, status: Mapping[str, Any], deadline: timedelta | None
    ) -> Object:
        meta = seen["metadata"]
        guards = {name: meta[name] for name in ("name", "uid", "resourceVersion")}
        body = {"apiVersion": seen["apiVersion"], "kind": seen["kind"], "metadata": guards, "status": status}
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        now = await self._call("PATCH", f"{path}/status", body, _APPLY, params=params, deadline=deadline)
        if not (change := left_over(now, status)):
            return now
        guard = {"resourceVersion": now["metadata"]["resourceVersion"]}
        return await self.patch(f"{path}/status", {"metadata": guard, "status": change}, deadline=deadline)

    async def apply(self, path: str, body: Mapping[str, Any], *, deadline: timedelta | None = None) -> Object:
        """Create the object at `path`, or make these fields of it what they are here, whoever wrote them last."""
        params = {"fieldManager": FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"}
        return await self._call("PATCH", path, body, _APPLY, params=params, deadline=deadline)

    async def patch(
        self, path: str, change: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, deadline: timedelta | None = None
    ) -> Object:
        """Change an object by a merge patch (a mapping, RFC 7386) or a JSON patch (a list of operations, RFC 6902).

        A `resourceVersion` in a merge patch's metadata guards it: Conflict. A JSON patch whose `test` fails is a 422.
        """
        kind = "merge-patch+json" if isinstance(change, Mapping) else "json-patch+json"
        params = {"fieldManager": FIELD_MANAGER}
        return await self._call("PATCH", path, change, f"application/{kind}", params=params, deadline=deadline)

    async def delete(self, path: str, *, uid: str | None = None, deadline: timedelta | None = None) -> None:
        """Delete the object, if it is the one with this uid (else Conflict). One that is gone already is fine."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._call("DELETE", path, options, deadline=deadline)
        except NotFound:
            return

    async def _pages(
        self, path: str, kept: Callable[[Object], Kept], params: Mapping[str, str], deadline: timedelta | None
    ) -> list[Kept]:
        items: list[Kept] = []
        more = dict(params)
        while True:
            page = await self._call("GET", path, params=more, deadline=deadline)
            for each in page.get("items") or ():
                items.append(kept(each))
                await asyncio.sleep(0)  # a large one takes a while, and others wait
            token = (page.get("metadata") or {}).get("continue")
            del page  # else it is there until the next one is
            if not token:
                return items
            more["continue"] = token

    async def _call(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        *,
        params: Mapping[str, str] | None = None,
        deadline: timedelta | None = None,
        accept: str = "application/json",
    ) -> Object:
        if not _PATH.fullmatch(path) or ".." in path:
            raise ValueError(f"{path!r} is no path of the Kubernetes API: is a name in it one that nobody checked?")
        within = self._effort.deadline if deadline is None else deadline
        until = time.monotonic() + within.total_seconds()
        raw = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        question = Question(method, path, raw, content_type, params or {}, until, accept)
        tries = AsyncRetrying(
            retry=retry_if_exception(self._may_pass),
            wait=AsAsked(self._effort.first_pause, self._effort.longest_pause, _asked_pause),
            stop=question.is_too_late,
            reraise=True,
        )
        answer: Object = await tries(self._try, question)
        return answer

    def _may_pass(self, error: BaseException) -> bool:
        """Whether to try again; remembers outages, of which we are told by what they leave unanswered."""
        if not isinstance(error, ApiError):
            return False
        if error.status == NO_ANSWER or (error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and error.may_pass):
            self._troubled_at = time.monotonic()
        aftermath = time.monotonic() - self._troubled_at < AFTERMATH.total_seconds()
        return error.may_pass or (error.status == HTTPStatus.FORBIDDEN and aftermath)

    async def _try(self, question: Question) -> Object:
        """Send once, when it is our turn. Raises ApiError and what is below it."""
        try:
            async with self._turns.one(self._time_for(question)) as waited:
                question.until += waited
                return await self._send(question)
        except ApiError as refused:
            question.refused = str(refused)
            raise
        except (aiohttp.ClientError, TimeoutError) as error:
            self._asked(question.method, NO_ANSWER)
            before = f"; before, the answer was {question.refused}" if question.refused else ""
            what = f"{question.method} {question.path}: {str(error) or type(error).__name__}{before}"
            raise Unanswered(NO_ANSWER, "Unanswered", what, question.path) from error

    def _time_for(self, question: Question) -> float:
        left = min(self._effort.attempt.total_seconds(), question.until - time.monotonic())
        return max(left, 0.001)

    async def _send(self, question: Question) -> Object:
        body = None
        if question.method != "GET":
            self._fence()
            body = FencedBody(self._fence, question.body or b"{}", content_type=question.content_type)
        async with self._session.request(
            question.method,
            self._server + question.path,
            data=body,
            params=question.params,
            headers={"Accept": question.accept},
            timeout=aiohttp.ClientTimeout(total=self._time_for(question)),
            allow_redirects=False,
        ) as response:
            raw = await response.read()
            self._turns.answered()
            self._asked(question.method, response.status)
            return understood(question.path, response, raw)


def _whole(each: Object) -> Object:
    return each


def _asked_pause(error: BaseException | None) -> float:
    return error.retry_after if isinstance(error, ApiError) else 0.0
