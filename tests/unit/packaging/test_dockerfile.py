"""What each image will say of itself, as the Dockerfile has it and docs/how-to/images.md promises it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from testbed.images import FLEET_JOB, OPERATOR, Image

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PREFIX = "org.opencontainers.image"
LICENCE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
BOTH = pytest.mark.parametrize("image", [OPERATOR, FLEET_JOB], ids=lambda image: image.target)


def stages() -> dict[str, str]:
    """Each by its name, in the order of the file."""
    parts = re.split(r"^FROM \S+ AS (\S+)$", DOCKERFILE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def labels(image: Image) -> dict[str, str]:
    (label,) = re.findall(r"^LABEL ((?:.*\\\n)*.*)", stages()[image.target], re.MULTILINE)
    return dict(re.findall(rf'{PREFIX}\.([a-z.]+)="([^"]+)"', label))


def test_who_names_no_stage_gets_the_operator() -> None:
    assert list(stages())[-1] == OPERATOR.target


@BOTH
def test_its_labels_are_those_of_the_page(image: Image) -> None:
    page = (ROOT / "docs" / "how-to" / "images.md").read_text()
    (line,) = [each for each in page.splitlines() if each.startswith("- Labels of the Open Containers Initiative")]

    assert set(re.findall(r"\.([a-z.]+)`", line.replace(f"{PREFIX}.", "."))) == set(labels(image))


@BOTH
def test_its_labels_say_what_it_is_and_what_it_was_made_of(image: Image) -> None:
    """An argument that its own stage does not name is empty there."""
    said = labels(image)

    assert said.pop("description")
    assert said == {
        "title": image.name,
        "version": "${VERSION}",
        "licenses": LICENCE,
        "base.name": "${BASE}",
        "source": "${SOURCE}",
        "url": "${SOURCE}",
        "documentation": "${DOCUMENTATION}",
        "revision": "${REVISION}",
        "created": "${CREATED}",
    }
    named = {word for value in said.values() for word in re.findall(r"\$\{(\w+)\}", value)}
    assert named <= set(re.findall(r"^ARG (\w+)", stages()[image.target], re.MULTILINE))


@BOTH
def test_it_runs_as_a_user_who_is_nobody_else(image: Image) -> None:
    assert re.findall(r"^USER (.*)$", stages()[image.target], re.MULTILINE) == ["65532:65532"]


def test_what_is_copied_is_let_in() -> None:
    """`.dockerignore` keeps everything out but what it names; of `operator` that is the package."""
    let_in = [Path(line[1:]) for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = {
        Path(name) for line in re.findall(r"^COPY ([^-].*) \S+$", DOCKERFILE, re.MULTILINE) for name in line.split()
    }

    assert {name for name in copied if not (ROOT / name).exists()} == set()
    assert {name for name in copied if not any(name.is_relative_to(each) for each in let_in)} == {Path("operator")}
