"""What can be wrong before any recovery is looked at: one sentence, what to do, and the exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kafka_recovery.cli.kubectl import commands
from kafka_recovery.cli.kubectl.access import NO_SUCH_KIND
from kafka_recovery.cli.kubectl.troubles import told
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.kube.machinery.api import ApiError, Conflict, NotFound, Unanswered
from kafka_recovery.kube.resources.kinds import RECOVERIES
from unit.cli.kubectl.conftest import Plugin
from unit.processes import Forked

PREC = RECOVERIES.path("kafka", "prod-1")


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (
            NotFound(404, "NotFound", "not found", PREC),
            ExitCode.BAD_INPUT,
            "there is no PartitionRecovery prod-1 in namespace kafka; kubectl kafka-recovery status shows what "
            "there is",
        ),
        (
            NotFound(404, NO_SUCH_KIND, "404 page not found", PREC),
            ExitCode.BAD_INPUT,
            "the kinds of kafka-recovery.dev are not installed in this cluster: kubectl apply --server-side -f crds/, "
            "or choose another --context",
        ),
        (
            ApiError(401, "Unauthorized", "Unauthorized"),
            ExitCode.NOT_LET_IN,
            "the API server does not know who you are: log in again, or choose another --context (Unauthorized)",
        ),
        (
            ApiError(403, "Forbidden", 'User "system:anonymous" cannot list resource'),
            ExitCode.NOT_LET_IN,
            "the API server does not know who you are: log in again, or choose another --context "
            '(User "system:anonymous" cannot list resource)',
        ),
        (
            ApiError(403, "Forbidden", 'x is forbidden: User "bob" cannot list resource "y"'),
            ExitCode.NOT_LET_IN,
            'you may not do this: x is forbidden: User "bob" cannot list resource "y"; ask for a role that allows it',
        ),
        (
            ApiError(403, "Forbidden", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: bob may not"),
            ExitCode.NOT_LET_IN,
            "admission control refuses it: bob may not",
        ),
        (
            ApiError(403, "Forbidden", 'admission webhook "w" denied the request: it is Friday'),
            ExitCode.NOT_LET_IN,
            "admission control refuses it: it is Friday",
        ),
        (
            ApiError(422, "Invalid", "spec.reason: too long"),
            ExitCode.BAD_INPUT,
            "the API server refuses it: spec.reason: too long",
        ),
        (
            Conflict(409, "Conflict", "modified"),
            ExitCode.UNAVAILABLE,
            "somebody changed it at the same moment (modified): try again",
        ),
        (
            ApiError(429, "TooManyRequests", "later"),
            ExitCode.UNAVAILABLE,
            "the API server can't do it now: later; try again in a moment",
        ),
        (
            Unanswered(0, "Unanswered", "https://k8s:6443: Connection refused"),
            ExitCode.UNAVAILABLE,
            "the API server does not answer: https://k8s:6443: Connection refused; is this the right --context, and is "
            "the network up?",
        ),
    ],
)
def test_what_the_api_server_says_becomes_what_to_do(error: ApiError, code: ExitCode, sentence: str) -> None:
    refusal = told(error)

    assert (refusal.code, str(refusal)) == (code, sentence)


def asked(kubeconfig: Path | None, *words: str) -> Result:
    given = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
    return CliRunner().invoke(commands.app, ["status", *given, *words])


def written(path: Path, server: str = "https://127.0.0.1:1", **context: Any) -> Path:
    """A kubeconfig as kubectl config writes it."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "k", "context": {"cluster": "c", "user": "u", **context}}],
        "current-context": "k",
    }
    path.write_text(json.dumps(content))
    return path


def test_no_kubeconfig(tmp_path: Path) -> None:
    refused = asked(tmp_path / "none")

    assert refused.exit_code == 2
    assert refused.stderr.startswith("Error: no kubeconfig that can be used: ")
    assert "; name another with --kubeconfig, $KUBECONFIG or --context\n" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", "just words", '{"clusters": []}'])
def test_a_kubeconfig_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    refused = asked(path)

    assert refused.exit_code == 2
    assert refused.stderr.startswith("Error: no kubeconfig that can be used: ")


def test_a_context_that_is_not_there(tmp_path: Path) -> None:
    refused = asked(written(tmp_path / "kubeconfig"), "--context", "prod")

    assert refused.exit_code == 2
    assert "prod" in refused.stderr


def test_nobody_approves_as_another_by_impersonation(tmp_path: Path) -> None:
    path = written(tmp_path / "kubeconfig")
    content = json.loads(path.read_text())
    content["users"][0]["user"]["as"] = "ann"
    path.write_text(json.dumps(content))

    refused = asked(path)

    assert refused.exit_code == 2
    assert "the kubeconfig's user u impersonates somebody (as)" in refused.stderr


def test_an_api_server_that_is_not_there(tmp_path: Path) -> None:
    refused = asked(written(tmp_path / "kubeconfig"))

    assert refused.exit_code == 3
    assert refused.stderr == (
        "Error: the API server does not answer: https://127.0.0.1:1: Failed to establish a new connection: [Errno 111] "
        "Connection refused; is this the right --context, and is the network up?\n"
    )


def test_a_namespace_that_is_none_is_not_asked_for(plugin: Plugin) -> None:
    refused = plugin.refuses("status", "-n", "../secrets")

    assert refused.startswith("Error: '../secrets' can't be the name of a namespace")


def test_help_without_a_word(plugin: Plugin) -> None:
    shown = plugin()

    assert "support-bundle" in shown.output
    assert "Exit codes: 0 done" in shown.output


def test_the_program_calls_itself_as_it_is_called() -> None:
    program = "from kafka_recovery.cli.kubectl import main; main()"

    with Forked(program, "plan", "--help") as asked:
        shown, _ = asked.communicate(60)

    assert shown.strip().startswith("Usage: kubectl kafka-recovery plan [OPTIONS] ")


def test_without_its_libraries_the_program_says_where_they_are() -> None:
    program = "import sys; sys.modules['kubernetes'] = None\nfrom kafka_recovery.cli.kubectl import main; main()"

    refused = subprocess.run([sys.executable, "-c", program, "status"], capture_output=True, text=True)

    assert refused.returncode == 2
    assert refused.stderr == "Error: kubernetes is not installed; pip install '.[operator]' in its checkout\n"
