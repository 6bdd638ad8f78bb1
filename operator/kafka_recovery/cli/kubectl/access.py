"""The Kubernetes API as the person who types: their kubeconfig, their rights, one try a call.

The errors are the operator's own, see `kube.api`, so that what reads the journal there can be used here.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Protocol

import yaml
from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.config import ConfigException, list_kube_config_contexts, load_kube_config
from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, KubeConfigMerger
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from kafka_recovery.cli.kubectl.reach import Reach
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.machinery.api import (
    LONGEST_TEXT,
    PAGE,
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    Object,
    Unanswered,
)
from kafka_recovery.kube.resources.fields import NAME

PATIENCE = (5.0, 30.0)
"""Seconds until a connection stands, and between two pieces of an answer."""
NO_SUCH_KIND = "NoSuchKind"
"""Reason of a NotFound that comes from a server which never heard of the kind."""

_FIELD_MANAGER = "kubectl-kafka-recovery"


class Kubernetes(Protocol):
    """What of the API is needed here. Everything raises ApiError and what is below it."""

    @property
    def namespace(self) -> str:
        """Where a person is at home who names none."""
        ...

    def get(self, path: str) -> Object:
        """An object."""
        ...

    def list_all(self, path: str, params: Mapping[str, str] | None = None) -> list[Object]:
        """All objects of a collection."""
        ...

    def create(self, path: str, body: Mapping[str, Any]) -> Object:
        """Create an object."""
        ...

    def patch(self, path: str, change: Mapping[str, Any]) -> Object:
        """Merge a change."""
        ...

    def text(self, path: str, params: Mapping[str, str]) -> str:
        """What is no object: a log."""
        ...


class Loop:
    """The same API for what is written for an event loop: the journal's readers. It is blocked meanwhile."""

    def __init__(self, api: Kubernetes) -> None:
        self._api = api

    async def get(self, path: str, *, deadline: timedelta | None = None) -> Object:
        """An object, within the deadline of that API."""
        return self._api.get(path)

    async def list_all(self, path: str, *, params: Mapping[str, str] | None = None) -> list[Object]:
        """All objects of a collection."""
        return self._api.list_all(path, params)

    async def create(self, path: str, body: Mapping[str, Any]) -> Object:
        """Create an object."""
        return self._api.create(path, body)

    async def patch(self, path: str, change: Mapping[str, Any]) -> Object:
        """Merge a change."""
        return self._api.patch(path, change)

    async def apply_status(self, path: str, seen: Object, status: Mapping[str, Any]) -> Object:
        """Never: the operator alone says what a status says."""
        raise NotImplementedError(path)

    async def delete(self, path: str, *, uid: str | None = None) -> None:
        """Never: a person's journal is not this program's to delete."""
        raise NotImplementedError(path)


@contextmanager
def opened(reach: Reach) -> Iterator[Kubernetes]:
    """The API server of a kubeconfig. Raises InvalidDocument for a kubeconfig that can't be used."""
    file = str(reach.kubeconfig) if reach.kubeconfig else None
    configuration = Configuration()
    try:
        contexts, current = list_kube_config_contexts(file)
        load_kube_config(file, reach.context, configuration)
    except (ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, AttributeError) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        message = f"no kubeconfig that can be used: {said}; name another with --kubeconfig, $KUBECONFIG or --context"
        raise InvalidDocument(message) from None
    configuration.retries = False  # a person sees at once what is wrong, and repeats the command
    chosen = next((each for each in contexts if each["name"] == reach.context), current)
    _refuse_impersonation(file, str(chosen["context"].get("user")))
    with warnings.catch_warnings(), ApiClient(configuration) as client:
        if not configuration.verify_ssl:  # so the kubeconfig wants it
            warnings.simplefilter("ignore", InsecureRequestWarning)
        yield _Client(client, chosen["context"].get("namespace") or "default")


