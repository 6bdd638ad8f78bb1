"""Where the controller of Kubeflow's Spark operator comes from: the cache, else built once from its Go module.

`python -m testbed.spark_operator.distribution` builds beforehand what the tests would build on first use.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from testbed.go_module import Build, GoModule, report, said_in_go_mod

SOURCE = Path(__file__).with_name("binary")
KUBEFLOW = "github.com/kubeflow/spark-operator/v2"
VERSION = said_in_go_mod(SOURCE, KUBEFLOW)
TITLE = f"Kubeflow's Spark operator {VERSION}"
MODULE = GoModule(SOURCE, "spark-operator", TITLE, "2 to 5 minutes on two cores", VERSION)
PROGRAM, DEFINITIONS = "spark-operator", "definitions"


@dataclass(frozen=True, slots=True)
class Built:
    """The folder with the controller and its definitions: it does not start where one of them is missing."""

    folder: Path

    @property
    def program(self) -> Path:
        return self.folder / PROGRAM

    @property
    def definitions(self) -> Path:
        return self.folder / DEFINITIONS


def fetch() -> Built:
    """Built now if need be; ProgramsUnavailable if it can't be had."""
    return Built(MODULE.fetch(_make))


def _make(build: Build) -> None:
    build.compile(program=PROGRAM)
    listed = json.loads(build.go("list", "-m", "-json", KUBEFLOW))
    definitions = build.into / DEFINITIONS
    definitions.mkdir()
    for file in (Path(listed["Dir"]) / "config" / "crd" / "bases").glob("*.yaml"):
        shutil.copyfile(file, definitions / file.name)  # without its mode: modules are read-only


if __name__ == "__main__":
    report(TITLE, lambda: fetch().folder)
