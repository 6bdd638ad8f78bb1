"""Which API server a person means, and where in it: what is known before it is called."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "kubectl kafka-recovery"


@dataclass(frozen=True, slots=True)
class Reach:
    """Which API server, as whom, and where; each as given, None: as the kubeconfig says."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None

    def command(self, words: str) -> str:
        """A command line that reaches the same place, to be pasted into a shell."""
        namespace = f" --namespace {shlex.quote(self.namespace)}" if self.namespace else ""
        return f"{PROGRAM} {words}{self.options}{namespace}"

    @property
    def options(self) -> str:
        """Which API server, as options that end a command of any program of Kubernetes."""
        given = (("--kubeconfig", self.kubeconfig), ("--context", self.context))
        return "".join(f" {option} {shlex.quote(str(value))}" for option, value in given if value)
