"""Level-triggered work: keys that want a look, each at most once in line and never looked at twice at a time.

The model of controller-runtime's queue on asyncio: an event only says *which* object, never what to do with it.

    queue = WorkQueue(reconcile, owner=lambda key: key[0])
    task = asyncio.create_task(queue.run())
    queue.add(("kafka", "orders-1"))
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, NamedTuple, TypeVar

_LOG = logging.getLogger(__name__)

FIRST_PAUSE = timedelta(milliseconds=500)
"""After a first failure; doubled with each further one in a row."""

LONGEST_PAUSE = timedelta(minutes=1)

JITTER = 0.1
"""Share of a pause that is left to chance, so that what failed together does not come back together."""

TOLD_AGAIN = timedelta(minutes=1)
"""A trouble that many keys have is one line so often, not a line for each."""

CANCELLING = timedelta(seconds=1)
"""How long a cancelled look has to clean up."""

_NOW = timedelta(0)

Key = TypeVar("Key", bound=Hashable)


class Requeue(Exception):
    """Look at the key again soon: a race was lost (HTTP 409). It is no failure, and no pause grows."""

    def __init__(self, after: timedelta = timedelta(milliseconds=50)) -> None:
        super().__init__(f"again in {after.total_seconds():g} s")
        self.after = after


class Depth(NamedTuple):
    """How many keys wait for their time, are due and wait for a worker, are looked at, and failed the last time."""

    later: int
    due: int
    running: int
    failing: int


@dataclass(slots=True)
class _Told:
    """When a trouble was told last, on the loop's clock, and how often it was met since."""

    at: float
    more: int = 0


def nothing_expected(error: Exception) -> str | None:
    """Every failure is an error of our own."""


