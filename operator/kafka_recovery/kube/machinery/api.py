"""Calls to the Kubernetes API over one shared aiohttp session: deadlines, tries, errors by name, and the fence.

    recovery = await api.get(RECOVERIES.path("kafka", "orders-1"))
    await api.apply_status(RECOVERIES.path("kafka", "orders-1"), recovery, {"finished": True})     # may raise Conflict

The errors:

    ApiError
    ├── NotFound        404: there is no such object
    ├── NotServed       404: there is no such kind, at least not now; nothing is known of its objects
    ├── Conflict        409: somebody wrote the object since it was read; read it again
    ├── AlreadyExists   409: an object with this name is there
    ├── Expired         410: a list took longer than the server remembers it
    ├── Undeclared      500: the definition that is installed lacks a field that this release writes
    └── Unanswered      no answer in time; a write may have been done all the same
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
from aiohttp import ClientResponse
from pydantic_core import from_json
from tenacity import AsyncRetrying, retry_if_exception

from kafka_recovery.kube.machinery.applied import FIELD_MANAGER, left_over, says
from kafka_recovery.kube.machinery.fenced_body import FencedBody
from kafka_recovery.kube.machinery.tries import AsAsked, Question
from kafka_recovery.kube.machinery.turns import Turns

_LOG = logging.getLogger(__name__)

PAGE = 500
"""Objects a page of a list: what kubectl asks for."""
FEW = 10
"""The same of objects that may be large, of which little is kept: one takes a dozen MB while it is read."""

LIST_ATTEMPTS = 3
"""How often a list begins anew because it expired half-way (410)."""

LONGEST_TEXT = 300
"""Characters of an answer that is no Status (a proxy's web page) that an error repeats."""

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
_NO_ANSWER = 0
_DISCOVERY = 3
"""Slashes in the longest path that asks what there is: /apis/GROUP/VERSION."""
_NO_SUCH_RESOURCE = "the server could not find the requested resource"
_UNDECLARED = "field not declared in schema"
"""What server-side apply says, as an internal error."""
_PASSING = frozenset({_NO_ANSWER, 429, 500, 502, 503, 504})


Kept = TypeVar("Kept")


def unfenced() -> None:
    """The fence of who needs none: a person's own command."""


class ApiError(Exception):
    """What the API server refused. `reason` is its CamelCase word; `retry_after` seconds it asks to wait, 0: none.

    `status` is HTTP's, 0 if there was no answer; `path` is what was asked for, without host and parameters.
    """

    def __init__(self, status: int, reason: str, message: str, path: str = "", retry_after: float = 0.0) -> None:
        super().__init__(f"{status} {reason}: {message}" if status else f"{reason}: {message}")
        self.status, self.reason, self.message = status, reason, message
        self.path, self.retry_after = path, retry_after

    @property
    def may_pass(self) -> bool:
        """Whether the same call may succeed a moment later."""
        return self.status in _PASSING and not isinstance(self, Undeclared)


class NotFound(ApiError):
    """No such object."""


class NotServed(ApiError):
    """No such kind: its definition is missing, or not served yet. Whether there is such an object is unknown."""


class Conflict(ApiError):
    """The object is not the one that was read any more, or a field belongs to somebody else."""


class AlreadyExists(ApiError):
    """There is an object with this name: perhaps ours, by an earlier try whose answer was lost."""


class Expired(ApiError):
    """The list can't be gone on with."""


class Undeclared(ApiError):
    """The definition lacks fields that were to be applied: it is older than this release. No other try helps."""

    @property
    def fields(self) -> frozenset[str]:
        """Those of the status itself; not what lies deeper, without which the rest may say something else."""
        return frozenset(re.findall(rf"[.]status[.](\w+): {_UNDECLARED}", self.message))


class Unanswered(ApiError):
    """No whole answer came. A write may have been done, or may still be."""


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
        if error.status == _NO_ANSWER or (error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and error.may_pass):
            self._troubled_at = time.monotonic()
        aftermath = time.monotonic() - self._troubled_at < AFTERMATH.total_seconds()
        return error.may_pass or (error.status == HTTPStatus.FORBIDDEN and aftermath)

    async def _try(self, question: Question) -> Object:
        """Send once, when it is our turn. Raises ApiError and what is below it."""
        try:
            async with self._turns.one(self._time_for(question)) as waited:
                question.until += waited
                return await self._send(question)
        except (aiohttp.ClientError, TimeoutError) as error:
            self._asked(question.method, _NO_ANSWER)
            what = f"{question.method} {question.path}: {str(error) or type(error).__name__}"
            raise Unanswered(_NO_ANSWER, "Unanswered", what, question.path) from error

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
            return _understood(question, response, raw)


def _whole(each: Object) -> Object:
    return each


def _asked_pause(error: BaseException | None) -> float:
    return error.retry_after if isinstance(error, ApiError) else 0.0


def _understood(question: Question, response: ClientResponse, raw: bytes) -> Object:
    """The object in an answer. Raises what a refusal is."""
    try:
        content = from_json(raw)  # of the largest recovery 8 ms, json takes 12: nothing else goes on meanwhile
    except ValueError:
        content = None
    said: Object = content if isinstance(content, dict) else {}
    if response.ok and said:
        return said
    message = said.get("message") or raw[:LONGEST_TEXT].decode(errors="replace") or "it did not say why"
    if response.ok:
        raise ApiError(response.status, "NotAnObject", f"the answer is no JSON object: {message}", question.path)
    reason = str(said.get("reason") or response.reason or "Refused")
    asked = response.headers.get("Retry-After", "")
    lacks = response.status == HTTPStatus.INTERNAL_SERVER_ERROR and _UNDECLARED in str(message)
    kind = Undeclared if lacks else _kind(response.status, reason)
    if kind is NotFound and _is_unserved(question.path, said):
        message = f"the API server does not know {question.path}: is the CustomResourceDefinition there?"
        raise NotServed(response.status, "NotServed", message, question.path)
    raise kind(response.status, reason, str(message), question.path, float(asked) if asked.isdecimal() else 0.0)


def _kind(status: int, reason: str) -> type[ApiError]:
    if status == HTTPStatus.CONFLICT:
        return AlreadyExists if reason == "AlreadyExists" else Conflict
    return {404: NotFound, 410: Expired}.get(status, ApiError)


def _is_unserved(path: str, said: Object) -> bool:
    """Whether a 404 is about the kind: then it comes as plain text, or, where a proxy words it, without an object."""
    if path.count("/") <= _DISCOVERY:
        return False
    return said.get("kind") != "Status" or said.get("message") == _NO_SUCH_RESOURCE
