"""What a loss class promises is kept by every state of a small Kafka that looks like the evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from exhaustive.conftest import Count
from exhaustive.small_kafka import Bounds, State, every_state
from exhaustive.worlds import evidence, losses_behind
from kafka_recovery.decision.loss import classify
from kafka_recovery.domain.plan import Loss, LossClass


def promises(bounds: Bounds, counted: Count) -> Iterator[tuple[Loss, int, int]]:
    """Of everybody who answers in every evidence: what electing it is said to cost, and the least and most it does."""

    def states() -> Iterator[State]:
        for state in every_state(bounds):
            counted(1)
            yield state

    for visible, losses in losses_behind(states()).items():
        partition, history = evidence(visible)
        for replica, (least, most) in zip(partition.replicas, losses, strict=True):
            if replica.log is not None:
                loss = classify(partition, replica, None if bounds.looks else history)
                assert loss.at_least <= least, (loss, least, partition, history)
                assert loss.at_most is None or most <= loss.at_most, (loss, most, partition, history)
                assert (loss.at_most is None) == (loss.loss_class is LossClass.UNKNOWN), loss
                assert loss.proof or loss.missing, loss
                yield loss, least, most


def reached(bounds: Bounds, counted: Count) -> Counter[str]:
    """How often each class was proven, in each way; and how often a bound is what is lost at worst."""
    found = Counter[str]()
    for loss, _, most in promises(bounds, counted):
        way = "" if not loss.proof else " by ELR" if "ISR or ELR" in loss.proof else " by quorum"
        found[f"{loss.loss_class}{way}"] += 1
        found["Bounded, and that much is lost"] += bool(loss.at_most) and loss.at_most == most
    return found


EACH = ("Lossless by ELR", "Lossless by quorum", "Bounded by quorum", "Bounded, and that much is lost", "Unknown")


@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(replicas=3, records=2, epochs=3, steps=4, min_isrs=(2,)),
        Bounds(replicas=3, records=1, epochs=4, steps=4, min_isrs=(2,)),
        Bounds(replicas=3, records=1, epochs=3, steps=4, min_isrs=(2, 1)),
    ],
    ids=["two records", "one more leader", "min.insync.replicas changes"],
)
def test_a_loss_class_holds_in_every_state_of_three_replicas(bounds: Bounds, counted: Count) -> None:
    found = reached(bounds, counted)

    assert all(found[each] > 0 for each in EACH), found


def test_a_loss_class_holds_in_every_state_of_two_replicas(counted: Count) -> None:
    """Of two, both must be intact and answer to prove anything by their number."""
    found = reached(Bounds(replicas=2, records=2, epochs=4, steps=3, min_isrs=(1, 2)), counted)

    assert found["Lossless by ELR"] > 0


def test_what_is_said_to_be_lost_at_least_is_lost_in_every_state_in_which_that_was_seen(counted: Count) -> None:
    """Somebody looked once, at any time: later leaders may have begun below, or had it all."""
    bounds = Bounds(replicas=2, records=2, epochs=5, steps=5, min_isrs=(1,), looks=True)
    told = Counter((loss.at_least, least) for loss, least, _ in promises(bounds, counted))

    assert told[1, 1] > 0
    assert told[2, 2] > 0


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(replicas=3, records=2, epochs=4, steps=5, min_isrs=(2,)),
        Bounds(replicas=3, records=3, epochs=3, steps=4, min_isrs=(2,)),
        Bounds(replicas=3, records=2, epochs=3, steps=4, min_isrs=(2, 1)),
        Bounds(replicas=3, records=2, epochs=4, steps=4, min_isrs=(3,)),
    ],
)
def test_the_same_of_more_records_leaders_and_changes(bounds: Bounds, counted: Count) -> None:
    """Hundreds of thousands of states each: a minute or two for each of the bounds."""
    assert reached(bounds, counted)["Unknown"] > 0
