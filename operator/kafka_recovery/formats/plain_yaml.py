"""YAML from people we don't know: without aliases, bounded in depth, and each field once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

_DEEPEST = 16

Path = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A field that stands in its mapping already. Lines count from 1."""

    path: Path
    first: int
    line: int


class PlainLoader(yaml.SafeLoader):
    """As PyYAML's safe one, but raises MarkedYAMLError for aliases and for what is nested too deeply.

    Some lines of aliases make a document of terabytes.
    """

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """As PyYAML's, within these bounds."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        problem = "it is nested too deeply" if self.depth >= _DEEPEST else None
        if isinstance(event, yaml.AliasEvent):
            problem = "aliases are not supported; repeat the value"
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def repeated(node: yaml.Node, path: Path = ()) -> Iterator[Repeated]:
    """Fields that stand twice in one mapping: YAML forbids that, and PyYAML silently takes the last one.

    What stands below such a field's second value is not looked at.
    """
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            yield from repeated(child, (*path, index))
    elif isinstance(node, yaml.MappingNode):
        first: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            name, line, where = (key.tag, key.value), key.start_mark.line + 1, (*path, key.value)
            if name in first:
                yield Repeated(where, first[name], line)
            else:
                first[name] = line
                yield from repeated(value, where)
