"""When the order of an assignment is left as it stands: it elects the leader anyway, whatever comes back meanwhile."""

from __future__ import annotations

from kafka_recovery.domain.plan import Verdict
from unit.decision.incident import broker, decided, evidence, log, partition

DEAD = broker(1, fenced=True, reachable=False)


def test_behind_a_dead_leader_the_best_survivor_is_elected_as_it_stands() -> None:
    """If broker 1, the last of the ISR, is back in time, it is elected cleanly."""
    decision = decided(evidence(partition({1: None, 2: log(27), 3: log(15)})))

    assert (decision.leader, decision.order) == (2, (1, 2, 3))


def test_behind_a_worse_survivor_it_is_not() -> None:
    decision = decided(evidence(partition({1: None, 3: log(15), 2: log(27)})))

    assert (decision.leader, decision.order) == (2, (2, 3, 1))


def test_before_a_fenced_replica_that_is_no_clean_member_the_order_is_altered() -> None:
    """It would be elected uncleanly, with whatever it has, if it came back between the last look and the election."""
    brokers = (DEAD, broker(2), broker(3), broker(4, fenced=True, reachable=False))
    decision = decided(evidence(partition({4: None, 1: None, 2: log(27), 3: log(15)}, isr=(1,)), brokers=brokers))

    assert (decision.leader, decision.order[0]) == (2, 2)


def test_if_the_leader_fails_in_that_moment_the_next_best_is_taken() -> None:
    brokers = (DEAD, broker(2), broker(3), broker(4))
    worse_first = partition({1: None, 2: log(27), 3: log(5), 4: log(15)}, isr=(1,))

    assert decided(evidence(worse_first, brokers=brokers)).order == (2, 4, 3, 1)


def test_a_replica_whose_broker_was_unregistered_keeps_nobody_from_being_elected() -> None:
    decision = decided(evidence(partition({1: None, 2: log(27), 3: log(15)}, isr=(1,)), brokers=(broker(2), broker(3))))

    assert (decision.verdict, decision.leader, decision.order) == (Verdict.ELECT, 2, (1, 2, 3))


def test_of_equal_ones_the_one_that_can_be_elected_with_an_unregistered_replica_is() -> None:
    brokers = (broker(2), broker(3))
    plans = [
        decided(evidence(partition({1: None, a: log(27), b: log(27)}), brokers=brokers)) for a, b in ((2, 3), (3, 2))
    ]

    assert [(plan.leader, plan.order) for plan in plans] == [(2, (1, 2, 3)), (3, (1, 3, 2))]


def test_an_order_that_kafka_would_not_take_is_refused_with_what_to_do() -> None:
    """Broker 1 was unregistered for good; the order that designates broker 2 would name it."""
    brokers = (broker(2), broker(3))
    decision = decided(evidence(partition({1: None, 3: log(15), 2: log(27)}), brokers=brokers))

    assert decision.verdict is Verdict.REFUSE
    assert (decision.reason and decision.reason.code) == "OrderCannotBeSet"
    assert "kafka-reassign-partitions.sh" in str(decision.reason)