def _refuse_impersonation(file: str | None, user: str) -> None:
    """The client library overlooks `as`, and would act, and approve, as who logs in. Raises InvalidDocument."""
    merged = KubeConfigMerger(file or KUBE_CONFIG_DEFAULT_LOCATION).config.value
    users = [each.value for each in merged.get("users") or ()]
    login = next((each.get("user") or {} for each in users if each.get("name") == user), {})
    if any(key == "as" or key.startswith("as-") for key in login):
        raise InvalidDocument(f"the kubeconfig's user {user} impersonates somebody (as); log in as that user instead")


class _Client:
    """`Kubernetes` over the client library, which reads kubeconfigs with all their ways to log in."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._client = client
        self.namespace = namespace

    def get(self, path: str) -> Object:
        return self._object("GET", path)

    def list_all(self, path: str, params: Mapping[str, str] | None = None) -> list[Object]:
        items: list[Object] = []
        more = {**(params or {}), "limit": str(PAGE)}
        while True:
            page = self._object("GET", path, more)
            items += page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return items
            more["continue"] = token

    def create(self, path: str, body: Mapping[str, Any]) -> Object:
        params = {"fieldManager": _FIELD_MANAGER, "fieldValidation": "Strict"}
        return self._object("POST", path, params, body, "application/json")

    def patch(self, path: str, change: Mapping[str, Any]) -> Object:
        params = {"fieldManager": _FIELD_MANAGER}
        return self._object("PATCH", path, params, change, "application/merge-patch+json")

    def text(self, path: str, params: Mapping[str, str]) -> str:
        return self._call("GET", path, params).decode(errors="replace")

    def _object(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str | None = None,
    ) -> Object:
        raw = self._call(method, path, params, body, content_type)
        answer = _document(raw)
        if not answer:
            raise ApiError(HTTPStatus.OK, "NotAnObject", f"the answer is no JSON object: {_beginning(raw)}", path)
        return answer

    def _call(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str | None = None,
    ) -> bytes:
        headers = {"Accept": "application/json"} | ({"Content-Type": content_type} if content_type else {})
        try:
            request = self._client.param_serialize(
                method,
                path,
                query_params=list((params or {}).items()),
                header_params=headers,
                body=dict(body) if body is not None else None,
                auth_settings=["BearerToken"],
            )
            response = self._client.call_api(*request, _request_timeout=PATIENCE)
            raw: bytes = response.read() or b""
        except HTTPError as error:
            raise Unanswered(0, "Unanswered", f"{self._client.configuration.host}: {_cause(error)}", path) from error
        except ApiException as error:  # the client's word for TLS errors
            raise Unanswered(0, "Unanswered", f"{self._client.configuration.host}: {error.reason}", path) from error
        if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            raise _refusal(response.status, response.reason or "", raw, path)
        return raw


def sound_name(kind: str, name: str) -> str:
    """A name as objects have it. Raises InvalidDocument for what no object can be called, before it is in a path."""
    if len(name) > NAME.longest or not re.fullmatch(NAME.pattern or "", name):
        raise InvalidDocument(f"{name!r} can't be the name of a {kind}: small letters, digits, dashes and dots")
    return name


def _refusal(status: int, reason: str, raw: bytes, path: str) -> ApiError:
    """What an answer says that is no success. Only a server that knows the kind explains itself by a Status."""
    said = _document(raw)
    if status == HTTPStatus.NOT_FOUND and said.get("kind") != "Status":
        return NotFound(status, NO_SUCH_KIND, _beginning(raw), path)
    word, message = str(said.get("reason") or reason), str(said.get("message") or _beginning(raw))
    if status == HTTPStatus.NOT_FOUND:
        return NotFound(status, word, message, path)
    if status == HTTPStatus.CONFLICT:
        return (AlreadyExists if word == "AlreadyExists" else Conflict)(status, word, message, path)
    return ApiError(status, word, message, path)


def _document(raw: bytes) -> Object:
    try:
        content = json.loads(raw)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _beginning(raw: bytes) -> str:
    return raw[:LONGEST_TEXT].decode(errors="replace").strip() or "nothing"


def _cause(error: HTTPError) -> str:
    """Without the connection pool in front, which is the client's own affair."""
    return str(error).partition(": ")[2] or str(error)
