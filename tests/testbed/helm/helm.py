"""Helm as somebody: every call is a process of its own, as a person's would be, and knows no repository."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import yaml

from testbed.helm.distribution import fetch
from testbed.kubernetes.objects import LOADER

PATIENCE = 120.0
Object = dict[str, Any]
_RENDERED: dict[tuple[Any, ...], list[Object]] = {}


class HelmFailed(RuntimeError):
    """Helm ended badly; the message is what it said."""


@dataclass(frozen=True, slots=True)
class Helm:
    """`helm` for one namespace: `helm("install", "name", "chart", values={...})` is what it prints.

    Without a kubeconfig it lints and renders only.
    """

    program: Path
    home: Path
    namespace: str = "kafka-recovery"
    kubeconfig: Path | None = None

    @classmethod
    @contextmanager
    def without_cluster(cls) -> Iterator[Self]:
        """ProgramsUnavailable if it can't be had."""
        with TemporaryDirectory(prefix="testbed-helm-") as home:
            yield cls(fetch("helm")["helm"], Path(home))

    def of(self, namespace: str, kubeconfig: Path) -> Helm:
        """The same for a namespace of an API server."""
        return Helm(self.program, self.home, namespace, kubeconfig)

    def __call__(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        """Raises HelmFailed."""
        given = ["--values=-"] if values is not None else []
        finished = subprocess.run(
            [str(self.program), *arguments, *given, f"--namespace={self.namespace}"],
            input=json.dumps(values) if given else "",
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=self._environment(),
        )
        if finished.returncode:
            raise HelmFailed(f"helm {' '.join(arguments)}: {(finished.stderr or finished.stdout).strip()}")
        return finished.stdout

    def rendered(self, chart: Path, *arguments: str, **values: Any) -> list[Object]:
        """The objects of a chart, as a release called `kafka-recovery` would have them; rendered once for all."""
        key = (self.namespace, str(chart), arguments, json.dumps(values, sort_keys=True))
        if key not in _RENDERED:
            text = self("template", "kafka-recovery", str(chart), *arguments, values=values)
            _RENDERED[key] = [each for each in yaml.load_all(text, LOADER) if each]
        return deepcopy(_RENDERED[key])

    def _environment(self) -> dict[str, str]:
        """Nothing of a person's own Helm; no cluster but the given one."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("HELM_")}
        places = {f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        return own | places | {"KUBECONFIG": str(self.kubeconfig or self.home / "none")}
