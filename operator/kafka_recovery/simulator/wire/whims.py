"""How brokers may treat a client besides answering it: throttle it, or answer with an error that nobody expects."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any, Protocol


class Whims(Protocol):
    """What becomes of the next answer."""

    def throttle(self) -> int:
        """Milliseconds for which the client is to be quiet; it is not heard meanwhile (KIP-219). 0: none."""
        ...

    def error(self) -> int | None:
        """An error code in place of what the answer says; None: it says what it should."""
        ...

    @property
    def random(self) -> Random:
        """Where in the answer."""
        ...


class Fair:
    """Brokers that do neither."""

    random = Random(0)

    def throttle(self) -> int:
        """Never."""
        return 0

    def error(self) -> int | None:
        """Never."""
        return None


FAIR = Fair()


def spoil(values: Any, code: int, random: Random) -> None:
    """Let one of the places for an error code, in an answer or anywhere in it, hold this one."""
    places = list(_places(values))
    if places:
        random.choice(places).error_code = code


def _places(values: Any) -> Iterator[SimpleNamespace]:
    if isinstance(values, SimpleNamespace):
        if hasattr(values, "error_code"):
            yield values
        for value in vars(values).values():
            yield from _places(value)
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _places(value)
