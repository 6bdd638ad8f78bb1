"""Making very many frozen values, as the evidence of a large incident is."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, field, fields, make_dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
N = TypeVar("N", bound=tuple[object, ...])


def made_quickly(kind: Callable[P, T]) -> Callable[P, T]:
    """A constructor of a frozen dataclass with slots; its own one takes several times as long.

    An open twin with the same slots and defaults is filled, and then becomes what it is to be.
    """
    frozen: Any = kind

    def become(self: Any) -> None:
        self.__class__ = frozen

    made_of = [(each.name, Any, _default(each)) for each in fields(frozen)]
    open_twin: Any = make_dataclass(f"Open{frozen.__name__}", made_of, slots=True, namespace={"__post_init__": become})
    if open_twin.__slots__ != frozen.__slots__ or hasattr(frozen, "__post_init__"):
        raise TypeError(f"{frozen.__name__} has slots other than its fields, or more to do when it is made")
    made: Callable[P, T] = open_twin
    return made


def _default(of: Any) -> Any:
    if of.default is MISSING and of.default_factory is MISSING:
        return field()
    return field(default=of.default) if of.default_factory is MISSING else field(default_factory=of.default_factory)


def filled_quickly(kind: type[N]) -> Callable[[Any], N]:
    """What makes a NamedTuple of all its values, in order; its own constructor takes twice as long."""
    return partial(tuple.__new__, kind)


_YOUNG = 50_000
"""Objects that are made, and not gone again, before the collector looks at them."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Where very much is made inside, the collector of cycles looks at none of it before its next full round.

    For what makes very many values that have none: looking through them takes as long as a part of making them. Handing
    them over sets back what the collector counts its rounds by: done for every small plan, it would keep full ones off.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_count()[0] > _YOUNG:
                gc.freeze()
                gc.unfreeze()  # both only hand lists over: all that is new is in the oldest generation then
            gc.enable()


def collect_seldom() -> None:
    """Let the collector of cycles look less often: evidence has no cycles, and a large incident's is many objects.

    What was imported by now stays: no collection walks it before `uncollected` hands over the first large plan. From
    then on full rounds do, as that thaws all that is frozen.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
