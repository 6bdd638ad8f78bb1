"""The control plane itself: its accounts, its playground and its end. What else it does the tests that use it show."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.kubernetes.objects import ApiRefused
from testbed.waiting import wait_until

pytestmark = pytest.mark.apiserver


def test_a_new_namespace_has_a_default_service_account_whose_token_is_believed(
    control_plane: ControlPlane, namespace: str
) -> None:
    account = control_plane.kubectl(control_plane.service_account(namespace, "default"))

    assert who(account) == f"system:serviceaccount:{namespace}:default"


def test_a_kubeconfig_works_whatever_its_user_is_called(control_plane: ControlPlane) -> None:
    """$KUBECONFIG is a list with colons between; the testbed's own certificates lie in the same folder."""
    for name in ("system:node:n1", "administrator", "server"):
        assert who(control_plane.kubectl(control_plane.user(name))) == name
        assert control_plane.user(name) == control_plane.user(name)

    assert "kube-system" in control_plane.kubectl()("get", "namespaces")


def test_nobody_is_told_of_rights_to_a_kind_that_is_misspelt(control_plane: ControlPlane) -> None:
    administrator = control_plane.kubectl().api

    assert administrator.may("create", "configmaps")
    with pytest.raises(ApiRefused, match="resource type 'configmap5'"):
        administrator.may("create", "configmap5")


@pytest.mark.full
def test_the_controllers_do_not_outlive_an_owner_who_is_killed(tmp_path: Path) -> None:
    """The guard is that of a Kafka's nodes: `brokers/test_testbed.py` tells the same of those each time."""
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
