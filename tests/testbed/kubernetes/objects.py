"""Objects of a Kubernetes API as one user, without a process: what tests do all the time is cheap.

A `kubectl get` costs a tenth of a second of CPU, an answer of the API server a thousandth.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import yaml
from urllib3 import PoolManager, Retry, Timeout
from urllib3.exceptions import HTTPError

Object = dict[str, Any]

APPLY = "application/apply-patch+yaml"
STRICT = "fieldValidation=Strict"
APPLIED = f"?fieldManager=kubectl&force=true&{STRICT}"
"""As kubectl does it: one owner of what is applied here and there, and a field that nobody knows is refused."""
LOOKING, CHANGING = 5.0, 60.0
"""Seconds for an answer."""
ONCE_MORE = Retry(1, redirect=0, status=0, allowed_methods=None)
"""A connection that was kept may be one to an API server that is gone."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast where libyaml is there."""
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class ApiRefused(RuntimeError):
    """The API server said no; `code` is HTTP's, the message its own words."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ApiSilent(ConnectionError):
    """The API server did not answer."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Where objects of a kind lie."""

    home: str
    plural: str
    namespaced: bool

    @property
    def group(self) -> str:
        """Of its API; empty for Kubernetes' oldest."""
        return self.home.split("/")[2] if self.home.startswith("/apis/") else ""

    def path(self, namespace: str, name: str = "") -> str:
        where = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{self.home}{where}/{self.plural}" + (f"/{quote(name)}" if name else "")


