"""No loss class promises more than a model of acks=all kept: the proof against brute force."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import event, given, settings
from hypothesis import strategies as st

from kafka_recovery.decision.loss import classify
from kafka_recovery.domain.evidence import PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafka_recovery.domain.plan import Loss, LossClass
from property.acknowledging import EVENTS, Acknowledging, Event
from property.replication import Copy


def offline(copies: int, min_isr: int, events: list[Event]) -> Acknowledging:
    """The partition after these events, when nobody of the ISR is left to lead."""
    model = Acknowledging([Copy() for _ in range(copies)], min(min_isr, copies))
    for happening in events:
        model.happens(happening)
    model.lose_the_leader()
    return model


def seen(model: Acknowledging) -> PartitionEvidence:
    """What a gather sees: those who live answer under the current epoch."""
    return PartitionEvidence(
        id=TopicPartition("orders", 0),
        topic_id=TopicId("id-of-orders"),
        internal=False,
        leader=None,
        leader_epoch=LeaderEpoch(99),
        isr=tuple(BrokerId(broker) for broker in sorted(model.isr)),
        elr=None,
        last_known_elr=None,
        replicas=tuple(
            Replica(BrokerId(broker), copy.measured() if broker in model.alive else None)
            for broker, copy in enumerate(model.copies)
        ),
    )


def promises(model: Acknowledging) -> dict[int, Loss]:
    """The loss if each of those who answered were elected."""
    partition = seen(model)
    return {r.broker: classify(partition, r, model.history) for r in partition.replicas if r.log is not None}


def kept(model: Acknowledging, chosen: int, loss: Loss) -> bool:
    return loss.at_most is None or len(model.lost_by(chosen)) <= loss.at_most


CLEAN = (*sorted({*EVENTS} - {"unclean", "configure"}), "write", "fetch", "fetch", "expand", "stop", "restart")
"""Without what ends all proof at once."""

events = st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 3), st.integers(0, 3)), max_size=60)


@settings(max_examples=400)
@given(copies=st.integers(2, 4), min_isr=st.integers(1, 3), events=events)
def test_a_promise_about_acknowledged_records_is_kept(copies: int, min_isr: int, events: list[Event]) -> None:
    model = offline(copies, min_isr, events)

    for chosen, loss in promises(model).items():
        event(f"{loss.loss_class}")
        assert (loss.at_most is None) == (loss.loss_class is LossClass.UNKNOWN)
        assert kept(model, chosen, loss), (chosen, loss, model)


def test_the_same_of_thousands_of_longer_histories_that_reach_every_class() -> None:
    """Uniform choice reaches what a shrinking search seldom tries: each way of proof, in numbers."""
    chance, reached = random.Random(966), Counter[str]()
    for _ in range(4000):
        copies, length = chance.randint(3, 4), chance.randint(5, 60)
        happenings = [(chance.choice(CLEAN), chance.randrange(copies), chance.randint(0, 3)) for _ in range(length)]
        model = offline(copies, chance.randint(2, 3), happenings)
        for chosen, loss in promises(model).items():
            assert kept(model, chosen, loss), (chosen, loss, model)
            way = "ELR" if "ISR or ELR" in loss.proof else "quorum"
            reached[f"{loss.loss_class} by {way}" if loss.proof else loss.loss_class] += 1
            reached["truly lossy"] += bool(model.lost_by(chosen))

    for way in ("Lossless by ELR", "Lossless by quorum", "Bounded by quorum", "Unknown", "truly lossy"):
        assert reached[way] > 20, reached
