"""Creating and changing our objects as somebody, and what the API server said to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubernetes.client import ApiClient, ApiException, CustomObjectsApi

from kafka_recovery.kube.resources.kinds import GROUP, VERSION, Kind
from unit.kube.specs import object_of


class Refused(Exception):
    """The API server said no; `code` is HTTP's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Asking:
    """One user in one namespace."""

    client: ApiClient
    namespace: str

    def create(self, kind: Kind, name: str, spec: Any, *, dry_run: bool = False) -> dict[str, Any]:
        """A new object, as the API server keeps it; or would keep it."""
        body = object_of(kind, spec, name=name, namespace=self.namespace)
        place, api = (GROUP, VERSION, self.namespace, kind.plural), CustomObjectsApi(self.client)
        how = "All" if dry_run else None
        return _answer(lambda: api.create_namespaced_custom_object(*place, body, dry_run=how))

    def get(self, kind: Kind, name: str) -> dict[str, Any]:
        place = (GROUP, VERSION, self.namespace, kind.plural, name)
        return _answer(lambda: CustomObjectsApi(self.client).get_namespaced_custom_object(*place))

    def patch(self, kind: Kind, name: str, **spec: Any) -> dict[str, Any]:
        """A merge patch of the spec."""
        return self._patch(kind, name, {"spec": spec})

    def patch_metadata(self, kind: Kind, name: str, **metadata: Any) -> dict[str, Any]:
        """A merge patch of the metadata."""
        return self._patch(kind, name, {"metadata": metadata})

    def patch_status(self, kind: Kind, name: str, status: Any) -> dict[str, Any]:
        """A merge patch of the status."""
        place = (GROUP, VERSION, self.namespace, kind.plural, name)
        api = CustomObjectsApi(self.client)
        return _answer(lambda: api.patch_namespaced_custom_object_status(*place, {"status": status}))

    def names(self, kind: Kind, fields: str) -> list[str]:
        """Objects that a field selector selects."""
        place, api = (GROUP, VERSION, self.namespace, kind.plural), CustomObjectsApi(self.client)
        found = _answer(lambda: api.list_namespaced_custom_object(*place, field_selector=fields))
        return [item["metadata"]["name"] for item in found["items"]]

    def _patch(self, kind: Kind, name: str, change: dict[str, Any]) -> dict[str, Any]:
        place = (GROUP, VERSION, self.namespace, kind.plural, name)
        return _answer(lambda: CustomObjectsApi(self.client).patch_namespaced_custom_object(*place, change))


def _answer(call: Callable[[], Any]) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = call()
    except ApiException as error:
        said = json.loads(error.body)["message"] if error.body else str(error)
        raise Refused(error.status or 0, said) from None
    return answer
