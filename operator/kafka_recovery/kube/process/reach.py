"""Patience for kopf, where the API server does not answer, or does not serve a kind now, or where a right is missing.

kopf looks once which kinds there are, and ends the whole process when a list or a watch of one namespace is refused,
or is answered with 5xx for a minute, or when a watch tells of an error.
Its session has `Reach` as a middleware: such a question waits there, it is said once what is missing, and everything
else goes on. When it is there, the question is answered as if nothing had been.

What kopf is told is metadata alone, since it only says which object changed: 150 recoveries of 20,000 partitions each
would take a gigabyte of a page of its list.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Protocol, Self, cast

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

from kafka_recovery.kube.machinery.api import ApiError, NotFound, Object
from kafka_recovery.kube.resources.kinds import APPROVALS, CLUSTERS, GROUP, POLICIES, RECOVERIES, VERSION

_LOG = logging.getLogger(__name__)

KINDS = frozenset(kind.plural for kind in (CLUSTERS, POLICIES, RECOVERIES, APPROVALS))

ANSWER = timedelta(seconds=30)
"""For everything but the events of a watch, of which only the beginning must come in time."""

_API = f"/apis/{GROUP}/{VERSION}"
_COLLECTION = re.compile(rf"{re.escape(_API)}(/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)$")


class Discovery(Protocol):
    """All that is asked of an `Api` here."""

    async def get(self, path: str) -> Object:
        """Raises ApiError."""
        ...


@dataclass(frozen=True, slots=True)
class Paces:
    """`served`: between two looks whether a kind is there. `allowed`: between two tries of what was refused.

    `answered`: between two tries of what was not answered. `doubt`: so long a trouble is not told: an API server that
    has just started has not loaded its RBAC rules yet, and a definition that has just come has no storage.
    """

    served: timedelta = timedelta(seconds=2)
    allowed: timedelta = timedelta(seconds=5)
    answered: timedelta = timedelta(seconds=1)
    doubt: timedelta = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A list or a watch. `namespace` empty: of all of them."""

    plural: str
    namespace: str
    verb: str

    @property
    def accept(self) -> str:
        """In which form the answer is wanted. Of an approval its spec says which recovery it is about."""
        if self.plural == APPROVALS.plural:
            return "application/json"
        form = "PartialObjectMetadata" if self.verb == "watch" else "PartialObjectMetadataList"
        return f"application/json;as={form};v=v1;g=meta.k8s.io"

    @classmethod
    def of(cls, request: ClientRequest) -> Self | None:
        """None: it is something else that is asked."""
        found = _COLLECTION.search(request.url.path)
        if found is None or found["plural"] not in KINDS:
            return None
        return cls(found["plural"], found["namespace"] or "", "watch" if _is_watch(request) else "list")


