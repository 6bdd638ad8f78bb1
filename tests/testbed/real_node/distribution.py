"""Where kubelet and scheduler come from: the cache, else built once from Go modules, of the control plane's release.

`python -m testbed.real_node.distribution` builds beforehand what the tests would build on first use.
"""

from __future__ import annotations

from pathlib import Path

from testbed.go_module import Build, GoModule, report
from testbed.kubernetes.distribution import LINKED, VERSION, Programs

PARTS = ("kubelet", "kube-scheduler")
TITLE = f"kubelet and scheduler {VERSION}"
MODULE = GoModule(
    Path(__file__).with_name("binary"), "kubernetes-node", TITLE, "4 to 12 minutes on two cores", VERSION, LINKED
)
PROGRAM = "node"


def fetch() -> Programs:
    """The folder with PARTS, built now if need be; ProgramsUnavailable if it can't be had."""
    return Programs(MODULE.fetch(_make), PARTS)


def _make(build: Build) -> None:
    build.compile(program=PROGRAM)
    for part in PARTS:
        (build.into / part).symlink_to(PROGRAM)


if __name__ == "__main__":
    report(TITLE, lambda: fetch().folder)
