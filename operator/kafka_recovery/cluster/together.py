"""Several questions at once, of which all are answered or none counts."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, overload

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


@overload
async def together(a: Coroutine[Any, Any, A], b: Coroutine[Any, Any, B], /) -> tuple[A, B]: ...
@overload
async def together(
    a: Coroutine[Any, Any, A], b: Coroutine[Any, Any, B], c: Coroutine[Any, Any, C], d: Coroutine[Any, Any, D], /
) -> tuple[A, B, C, D]: ...
@overload
async def together(*work: Coroutine[Any, Any, A]) -> tuple[A, ...]: ...
async def together(*work: Coroutine[Any, Any, Any]) -> tuple[Any, ...]:
    """What each returns, in their order.

    After the first error the others are called off, and have ended before it is raised: nothing asks on behind the back
    of whoever tries again.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            begun = [tasks.create_task(each) for each in work]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return tuple(task.result() for task in begun)
