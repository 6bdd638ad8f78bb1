"""Where the controller of Kubeflow's Spark operator comes from: the cache, else built once from its Go module.

`python -m testbed.spark_operator.distribution` builds beforehand what the tests would build on first use.
"""

from __future__ import annotations

import hashlib
import json
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
MODULE = "github.com/kubeflow/spark-operator/v2"
# `-modcacherw`: or else only root could remove the modules again.
FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-modcacherw", "-gcflags=all=-dwarf=false", "-ldflags=-s -w")
LAST_LINES = 15


class SparkOperatorUnavailable(RuntimeError):
    """The controller could not be had; says why."""


@dataclass(frozen=True, slots=True)
class Built:
    """The folder with the controller and its definitions: it does not start where one of them is missing."""

    folder: Path

    @property
    def program(self) -> Path:
        return self.folder / "spark-operator"

    @property
    def definitions(self) -> Path:
        return self.folder / "definitions"


def fetch() -> Built:
    """Built now if need be: that takes minutes and says so first; SparkOperatorUnavailable if it fails."""
    try:
        go = found(tuple(map(int, _said_in_go_mod("go").split("."))))
        built = Built(cache() / f"spark-operator-{version()}-{_digest(go)[:12]}")
        if not built.folder.is_dir():
            with locked(cache() / "spark-operator-build.lock"):
                if not built.folder.is_dir():
                    _build(go, built.folder)
    except (OSError, GoMissing) as cause:
        raise SparkOperatorUnavailable(f"Kubeflow's Spark operator {version()} can't be had: {cause}") from cause
    return built


def version() -> str:
    """The pinned release, as go.mod has it, without the `v`."""
    return _said_in_go_mod(MODULE).removeprefix("v")


def _said_in_go_mod(name: str) -> str:
    lines = (SOURCE / "go.mod").read_text().splitlines()
    words = ([word for word in line.split() if word != "require"] for line in lines)
    return next(each[1] for each in words if each[:1] == [name])


def _digest(go: Go) -> str:
    """Over all that decides what comes out: an old cache is never taken for a new one."""
    sums = [hashlib.sha256((SOURCE / name).read_bytes()).hexdigest() for name in FILES]
    return hashlib.sha256("\n".join([go.version, *FLAGS, *sums]).encode()).hexdigest()


def _build(go: Go, folder: Path) -> None:
    """All or nothing: the folder appears by one rename. The lock is ours."""
    work, staging = cache() / "spark-operator-build", Built(folder.with_name(f".{folder.name}"))
    shutil.rmtree(staging.folder, ignore_errors=True)  # of somebody who was killed
    staging.folder.mkdir(parents=True)
    _say(f"Building Kubeflow's Spark operator {version()} with {go.version}. Once only: 2 to 5 minutes on two cores.")
    began = time.monotonic()
    environment = go.environment(modules=work / "modules", objects=work / "objects")
    _go(go, environment, "build", *FLAGS, "-o", str(staging.program), ".")
    listed = json.loads(_go(go, environment, "list", "-m", "-json", MODULE))
    staging.definitions.mkdir()
    for file in (Path(listed["Dir"]) / "config" / "crd" / "bases").glob("*.yaml"):
        shutil.copyfile(file, staging.definitions / file.name)  # without its mode: modules are read-only
    staging.folder.rename(folder)
    shutil.rmtree(work, ignore_errors=True)
    _say(f"Kubeflow's Spark operator {version()} is built, after {time.monotonic() - began:.0f} s.")


def _go(go: Go, environment: dict[str, str], *arguments: str) -> str:
    command = [str(go.program), *arguments]
    done = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True)
    if done.returncode:
        end = "\n".join(done.stderr.splitlines()[-LAST_LINES:])
        raise SparkOperatorUnavailable(f"Kubeflow's Spark operator {version()} can't be built; Go's last words:\n{end}")
    return done.stdout


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def main() -> None:
    """Builds, if need be, and says where it lies."""
    try:
        print(f"Kubeflow's Spark operator {version()}: ready in {fetch().folder}")
    except SparkOperatorUnavailable as trouble:
        sys.exit(f"{trouble}")


if __name__ == "__main__":
    main()
