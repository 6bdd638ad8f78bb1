"""One distribution: what `pip install` and the images get."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = {"kafka_recovery": ROOT / "operator", "kafka_recovery_spark": ROOT / "spark"}


def test_the_wheel_holds_both_packages_whole_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    (wheel,) = tmp_path.iterdir()
    packed = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}

    kept = {
        file.relative_to(folder).as_posix()
        for package, folder in PACKAGES.items()
        for file in (folder / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert packed == kept


@pytest.mark.parametrize("package", PACKAGES)
def test_who_imports_it_gets_its_types(package: str) -> None:
    assert (PACKAGES[package] / package / "py.typed").is_file()


def metadata(**environment: str) -> dict[str, Any]:
    """What the package will say of itself, built in such an environment."""
    clean = {key: value for key, value in os.environ.items() if not key.endswith("_URL")}
    command = [sys.executable, "-m", "hatchling", "metadata"]
    done = subprocess.run(command, cwd=ROOT, env=clean | environment, check=True, capture_output=True, text=True)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_addresses_are_those_of_the_repository_that_builds_it() -> None:
    """A fork's users are not led to where somebody else answers; nor are they to an address that nobody holds."""
    ours = metadata(REPOSITORY_URL="https://git.test/kafka", DOCUMENTATION_URL="https://docs.test")

    assert ours["urls"]["Issues"] == "https://git.test/kafka/issues"
    assert ours["urls"]["Documentation"] == "https://docs.test"
    assert "urls" not in metadata()
    assert not {"authors", "maintainers"} & ours.keys(), "nobody is named who does not exist"
