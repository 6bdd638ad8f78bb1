"""How much is taken in: a bucket of requests, and what was said a moment ago. Seconds of a monotonic clock. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Bucket:
    """So many at once, and so many a second."""

    size: float
    rate: float
    _left: float = field(init=False)
    _at: float | None = None

    def __post_init__(self) -> None:
        self._left = self.size

    def take(self, now: float) -> float:
        """Take one; returns 0, or in how many seconds there is one again."""
        passed = 0.0 if self._at is None else max(0.0, now - self._at)
        self._left, self._at = min(self.size, self._left + passed * self.rate), now
        if self._left >= 1:
            self._left -= 1
            return 0.0
        return (1 - self._left) / self.rate


@dataclass(slots=True)
class Recent:
    """What was seen within `lasts` seconds; of more than `most` the oldest are forgotten."""

    lasts: float
    most: int
    _seen: OrderedDict[Hashable, float] = field(default_factory=OrderedDict)

    def again(self, what: Hashable, now: float) -> bool:
        """Whether it was seen already. If not, it is from now on; seeing it again makes that no longer."""
        seen = self._seen.get(what)
        if seen is not None and now - seen < self.lasts:
            return True
        self._seen[what] = now
        self._seen.move_to_end(what)
        while len(self._seen) > self.most:
            self._seen.popitem(last=False)
        return False

    def forget(self, what: Hashable) -> None:
        """It came to nothing: the next time counts."""
        self._seen.pop(what, None)
