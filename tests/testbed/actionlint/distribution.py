"""Where actionlint comes from: the cache, else built once from its Go module.

`python -m testbed.actionlint.distribution` builds beforehand what the test would build on first use.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

from testbed.distribution import cache, locked
from testbed.kubernetes.go import Go, GoMissing, found

SOURCE = Path(__file__).with_name("binary")
PACKAGE = "github.com/rhysd/actionlint/cmd/actionlint"
# `-modcacherw`: or else only root could remove the modules again.
FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-modcacherw", "-gcflags=all=-dwarf=false", "-ldflags=-s -w")
LAST_LINES = 15


class ActionlintUnavailable(RuntimeError):
    """It could not be had; says why."""


def fetch() -> Path:
    """The program, built now if need be: takes a minute or two and says so; ActionlintUnavailable if it fails."""
    try:
        go = found(_required_go())
        program = cache() / f"actionlint-{_digest(go)[:12]}" / "actionlint"
        if not program.is_file():
            with locked(cache() / "actionlint-build.lock"):
                if not program.is_file():
                    _build(go, program)
    except (OSError, GoMissing) as cause:
        raise ActionlintUnavailable(f"actionlint can't be had: {cause}") from cause
    return program


def _required_go() -> tuple[int, ...]:
    words = (line.split() for line in (SOURCE / "go.mod").read_text().splitlines())
    return next(tuple(map(int, each[1].split("."))) for each in words if each[:1] == ["go"])


def _digest(go: Go) -> str:
    """Over all that decides what comes out: an old cache is never taken for a new one."""
    sums = [hashlib.sha256((SOURCE / name).read_bytes()).hexdigest() for name in ("go.mod", "go.sum")]
    return hashlib.sha256("\n".join([go.version, *FLAGS, *sums]).encode()).hexdigest()


def _build(go: Go, program: Path) -> None:
    """It appears by one rename. The lock is ours."""
    work, staging = cache() / "actionlint-build", cache() / ".actionlint-staging"
    shutil.rmtree(staging, ignore_errors=True)  # of somebody who was killed
    _say(f"Building actionlint with {go.version}. Once only: one to two minutes on two cores.")
    began = time.monotonic()
    command = [str(go.program), "build", *FLAGS, "-o", f"{staging}/", PACKAGE]
    environment = go.environment(modules=work / "modules", objects=work / "objects")
    built = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True)
    if built.returncode:
        end = "\n".join(built.stderr.splitlines()[-LAST_LINES:])
        raise ActionlintUnavailable(f"actionlint can't be built; Go's last words:\n{end}")
    staging.rename(program.parent)
    shutil.rmtree(work, ignore_errors=True)
    _say(f"actionlint is built, after {time.monotonic() - began:.0f} s.")


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def main() -> None:
    """Builds, if need be, and says where it lies."""
    try:
        print(f"actionlint: ready in {fetch()}")
    except ActionlintUnavailable as trouble:
        sys.exit(str(trouble))


if __name__ == "__main__":
    main()
