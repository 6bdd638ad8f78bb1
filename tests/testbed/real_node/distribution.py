"""Where kubelet and scheduler come from: the cache, else built once from Go modules, of the control plane's release.

`python -m testbed.real_node.distribution` builds beforehand what the tests would build on first use.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from testbed.distribution import cache, locked
from testbed.kubernetes import distribution as control_plane
from testbed.kubernetes.distribution import KubernetesUnavailable, version
from testbed.kubernetes.go import Go, GoMissing, found

SOURCE = Path(__file__).with_name("binary")
FILES = ("main.go", "go.mod", "go.sum")
PROGRAM = "node"
PARTS = ("kubelet", "kube-scheduler")
LAST_LINES = 15


@dataclass(frozen=True, slots=True)
class NodePrograms:
    """The folder with PARTS, ready to run."""

    folder: Path

    def __getitem__(self, part: str) -> Path:
        return self.folder / part


def fetch() -> NodePrograms:
    """The programs, built now if need be: that takes minutes and says so first; KubernetesUnavailable if it fails."""
    try:
        go = found(tuple(map(int, _said_in_go_mod("go").split("."))))
        programs = NodePrograms(cache() / f"kubernetes-node-{version()}-{_digest(go)[:12]}")
        if not programs.folder.is_dir():
            with locked(cache() / "kubernetes-node-build.lock"):
                if not programs.folder.is_dir():
                    _build(go, programs.folder)
    except (OSError, GoMissing) as cause:
        raise KubernetesUnavailable(f"kubelet {version()} can't be had: {cause}") from cause
    return programs


def _said_in_go_mod(name: str) -> str:
    lines = (SOURCE / "go.mod").read_text().splitlines()
    return next(words[1] for words in map(str.split, lines) if words[:1] == [name])


def _digest(go: Go) -> str:
    """Over all that decides what comes out: an old cache is never taken for a new one."""
    sums = [hashlib.sha256((SOURCE / name).read_bytes()).hexdigest() for name in FILES]
    return hashlib.sha256("\n".join([go.version, *control_plane.build_arguments(), *sums]).encode()).hexdigest()


def _build(go: Go, folder: Path) -> None:
    """All or nothing: the folder appears by one rename. The lock is ours."""
    work, staging = cache() / "kubernetes-node-build", folder.with_name(f".{folder.name}")
    shutil.rmtree(staging, ignore_errors=True)  # of somebody who was killed
    staging.mkdir(parents=True)
    _say(f"Building kubelet and scheduler {version()} with {go.version}. Once only: 4 to 12 minutes on two cores.")
    began = time.monotonic()
    environment = go.environment(modules=work / "modules", objects=work / "objects")
    arguments = [str(go.program), "build", *control_plane.build_arguments(), "-o", str(staging / PROGRAM), "."]
    built = subprocess.run(arguments, cwd=SOURCE, env=environment, capture_output=True, text=True)
    if built.returncode:
        end = "\n".join(built.stderr.splitlines()[-LAST_LINES:])
        raise KubernetesUnavailable(f"kubelet {version()} can't be built; Go's last words:\n{end}")
    for part in PARTS:
        (staging / part).symlink_to(PROGRAM)
    staging.rename(folder)
    shutil.rmtree(work, ignore_errors=True)
    _say(f"kubelet and scheduler {version()} are built, after {time.monotonic() - began:.0f} s.")


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def main() -> None:
    """Builds, if need be, and says where the programs lie."""
    try:
        print(f"kubelet {version()}: ready in {fetch().folder}")
    except KubernetesUnavailable as trouble:
        sys.exit(f"{trouble}")


if __name__ == "__main__":
    main()
