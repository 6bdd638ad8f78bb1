"""What speaks against a proof and stands in no snapshot is kept as well, and counts wherever a later reading begins."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from uuid import UUID

import pytest

from kafka_recovery.cluster.metadata_log.image import Image
from kafka_recovery.cluster.metadata_log.kept import KeptHistory
from kafka_recovery.cluster.metadata_log.processes import Processes, Registration
from kafka_recovery.cluster.metadata_log.states import UNASSIGNED, PartitionState
from kafka_recovery.decision.intactness import is_intact
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.wire.exchange import Values
from kafka_recovery.simulator.wire.record_schemas import record
from unit.cluster.metadata_log.test_directories import BOTH, SECOND, lies_in, on_one_boot
from unit.cluster.metadata_log.test_kept import restarted
from unit.cluster.metadata_log.writing import (
    DISKS,
    ORDERS,
    A,
    B,
    C,
    Written,
    changed,
    created,
    minimum_of,
    registered,
    snapshot,
    whole,
)

TOLD, KEPT = "a snapshot tells it", "it is kept"
BLANK, HARMLESS = "it is of a batch, or of this reading", "where it is not known less is proven"

KNOWN = {
    PartitionState: {
        "topic": TOLD,
        "replicas": TOLD,
        "isr": TOLD,
        "leader": TOLD,
        "leader_epoch": TOLD,
        "recovering": TOLD,
        "elr": TOLD,
        "last_known_elr": TOLD,
        "directories": TOLD,
        "steps": KEPT,
        "whole": KEPT,
        "clean": KEPT,
        "moved": KEPT,
        "moving": KEPT,
        "doubted": KEPT,
        "forked": KEPT,
        "leaderless_at": KEPT,
    },
    Registration: {"epoch": TOLD, "incarnation": TOLD, "directories": KEPT, "failed": KEPT},
    Processes: {"known": KEPT, "anew": BLANK, "unseen": KEPT},
    Image: {
        "awaited": BLANK,
        "upto": TOLD,
        "epoch": TOLD,
        "at": BLANK,
        "doubt": BLANK,
        "time": HARMLESS,  # a leader may go by an old minimum for an hour more
        "minima": KEPT,
        "unfenced": TOLD,
        "_names": TOLD,
        "_by_topic": TOLD,
        "_partitions": KEPT,
        "_processes": KEPT,
        "_with_elr": TOLD,
        "_out_of_sync": TOLD,
        "_changed": BLANK,
        "_created": KEPT,
        "_maybe_clean": BLANK,
        "_held": BLANK,  # no snapshot is made within a metadata transaction
        "_elr": TOLD,
        "_steps": KEPT,
        "_doubted": BLANK,
    },
}
"""All that a fold knows, and how a fold that begins with a snapshot comes to know it."""


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.__name__)
def test_of_all_that_a_fold_knows_it_is_settled_how_a_later_process_gets_it(kind: type) -> None:
    assert {each.name for each in fields(kind)} == set(KNOWN[kind])


@dataclass
class Restart:
    """A log, where it is cut off, and the snapshot there."""

    log: Written
    cut: int
    state: bytes

    def state_of(self, image: Image) -> PartitionState:
        """Of `orders-0`."""
        assert image.doubt is None, image.doubt
        return image._partitions[ORDERS, 0]

    @property
    def uncut(self) -> PartitionState:
        """As who has read all of the log knows it."""
        return self.state_of(self.log.image())

    def begun_with(self, kept: KeptHistory | None) -> PartitionState:
        """As another process knows it."""
        return self.state_of(restarted(self.log, kept, self.cut, self.state))

    def is_b_intact_to(self, kept: KeptHistory | None) -> bool:
        """Whether B's copy is, to another process, if all of B's processes lived on one boot."""
        history = restarted(self.log, kept, self.cut, self.state).history(ORDERS, 0)
        return is_intact(BrokerId(B), on_one_boot(history))


def cut_here(log: Written, *, disks: tuple[UUID, ...] = (DISKS[B],)) -> Restart:
    """With the next record Kafka cuts the log off before this place; `disks` are B's."""
    image = log.image()
    partition, known = image._partitions[ORDERS, 0], image._processes.known
    brokers = [
        registered(id, each.epoch, incarnation=each.incarnation.int, disks=disks if id == B else [DISKS[id]])
        for id in (A, B, C)
        for each in known[id][-1:]
    ]
    state = whole(
        partition.replicas,
        isr=partition.isr,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        directories=[each or UUID(int=0) for each in partition.directories],
    )
    topic = record("Topic", 0, Values(name="orders", topic_id=ORDERS))
    found = Restart(log, log.end, snapshot(topic, minimum_of("orders", "2"), *brokers, state))
    log.add(record("NoOp", 0, Values()))
    return found


