"""The clusters of a process are closed when their story is over."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kafka_recovery.kube.clusters import clusters as module
from unit.kube.clusters.watched import SilentKafka, Watched
from unit.kube.our_objects import inhabited


@pytest.fixture
async def watched(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    monkeypatch.setattr(module, "KafkaCluster", SilentKafka)
    started = Watched(inhabited())
    yield started
    await started.all.stop()
