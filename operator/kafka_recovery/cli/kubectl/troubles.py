"""What the API server refuses, in one sentence that says what to do; and running a command with such an end."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import NoReturn

import typer

from kafka_recovery.cli.kubectl.access import NO_SUCH_KIND, Kubernetes, opened, sound_name
from kafka_recovery.cli.kubectl.reach import PROGRAM, Reach
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.render import Output
from kafka_recovery.cli.terminal.running import Refusal
from kafka_recovery.cli.terminal.text import complain, say
from kafka_recovery.decision.kubectl import Kubectl
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.machinery.api import ApiError, Conflict, NotFound
from kafka_recovery.kube.resources.kinds import APPROVALS, CLUSTERS, POLICIES, RECORDS, RECOVERIES

_KINDS = {kind.plural: kind.kind for kind in (CLUSTERS, POLICIES, RECOVERIES, APPROVALS, RECORDS)} | {
    "configmaps": "ConfigMap"
}

Open = Callable[[Reach], AbstractContextManager[Kubernetes]]


@dataclass(frozen=True, slots=True)
class Session:
    """The API, where in it, and how the result is shown."""

    api: Kubernetes
    reach: Reach
    namespace: str
    output: Output

    def command(self, words: str, namespace: str | None = None) -> str:
        """A command line that reaches the same place, or that namespace of it, to be pasted into a shell."""
        if namespace is None or namespace == self.namespace:
            return self.reach.command(words)
        return replace(self.reach, namespace=namespace).command(words)

    @property
    def kubectl(self) -> Kubectl:
        """What reaches the same place without this plugin."""
        return Kubectl(self.namespace, self.reach.options)


def run(open_api: Open | None, reach: Reach, output: Output, command: Callable[[Session], ExitCode]) -> NoReturn:
    """Run the command and leave with its exit code; whatever is not expected goes on to `leave`."""
    try:
        with (open_api or opened)(reach) as api:
            namespace = sound_name("namespace", reach.namespace or api.namespace)
            code = command(Session(api, reach, namespace, output))
    except KeyboardInterrupt:
        say("SIGINT: ended; what the operator was asked to do, it still does")
        code = ExitCode.INTERRUPTED
    except Refusal as refusal:
        complain(str(refusal))
        code = refusal.code
    except InvalidDocument as error:
        complain(str(error))
        code = ExitCode.BAD_INPUT
    except ApiError as error:
        refused = told(error)
        complain(str(refused))
        code = refused.code
    raise typer.Exit(code)


def told(error: ApiError) -> Refusal:
    """Whose it is to put right, and how."""
    message = " ".join(error.message.split())
    if isinstance(error, NotFound):
        return Refusal(*_missing(error))
    if found := re.search(r"denied (?:the )?request:? *(.*)", message):
        return Refusal(ExitCode.NOT_LET_IN, f"admission control refuses it: {found[1] or message}")
    if error.status == HTTPStatus.UNAUTHORIZED or "system:anonymous" in message:
        who = "the API server does not know who you are: log in again, or choose another --context"
        return Refusal(ExitCode.NOT_LET_IN, f"{who} ({message})")
    if error.status == HTTPStatus.FORBIDDEN:
        return Refusal(ExitCode.NOT_LET_IN, f"you may not do this: {message}; ask for a role that allows it")
    if isinstance(error, Conflict):
        return Refusal(ExitCode.UNAVAILABLE, f"somebody changed it at the same moment ({message}): try again")
    if error.status == 0:
        check = "is this the right --context, and is the network up?"
        return Refusal(ExitCode.UNAVAILABLE, f"the API server does not answer: {message}; {check}")
    if error.may_pass or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Refusal(ExitCode.UNAVAILABLE, f"the API server can't do it now: {message}; try again in a moment")
    return Refusal(ExitCode.BAD_INPUT, f"the API server refuses it: {message}")


def _missing(error: NotFound) -> tuple[ExitCode, str]:
    """Which object is not there, or that nothing of its kind can be."""
    *_, plural, name = error.path.split("/")
    if error.reason == NO_SUCH_KIND:
        kinds = "the kinds of kafka-recovery.dev are not installed in this cluster"
        return ExitCode.BAD_INPUT, f"{kinds}: kubectl apply --server-side -f crds/, or choose another --context"
    kind = _KINDS.get(plural)
    if kind is None:
        return ExitCode.BAD_INPUT, f"{error.message}: is this the right --namespace?"
    found = re.search(r"/namespaces/([^/]+)/", error.path)
    where = f" in namespace {found[1]}" if found else ""
    return ExitCode.BAD_INPUT, f"there is no {kind} {name}{where}; {PROGRAM} status shows what there is"
