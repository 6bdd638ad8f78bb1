"""A copy of the tree that may be spoilt, and pytest in it."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from mutations.catalogue import Mutation

_FIRST_FAILURE = re.compile(r"^(?:FAILED|ERROR) (?P<test>\S+?::.+?)(?: - .*)?$", re.MULTILINE)
_FINDING = re.compile(r"\d\.\d{3} s  (?P<promise>[a-z_]+): ")
"""As the oracle's findings are written; one that is known is followed by its name, and shows nothing."""
_FAILED = 1
_CHECKS = "operator/kafka_recovery/decision/checks.py"
_NOT_HANDED_ON = frozenset({"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"})
"""Compiled code stays in the copy, beside its source: compiling all of it anew would take longer than most tests."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What pytest said. `caught_by`: the first test that failed, or that the tests did not end; None: all passed.

    `trouble`: why that says nothing about the tests, such as a module that can't be imported any more.
    """

    caught_by: str | None
    seconds: float
    trouble: str = ""


def copy_tree(root: Path, to: Path) -> None:
    """What git tracks or would track, as it lies there: changes that are not committed included."""
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root, check=True, capture_output=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, names):
        source = root / name
        if source.is_symlink() or source.is_file():  # not what was deleted and is tracked still
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to / name, follow_symlinks=False)


def _reported(said: str) -> list[str]:
    """The promises that findings name in what pytest said."""
    return sorted({finding["promise"] for finding in _FINDING.finditer(said)})


@dataclass(frozen=True, slots=True)
class Workspace:
    """One copy; never for two mutations at a time."""

    root: Path
    _instants: Iterator[int] = field(default_factory=lambda: itertools.count(1_000_000_000))

    @contextmanager
    def spoilt(self, mutation: Mutation) -> Iterator[None]:
        """Under this mutation. Raises NotInTree."""
        path = mutation.place(self.root)
        written = [place for place in (self.root / _CHECKS,) if path.parent == place.parent and place.is_file()]
        whole = {place: place.read_text() for place in (path, *written)}
        try:
            self._write(path, whole[path].replace(mutation.old, mutation.new))
            for place in written:
                self._write_checks(place)
            yield
        finally:
            for place, text in whole.items():
                self._write(place, text)

    def _write_checks(self, place: Path) -> None:
        """What is written from guards and orders follows them; if it can't be, the tests find out as well."""
        command = [sys.executable, "operator/write_checks.py"]
        subprocess.run(command, cwd=self.root, env=self._environment(), check=False, capture_output=True)
        self._write(place, place.read_text())

    def _write(self, path: Path, text: str) -> None:
        """At an instant of its own: Python takes compiled code for that of a source of the same time and size."""
        path.write_text(text)
        instant = next(self._instants)
        os.utime(path, (instant, instant))

    def run(
        self, tests: Sequence[str], timeout: float, *, to_the_end: bool = False, reported_by: str | None = None
    ) -> Verdict:
        """Run these tests up to the first that fails; `reported_by`: the promise that it must say is broken.

        What `make test` leaves out would notice too late; it counts only where that one case is named.
        """
        cases = [test for test in tests if test.endswith("]")]
        others = [test for test in tests if test not in cases]
        verdict = Verdict(None, 0)
        for chosen in filter(None, (["-m", "not full", *others] if others else [], cases)):
            said = self._run(chosen, timeout, to_the_end, reported_by)
            verdict = replace(said, seconds=verdict.seconds + said.seconds)
            if verdict.caught_by or verdict.trouble:
                break
        return verdict

    def _run(self, chosen: Sequence[str], timeout: float, to_the_end: bool, reported_by: str | None) -> Verdict:
        each = f"--timeout={timeout / 2:g}"  # a test that hangs now has noticed; all of them together may just be slow
        how = ["--tb=short", "-vv"] if reported_by else ["--tb=line"]
        command = [sys.executable, "-m", "pytest", "-q", "-rfE", *how, "-p", "no:cacheprovider", each, *chosen]
        began = time.monotonic()
        try:
            done = subprocess.run(
                command if to_the_end else [*command, "-x"],
                cwd=self.root, env=self._environment(), timeout=timeout, capture_output=True, text=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Verdict(None, time.monotonic() - began, f"its tests had no end within {timeout:g} s")
        took = time.monotonic() - began
        if done.returncode == 0:
            return Verdict(None, took)
        first = _FIRST_FAILURE.search(done.stdout)
        if done.returncode == _FAILED and first:
            if reported_by and reported_by not in (told := _reported(done.stdout)):
                return Verdict(None, took, f"{first['test']} fails, but {reported_by} finds nothing: {told}")
            return Verdict(first["test"], took)
        return Verdict(None, took, f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def _environment(self) -> dict[str, str]:
        settings = tomllib.loads((self.root / "pyproject.toml").read_text())
        places = settings["tool"]["pytest"]["ini_options"]["pythonpath"]
        return {
            **{name: value for name, value in os.environ.items() if name not in _NOT_HANDED_ON},
            "PYTHONPATH": os.pathsep.join(str(self.root / place) for place in places),
        }
