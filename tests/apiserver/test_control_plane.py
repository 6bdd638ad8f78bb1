"""The control plane itself: what other tests take for given about it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from kubernetes.client import CoreV1Api

from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl, KubectlFailed
from testbed.kubernetes.objects import ApiRefused
from testbed.waiting import wait_until

pytestmark = pytest.mark.apiserver

GROUP = "testbed.example"
HEARD_AGAIN = 150.0
"""Seconds: controllers ask an API server that was away again after a minute at most, each of their informers."""


def test_a_new_namespace_has_a_default_service_account_whose_token_is_believed(
    control_plane: ControlPlane, namespace: str
) -> None:
    account = control_plane.kubectl(control_plane.service_account(namespace, "default"))

    assert who(account) == f"system:serviceaccount:{namespace}:default"


def test_a_person_is_known_by_certificate_with_name_and_groups(control_plane: ControlPlane) -> None:
    ann = control_plane.kubectl(control_plane.user("ann@example.com", "sre", "payments"))

    info = ann.json("auth", "whoami")["status"]["userInfo"]
    assert info["username"] == "ann@example.com"
    assert {*info["groups"]} == {"sre", "payments", "system:authenticated"}


def test_a_kubeconfig_works_whatever_its_user_is_called(control_plane: ControlPlane) -> None:
    """$KUBECONFIG is a list with colons between; the testbed's own certificates lie in the same folder."""
    for name in ("system:node:n1", "administrator", "server"):
        assert who(control_plane.kubectl(control_plane.user(name))) == name
        assert control_plane.user(name) == control_plane.user(name)

    assert "kube-system" in control_plane.kubectl()("get", "namespaces")


def test_nothing_is_allowed_that_no_role_allows(control_plane: ControlPlane, kubectl: Kubectl, namespace: str) -> None:
    bob = control_plane.kubectl(control_plane.user("bob", "readers", namespace=namespace))
    with pytest.raises(KubectlFailed, match=r'User "bob" cannot list resource "configmaps"'):
        bob("get", "configmaps")

    kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    kubectl("create", "rolebinding", "readers", "--role=reader", "--group=readers")

    wait_until("the role holds", lambda: bob.attempt("get", "configmaps").returncode, lambda status: status == 0)
    with pytest.raises(KubectlFailed, match='User "bob" cannot create resource "configmaps"'):
        bob("create", "configmap", "own")
    with pytest.raises(KubectlFailed, match='cannot list resource "configmaps" in API group "" in the namespace "def'):
        bob("get", "configmaps", "--namespace=default")


def test_a_definition_is_served_once_it_is_applied_and_its_rules_hold(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    control_plane.apply_definitions(tmp_path)  # none at all is all right
    kubectl("apply", "--server-side", "-f", "-", given=definition("widgets", "Widget"))
    kubectl("wait", "--for=condition=Established", f"crd/widgets.{GROUP}")

    kubectl.apply(widget("small", size=1))
    with pytest.raises(ApiRefused, match="a widget never shrinks"):
        kubectl.apply(widget("small", size=0))

    assert kubectl.json("get", "widget", "small")["spec"] == {"size": 1}


def test_definitions_of_a_folder_are_served_when_that_returns(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    for plural, kind in (("gadgets", "Gadget"), ("gizmos", "Gizmo")):
        (tmp_path / f"{plural}.yaml").write_text(str(definition(plural, kind)))
    (tmp_path / "kustomization.yaml").write_text("resources: [gadgets.yaml, gizmos.yaml]")

    control_plane.apply_definitions(tmp_path)

    assert kubectl.json("get", "gadgets,gizmos")["items"] == []


@pytest.mark.parametrize("abruptly", [False, pytest.param(True, marks=pytest.mark.full)])
def test_what_was_written_outlives_a_restart_of_the_api_server(
    control_plane: ControlPlane, kubectl: Kubectl, namespace: str, abruptly: bool
) -> None:
    kubectl("create", "configmap", "journal", "--from-literal=wave=1")
    account = control_plane.service_account(namespace, "default")

    with control_plane.apiserver_stopped(abruptly=abruptly), pytest.raises(KubectlFailed, match="refused"):
        kubectl("get", "configmaps")

    assert kubectl.json("get", "configmap", "journal")["data"] == {"wave": "1"}
    assert who(control_plane.kubectl(account)).endswith(f"{namespace}:default")


def test_a_frozen_api_server_takes_connections_and_answers_nothing(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    kubectl("create", "configmap", "written-before")

    with control_plane.apiserver_frozen():
        connected(control_plane.url).close()
        with pytest.raises(subprocess.TimeoutExpired):
            kubectl("get", "configmaps", patience=1)

    assert "written-before" in kubectl("get", "configmaps")


def test_what_is_owned_goes_with_its_owner(control_plane: ControlPlane, kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "owner")
    owner = kubectl.json("get", "configmap", "owner")["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    metadata = {"name": "owned", "ownerReferences": [reference]}
    kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    kubectl("delete", "configmap", "owner")

    left = ("get", "configmap", "owned", "--ignore-not-found")
    wait_until("the garbage is collected", lambda: kubectl(*left), lambda seen: not seen, HEARD_AGAIN)


def test_a_deleted_namespace_goes_with_all_that_is_in_it(control_plane: ControlPlane) -> None:
    core = CoreV1Api(control_plane.client())
    name = control_plane.create_namespace("doomed")
    control_plane.kubectl(control_plane.administrator(name))("create", "configmap", "inside")

    control_plane.delete_namespace(name)

    selector = f"metadata.name={name}"
    wait_until(
        "it is gone", lambda: core.list_namespace(field_selector=selector).items, lambda left: not left, HEARD_AGAIN
    )


def test_the_controllers_do_not_outlive_an_owner_who_is_killed(tmp_path: Path) -> None:
    with played(tmp_path) as owner:
        url = address(owner)
        connected(url).close()
        assert list(tmp_path.iterdir())

        owner.kill()

    wait_until("its folder is gone", lambda: list(tmp_path.iterdir()), lambda left: not left)
    wait_until("nobody answers any more", lambda: answers(url), lambda answers: not answers)


def test_the_playground_ends_at_a_ctrl_c_and_keeps_a_folder_that_was_named(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with played(tmp_path, "--folder", str(kept)) as owner:
        url = address(owner)
        owner.send_signal(signal.SIGINT)

        assert owner.stdout
        assert owner.stdout.read().endswith("Ended.\n")

    assert owner.returncode == 0
    assert (kept / "kube-apiserver" / "console.log").read_text()
    with pytest.raises(ConnectionRefusedError):
        connected(url)


def who(kubectl: Kubectl) -> str:
    name: str = kubectl.json("auth", "whoami")["status"]["userInfo"]["username"]
    return name


def connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    return socket.create_connection((parts.hostname, parts.port), timeout=10)


def answers(url: str) -> bool:
    try:
        connected(url).close()
    except ConnectionRefusedError:
        return False
    return True


def played(temporary: Path, *options: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return subprocess.Popen(
        [sys.executable, "-m", "testbed.kubernetes", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TMPDIR": str(temporary)},
    )


def address(owner: subprocess.Popen[str]) -> str:
    """The API server's, as the playground says it when all is up."""
    assert owner.stdout
    said = [owner.stdout.readline() for _ in range(5)]
    found = re.search(r"https://\S+", "".join(said))
    assert found, said
    return found[0]


def definition(plural: str, kind: str) -> dict[str, Any]:
    size = {
        "type": "integer",
        "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "a widget never shrinks"}],
    }
    spec = {"type": "object", "properties": {"size": size}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def widget(name: str, size: int) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}}
