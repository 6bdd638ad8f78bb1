"""Whether something better than a plan's elections can be waited for, and which broker to look at first. Words only.

What is promised of a broker's return is what `decision.returns` says of it, with its disk named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from kafka_recovery.decision.returns import away, elected_by_kafka
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Plan

_NAMED = 3
"""So many brokers are named; the others are counted."""

Returns = Mapping[TopicPartition, frozenset[BrokerId]]
"""Of each partition, the brokers that are away, and that Kafka elects by itself once they are back."""


def elect_or_wait(plan: Plan) -> Iterator[str]:
    """For whoever consents to the elections of a plan; nothing, where nothing can be said."""
    proven = {id for id, each in plan.elections.items() if each.loss and each.loss.loss_class is LossClass.LOSSLESS}
    seen = {partition.id: partition for partition in plan.evidence.partitions}
    unproven = [seen[id] for id in plan.elections if id not in proven]
    returns = {each.id: frozenset(elected_by_kafka(each)).intersection(away(each)) for each in unproven}
    yield from _nothing_better(len(proven), len(plan.elections))
    yield from _start_first(returns)


def _nothing_better(proven: int, all: int) -> Iterator[str]:
    if proven:
        where = "" if proven == all else f" on {proven:,} of {all:,} partitions"
        yield (
            f"Waiting gains nothing{where}: the election is proven Lossless, so no broker that is away holds a record "
            "acknowledged with acks=all that the new leader lacks."
        )


def _start_first(returns: Returns) -> Iterator[str]:
    ordered = list(_by_gain(returns))
    if not ordered:
        return
    (first, gain), *others = ordered
    than = "" if gain == len(returns) else f" ({gain:,} of {len(returns):,} partitions)"
    yield (
        f"Before another broker leads, see whether broker {first} can be started with its own, intact disk: Kafka can "
        f"then elect it by itself{than}. If Kafka does, nothing has to be approved, and nothing acknowledged with "
        "acks=all is lost by that unless its host crashed."
    )
    if others:
        named = ", ".join(f"broker {broker} ({more:,} more)" for broker, more in others[: _NAMED - 1])
        rest = len(others) - (_NAMED - 1)
        more_of_them = f" and {rest} more broker{'' if rest == 1 else 's'}" if rest > 0 else ""
        yield f"Then {named}{more_of_them}."
    yield (
        "Never start one of its brokers on an empty or replaced disk while a partition has no leader. Once another "
        "broker leads, copy a broker's directories before you start it."
    )


def _by_gain(returns: Returns) -> Iterator[tuple[BrokerId, int]]:
    """Who brings back most partitions, then who brings back most of the rest, until none is left that can come back."""
    left = Counter(brokers for brokers in returns.values() if brokers)
    while left:
        gains: Counter[BrokerId] = Counter()
        for brokers, partitions in left.items():
            gains.update(dict.fromkeys(brokers, partitions))
        best = min(gains, key=lambda broker: (-gains[broker], broker))
        yield best, gains[best]
        left = Counter({brokers: partitions for brokers, partitions in left.items() if best not in brokers})
