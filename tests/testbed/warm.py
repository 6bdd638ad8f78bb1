"""A cluster that many tests use one after the other: what one of them broke is mended before the next one has it.

To start four JVMs costs seven seconds of CPU; to thaw a broker costs nothing, to start one again a quarter. A cluster
that nobody has stands still: four JVMs that do nothing take a tenth of a processor.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from testbed.cluster import RealKafka
from testbed.node import NodeDied
from testbed.waiting import WaitedInVain

SESSION = 2.0
"""Seconds; an accident takes several of them, and no broker on a busy machine is silent for so long by itself."""

log = logging.getLogger(__name__)


class WarmKafka:
    """At most one cluster, the last that was wanted; it ends when another one is, or with the `with` block."""

    def __init__(self) -> None:
        self._kafka: RealKafka | None = None
        self._wish: Mapping[str, Any] = {}
        self._lent = False

    @contextmanager
    def lent(self, release: str = "newest", *, for_good: bool = False, **wish: Any) -> Iterator[RealKafka]:
        """A cluster with all its brokers and no topic, until the end of the block; what is wanted as of RealKafka.

        Users and ACLs of whoever had it before are still there. `for_good`: nobody can have it afterwards, so it ends
        with the block.
        """
        if self._lent:
            raise RuntimeError("somebody has the cluster already: give it back before another one is wanted")
        wanted = {"release": release, "session_timeout": SESSION, **wish}
        kafka = self._mended() if wanted == self._wish else None
        self._kafka = kafka or self._started(wanted)
        self._lent = True
        try:
            yield self._kafka
        finally:
            self._lent = False
            if for_good:
                self.close()
            else:
                self._kafka.rest()

    def close(self) -> None:
        """Ends the cluster, if there is one."""
        if self._kafka:
            self._kafka.__exit__(None, None, None)
        self._kafka, self._wish = None, {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _started(self, wanted: dict[str, Any]) -> RealKafka:
        self.close()
        kafka = RealKafka(**wanted).__enter__()
        self._wish = wanted
        return kafka

    def _mended(self) -> RealKafka | None:
        """Mended only now: after the last test of all nobody needs it. None if Kafka can't be brought back."""
        if self._kafka:
            try:
                mend(self._kafka)
            except (WaitedInVain, NodeDied) as trouble:
                log.warning("a new cluster in place of one that does not come back: %s", trouble)
                return None
        return self._kafka


def mend(kafka: RealKafka) -> None:
    """Every node is back, and every topic is gone. In this order: 4.4.0 fails when a broker of a cleared ELR comes
    back to a topic that is gone."""
    kafka.revive()
    kafka.delete_topics()
