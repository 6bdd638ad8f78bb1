"""The listed mutations, and where in a tree each one changes something.

A mutation names its file, and its tests theirs, by their names and some of the folders above them: files may move.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml

LISTED = Path(__file__).parent / "listed"
PRODUCT = ("operator", "spark", "crds", "manifests", "charts", "examples", ".github")
"""Where the product lies; never the tests, which may quote it."""
KINDS = frozenset({".py", ".yaml", ".yml", ".json"})


class Tier(StrEnum):
    """What the tests of a mutation need, the cheapest first."""

    UNIT = "unit"
    PROPERTY = "property"
    SIMULATION = "simulation"
    SPARK = "spark"
    BROKERS = "brokers"
    APISERVER = "apiserver"


CHEAP = (Tier.UNIT, Tier.PROPERTY, Tier.SIMULATION)


class NotInTree(Exception):
    """What a mutation or its tests name is not there, or is there more than once."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One defect. `breaks`: what does not hold any more. `tests`: who must notice, as pytest's node ids end.

    `reported_by`: the oracle's promise that those tests must find broken, of a mutation that is seen in a history.
    """

    id: str
    file: str
    old: str
    new: str
    breaks: str
    tier: Tier
    tests: tuple[str, ...]
    reported_by: str | None = None

    def place(self, root: Path) -> Path:
        """The one file that holds the old text, exactly once. Raises NotInTree."""
        named = _meant(root, PRODUCT, self.file)
        held = [path for path in named for _ in range(path.read_text().count(self.old))]
        if len(held) != 1:
            where = ", ".join(str(path.relative_to(root)) for path in named) or f"no file {self.file}"
            raise NotInTree(f"{self.id}: its old text is there {len(held)} times, not once, in {where}:\n{self.old}")
        return held[0]

    def test_ids(self, root: Path) -> tuple[str, ...]:
        """Its tests as pytest takes them, from the tree's root. Raises NotInTree."""
        return tuple(_test_id(root, test) for test in self.tests)


@cache
def listed() -> tuple[Mutation, ...]:
    """All of them, the cheapest tiers first. Raises ValueError for an entry that is not complete."""
    found = [_mutation(each) for path in sorted(LISTED.glob("*.yaml")) for each in _entries(path)]
    order = list(Tier)
    return tuple(sorted(found, key=lambda mutation: order.index(mutation.tier)))


def _entries(path: Path) -> list[dict[str, Any]]:
    """By libyaml, where it is there: all of them take a second without."""
    return yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # type: ignore[no-any-return]


def _mutation(said: dict[str, Any]) -> Mutation:
    wanted = {"id", "file", "old", "new", "breaks", "tier", "tests"}
    if said.keys() - {"reported_by"} != wanted:
        raise ValueError(f"mutation {said.get('id')} lacks or has too much: {', '.join(sorted(wanted ^ said.keys()))}")
    old, new = (str(said[side]).rstrip("\n") for side in ("old", "new"))
    tier, tests, reported_by = Tier(said["tier"]), tuple(said["tests"]), said.get("reported_by")
    return Mutation(said["id"], said["file"], old, new, said["breaks"], tier, tests, reported_by)


@cache
def _by_name(root: Path, folders: tuple[str, ...]) -> Mapping[str, Sequence[Path]]:
    """All files of these folders, by their names."""
    named: dict[str, list[Path]] = defaultdict(list)
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in KINDS and path.is_file():
                named[path.name].append(path)
    return named


def _meant(root: Path, folders: tuple[str, ...], said: str) -> list[Path]:
    paths = _by_name(root, folders).get(said.rpartition("/")[2], ())
    return [path for path in paths if _is_meant(path.relative_to(root), said)]


def _is_meant(path: Path, said: str) -> bool:
    """Of one with that name, whether it lies below those folders in that order; after `/`: whether it is that path."""
    if said.startswith("/"):
        return f"/{path.as_posix()}" == said
    above = iter(path.parts[:-1])
    return all(folder in above for folder in said.split("/")[:-1])


def _test_id(root: Path, test: str) -> str:
    file, *names = test.split("::")
    meant = _meant(root, ("tests",), file)
    found = [path for path in meant if not names or all(map(partial(_holds, path.read_text()), names))]
    if len(found) != 1:
        raise NotInTree(f"{len(found)} test files are meant by {test}, not one")
    return "::".join([found[0].relative_to(root).as_posix(), *names])


def _holds(text: str, name: str) -> bool:
    plain = name.partition("[")[0]
    return f"def {plain}(" in text or f"class {plain}:" in text
