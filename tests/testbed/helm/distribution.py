"""Where helm, helm-unittest and kubeconform come from: the cache, else built once from their Go modules.

`python -m testbed.helm.distribution [PROGRAM...]` builds beforehand what the tests would build on first use; without
names only `helm`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.distribution import cache, locked
from testbed.kubernetes.distribution import version as kubernetes_version
from testbed.kubernetes.go import Go, GoMissing, found

SOURCE = Path(__file__).with_name("binary")
HELM = "helm.sh/helm/v3"
PACKAGES = {
    "helm": f"{HELM}/cmd/helm",
    "helm-unittest": "github.com/helm-unittest/helm-unittest/cmd/helm-unittest",
    "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform",
}
# `-modcacherw`: or else only root could remove the modules again.
FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-modcacherw", "-gcflags=all=-dwarf=false")
LAST_LINES = 15


class HelmUnavailable(RuntimeError):
    """A program could not be had; says why."""


def fetch(*names: str) -> Mapping[str, Path]:
    """These programs (of PACKAGES), built now if need be: takes minutes and says so first; HelmUnavailable if not."""
    try:
        go = found(_required_go())
        programs = {name: cache() / f"{name}-{_digest(go)[:12]}" / name for name in names}
        if _missing(programs):
            with locked(cache() / "helm-build.lock"):
                if missing := _missing(programs):
                    _build(go, missing)
    except (OSError, GoMissing) as cause:
        raise HelmUnavailable(f"{' and '.join(names)} can't be had: {cause}") from cause
    return programs


def version() -> str:
    """Helm's pinned release, as go.mod has it, without the `v`."""
    return next(each[1] for each in _words() if each[:1] == [HELM]).removeprefix("v")


def _required_go() -> tuple[int, ...]:
    return next(tuple(map(int, each[1].split("."))) for each in _words() if each[:1] == ["go"])


def _words() -> list[list[str]]:
    return [line.split() for line in (SOURCE / "go.mod").read_text().splitlines()]


def _missing(programs: Mapping[str, Path]) -> dict[str, Path]:
    return {name: program for name, program in programs.items() if not program.is_file()}


def _digest(go: Go) -> str:
    """Over all that decides what comes out: an old cache is never taken for a new one."""
    sums = [hashlib.sha256((SOURCE / name).read_bytes()).hexdigest() for name in ("go.mod", "go.sum")]
    return hashlib.sha256("\n".join([go.version, *_arguments(), *sums]).encode()).hexdigest()


def _arguments() -> list[str]:
    """Without being told, Helm lints and templates for a Kubernetes of 2020."""
    major, minor, _ = kubernetes_version().split(".")
    values = [f"{HELM}/internal/version.version=v{version()}"]
    for package in ("pkg/lint/rules", "pkg/chartutil"):
        values += [f"{HELM}/{package}.k8sVersionMajor={major}", f"{HELM}/{package}.k8sVersionMinor={minor}"]
    return [*FLAGS, "-ldflags", " ".join(["-s -w", *(f"-X {value}" for value in values)])]


def _build(go: Go, missing: Mapping[str, Path]) -> None:
    """Each appears by one rename. The lock is ours.

    What Go has fetched and compiled is removed after a good build; after a bad one it stays, for the next to go on.
    """
    names = ", ".join(missing)
    _say(f"Building {names} with {go.version}. Once only: 3 to 10 minutes on two cores.")
    began = time.monotonic()
    work, staging = cache() / "helm-build", cache() / ".helm-staging"
    shutil.rmtree(staging, ignore_errors=True)  # of somebody who was killed
    staging.mkdir(parents=True)
    _compile(go, work, staging, [PACKAGES[name] for name in missing])
    for name, program in missing.items():
        program.parent.mkdir(exist_ok=True)
        (staging / name).rename(program)
    shutil.rmtree(staging)
    shutil.rmtree(work, ignore_errors=True)
    _say(f"{names}: built after {time.monotonic() - began:.0f} s.")


def _compile(go: Go, work: Path, into: Path, packages: Sequence[str]) -> None:
    command = [str(go.program), "build", *_arguments(), "-o", f"{into}/", *packages]
    environment = go.environment(modules=work / "modules", objects=work / "objects")
    built = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True)
    if built.returncode:
        end = "\n".join(built.stderr.splitlines()[-LAST_LINES:])
        raise HelmUnavailable(f"{', '.join(packages)} can't be built; Go's last words:\n{end}")


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def main() -> None:
    """Builds, if need be, and says where it lies."""
    if unknown := [name for name in sys.argv[1:] if name not in PACKAGES]:
        sys.exit(f"there is no {unknown[0]!r} here; right are {', '.join(PACKAGES)}")
    try:
        for name, program in fetch(*sys.argv[1:] or ("helm",)).items():
            print(f"{name}: ready in {program}")
    except HelmUnavailable as trouble:
        sys.exit(str(trouble))


if __name__ == "__main__":
    main()
