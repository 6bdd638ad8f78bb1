"""What a loss class promises is kept by every state of a small Kafka that looks like the evidence."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from exhaustive.every_log import CURRENT
from exhaustive.evidence_space import broker as well
from exhaustive.judging import Count
from exhaustive.small_kafka import Bounds, State, every_state, walk
from exhaustive.worlds import CLUSTER, evidence, losses_behind, losses_beside_an_old_leader
from kafka_recovery.decision.checks import broker_objection
from kafka_recovery.decision.cluster_index import index_of
from kafka_recovery.decision.judgement import rank
from kafka_recovery.decision.loss import classify
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Loss
from kafka_recovery.domain.policy import CandidateOrder, Policy, Rule
from kafka_recovery.simulator.histories.judging.naive_order import best_first_of


def promises(
    states: Iterable[State], *, known: bool = True, fenced_answer: bool = False
) -> Iterator[tuple[Loss, int, int]]:
    """Of everybody who answers in every evidence: what electing it is said to cost, and the least and most it does.

    `known`: the history is, so that there are proofs.
    """
    for visible, losses in losses_behind(states, fenced_answer=fenced_answer).items():
        partition = evidence(visible) if known else replace(evidence(visible), history=None)
        for replica, (least, most) in zip(partition.replicas, losses, strict=True):
            if replica.log is not None:
                loss = classify(partition, replica, CLUSTER)
                assert loss.at_least <= least, (loss, least, partition)
                assert loss.at_most is None or most <= loss.at_most, (loss, most, partition)
                assert (loss.at_most is None) == (loss.loss_class is LossClass.UNKNOWN), loss
                assert loss.proof or loss.missing, loss
                yield loss, least, most


def reached(states: Iterable[State]) -> Counter[str]:
    """How often each class was proven, in each way; and how often a bound is what is lost at worst."""
    found = Counter[str]()
    for loss, _, most in promises(states):
        way = "" if not loss.proof else " by containment" if "'s log" in loss.proof else " by ELR"
        found[f"{loss.loss_class}{way}"] += 1
        found["Bounded, and that much is lost"] += bool(loss.at_most) and loss.at_most == most
    return found


def each(states: Iterable[State], counted: Count) -> Iterator[State]:
    """The same, and counted."""
    for state in states:
        counted(1)
        yield state


WAYS = ("Lossless by ELR", "Lossless by containment", "Bounded by containment", "Unknown")


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
    found = reached(each(every_state(bounds), counted))

    assert all(found[way] > 0 for way in (*WAYS, "Bounded, and that much is lost")), found


KNOWN = replace(CLUSTER, brokers=tuple(well(id) for id in range(3)), view_from=BrokerId(0))
NOTHING_PROVEN = (2, 0)


def proven(loss: Loss) -> tuple[int, int]:
    """Smaller is better."""
    return NOTHING_PROVEN if loss.at_most is None else (loss.loss_class is LossClass.BOUNDED, loss.at_most)


def test_by_least_loss_what_is_proven_best_comes_first_and_the_rest_as_by_epochs(counted: Count) -> None:
    bounds, otherwise = Bounds(replicas=3, records=2, epochs=3, steps=3, min_isrs=(2,)), 0
    policy = Policy((Rule("any"),))
    around = index_of(KNOWN, policy, broker_objection)
    for visible in losses_behind(each(every_state(bounds), counted)):
        partition = evidence(visible)
        by_epochs, by_loss = (
            rank(partition, Rule("any", candidate_order=order), around).best_first
            for order in (CandidateOrder.EPOCH_FIRST, CandidateOrder.LEAST_LOSS)
        )
        costs = {id: proven(classify(partition, partition.replicas[id], KNOWN)) for id in by_epochs}
        assert list(by_loss) == sorted(by_epochs, key=costs.__getitem__), (partition, costs)
        assert by_loss == best_first_of(partition, KNOWN, CandidateOrder.LEAST_LOSS), (partition, costs)
        otherwise += by_loss[:1] != by_epochs[:1]
    assert otherwise > 0


def what_is_told_is_lost(bounds: Bounds, counted: Count, *, fenced_answer: bool = False) -> None:
    """And each number of records is told of somewhere."""
    states = each(every_state(bounds), counted)
    promised = promises(states, known=False, fenced_answer=fenced_answer)
    told = Counter((loss.at_least, least) for loss, least, _ in promised)

    assert all(told[lost, lost] > 0 for lost in range(bounds.records + 1)), told


SEEN_ONCE = Bounds(replicas=2, records=2, epochs=4, steps=3, min_isrs=(1,), looks=True, unclean_at_once=True)


def test_what_is_said_to_be_lost_at_least_is_lost_in_every_state_in_which_that_was_seen(counted: Count) -> None:
    """Somebody looked once, at any time: later leaders may have begun below, or had it all."""
    what_is_told_is_lost(SEEN_ONCE, counted)


def test_what_an_earlier_election_lost_is_not_told_as_lost_by_this_one_if_all_replicas_answer(counted: Count) -> None:
    """All vectors together tell who led in between, unless a host crashed and took the entry along."""
    what_is_told_is_lost(replace(SEEN_ONCE, hosts_crash=False), counted, fenced_answer=True)


def test_a_class_holds_though_an_overthrown_leader_goes_on_acknowledging(counted: Count) -> None:
    """The controller has fenced it, and it does not know; who has not heard of that either goes on following it.

    Whoever answers under the current epoch has heard of it. Who does not, may have been seen, and is no proof.
    """
    bounds, proven = Bounds(replicas=3, records=1, epochs=3, steps=3, min_isrs=(2,)), 0
    for (visible, told), losses in losses_beside_an_old_leader(each(every_state(bounds), counted), bounds).items():
        partition = evidence(visible)
        replicas = tuple(
            replace(replica, log=replica.log and replace(replica.log, answered_under=LeaderEpoch(CURRENT - 1)))
            if replica.broker not in told
            else replica
            for replica in partition.replicas
        )
        for broker, most in zip(told, losses, strict=True):
            loss = classify(replace(partition, replicas=replicas), replicas[broker], CLUSTER)
            assert loss.at_most is None or most <= loss.at_most, (loss, most, replicas, partition.history)
            proven += loss.at_most is not None
    assert proven > 0


def walked(walks: int, counted: Count) -> Counter[str]:
    """Random states of four replicas after long histories."""
    bounds = Bounds(replicas=4, records=6, epochs=9, steps=12, min_isrs=(2, 3), unclean_at_once=True)
    found = Counter[str]()
    for seed in range(walks):
        found += reached(each(walk(bounds, random.Random(seed), events=50), counted))
    return found


def test_a_loss_class_holds_in_random_states_of_four_replicas_after_long_histories(counted: Count) -> None:
    """They are too many to try them all."""
    found = walked(100, counted)

    assert all(found[way] > 0 for way in WAYS), found


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_loss_class_holds_in_a_million_random_states_of_four_replicas(counted: Count) -> None:
    """20,000 walks of 50 events: some minutes."""
    found = walked(20_000, counted)

    assert all(found[way] > 0 for way in WAYS), found


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_what_is_said_to_be_lost_at_least_is_lost_of_three_records_too(counted: Count) -> None:
    """Some hundred thousand states."""
    bounds = replace(SEEN_ONCE, records=3)
    what_is_told_is_lost(bounds, counted)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(replicas=2, records=3, epochs=5, steps=4, min_isrs=(1, 2)),
        Bounds(replicas=3, records=2, epochs=4, steps=5, min_isrs=(2,)),
        Bounds(replicas=3, records=3, epochs=3, steps=4, min_isrs=(2,)),
        Bounds(replicas=3, records=2, epochs=3, steps=4, min_isrs=(2, 1)),
        Bounds(replicas=3, records=2, epochs=4, steps=4, min_isrs=(3,)),
    ],
)
def test_the_same_of_more_records_leaders_and_changes(bounds: Bounds, counted: Count) -> None:
    """Hundreds of thousands of states each: minutes for each of the bounds."""
    assert reached(each(every_state(bounds), counted))["Unknown"] > 0
