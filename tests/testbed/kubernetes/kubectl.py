"""kubectl as somebody: every call is a process of its own, as a person's would be; `api` takes the short way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.kubernetes.objects import Api

PATIENCE = 60.0


class KubectlFailed(RuntimeError):
    """kubectl ended badly; the message is what it said, `status` its exit code."""

    def __init__(self, command: tuple[str, ...], finished: subprocess.CompletedProcess[str]) -> None:
        super().__init__(f"kubectl {' '.join(command)}: {(finished.stderr or finished.stdout).strip()}")
        self.status = finished.returncode


@dataclass(frozen=True, slots=True)
class Kubectl:
    """`kubectl` with one kubeconfig: `kubectl("get", "pods")` is what it prints.

    Objects go in as `given`: text, or anything JSON can say.
    """

    program: Path
    kubeconfig: Path
    cache: Path

    def __call__(self, *arguments: str, given: Any = None, patience: float = PATIENCE) -> str:
        """What it prints; KubectlFailed if its exit code is not 0, TimeoutExpired after `patience` seconds."""
        finished = self.attempt(*arguments, given=given, patience=patience)
        if finished.returncode:
            raise KubectlFailed(arguments, finished)
        return finished.stdout

    def attempt(
        self, *arguments: str, given: Any = None, patience: float = PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        """The same for a call that may well be refused."""
        return subprocess.run(
            [str(self.program), *arguments],
            input=_text(given),
            capture_output=True,
            text=True,
            timeout=patience,
            env=self.environment,
        )

    def json(self, *arguments: str) -> Any:
        """The same as objects, with `-o json`."""
        return json.loads(self(*arguments, "-o", "json"))

    @property
    def api(self) -> Api:
        """The same user without a process, which is a hundred times cheaper; for all but what is said of kubectl."""
        return Api.by(self.kubeconfig)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Server-side apply, by the API; a field that others own is taken over. ApiRefused or ApiSilent."""
        self.api.apply(*objects)

    @property
    def environment(self) -> dict[str, str]:
        """For programs that shall speak to the same API server as the same user; our own commands are on the PATH."""
        path = [self.program.parent, Path(sys.executable).parent, os.environ.get("PATH", os.defpath)]
        own = {name: value for name, value in os.environ.items() if name != "COLUMNS"}  # pytest-xdist's, no terminal's
        return {
            **own,
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self.cache),
            "KUBERC": "off",  # what a person prefers must not decide what a test sees
            "PATH": os.pathsep.join(map(str, path)),
        }


def _text(given: Any) -> str:
    if given is None:
        return ""
    return given if isinstance(given, str) else json.dumps(given)
