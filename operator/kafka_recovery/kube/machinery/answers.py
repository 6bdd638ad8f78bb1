"""What an answer of the API server means: an object, or which error; who calls takes them from `api`.

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

import re
from http import HTTPStatus
from typing import Any

from aiohttp import ClientResponse
from pydantic_core import from_json

LONGEST_TEXT = 300
"""Characters of an answer that is no Status (a proxy's web page) that an error repeats."""

NO_ANSWER = 0
"""The status where nothing came."""

_DISCOVERY = 3
"""Slashes in the longest path that asks what there is: /apis/GROUP/VERSION."""
_NO_SUCH_RESOURCE = "the server could not find the requested resource"
_UNDECLARED = "field not declared in schema"
"""What server-side apply says, as an internal error."""
_PASSING = frozenset({NO_ANSWER, 429, 500, 502, 503, 504})


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


def understood(path: str, response: ClientResponse, raw: bytes) -> dict[str, Any]:
    """The object in an answer. Raises what a refusal is."""
    try:
        content = from_json(raw)  # of the largest recovery 8 ms, json takes 12: nothing else goes on meanwhile
    except ValueError:
        content = None
    said: dict[str, Any] = content if isinstance(content, dict) else {}
    if response.ok and said:
        return said
    message = said.get("message") or raw[:LONGEST_TEXT].decode(errors="replace") or "it did not say why"
    if response.ok:
        raise ApiError(response.status, "NotAnObject", f"the answer is no JSON object: {message}", path)
    reason = str(said.get("reason") or response.reason or "Refused")
    asked = response.headers.get("Retry-After", "")
    lacks = response.status == HTTPStatus.INTERNAL_SERVER_ERROR and _UNDECLARED in str(message)
    kind = Undeclared if lacks else _kind(response.status, reason)
    if kind is NotFound and _is_unserved(path, said):
        message = f"the API server does not know {path}: is the CustomResourceDefinition there?"
        raise NotServed(response.status, "NotServed", message, path)
    raise kind(response.status, reason, str(message), path, float(asked) if asked.isdecimal() else 0.0)


def _kind(status: int, reason: str) -> type[ApiError]:
    if status == HTTPStatus.CONFLICT:
        return AlreadyExists if reason == "AlreadyExists" else Conflict
    return {404: NotFound, 410: Expired}.get(status, ApiError)


def _is_unserved(path: str, said: dict[str, Any]) -> bool:
    """Whether a 404 is about the kind: then it comes as plain text, or, where a proxy words it, without an object."""
    if path.count("/") <= _DISCOVERY:
        return False
    return said.get("kind") != "Status" or said.get("message") == _NO_SUCH_RESOURCE
