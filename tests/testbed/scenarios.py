"""How partitions lose their leader: the accidents that recovery is about, made on purpose on a running cluster.

Brokers are frozen rather than restarted: a frozen broker is fenced after the session timeout, misses what is written
meanwhile, and goes on at once when it is thawed.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.cluster import RealKafka

# What the broker that dies last writes alone: nobody else has it.
LOST_WITH_THE_LEADER = 3

Values = Mapping[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class OfflinePartition:
    """A partition without a leader, and what its replicas hold.

    `acknowledged` are the values that a producer with acks=all was promised, `held` the values in each broker's log
    when it was last seen, the dead ones' too, in the order of their offsets.
    """

    index: int
    leader_epoch: int
    acknowledged: tuple[str, ...]
    held: Values


@dataclass(frozen=True, slots=True)
class OfflineTopic:
    """A topic all of whose partitions are offline: the `dead` were killed, the `survivors` run and are unfenced."""

    topic: str
    topic_id: uuid.UUID
    survivors: tuple[int, ...]
    dead: tuple[int, ...]
    partitions: Mapping[int, OfflinePartition]

    def __getitem__(self, index: int) -> OfflinePartition:
        return self.partitions[index]


def diverge(
    kafka: RealKafka,
    topic: str,
    survivors: Mapping[int, int],
    partitions: int,
    acked: int,
    configs: Mapping[str, str | int],
) -> OfflineTopic:
    """See RealKafka.offline_partition."""
    if short := {broker: end for broker, end in survivors.items() if end <= acked}:
        raise ValueError(
            f"a survivor's log must end above the {acked} acknowledged records, or it has no epoch of its own: {short}"
        )
    last, *bystanders = dead = _others(kafka, survivors)
    kafka.create_topic(topic, [[last, *bystanders, *survivors]] * partitions, **configs)
    acknowledged = _write(kafka, topic, range(partitions), acked, "acked", acks="all")
    held = dict.fromkeys(bystanders, acknowledged)
    for broker in bystanders:
        kafka.kill(broker)
    _take_turns(
        kafka, topic, range(partitions), {b: end - acked for b, end in survivors.items()} | {last: LOST_WITH_THE_LEADER}
    )
    held[last] = _logs(kafka, last, topic, range(partitions))
    kafka.kill(last)
    for broker in survivors:
        kafka.thaw(broker)
    epochs = _wait_until_offline(kafka, topic, survivors, dead)
    _check_ends(kafka, topic, epochs, survivors)
    held |= {broker: _logs(kafka, broker, topic, range(partitions)) for broker in survivors}
    return _offline(kafka, topic, survivors, dead, epochs, acknowledged, held)


def freeze_and_kill(
    kafka: RealKafka,
    topic: str,
    survivors: Sequence[int],
    partitions: int,
    records: int,
    missed: int,
    configs: Mapping[str, str | int],
) -> OfflineTopic:
    """See RealKafka.offline_by_freezing."""
    dead = _others(kafka, survivors)
    kafka.create_topic(topic, [[*_rotated(dead, index), *survivors] for index in range(partitions)], **configs)
    common = _write_everywhere(kafka, topic, [*dead, *survivors], range(partitions), 0, records, "common")
    for broker in survivors:
        kafka.freeze(broker)
    kafka.wait_until_fenced(*survivors)
    extra = _write_everywhere(kafka, topic, dead, range(partitions), records, missed, "missed")
    for broker in dead:
        kafka.kill(broker)
    for broker in survivors:
        kafka.thaw(broker)
    epochs = _wait_until_offline(kafka, topic, survivors, dead)
    _check_ends(kafka, topic, epochs, dict.fromkeys(survivors, records))
    acknowledged = {index: common[index] + extra[index] for index in epochs}
    held = dict.fromkeys(survivors, common) | dict.fromkeys(dead, acknowledged)
    return _offline(kafka, topic, survivors, dead, epochs, acknowledged, held)


def lead_on(kafka: RealKafka, topic: str) -> list[str]:
    """Broker 1 loses the end of its log and leads on as another process; 3 follows, 2 is frozen and has all of it.

    Kafka 3.9 lets it, for nobody else sends heartbeats to a new controller (KAFKA-18106).
    Returns what was acknowledged before.
    """
    kafka.create_topic(topic, [[1, 2, 3]], min_insync_replicas=2)
    told = kafka.produce(topic, 0, 5, "all-three")
    kafka.freeze(3)
    kafka.wait_until_fenced(3)
    told += kafka.produce(topic, 0, 40, "one-and-two")
    kafka.freeze(2)
    kafka.wait_until_fenced(2)
    kafka.kill_controller()
    kafka.kill(1)
    kafka.lose_page_cache(1, topic, 0)
    kafka.start(1, wait=False)
    kafka.start_controller()
    kafka.wait_for(topic, lambda state: state.leader == 1, 60)
    kafka.thaw(3)
    state = kafka.wait_for(topic, lambda state: set(state.isr) == {1, 3}, 60)[0]
    assert (state.leader, state.leader_epoch) == (1, 0), "it was elected anew"
    return told


def _others(kafka: RealKafka, survivors: Collection[int]) -> tuple[int, ...]:
    others = tuple(broker for broker in kafka.running if broker not in survivors)
    if not others or not survivors or not set(survivors) <= set(kafka.running):
        raise ValueError(f"needs survivors and others among the running brokers {kafka.running}, not {list(survivors)}")
    return others


def _take_turns(kafka: RealKafka, topic: str, partitions: Collection[int], writes: Mapping[int, int]) -> None:
    """Each broker in turn leads alone and writes so many records; at the end all are frozen but the last."""
    first, *others = writes
    for broker in others:
        kafka.freeze(broker)
    kafka.wait_until_fenced(*others)
    _lead_alone(kafka, topic, partitions, first, writes[first])
    for before, broker in pairwise(writes):
        kafka.freeze(before)
        # Thawed at once, for somebody has to say when the other one is fenced; it can't copy from a frozen leader.
        kafka.thaw(broker)
        kafka.wait_until_fenced(before)
        kafka.wait_until_unfenced(broker)
        _lead_alone(kafka, topic, partitions, broker, writes[broker])


def _lead_alone(kafka: RealKafka, topic: str, partitions: Collection[int], broker: int, count: int) -> None:
    leaderless = [index for index, state in kafka.describe(topic).items() if state.leader is None]
    if leaderless:
        kafka.unclean_elect(topic, leaderless)
    kafka.wait_for(topic, lambda state: state.leader == broker and state.isr == (broker,))
    _write(kafka, topic, partitions, count, f"only-{broker}", acks="1")


def _write(
    kafka: RealKafka, topic: str, partitions: Collection[int], count: int, label: str, acks: str
) -> dict[int, tuple[str, ...]]:
    written = kafka.produce_to(topic, partitions, count, label, acks=acks)
    lacking = {index: len(values) for index, values in written.items() if len(values) < count}
    if lacking:
        raise AssertionError(f"of {count} {label!r} records not all were acknowledged by {topic}: {_some(lacking)}")
    return {index: tuple(values) for index, values in written.items()}


def _write_everywhere(
    kafka: RealKafka,
    topic: str,
    brokers: Collection[int],
    partitions: Collection[int],
    start: int,
    count: int,
    label: str,
) -> dict[int, tuple[str, ...]]:
    """Writes from offset `start` on until all of these brokers, the whole ISR, hold it: what acks=all promises.

    With acks=all itself a broker would answer a producer one partition at a time: minutes for thousands of them.
    """
    written = _write(kafka, topic, partitions, count, label, acks="1")
    for broker in brokers:
        kafka.wait_for_log_ends(broker, topic, dict.fromkeys(partitions, start + count))
    return written


def _logs(kafka: RealKafka, broker: int, topic: str, partitions: Collection[int]) -> dict[int, tuple[str, ...]]:
    return {index: tuple(values) for index, values in kafka.read_replicas(broker, topic, partitions).items()}


def _wait_until_offline(
    kafka: RealKafka, topic: str, survivors: Collection[int], dead: Collection[int]
) -> dict[int, int]:
    """The leader epoch of each partition, once no broker leads it."""
    kafka.wait_until_unfenced(*survivors)
    kafka.wait_until_fenced(*dead)
    states = kafka.wait_for(topic, lambda state: state.leader is None)
    return {index: state.leader_epoch for index, state in states.items()}


def _check_ends(kafka: RealKafka, topic: str, partitions: Collection[int], ends: Mapping[int, int]) -> None:
    """The accident must be the one that was asked for: a test that builds on another one proves nothing."""
    for broker, end in ends.items():
        found = kafka.log_ends(broker, topic, partitions)
        if wrong := {index: other for index, other in found.items() if other != end}:
            raise AssertionError(f"broker {broker} should hold {topic} up to {end}, but its logs end at {_some(wrong)}")


def _offline(
    kafka: RealKafka,
    topic: str,
    survivors: Collection[int],
    dead: tuple[int, ...],
    epochs: Mapping[int, int],
    acknowledged: Values,
    held: Mapping[int, Values],
) -> OfflineTopic:
    partitions = {
        index: OfflinePartition(index, epoch, acknowledged[index], {b: values[index] for b, values in held.items()})
        for index, epoch in epochs.items()
    }
    return OfflineTopic(topic, kafka.topic_id(topic), tuple(survivors), dead, partitions)


def _rotated(brokers: tuple[int, ...], by: int) -> tuple[int, ...]:
    start = by % len(brokers)
    return brokers[start:] + brokers[:start]


def _some(by_partition: Mapping[int, int]) -> str:
    shown = dict(islice(by_partition.items(), 3))
    return f"{shown} (partition: value; {len(by_partition)} in all)"