class Api:
    """One API server as one user. `namespace`: where objects lie that name none."""

    def __init__(self, url: str, namespace: str, pool: PoolManager) -> None:
        self.url = url
        self.namespace = namespace
        self._pool = pool

    @classmethod
    def by(cls, kubeconfig: Path) -> Api:
        """As whom a kubeconfig of the testbed says; connections are kept for the next who comes with the same."""
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        key = user.get("client-certificate", "")
        stamp = Path(key).stat().st_mtime_ns if key else 0  # who changes groups gets another certificate
        pool = _pool(cluster["certificate-authority"], key, user.get("client-key", ""), user.get("token", ""), stamp)
        return cls(cluster["server"], config["contexts"][0]["context"].get("namespace", "default"), pool)

    def at(self, namespace: str) -> Api:
        """The same user in another namespace."""
        return Api(self.url, namespace, self._pool)

    def get(self, kind: str, name: str) -> Object:
        """An object; ApiRefused if there is none."""
        return dict(self._call("GET", self._path(kind, name)))

    def has(self, kind: str, name: str) -> bool:
        """Whether there is one; False as well where the server does not serve the kind."""
        try:
            self.get(kind, name)
        except ApiRefused as refused:
            if refused.code == HTTPStatus.NOT_FOUND:
                return False
            raise
        return True

    def listed(self, kind: str, labels: str = "") -> list[Object]:
        """All of a namespace; with a label selector those that it selects."""
        query = f"?{urlencode({'labelSelector': labels})}" if labels else ""
        found = self._call("GET", self._path(kind) + query)
        about = {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List")}
        return [about | each for each in found["items"]]  # as kubectl shows them: each can be created again

    def apply(self, *objects: Mapping[str, Any], part: str = "") -> None:
        """Server-side apply; a field that others own is taken over. `part`: to a subresource, such as `status`."""
        for each in objects:
            self._call("PATCH", self._place(each) + (f"/{part}" if part else "") + APPLIED, each, APPLY)

    def create(self, obj: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """ApiRefused if there is one already; with `dry_run` as it would be."""
        path, _, _ = self._place(obj).rpartition("/")
        return dict(self._call("POST", f"{path}?{STRICT}" + ("&dryRun=All" if dry_run else ""), obj))

    def dry_run(self, obj: Mapping[str, Any]) -> bool:
        """Whether an object would be taken."""
        try:
            self._call("PATCH", f"{self._place(obj)}{APPLIED}&dryRun=All", obj, APPLY)
        except ApiRefused:
            return False
        return True

    def patch(self, kind: str, name: str, change: Any, part: str = "") -> Object:
        """A merge patch; `part`: of a subresource, such as `status`."""
        path = self._path(kind, name) + (f"/{part}" if part else "")
        return dict(self._call("PATCH", path, change, "application/merge-patch+json"))

    def delete(self, kind: str, name: str, *, foreground: bool = False, missing_ok: bool = False) -> None:
        """Waits for nobody: an object with finalizers is there still."""
        how = {"propagationPolicy": "Foreground" if foreground else "Background"}
        try:
            self._call("DELETE", self._path(kind, name), how)
        except ApiRefused as refused:
            if not (missing_ok and refused.code == HTTPStatus.NOT_FOUND):
                raise

    def may(self, verb: str, what: str, part: str = "", *, user: str = "", groups: Sequence[str] = ()) -> bool:
        """As `kubectl auth can-i`: whether this user may do it; `what` is a kind, or KIND/NAME for one object.

        With `user` another one, who has these groups too; only who may do everything asks that.
        """
        kind, _, name = what.partition("/")
        asked = {"namespace": self.namespace, "verb": verb, **self._resource(kind), "subresource": part, "name": name}
        whose = {"user": user, "groups": ["system:authenticated", *groups]} if user else {}
        review = "SubjectAccessReview" if user else "SelfSubjectAccessReview"
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": review, "spec": {"resourceAttributes": asked, **whose}}
        path = f"/apis/authorization.k8s.io/v1/{review.lower()}s"
        return bool(self._call("POST", path, body)["status"]["allowed"])

    def _resource(self, kind: str) -> Object:
        """By any name of a kind; ApiRefused for one that the server does not serve, unless it is written PLURAL.GROUP.

        Nobody has rights to a kind that does not exist: a test that asks for one by mistake would always be content.
        """
        try:
            found = self._kind(kind)
        except ApiRefused:
            plural, dot, group = kind.partition(".")
            if not dot:
                raise
            return {"group": group, "resource": plural}
        return {"group": found.group, "resource": found.plural}

    def _path(self, kind: str, name: str = "") -> str:
        return self._kind(kind).path(self.namespace, name)

    def _place(self, obj: Mapping[str, Any]) -> str:
        meta = obj["metadata"]
        kind = self._kind(f"{obj['apiVersion']}/{obj['kind']}")
        return kind.path(meta.get("namespace", self.namespace), meta["name"])

    def _call(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Any:
        raw = None if body is None else json.dumps(body).encode()
        headers = {**self._pool.headers, "Accept": "application/json", "Content-Type": content}
        return self._answer(method, path, raw, headers)

    def _answer(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        patience = Timeout(LOOKING if method == "GET" else CHANGING)
        try:
            said = self._pool.request(
                method, self.url + path, body=body, headers=headers, timeout=patience, retries=ONCE_MORE
            )
        except HTTPError as trouble:
            raise ApiSilent(f"{method} {path}: {trouble}") from trouble
        if said.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise ApiRefused(said.status, _message(said.data))
        return json.loads(said.data)

    def _kind(self, name: str) -> Kind:
        """By any name that kubectl takes, or by apiVersion/Kind; ApiRefused for one that the server does not serve."""
        known = _KINDS.setdefault(self.url, {})
        if name not in known:
            for at in ("/api", "/apis"):
                headers = {**self._pool.headers, "Accept": DISCOVERY}
                for kind, *names in _discovered(at, self._answer("GET", at, None, headers)["items"]):
                    for each in names:
                        known.setdefault(each, kind)
        if name not in known:
            raise ApiRefused(HTTPStatus.NOT_FOUND, f"the server doesn't have a resource type {name!r}")
        return known[name]


_KINDS: dict[str, dict[str, Kind]] = {}
"""By API server, then by name. Two control planes never have the same address at the same time, and ours know nothing
that others don't but the definitions that tests apply."""


def _discovered(at: str, groups: list[Object]) -> Iterator[tuple[Any, ...]]:
    """Each kind with its names."""
    for group in groups:
        about = group["metadata"].get("name", "")
        for version in group["versions"]:
            api_version = "/".join(part for part in (about, version["version"]) if part)
            for each in version.get("resources", ()):
                kind = Kind(f"{at}/{api_version}", each["resource"], each["scope"] == "Namespaced")
                short = [each["resource"], each.get("singularResource", ""), *each.get("shortNames", ())]
                full = f"{each['resource']}.{about}"
                yield (kind, *filter(None, short), full, f"{api_version}/{each['responseKind']['kind']}")


@cache
def _pool(authority: str, certificate: str, key: str, token: str, stamp: int) -> PoolManager:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return PoolManager(
        maxsize=4, headers=headers, ca_certs=authority, cert_file=certificate or None, key_file=key or None
    )


def _message(raw: bytes) -> str:
    try:
        return str(json.loads(raw)["message"])
    except (ValueError, KeyError, TypeError):
        return raw.decode(errors="replace")
