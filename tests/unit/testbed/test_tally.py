"""The count of what elections cost names each that took more than was said, and each Lossless one by its proof."""

from __future__ import annotations

import pytest

from brokers.tally import CONTAINMENT, MEMBERSHIP, Elected, Tally
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Loss

BY_MEMBERSHIP = Loss(LossClass.LOSSLESS, at_most=0, proof="broker 2 was in the ELR and is intact")
BY_CONTAINMENT = Loss(LossClass.LOSSLESS, at_most=0, proof="it contains broker 3's log")


@pytest.mark.parametrize(
    ("loss", "gone", "kept"),
    [
        (BY_MEMBERSHIP, 0, True),
        (BY_MEMBERSHIP, 1, False),
        (Loss(LossClass.BOUNDED, at_most=3), 3, True),
        (Loss(LossClass.BOUNDED, at_most=3), 4, False),
        (Loss(LossClass.UNKNOWN), 4, True),
    ],
)
def test_what_took_more_than_its_bound_has_not_kept_it(loss: Loss, gone: int, kept: bool) -> None:
    assert Elected(loss, acknowledged=10, gone=gone).kept_its_bound is kept


def test_recoveries_are_counted_by_the_proof_of_any_of_their_partitions() -> None:
    both = [Elected(BY_MEMBERSHIP, 10, 0), Elected(BY_CONTAINMENT, 10, 0)]
    none = [Elected(Loss(LossClass.UNKNOWN), 10, 1)]

    tally = Tally("4.0.0", [both, [Elected(BY_MEMBERSHIP, 5, 0)], none])

    assert [tally.recoveries(by) for by in (None, MEMBERSHIP, CONTAINMENT)] == [2, 2, 1]
    assert len(tally.partitions(LossClass.LOSSLESS)) == 3
