"""Where actionlint comes from: the cache, else built once from its Go module.

`python -m testbed.actionlint.distribution` builds beforehand what the test would build on first use.
"""

from __future__ import annotations

from pathlib import Path

from testbed.go_module import GoModule, report

PROGRAM = "actionlint"
MODULE = GoModule(Path(__file__).with_name("binary"), PROGRAM, PROGRAM, "one to two minutes on two cores")


def fetch() -> Path:
    """The program, built now if need be; ProgramsUnavailable if it can't be had."""
    folder = MODULE.fetch(lambda build: build.compile("github.com/rhysd/actionlint/cmd/actionlint", program=PROGRAM))
    return folder / PROGRAM


if __name__ == "__main__":
    report(PROGRAM, fetch)
