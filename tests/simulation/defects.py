"""Deliberate defects of the engine that show in drawn histories as well as in corners: each patches one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.decision import judgement, loss, planner
from kafka_recovery.decision import recheck as rechecking
from kafka_recovery.domain.election import Answer, ElectionAnswer, ElectionRequest
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Loss

Patch = Callable[[pytest.MonkeyPatch], None]


def everything_is_lossless(patch: pytest.MonkeyPatch) -> None:
    honest = loss.classify

    def boast(*args: Any, **kwargs: Any) -> Loss:
        return replace(honest(*args, **kwargs), loss_class=LossClass.LOSSLESS, at_most=0, proof="highest epoch")

    for module in (planner, judgement, rechecking):
        patch.setattr(module, "classify", boast)


def restored_without_comparing(patch: pytest.MonkeyPatch) -> None:
    async def restore(
        self: AssignmentOrderElection, requests: Sequence[ElectionRequest]
    ) -> Mapping[TopicPartition, ElectionAnswer]:
        answers = dict.fromkeys((b.id for b in requests), ElectionAnswer(Answer.ACCEPTED))
        return {**answers, **await self._order({b.id: b.assignment for b in requests if b.order != b.assignment})}

    patch.setattr(AssignmentOrderElection, "restore", restore)