class WorkQueue(Generic[Key]):
    """Calls `reconcile` for each key that was added, with at most `workers` at a time.

    What `reconcile` returns is when to look again without being told; None: not before somebody adds the key. If it
    raises, the key comes back by itself after a pause of its own; being told meanwhile brings it back sooner, but never
    sooner than the first pause: a key that always fails must not keep a worker busy because its object is noisy.

    `owner`: what a key belongs to, such as its namespace. The owner with the fewest looks is next, and the last free
    worker is for an owner that has none: one owner with thousands of keys, or with looks that never end, keeps no other
    waiting for longer than a look of that other's own.

    `at_once`: looks of one owner at a time; None: as many as there are workers. `urgent`: the owners for whom something
    goes on that must not wait. They may have more, and meanwhile each other owner has one look at most.

    `expected`: the cause of a failure that comes from outside, such as an API server that is away. All keys that fail
    for the same cause are one line a minute; what has none is an error of our own, and told with its traceback.

    It belongs to one event loop. Before `run`, keys only gather.
    """

    def __init__(
        self,
        reconcile: Callable[[Key], Awaitable[timedelta | None]],
        *,
        owner: Callable[[Key], Hashable],
        workers: int = 8,
        first_pause: timedelta = FIRST_PAUSE,
        longest_pause: timedelta = LONGEST_PAUSE,
        chance: random.Random | None = None,
        at_once: int | None = None,
        urgent: Callable[[], Collection[Hashable]] = tuple,
        expected: Callable[[Exception], str | None] = nothing_expected,
    ) -> None:
        self._reconcile = reconcile
        self._workers = workers
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._chance = chance or random.Random()
        self._owner = owner
        self._at_once = workers if at_once is None else at_once
        self._urgent = urgent
        self._expected = expected
        self._told: dict[str, _Told] = {}
        self._later: dict[Key, asyncio.TimerHandle] = {}
        self._due: dict[Hashable, dict[Key, None]] = {}
        """Of each owner that has any, in the order in which they get their turns."""
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._looks_of: Counter[Hashable] = Counter()
        """How many of these each owner has."""
        self._since: dict[Key, float] = {}
        """When each of these began, on the loop's clock."""
        self._again: dict[Key, float] = {}
        self._not_before: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}
        self._over: asyncio.Future[None] | None = None
        self._stopped = False

    @property
    def depth(self) -> Depth:
        """How much there is to do now."""
        return Depth(len(self._later), sum(map(len, self._due.values())), len(self._running), len(self._failures))

    @property
    def longest_look(self) -> timedelta:
        """For how long the longest of the present looks goes on. Must be asked on the loop."""
        now = asyncio.get_running_loop().time()
        return timedelta(seconds=now - min(self._since.values(), default=now))

    def add(self, key: Key, after: timedelta = _NOW) -> None:
        """Look at this key, not before so long; of several wishes the earliest counts. Must be called on the loop.

        A key that is being looked at is looked at once more afterwards: the present look may have read too early.
        """
        loop = asyncio.get_running_loop()
        at = max(loop.time() + after.total_seconds(), self._not_before.get(key, 0.0))
        if self._stopped or key in self._due.get(self._owner(key), ()):
            return
        if key in self._running:
            self._again[key] = min(at, self._again.get(key, at))
        elif at <= loop.time():
            self._ripe(key)
        elif key not in self._later or at < self._later[key].when():
            self._drop_later(key)
            self._later[key] = loop.call_at(at, self._ripe, key)

    def forget(self, key: Key) -> None:
        """The object is gone: nothing of it is remembered. A look that is under way ends by itself."""
        self._drop_later(key)
        self._drop_due(key)
        for memory in (self._again, self._not_before, self._failures):
            memory.pop(key, None)

    async def run(self) -> None:
        """Work until `stop`. Raises what a look raised that is no Exception: a lost Lease must end the process."""
        if not self._stopped:
            self._over = asyncio.get_running_loop().create_future()
            self._start_what_is_due()
            await self._over

    async def stop(self, grace: timedelta) -> list[Key]:
        """Start nothing new, let what runs end within the grace, cancel the rest and name it."""
        self._stopped = True
        for key in tuple(self._later):
            self._drop_later(key)
        self._due.clear()
        left: list[Key] = []
        if tasks := dict(self._running):
            await asyncio.wait(tasks.values(), timeout=grace.total_seconds())
            left = [key for key, task in tasks.items() if not task.done()]
        for key in left:
            tasks[key].cancel()
        if left:
            await asyncio.wait([tasks[key] for key in left], timeout=CANCELLING.total_seconds())
        if self._over and not self._over.done():
            self._over.set_result(None)
        return left

    def _drop_later(self, key: Key) -> None:
        if handle := self._later.pop(key, None):
            handle.cancel()

    def _drop_due(self, key: Key) -> None:
        if keys := self._due.get(owner := self._owner(key)):
            keys.pop(key, None)
            if not keys:
                del self._due[owner]

    def _ripe(self, key: Key) -> None:
        self._drop_later(key)
        self._due.setdefault(self._owner(key), {})[key] = None
        self._start_what_is_due()

    def _next(self) -> Key | None:
        """Whose turn it is; None: nothing is due, or nobody may have the workers that are left."""
        free, urgent = self._workers - len(self._running), self._urgent()

        def may_begin(owner: Hashable) -> bool:
            looks = self._looks_of[owner]
            more = owner in urgent or (not urgent and looks < self._at_once)
            return free > 0 and (looks == 0 or (free > 1 and more))

        owner = min(filter(may_begin, self._due), key=self._looks_of.__getitem__, default=None)
        if owner is None:
            return None
        keys = self._due.pop(owner)
        key = next(iter(keys))
        del keys[key]
        if keys:
            self._due[owner] = keys  # behind all others
        return key

    def _start_what_is_due(self) -> None:
        while self._over and not self._stopped and (key := self._next()) is not None:
            self._looks_of[self._owner(key)] += 1
            look = asyncio.create_task(self._look(key), name=f"reconcile {key}", context=Context())
            self._since[key] = asyncio.get_running_loop().time()
            self._running[key] = look  # in a context of its own: what it logs is not about whoever added the key
            self._running[key].add_done_callback(self._looked)

    async def _look(self, key: Key) -> None:
        after: timedelta | None = None
        try:
            after = await self._reconcile(key)
            self._failures.pop(key, None)
            self._not_before.pop(key, None)
        except Requeue as requeue:
            after = requeue.after
        except asyncio.CancelledError as cancelled:
            if self._stopped:
                raise
            # Something that it waited for was cancelled, not the look: without this the key would be lost.
            after = self._failed(key, cancelled)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with one object must not stop the others
            after = self._failed(key, error)
        finally:
            del self._running[key], self._since[key]
            self._looks_of -= Counter([self._owner(key)])  # which keeps none of those that have none
            self._come_back(key, after)

    def _failed(self, key: Key, error: BaseException) -> timedelta:
        """Count and log a failure; returns the pause it costs."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        grown = self._first_pause * 2 ** min(failures - 1, 20)
        pause: timedelta = min(self._longest_pause, grown) * self._chance.uniform(1 - JITTER, 1 + JITTER)
        self._not_before[key] = asyncio.get_running_loop().time() + min(pause, self._first_pause).total_seconds()
        again = f"{failures} times in a row; again in {pause.total_seconds():.1f} s"
        cause = self._expected(error) if isinstance(error, Exception) else None
        if cause is None:
            _LOG.error("looking at %s failed, %s", key, again, exc_info=error)
        else:
            self._tell(cause, f"looking at {key} failed, {again}: {error}")
        return pause

    def _tell(self, cause: str, sentence: str) -> None:
        now = asyncio.get_running_loop().time()
        told = self._told.get(cause)
        if told and now - told.at < TOLD_AGAIN.total_seconds():
            told.more += 1
            return
        more = f" ({told.more} more like it in the meantime)" if told and told.more else ""
        self._told[cause] = _Told(now)
        _LOG.warning("%s%s", sentence, more)

    def _come_back(self, key: Key, after: timedelta | None) -> None:
        now = asyncio.get_running_loop().time()
        told = self._again.pop(key, None)
        if after is not None:
            self.add(key, after)
        if told is not None:
            self.add(key, timedelta(seconds=max(0.0, told - now)))

    def _looked(self, task: asyncio.Task[None]) -> None:
        """A worker is free. What no look may survive ends the queue."""
        error = None if task.cancelled() else task.exception()
        if error is not None and self._over and not self._over.done():
            self._over.set_exception(error)
        self._start_what_is_due()
