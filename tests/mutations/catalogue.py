"""The listed mutations, and where in a tree each one changes something.

A mutation names its file, and its tests theirs, by the end of their paths and by the old text itself: folders may move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import yaml

LISTED = Path(__file__).parent / "listed"
PRODUCT = ("operator", "spark", "crds", "manifests", "charts", "images")
"""Where the product lies; never the tests, which may quote it."""
KINDS = frozenset({".py", ".yaml", ".json"})


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
    """One defect. `breaks`: what does not hold any more. `tests`: who must notice, as the ends of pytest's node ids."""

    id: str
    file: str
    old: str
    new: str
    breaks: str
    tier: Tier
    tests: tuple[str, ...]

    def place(self, root: Path) -> Path:
        """The one file that holds the old text, exactly once. Raises NotInTree."""
        named = [path for path in _product(root) if _ends(path.relative_to(root), self.file)]
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
    found = [_mutation(each) for path in sorted(LISTED.glob("*.yaml")) for each in yaml.safe_load(path.read_text())]
    order = list(Tier)
    return tuple(sorted(found, key=lambda mutation: order.index(mutation.tier)))


def _mutation(said: dict[str, Any]) -> Mutation:
    wanted = {"id", "file", "old", "new", "breaks", "tier", "tests"}
    if said.keys() != wanted:
        raise ValueError(f"mutation {said.get('id')} lacks or has too much: {', '.join(sorted(wanted ^ said.keys()))}")
    old, new = (str(said[side]).rstrip("\n") for side in ("old", "new"))
    return Mutation(said["id"], said["file"], old, new, said["breaks"], Tier(said["tier"]), tuple(said["tests"]))


@cache
def _product(root: Path) -> tuple[Path, ...]:
    return tuple(_files(root, PRODUCT))


@cache
def _tests(root: Path) -> tuple[Path, ...]:
    return tuple(path for path in _files(root, ("tests",)) if path.suffix == ".py")


def _files(root: Path, folders: Iterable[str]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path for path in (root / folder).rglob("*") if path.suffix in KINDS and path.is_file())


def _ends(path: Path, end: str) -> bool:
    """`/` in front of an end: it is the whole path, for what has copies elsewhere."""
    whole = f"/{path.as_posix()}"
    return whole == end if end.startswith("/") else whole.endswith(f"/{end}")


def _test_id(root: Path, test: str) -> str:
    file, *names = test.split("::")
    found = [path for path in _tests(root) if _ends(path.relative_to(root), file)]
    if len(found) != 1:
        raise NotInTree(f"{len(found)} files of tests end in {file}, not one")
    text = found[0].read_text()
    for name in names:
        plain = name.partition("[")[0]
        if f"def {plain}(" not in text and f"class {plain}:" not in text:
            raise NotInTree(f"{found[0].relative_to(root)} has no {plain}")
    return "::".join([found[0].relative_to(root).as_posix(), *names])
