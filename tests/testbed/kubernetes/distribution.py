"""Where kube-apiserver and its like come from: $KUBEBUILDER_ASSETS, else the cache, else built once from Go modules.

`python -m testbed.kubernetes.distribution` builds beforehand what the tests would build on first use.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from testbed.distribution import cache, locked
from testbed.kubernetes.go import Go, GoMissing, found

SOURCE = Path(__file__).with_name("binary")
FILES = ("main.go", "go.mod", "go.sum")
PROGRAM = "controlplane"
# Links to the one program, which plays the part it is called by.
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
# Without these it calls itself v0.0.0-master, and kubectl and Helm compare versions.
VERSIONED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
# Nobody debugs these programs: without what that takes the build is smaller and faster.
# `-modcacherw`: or else only root could remove the modules again.
FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-modcacherw", "-gcflags=all=-dwarf=false")
ASSETS = "KUBEBUILDER_ASSETS"
LAST_LINES = 15


class KubernetesUnavailable(RuntimeError):
    """The control plane's programs could not be had; says why."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The folder with all of PARTS, ready to run."""

    folder: Path

    def __getitem__(self, part: str) -> Path:
        return self.folder / part

    @property
    def missing(self) -> list[str]:
        return [part for part in PARTS if not os.access(self[part], os.X_OK)]


def fetch() -> Programs:
    """The programs, built now if need be: that takes minutes and says so first; KubernetesUnavailable if it fails."""
    if given := os.environ.get(ASSETS):
        return _checked(Programs(Path(given).expanduser().absolute()))
    try:
        go = found(_required_go())
        programs = Programs(cache() / f"kubernetes-{version()}-{_digest(go)[:12]}")
        if not programs.folder.is_dir():
            with locked(cache() / "kubernetes-build.lock"):
                if not programs.folder.is_dir():
                    _build(go, programs.folder)
    except (OSError, GoMissing) as cause:
        raise KubernetesUnavailable(f"Kubernetes {version()} can't be had: {cause}") from cause
    return programs


def version() -> str:
    """The pinned release, as go.mod has it, without the `v`."""
    return _said_in_go_mod("k8s.io/kubernetes").removeprefix("v")


def _required_go() -> tuple[int, ...]:
    return tuple(map(int, _said_in_go_mod("go").split(".")))


def _said_in_go_mod(name: str) -> str:
    lines = (SOURCE / "go.mod").read_text().splitlines()
    return next(words[1] for words in map(str.split, lines) if words[:1] == [name])


def _checked(programs: Programs) -> Programs:
    if programs.missing:
        raise KubernetesUnavailable(
            f"{ASSETS} names {programs.folder}, which lacks {', '.join(programs.missing)}: "
            f"put it there, or unset {ASSETS} to have everything built"
        )
    return programs


def _digest(go: Go) -> str:
    """Over all that decides what comes out: an old cache is never taken for a new one."""
    sums = [hashlib.sha256((SOURCE / name).read_bytes()).hexdigest() for name in FILES]
    return hashlib.sha256("\n".join([go.version, *build_arguments(), *sums]).encode()).hexdigest()


def _build(go: Go, folder: Path) -> None:
    """All or nothing: the folder appears by one rename. The lock is ours.

    What Go has fetched and compiled is removed after a good build; after a bad one it stays, for the next to go on.
    """
    work, staging = cache() / "kubernetes-build", folder.with_name(f".{folder.name}")
    shutil.rmtree(staging, ignore_errors=True)  # of somebody who was killed
    staging.mkdir(parents=True)
    _announce(go, folder)
    began = time.monotonic()
    environment = go.environment(modules=work / "modules", objects=work / "objects")
    arguments = [str(go.program), "build", *build_arguments(), "-o", str(staging / PROGRAM), "."]
    built = subprocess.run(arguments, cwd=SOURCE, env=environment, capture_output=True, text=True)
    if built.returncode:
        raise KubernetesUnavailable(f"Kubernetes {version()} can't be built; Go's last words:\n{_end(built.stderr)}")
    for part in PARTS:
        (staging / part).symlink_to(PROGRAM)
    staging.rename(folder)
    shutil.rmtree(work, ignore_errors=True)
    _say(f"Kubernetes {version()} is built, after {time.monotonic() - began:.0f} s.")


def build_arguments() -> list[str]:
    return [*FLAGS, "-ldflags", " ".join(["-s -w", *(f"-X {package}.{value}" for package, value in _versions())])]


def _versions() -> list[tuple[str, str]]:
    major, minor, _ = version().split(".")
    values = (f"gitVersion=v{version()}", f"gitMajor={major}", f"gitMinor={minor}", "gitTreeState=clean")
    return [(package, value) for package in VERSIONED for value in values]


def _end(text: str) -> str:
    return "\n".join(text.splitlines()[-LAST_LINES:])


def _announce(go: Go, folder: Path) -> None:
    _say(
        f"Building Kubernetes {version()} (etcd, API server, controller manager, kubectl) with {go.version}, because "
        f"{ASSETS} is not set and {folder} is not there yet. Once only: 4 to 12 minutes on two cores, 3.5 GB of disk "
        "meanwhile and 0.13 GB afterwards."
    )


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def main() -> None:
    """Builds, if need be, and says where the programs lie."""
    try:
        print(f"Kubernetes {version()}: ready in {fetch().folder}")
    except KubernetesUnavailable as trouble:
        sys.exit(f"{trouble}")


if __name__ == "__main__":
    main()
