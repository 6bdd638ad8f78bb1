"""Programs from published Go modules: taken from the cache, else built once, which takes minutes and is said first."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testbed.distribution import cache
from testbed.go import Go, GoMissing, found
from testbed.locks import locked

# Nobody debugs these programs: without what that takes the build is smaller and faster.
# `-modcacherw`: or else only root could remove the modules again.
FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-modcacherw", "-gcflags=all=-dwarf=false")
FILES = ("main.go", "go.mod", "go.sum")
LAST_LINES = 15


class ProgramsUnavailable(RuntimeError):
    """Programs could not be had; says which, and why."""


@dataclass(frozen=True, slots=True)
class Build:
    """One build under way. What `into` holds at its end appears in the cache by one rename."""

    into: Path
    _go: Go
    _module: GoModule
    _work: Path

    def compile(self, package: str = ".", *, program: str) -> None:
        """Build a package of the module; ProgramsUnavailable with Go's last words."""
        self.go("build", *self._module.arguments, "-o", str(self.into / program), package)

    def go(self, *arguments: str) -> str:
        """What Go says; ProgramsUnavailable if it fails."""
        environment = self._go.environment(modules=self._work / "modules", objects=self._work / "objects")
        command = [str(self._go.program), *arguments]
        done = subprocess.run(command, cwd=self._module.source, env=environment, capture_output=True, text=True)
        if done.returncode:
            end = "\n".join(done.stderr.splitlines()[-LAST_LINES:])
            raise ProgramsUnavailable(f"{self._module.title} can't be built; Go's last words:\n{end}")
        return done.stdout


@dataclass(frozen=True, slots=True)
class GoModule:
    """A folder with a go.mod and a go.sum that pin everything, and how people are told of it.

    `name` and `release`: what its folder in the cache is called by. `title` is for people, `cost` for those who wait.
    `linked`: what the linker is told besides leaving symbols out.
    """

    source: Path
    name: str
    title: str
    cost: str
    release: str = ""
    linked: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*FLAGS, "-ldflags", " ".join(("-s -w", *(f"-X {value}" for value in self.linked))))

    def fetch(self, make: Callable[[Build], None]) -> Path:
        """The folder that `make` filled, now if need be; ProgramsUnavailable if that fails."""
        try:
            go = found(tuple(map(int, said_in_go_mod(self.source, "go").split("."))))
            folder = cache() / "-".join(filter(None, (self.name, self.release, self._digest(go)[:12])))
            if not folder.is_dir():
                with locked(cache() / f"{self.name}-build.lock"):
                    if not folder.is_dir():
                        self._build(go, folder, make)
        except (OSError, GoMissing) as cause:
            raise ProgramsUnavailable(f"{self.title} can't be had: {cause}") from cause
        return folder

    def _digest(self, go: Go) -> str:
        """Over all that decides what comes out: an old cache is never taken for a new one."""
        files = [path for path in (self.source / name for name in FILES) if path.exists()]
        sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
        return hashlib.sha256("\n".join([go.version, *self.arguments, *sums]).encode()).hexdigest()

    def _build(self, go: Go, folder: Path, make: Callable[[Build], None]) -> None:
        """All or nothing. The lock is ours.

        What Go has fetched and compiled is removed after a good build; after a bad one it stays, for the next to go on.
        """
        work, staging = cache() / f"{self.name}-build", folder.with_name(f".{folder.name}")
        shutil.rmtree(staging, ignore_errors=True)  # of somebody who was killed
        staging.mkdir(parents=True)
        _say(f"Building {self.title} with {go.version}. Once only: {self.cost}.")
        began = time.monotonic()
        make(Build(staging, go, self, work))
        staging.rename(folder)
        shutil.rmtree(work, ignore_errors=True)
        _say(f"{self.title}: built after {time.monotonic() - began:.0f} s.")


def said_in_go_mod(source: Path, name: str) -> str:
    """The version of a module, or the least Go, as the go.mod there has it, without a `v`."""
    lines = (source / "go.mod").read_text().splitlines()
    words = ([word for word in line.split() if word != "require"] for line in lines)
    return next(each[1] for each in words if each[:1] == [name]).removeprefix("v")


def report(title: str, fetch: Callable[[], object]) -> None:
    """What a `python -m testbed.….distribution` does: fetch, and say where it lies; else exit with the reason."""
    try:
        print(f"{title}: ready in {fetch()}")
    except ProgramsUnavailable as trouble:
        sys.exit(str(trouble))


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
