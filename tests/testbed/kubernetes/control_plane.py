"""A real Kubernetes API on this machine, to be asked as anybody, stopped and frozen. Without nodes: no Pod runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml
from kubernetes import config
from kubernetes.client import (
    ApiClient,
    AuthenticationV1TokenRequest,
    CoreV1Api,
    V1Namespace,
    V1ObjectMeta,
    V1ServiceAccount,
    V1TokenRequestSpec,
)
from kubernetes.client.exceptions import ApiException

from testbed.certificates import Identity
from testbed.kubernetes.distribution import fetch
from testbed.kubernetes.kubectl import Kubectl
from testbed.kubernetes.objects import LOADER, Api
from testbed.kubernetes.processes import Processes
from testbed.waiting import wait_until

LONGEST_PREFIX = 50  # of a namespace's name, which may have 63 characters


class ControlPlane:
    """etcd, kube-apiserver and kube-controller-manager for the length of a `with` block.

    Data, logs (`console.log`) and certificates go to `folder`, which must be empty or absent; without one to a
    temporary folder that is removed at the end. ProgramsUnavailable, WaitedInVain or NodeDied say what did not work.

    With `for_pods` the API server listens where Pods of a node look for it: `parts.OWN_SERVICE`, which has to be an
    address of this machine.

    What comes from a real cluster unasked: garbage collection takes up to half a minute until it knows a new CRD.
    """

    def __init__(self, folder: Path | None = None, *, for_pods: bool = False) -> None:
        self._wished = folder
        self._for_pods = for_pods
        self._numbers = count(1)
        self._people: dict[str, Identity] = {}
        self._groups: dict[str, tuple[str, ...]] = {}
        self._known: dict[Path, ApiClient] = {}
        self._started: Processes | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._started = Processes(fetch(), self._wished, self._for_pods)
            stack.callback(self._started.close)
            self._clients = stack.enter_context(ExitStack())
            self._started.start()
            self._core = CoreV1Api(self.client())
            self._wait_for_controllers()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # Who asks

    @property
    def url(self) -> str:
        return self._processes.endpoint.url

    @property
    def etcd_url(self) -> str:
        """Where the API server's own storage answers anybody on this machine."""
        return self._processes.etcd_url

    @property
    def authority(self) -> Path:
        """The certificate of who vouches for everybody here."""
        return self._processes.endpoint.authority

    @property
    def folder(self) -> Path:
        return self._processes.folder

    def administrator(self, namespace: str = "default") -> Path:
        """A kubeconfig for somebody who may do everything; `namespace` is where calls go that name none."""
        return self._processes.endpoint.by_certificate(self._processes.identities.administrator, namespace)

    def user(self, name: str, *groups: str, namespace: str = "default") -> Path:
        """A kubeconfig for a person, by client certificate; RBAC knows the name and the groups, and grants nothing yet.

        Somebody who changes groups gets a new certificate over the old one.
        """
        if self._groups.get(name) != groups:
            self._people[name] = self._processes.identities.authority.identity(name, groups)
            self._groups[name] = groups
            self._known.clear()
        return self._processes.endpoint.by_certificate(self._people[name], namespace)

    def service_account(self, namespace: str, name: str, lifetime: int = 3600) -> Path:
        """A kubeconfig for a service account, by a token that is good for `lifetime` seconds (at least 600)."""
        request = AuthenticationV1TokenRequest(spec=V1TokenRequestSpec(audiences=[], expiration_seconds=lifetime))
        granted = self._core.create_namespaced_service_account_token(name, namespace, request)
        assert granted.status
        full = f"system:serviceaccount:{namespace}:{name}"
        who = self._processes.endpoint.by_token(full, str(granted.status.token), namespace)
        self._known.pop(who, None)
        return who

    def client(self, kubeconfig: Path | None = None) -> ApiClient:
        """A client of the `kubernetes` library, the administrator's if for nobody else; closed at the end.

        Who asks again has the same one, with its connections, until there is another certificate or token.
        """
        who = kubeconfig or self.administrator()
        if who not in self._known:
            self._known[who] = config.new_client_from_config(config_file=str(who))
            self._clients.callback(self._known[who].close)
        return self._known[who]

    def kubectl(self, kubeconfig: Path | None = None) -> Kubectl:
        """kubectl, the administrator's if for nobody else."""
        program = self._processes.programs["kubectl"]
        return Kubectl(program, kubeconfig or self.administrator(), self.folder / "kubectl-cache")

    # What is there

    def create_namespace(self, prefix: str = "test") -> str:
        """A new namespace with its default service account; `prefix` is shortened and gets a number."""
        name = f"{prefix[:LONGEST_PREFIX].strip('-')}-{next(self._numbers)}"
        self._core.create_namespace(V1Namespace(metadata=V1ObjectMeta(name=name)))
        self._have_account(name)
        return name

    def delete_namespace(self, name: str) -> None:
        """Returns at once: what is in it goes by and by."""
        self._core.delete_namespace(name)

    def apply_definitions(self, folder: Path) -> None:
        """Every `*.yaml` in a folder, if there is any, as custom resource definitions; returns when all are served."""
        files = sorted(file for file in folder.glob("*.yaml") if file.stem != "kustomization")
        found = [each for file in files for each in yaml.load_all(file.read_text(), LOADER) if each]
        api = self.kubectl().api
        api.apply(*found)
        names = [each["metadata"]["name"] for each in found]
        wait_until("the definitions are served", lambda: [name for name in names if not _served(api, name)], _none)

    def remove_definitions(self) -> None:
        """Ours, if any are there; returns when who asks what is served finds none: that follows a moment later."""
        kubectl = self.kubectl()
        kubectl("delete", "crd", "-l", "app.kubernetes.io/part-of=kafka-recovery")
        wait_until(
            "no definition is served",
            lambda: [each for each in kubectl("api-versions").split() if each.startswith("kafka-recovery.dev/")],
            _none,
        )

    # What happens to the API server; etcd and the controllers stay

    def restart_apiserver(self) -> None:
        """SIGTERM, as an upgrade does it; the same port and data. Watches are cut."""
        with self.apiserver_stopped():
            pass

    @contextmanager
    def apiserver_stopped(self, *, abruptly: bool = False) -> Iterator[None]:
        """Connections are refused for the length of a `with` block; `abruptly` by SIGKILL. Ready again after it."""
        apiserver = self._processes.apiserver
        try:
            if abruptly:
                apiserver.kill()
            else:
                apiserver.terminate()
            yield
        finally:
            apiserver.end()
            apiserver.start()
            self._processes.apiserver_ready()

    @contextmanager
    def apiserver_frozen(self) -> Iterator[None]:
        """SIGSTOP for the length of a `with` block: connections stay open, nothing answers. Ready again after it."""
        apiserver = self._processes.apiserver
        apiserver.freeze()
        try:
            yield
        finally:
            apiserver.thaw()
            self._processes.apiserver_ready()

    # Within

    @property
    def _processes(self) -> Processes:
        if self._started is None:
            raise RuntimeError("this control plane is not running: use it as `with ControlPlane() as control_plane:`")
        return self._started

    def _wait_for_controllers(self) -> None:
        """They make a default service account for each namespace, the first one's too."""
        wait_until(
            "the controllers are at work",
            lambda: self._core.list_namespaced_service_account("default").items,
            bool,
            alive=self._processes.check,
        )

    def _have_account(self, namespace: str) -> None:
        """A namespace without a default one is too young for service accounts' tokens.

        Kubernetes' own controller makes it too, but not for a minute after the API server was away: its informers wait
        ever longer before they ask again (client-go: 30 s, and up to twice as long by chance).
        """
        account = V1ServiceAccount(metadata=V1ObjectMeta(name="default"))
        try:
            self._core.create_namespaced_service_account(namespace, account)
        except ApiException as refused:
            if refused.status != HTTPStatus.CONFLICT:
                raise


def _served(api: Api, definition: str) -> bool:
    status = api.get("crd", definition).get("status") or {}
    conditions = status.get("conditions") or ()  # null, a moment after it was made
    return ("Established", "True") in {(each["type"], each["status"]) for each in conditions}


def _none(left: list[str]) -> bool:
    return not left
