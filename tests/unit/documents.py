"""Documents that programs read, held against the schemas that the documentation has of them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[2] / "docs" / "reference" / "schemas"


def document(name: str, text: str) -> dict[str, Any]:
    """What is in the text. Raises ValidationError unless it is such a document, without fields that are not told of."""
    return fitting(name, json.loads(text))


def fitting(name: str, content: dict[str, Any]) -> dict[str, Any]:
    """The same of what was read already."""
    _validator(name).validate(content)
    return content


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(_closed(json.loads((SCHEMAS / f"{name}.json").read_text())))


def _closed(node: Any) -> Any:
    """The same, and a field that it does not know is an error."""
    if isinstance(node, list):
        return [_closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    closed = {key: _closed(value) for key, value in node.items()}
    return closed | {"additionalProperties": False} if node.get("type") == "object" and "properties" in node else closed
