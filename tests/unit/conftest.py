"""What all unit tests share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import typer.testing
from typer.main import get_command


@pytest.fixture(scope="session", autouse=True)
def commands_built_once() -> Iterator[None]:
    """typer's test runner builds all commands of a program anew each time that it runs one of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(get_command))
        yield
