"""YAML from people we don't know: without aliases, and bounded in depth."""

from __future__ import annotations

from typing import Any

import yaml

_DEEPEST = 16


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
