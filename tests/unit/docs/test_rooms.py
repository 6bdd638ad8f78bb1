"""CONTRIBUTING's tables of rooms name every folder, and no folder that is gone."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "operator" / "kafka_recovery"
TOLD = re.findall(r"^\| `([a-z0-9_/]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)


def rooms(folder: Path) -> Iterator[str]:
    """The folders below this one that hold code, as CONTRIBUTING calls them."""
    for each in folder.iterdir():
        if each.is_dir() and any(each.rglob("*.py")):
            name = each.relative_to(ROOT).as_posix()
            yield name if each.parent in (PACKAGE, ROOT / "spark", ROOT / "tests") else name.split("/", 2)[2]


@pytest.mark.parametrize(
    "folder",
    [PACKAGE, PACKAGE / "kube", PACKAGE / "cli", PACKAGE / "simulator", ROOT / "spark", ROOT / "tests"],
    ids=lambda folder: str(folder.relative_to(ROOT)),
)
def test_every_room_has_its_line(folder: Path) -> None:
    assert set(rooms(folder)) <= set(TOLD)


def test_no_line_is_about_a_room_that_is_gone() -> None:
    gone = [name for name in TOLD if not ((ROOT / name).is_dir() or (PACKAGE / name).is_dir())]

    assert gone == []


def test_each_room_has_a_contract() -> None:
    """What CONTRIBUTING tells of is what import-linter's layers are made of, or a package that a contract names."""
    linted = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [layer for each in linted["contracts"] for layer in each.get("layers", ())]
    held = {name.strip() for layer in layers for name in layer.split("|")} | set(linted["root_packages"])

    assert {Path(name).name for name in TOLD if not name.startswith("tests/")} <= held