class Reach:
    """An aiohttp middleware for kopf's session. `api` must have another session."""

    def __init__(self, api: Discovery, paces: Paces = Paces()) -> None:
        self._api = api
        self._paces = paces
        self._missing = KINDS
        self._looked_at = -math.inf
        self._told = ""
        self._unanswered: set[_Asked] = set()
        self._refused: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self._refusals_told: dict[str, str] = {}

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        if request.url.path.endswith("/apis"):
            return await self._once_all_are_there(request, handler)
        asked = _Asked.of(request)
        return await (self._in_the_end(asked, request, handler) if asked else _answer(request, handler))

    async def _once_all_are_there(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """kopf's only look at what there is: what it does not see now it would never serve."""
        while True:
            await self._until_served(KINDS)
            response = await _answer(request, handler)
            if not response.ok or GROUP in await response.text():
                return response
            await asyncio.sleep(self._paces.served.total_seconds())  # the list of groups is a little late

    async def _in_the_end(self, asked: _Asked, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        trouble, since = "", 0.0
        request.headers["Accept"] = asked.accept
        while True:
            response = await _answer_or_trouble(request, handler)
            now = "silence" if isinstance(response, str) else str(response.status)
            if now != trouble:
                trouble, since = now, time.monotonic()
            in_doubt = time.monotonic() - since < self._paces.doubt.total_seconds()
            if isinstance(response, str):
                await self._unanswered_again(asked, response, in_doubt)
                continue
            self._is_answered(asked)
            if response.status == HTTPStatus.NOT_FOUND:
                await asyncio.sleep(self._paces.served.total_seconds())
                await self._until_served(frozenset({asked.plural}))
            elif response.status == HTTPStatus.FORBIDDEN:
                await self._refused_again(asked, response, in_doubt)
            else:
                self._is_allowed(asked)
                if asked.verb == "watch":
                    pause = self._paces.answered.total_seconds()
                    response.content = cast(aiohttp.StreamReader, Events(response.content, pause))
                return response

    async def _unanswered_again(self, asked: _Asked, trouble: str, in_doubt: bool) -> None:
        if not in_doubt:
            if not self._unanswered:
                said = "the API server answers no %s of %s: %s; it is asked again"
                _LOG.warning(said, asked.verb, asked.plural, trouble)
            self._unanswered.add(asked)
        await asyncio.sleep(self._paces.answered.total_seconds())

    def _is_answered(self, asked: _Asked) -> None:
        if asked in self._unanswered:
            self._unanswered.remove(asked)
            if not self._unanswered:
                _LOG.info("the API server answers all lists and watches again")

    async def _refused_again(self, asked: _Asked, response: ClientResponse, in_doubt: bool) -> None:
        self._refused[asked.namespace].add((asked.verb, asked.plural))
        if not in_doubt:
            self._tell_refusals(asked.namespace, await _who(response))
        await asyncio.sleep((self._paces.doubt if in_doubt else self._paces.allowed).total_seconds())

    async def _until_served(self, wanted: frozenset[str]) -> None:
        while wanted & await self._look():
            await asyncio.sleep(self._paces.served.total_seconds())

    async def _look(self) -> frozenset[str]:
        """The kinds that are missing; many may ask, the API server is asked once in a while."""
        if time.monotonic() - self._looked_at < self._paces.served.total_seconds() / 2:
            return self._missing
        self._looked_at = time.monotonic()
        try:
            served = {each.get("name") for each in (await self._api.get(_API)).get("resources") or ()}
        except NotFound:
            served = set()
        except ApiError as error:
            self._tell(f"the API server does not say whether it serves {GROUP}, it is asked again: {error}")
            return self._missing
        self._missing = KINDS - served
        names = ", ".join(f"{plural}.{GROUP}" for plural in sorted(self._missing))
        self._tell(f"waiting for CustomResourceDefinitions that the API server lacks: {names}" if names else "")
        return self._missing

    def _tell(self, trouble: str) -> None:
        if trouble and trouble != self._told:
            _LOG.warning("%s", trouble)
        elif self._told and not trouble:
            _LOG.info("the API server serves all kinds of %s now: going on", GROUP)
        self._told = trouble

    def _tell_refusals(self, namespace: str, who: str) -> None:
        rights = defaultdict(list)
        for verb, plural in sorted(self._refused[namespace]):
            rights[verb].append(plural)
        lacks = " and to ".join(f"{verb} {', '.join(plurals)}" for verb, plurals in rights.items())
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        trouble = f"{who} lacks the right to {lacks} ({GROUP}) {where}"
        if trouble == self._refusals_told.get(namespace):
            return
        self._refusals_told[namespace] = trouble
        mend = (
            "it gets it by the Role of manifests/rbac/operator.yaml there, if such a namespace exists"
            if namespace
            else "it gets it by a ClusterRole"
        )
        _LOG.warning("%s: nobody looks at them until it has it; %s", trouble, mend)

    def _is_allowed(self, asked: _Asked) -> None:
        refused = self._refused[asked.namespace]
        refused -= {("list", asked.plural), (asked.verb, asked.plural)}  # a watch follows a list that was allowed
        if not refused and self._refusals_told.pop(asked.namespace, ""):
            where = f"namespace {asked.namespace}" if asked.namespace else "all namespaces"
            _LOG.info("the rights that were missing in %s are there now: going on", where)


@dataclass(frozen=True, slots=True)
class Events:
    """What kopf reads of a watch. Of an error in it kopf would die, but for the one upon which it lists anew."""

    content: aiohttp.StreamReader
    pause: float

    def __getattr__(self, name: str) -> Any:
        """All else is the stream's."""
        return getattr(self.content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Whole lines, each an event."""
        begun = b""
        async for data in self.content.iter_chunked(size):
            *lines, begun = (begun + data).split(b"\n")
            for line in lines:
                yield (await self._passed(line)) + b"\n"

    async def _passed(self, line: bytes) -> bytes:
        if not _is_fatal(line):
            return line
        _LOG.warning("a watch ended, and what it is about is listed anew: %s", line[:300].decode(errors="replace"))
        await asyncio.sleep(self.pause)
        return _EXPIRED


_EXPIRED = b'{"type": "ERROR", "object": {"code": 410}}'


def _is_fatal(line: bytes) -> bool:
    if b'"ERROR"' not in line[:30]:
        return False
    try:
        return bool(json.loads(line)["object"]["code"] != HTTPStatus.GONE)
    except (ValueError, KeyError, TypeError):
        return True


class Answer(ClientResponse):
    """For kopf's session: a list of metadata alone has null in place of no items, of which kopf would die."""

    async def json(self, **how: Any) -> Any:
        """See aiohttp."""
        content = await super().json(**how)
        if isinstance(content, dict) and "items" in content:
            content["items"] = content["items"] or []
        return content


def _is_watch(request: ClientRequest) -> bool:
    return "watch" in request.url.query


async def _answer(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """A whole answer, or the beginning of a watch. Raises TimeoutError, upon which kopf tries again."""
    async with asyncio.timeout(ANSWER.total_seconds()):
        response = await handler(request)
        if not _is_watch(request) or not response.ok:
            await response.read()
        return response


async def _answer_or_trouble(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse | str:
    """Or why there is no answer, or none that says anything: kopf would end the process if that lasts."""
    try:
        response = await _answer(request, handler)
    except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError) as error:
        return str(error) or type(error).__name__
    if response.status == HTTPStatus.TOO_MANY_REQUESTS or response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return f"{response.status} {response.reason}"
    return response


async def _who(refusal: ClientResponse) -> str:
    """Whom the API server took us for."""
    try:
        message = str((await refusal.json(content_type=None)).get("message"))
    except (ValueError, AttributeError, aiohttp.ClientError):
        message = ""
    found = re.search(r'User ("[^"]+")', message)
    return f"the operator ({found[1]})" if found else "the operator"