def began_anew(broker: int) -> Written:
    """It is another process, and stayed in the ISR of all."""
    log = created()
    log.add(registered(broker, log.end))
    return log


def kept_of(log: Written) -> KeptHistory:
    """Of all that was read of it."""
    kept = log.image().kept()
    assert kept is not None
    return kept


@pytest.mark.parametrize("out_of_sync", [False, True], ids=["in sync", "out of sync"])
def test_that_a_leader_went_on_as_another_process_outlives_kafka_s_log_of_it(*, out_of_sync: bool) -> None:
    log = began_anew(A)
    if out_of_sync:
        log.add(changed(isr=[A, B]))
    restart = cut_here(log)
    kept = kept_of(log)
    assert restart.begun_with(kept).forked

    log.add(changed(isr=[A, B, C]))
    log.add(changed(isr=[A]))

    assert restart.begun_with(kept).whole is restart.uncut.whole is False
    assert restart.begun_with(None).whole, "the snapshot alone does not tell it"


def test_that_a_follower_began_anew_in_the_isr_outlives_kafka_s_log_of_it() -> None:
    log = began_anew(B)
    restart = cut_here(log)
    kept = kept_of(log)
    log.add(changed(isr=[B, C], leader=B))

    assert (restart.begun_with(kept).doubted, restart.begun_with(kept).whole) == (restart.uncut.doubted, False)

    log.add(changed(isr=[B], leader=B))
    log.add(changed(isr=[A, B, C]))
    log.add(changed(isr=[A, B]))
    assert restart.begun_with(kept) == restart.uncut, "it was out of the ISR, and so were those who followed it"


def test_a_history_that_was_kept_counts_for_more_than_one_that_began_with_the_snapshot() -> None:
    """All were in the ISR there, and one of them had begun anew in it; it left the ISR before the history was kept."""
    log = began_anew(B)
    restart = cut_here(log)
    log.add(changed(isr=[A]))

    assert restart.begun_with(kept_of(log)) == restart.uncut
    image = restarted(log, kept_of(log), restart.cut, restart.state)
    assert image.history(ORDERS, 0) == log.history()
    assert image._steps == log.image()._steps


@pytest.mark.parametrize("broker", [A, B], ids=["leader", "follower"])
def test_it_counts_also_where_the_log_is_cut_off_beyond_what_was_kept(broker: int) -> None:
    log = began_anew(broker)
    kept = kept_of(log)
    log.add(record("NoOp", 0, Values()))
    restart = cut_here(log)
    log.add(changed(isr=[A, B]))

    assert not restart.begun_with(kept).whole


def test_where_the_log_is_cut_off_one_in_doubt_may_have_been_elected_so_all_others_are_in_doubt() -> None:
    """B was, and then A. Who had followed B may hold something else until it was out of the ISR."""
    log = began_anew(B)
    kept = kept_of(log)
    log.add(changed(isr=[A, B, C], leader=B))
    log.add(changed(isr=[A, B, C], leader=A))
    restart = cut_here(log)
    assert restart.begun_with(kept).doubted == restart.uncut.doubted == {B, C}

    log.add(changed(isr=[A, C]))
    log.add(changed(isr=[A, B, C]))
    assert not restart.begun_with(kept).whole

    log.add(changed(isr=[A, B]))
    log.add(changed(isr=[A, B, C]))
    assert restart.begun_with(kept).whole, "each of them was out of the ISR"


