"""Where kube-apiserver and its like come from: $KUBEBUILDER_ASSETS, else the cache, else built once from Go modules.

`python -m testbed.kubernetes.distribution` builds beforehand what the tests would build on first use.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from testbed.go_module import Build, GoModule, ProgramsUnavailable, report, said_in_go_mod

SOURCE = Path(__file__).with_name("binary")
VERSION = said_in_go_mod(SOURCE, "k8s.io/kubernetes")
PROGRAM = "controlplane"
# Links to the one program, which plays the part it is called by.
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
MAJOR, MINOR, _ = VERSION.split(".")
# Without these it calls itself v0.0.0-master, and kubectl and Helm compare versions.
LINKED = tuple(
    f"{package}.{value}"
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    for value in (f"gitVersion=v{VERSION}", f"gitMajor={MAJOR}", f"gitMinor={MINOR}", "gitTreeState=clean")
)
ASSETS = "KUBEBUILDER_ASSETS"
TITLE = f"Kubernetes {VERSION}"
COST = (
    "4 to 12 minutes on two cores, 3.5 GB of disk meanwhile and 0.13 GB afterwards, for etcd, API server, controller "
    f"manager and kubectl; {ASSETS} would name a folder that has them"
)
MODULE = GoModule(SOURCE, "kubernetes", TITLE, COST, VERSION, LINKED)


@dataclass(frozen=True, slots=True)
class Programs:
    """The folder with all of `parts`, ready to run."""

    folder: Path
    parts: tuple[str, ...] = PARTS

    def __getitem__(self, part: str) -> Path:
        return self.folder / part

    @property
    def missing(self) -> list[str]:
        return [part for part in self.parts if not os.access(self[part], os.X_OK)]


def fetch() -> Programs:
    """The programs, built now if need be; ProgramsUnavailable if they can't be had."""
    if given := os.environ.get(ASSETS):
        return _checked(Programs(Path(given).expanduser().absolute()))
    return Programs(MODULE.fetch(_make))


def _checked(programs: Programs) -> Programs:
    if programs.missing:
        raise ProgramsUnavailable(
            f"{ASSETS} names {programs.folder}, which lacks {', '.join(programs.missing)}: "
            f"put it there, or unset {ASSETS} to have everything built"
        )
    return programs


def _make(build: Build) -> None:
    build.compile(program=PROGRAM)
    for part in PARTS:
        (build.into / part).symlink_to(PROGRAM)


if __name__ == "__main__":
    report(TITLE, lambda: fetch().folder)
