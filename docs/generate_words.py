"""Values of the package's enumerations, each with the docstring below it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "operator" / "kafka_recovery"


def members(file: str, name: str) -> list[tuple[str, str]]:
    """Of the enumeration `name` in a file below operator/kafka_recovery: each value, and what is said of it."""
    tree = ast.parse((PACKAGE / file).read_text())
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    found = []
    for node, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            said = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            found.append((str(node.value.value), _first_sentence(str(said))))
    return found


def _first_sentence(text: str) -> str:
    """Of a docstring, as one line."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.:])\s(?=[A-Z`])", paragraph)[0] if len(paragraph) > 160 else paragraph
