"""When a process says that it can do its work."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafka_recovery.kube.machinery import readiness
from kafka_recovery.kube.machinery.api import ApiError, NotServed, Object
from kafka_recovery.kube.machinery.readiness import Readiness
from kafka_recovery.kube.resources.kinds import CLUSTERS, RECOVERIES, collections

BOTH = list(collections((CLUSTERS, RECOVERIES), ("kafka",)))


class Listing:
    """Refuses a collection as often as it is told to, and remembers what was said meanwhile."""

    def __init__(self, of: Readiness, refusals: Sequence[Exception]) -> None:
        self._of = of
        self._refusals = list(refusals)
        self.asked: list[str] = []
        self.told: list[str] = []

    async def first(self, path: str) -> Sequence[Object]:
        self.told.append(self._of.unready)
        self.asked.append(path)
        if path.endswith(RECOVERIES.plural) and self._refusals:
            raise self._refusals.pop(0)
        return ()


async def test_it_is_ready_once_each_kind_was_listed_and_says_until_then_which_was_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readiness, "AGAIN", 0)
    ready = Readiness()
    api = Listing(ready, [NotServed(404, "NotFound", "no such kind"), ApiError(403, "Forbidden", "no right")])
    assert ready.unready, "nothing was listed yet"

    await ready.reached(api, BOTH)

    assert ready.unready == ""
    assert api.asked == [BOTH[0], BOTH[1], BOTH[1], BOTH[1]]
    assert api.told[2:] == [f"{BOTH[1]} can't be listed: NotFound", f"{BOTH[1]} can't be listed: Forbidden"]


def test_each_namespace_is_listed_or_all_of_them_at_once() -> None:
    assert list(collections((CLUSTERS,), ("a", "b"))) == [CLUSTERS.path("a"), CLUSTERS.path("b")]
    assert list(collections((CLUSTERS,), ())) == [CLUSTERS.path(None)]
