"""What brokers' files say of min.insync.replicas is in no record: one that counts too low proves nothing false."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from kafka_recovery.domain.elr import replay_elr, some_leader_was_no_member
from kafka_recovery.domain.history import HistoryStep
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, MetadataOffset

REPLICAS = tuple(BrokerId(id) for id in (1, 2, 3))


@st.composite
def obeyed(draw: st.DrawFn) -> tuple[HistoryStep, ...]:
    """A history with the minima that its leaders went by, wherever those stand."""
    leader, epoch, isr = REPLICAS[0], 0, REPLICAS
    steps: list[HistoryStep] = []
    for since in range(draw(st.integers(2, 6))):
        minimum = draw(st.integers(1, 4))
        steps.append(HistoryStep(MetadataOffset(since), leader, LeaderEpoch(epoch), REPLICAS, isr, None, minimum))
        leader = draw(st.sampled_from((leader, *REPLICAS)))
        epoch += leader != steps[-1].leader
        isr = (leader, *draw(st.lists(st.sampled_from(REPLICAS), unique=True).map(set)) - {leader})
    return tuple(steps)


@given(obeyed(), st.lists(st.integers(1, 4), min_size=6, max_size=6))
def test_a_minimum_that_counts_no_higher_than_the_leader_s_makes_nobody_a_member(
    steps: Sequence[HistoryStep], seen: list[int]
) -> None:
    """A topic without a value of its own counts as 1, and no file may say less."""
    counted = [replace(step, min_isr=min(step.min_isr, value)) for step, value in zip(steps, seen, strict=False)]

    fewer, members = replay_elr(counted), replay_elr(steps)

    event("somebody is not believed" if fewer < members else "the same members")
    assert fewer <= members
    assert some_leader_was_no_member(counted) or not some_leader_was_no_member(steps)
