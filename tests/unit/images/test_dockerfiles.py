"""What each image will say of itself, as its Dockerfile has it and docs/images.md promises it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from testbed.images import FLEET_JOB, OPERATOR, Image

ROOT = Path(__file__).parents[3]
PREFIX = "org.opencontainers.image"
LICENCE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
BOTH = pytest.mark.parametrize("image", [OPERATOR, FLEET_JOB], ids=lambda image: image.folder)


def last_stage(image: Image) -> str:
    """All that is published is said here."""
    stages = re.split(r"^FROM ", (ROOT / "images" / image.folder / "Dockerfile").read_text(), flags=re.MULTILINE)
    return stages[-1]


def labels(image: Image) -> dict[str, str]:
    (label,) = re.findall(r"^LABEL ((?:.*\\\n)*.*)", last_stage(image), re.MULTILINE)
    return dict(re.findall(rf'{PREFIX}\.([a-z.]+)="([^"]+)"', label))


@BOTH
def test_its_labels_are_those_of_the_page(image: Image) -> None:
    page = (ROOT / "docs" / "images.md").read_text()
    (line,) = [each for each in page.splitlines() if each.startswith("- Labels of the Open Containers Initiative")]

    assert set(re.findall(r"\.([a-z.]+)`", line.replace(f"{PREFIX}.", "."))) == set(labels(image))


@BOTH
def test_its_labels_say_what_it_is_and_what_it_was_made_of(image: Image) -> None:
    """An argument that its own stage does not name is empty there."""
    said = labels(image)

    assert said.pop("description")
    assert said == {"title": image.name, "version": "${VERSION}", "licenses": LICENCE, "base.name": "${BASE}"}
    assert {"BASE", "VERSION"} <= set(re.findall(r"^ARG (\w+)", last_stage(image), re.MULTILINE))


@BOTH
def test_it_runs_as_a_user_who_is_nobody_else(image: Image) -> None:
    assert re.findall(r"^USER (.*)$", last_stage(image), re.MULTILINE) == ["65532:65532"]