def test_of_a_topic_that_was_made_anew_nothing_is_doubted() -> None:
    log = began_anew(A)
    kept = kept_of(log)
    anew = UUID(int=78)
    log.add(record("RemoveTopic", 0, Values(topic_id=ORDERS)))
    log.add(record("Topic", 0, Values(name="orders", topic_id=anew)), whole((A, B, C), topic_id=anew))
    topic = record("Topic", 0, Values(name="orders", topic_id=anew))
    brokers = [registered(A, 6), registered(B, 3), registered(C, 4)]

    again = restarted(log, kept, log.end, snapshot(topic, *brokers, whole((A, B, C), topic_id=anew)))

    assert again.history(anew, 0) is not None


def moved_in_sync() -> Written:
    """B's process has two disks, and moved its copy from one to the other while all were in sync."""
    log = created()
    log.add(changed(isr=[A, C]))
    log.add(registered(B, log.end, disks=BOTH))
    log.add(changed(isr=[A, B, C]))
    log.add(lies_in(SECOND))
    return log


def begin_again(log: Written) -> None:
    """C, then B left the ISR, and B is another process."""
    log.add(changed(isr=[A, B]))
    log.add(changed(isr=[A]))
    log.add(registered(B, log.end, disks=BOTH))


def test_that_a_process_moves_a_copy_in_sync_outlives_kafka_s_log_of_it() -> None:
    log = moved_in_sync()
    restart = cut_here(log, disks=BOTH)
    kept = kept_of(log)
    begin_again(log)

    assert restart.begun_with(kept).moved == restart.uncut.moved == {(B, UNASSIGNED)}
    assert not restart.is_b_intact_to(kept)

    log.add(changed(isr=[A, B, C]))
    begin_again(log)
    assert restart.is_b_intact_to(kept), "it was in sync again, and nothing was moved since"


def test_that_a_copy_was_moved_by_a_process_that_ended_before_it_was_kept_is_not_forgotten() -> None:
    log = moved_in_sync()
    restart = cut_here(log, disks=BOTH)
    begin_again(log)

    assert restart.begun_with(kept_of(log)) == restart.uncut
    assert not restart.is_b_intact_to(kept_of(log))


def with_nothing_moved() -> Restart:
    """B's process has two disks, and its copy stays on one of them."""
    log = created()
    log.add(changed(isr=[A, C]))
    log.add(registered(B, log.end, disks=BOTH))
    log.add(changed(isr=[A, B, C]))
    return cut_here(log, disks=BOTH)


def test_what_a_process_with_several_disks_moved_before_the_snapshot_is_known_of_its_successors_alone() -> None:
    restart = with_nothing_moved()
    log = restart.log
    begin_again(log)
    assert not restart.is_b_intact_to(None), "it may have been moving the copy when the snapshot was made"

    log.add(changed(isr=[A, B, C]))
    begin_again(log)
    assert restart.is_b_intact_to(None)


def test_a_process_with_one_disk_moved_nothing_before_the_snapshot() -> None:
    log = created()
    restart = cut_here(log)
    log.add(changed(isr=[A, B]))
    log.add(changed(isr=[A]))
    log.add(registered(B, log.end))

    assert restart.is_b_intact_to(None)


def test_whose_moves_are_all_known_is_kept_though_all_is_in_sync() -> None:
    restart = with_nothing_moved()
    kept = kept_of(restart.log)
    assert (kept.partitions, kept.cautions, kept.seen) == ((), (), (B,))
    begin_again(restart.log)

    assert restart.is_b_intact_to(kept)
    assert not restart.is_b_intact_to(replace(kept, time=kept.time + 1)), "it is of another log"


def test_what_is_not_known_of_a_running_process_is_not_known_after_a_restart_either() -> None:
    restart = with_nothing_moved()
    kept = restarted(restart.log, None, restart.cut, restart.state).kept()
    assert kept is not None
    assert kept.seen == ()
    begin_again(restart.log)

    assert not restart.is_b_intact_to(kept)
