"""Where replicas lie: a copy that may have been begun anew in another directory of its broker is not what it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from kafka_recovery.cluster.metadata_log.states import LOST, MIGRATING, UNASSIGNED
from kafka_recovery.decision.intactness import is_intact
from kafka_recovery.domain.history import PartitionHistory
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.wire.exchange import Values
from kafka_recovery.simulator.wire.record_schemas import record
from unit.cluster.metadata_log.test_image import fell_behind, told
from unit.cluster.metadata_log.test_kept import restarted
from unit.cluster.metadata_log.writing import (
    DISKS,
    NO_LEADER,
    ORDERS,
    A,
    B,
    C,
    Written,
    changed,
    created,
    feature,
    minimum_of,
    registered,
    snapshot,
    whole,
)

FIRST, SECOND = DISKS[B], UUID(int=200)
BOTH = (FIRST, SECOND)


def with_two_disks(*, elr: bool = False, places: Sequence[UUID] = ()) -> Written:
    """B has two disks, and its copy is on the first, or where `places` say. C, then B left the ISR; A died alone."""
    log = created(places=places)
    log.add(feature(elr=int(elr)))
    log.add(changed(isr=[A, C]))
    log.add(registered(B, log.end, disks=BOTH))
    log.add(changed(isr=[A, B, C]))
    log.add(changed(isr=[A, B]))
    log.add(changed(isr=[A], **({"eligible_leader_replicas": [B]} if elr else {})))
    log.add(changed(leader=NO_LEADER))
    return log


def lies_in(directory: UUID) -> bytes:
    """B's copy, as B tells the controller."""
    return changed(directories=[DISKS[A], directory, DISKS[C]])


def failed(epoch: int, left: Sequence[UUID]) -> bytes:
    """Of B's directories only these are left."""
    return record("BrokerRegistrationChange", 2, Values(
        broker_id=B, broker_epoch=epoch, log_dirs=list(left), fenced=0, in_controlled_shutdown=0,
    ))  # fmt: skip


def on_one_boot(history: PartitionHistory | None) -> PartitionHistory:
    """Every process lived in one Pod, on one boot of its node."""
    assert history is not None
    return replace(history, starts=tuple(replace(each, volume="pvc", boot="monday") for each in history.starts))


def is_b_intact(log: Written) -> bool:
    return is_intact(BrokerId(B), on_one_boot(log.history()))


def test_directories_say_where_a_replica_lies() -> None:
    starts = {start.broker: start.directory for start in told(created()).starts}
    assert starts == {id: str(DISKS[id]) for id in (A, B, C)}


def test_a_process_that_lacks_the_replicas_directory_shares_a_place_only_with_one_that_has_the_same_directories() -> (
    None
):
    log = fell_behind()
    for disk in (900, 900, 901):
        log.add(registered(B, log.end, incarnation=7, disks=[UUID(int=disk)]))
    first, same, again, other = [start.directory for start in told(log).starts if start.broker == B]
    assert same == again
    assert len({first, same, other}) == 3


def test_a_process_that_finds_both_disks_again_on_the_same_boot_has_what_it_had() -> None:
    log = with_two_disks()
    log.add(registered(B, log.end, disks=BOTH))

    assert is_b_intact(log)


@pytest.mark.parametrize("left", [(SECOND,), (SECOND, UUID(int=201))], ids=["taken out", "emptied"])
def test_a_copy_whose_disk_is_gone_and_that_was_begun_anew_on_another_one_is_not_intact(left: Sequence[UUID]) -> None:
    """Kafka makes it anew, empty, on whichever disk has the fewest copies, and tells the controller (KIP-858)."""
    log = with_two_disks()
    log.add(registered(B, log.end, disks=left))
    log.add(lies_in(SECOND))

    assert not is_b_intact(log)


def test_neither_is_one_of_a_broker_that_had_stopped_cleanly() -> None:
    """It is in Kafka's ELR all the same: of the disks that are left each says that the broker had stopped cleanly."""
    kept, lost = with_two_disks(elr=True), with_two_disks(elr=True)
    kept.add(registered(B, kept.end, disks=BOTH))
    lost.add(registered(B, lost.end, disks=[SECOND]))
    lost.add(lies_in(SECOND))

    assert is_intact(BrokerId(B), told(kept))
    assert not is_intact(BrokerId(B), told(lost))


def test_a_copy_that_its_process_was_moving_is_not_intact_though_both_disks_are_there() -> None:
    """The next process takes the copy on the new disk, which need not have got to the end of the old one."""
    log = with_two_disks()
    log.add(lies_in(SECOND))
    assert is_b_intact(log), "the process went on"

    log.add(registered(B, log.end, disks=BOTH))
    assert not is_b_intact(log)


@pytest.mark.parametrize("when", ["all in sync", "before"])
def test_a_move_in_a_partition_in_sync_need_not_be_over_when_its_process_ends(when: str) -> None:
    log = with_two_disks()
    log.add(*([lies_in(SECOND)] if when == "before" else []), changed(isr=[A, B, C], leader=A))
    log.add(*([] if when == "before" else [lies_in(SECOND)]), minimum_of("orders", "2"))
    log.add(changed(isr=[A]))
    assert is_b_intact(log)

    log.add(registered(B, log.end, disks=BOTH))
    assert not is_b_intact(log)


def test_a_move_that_ended_with_its_process_is_over_once_all_are_in_sync() -> None:
    log = with_two_disks()
    log.add(lies_in(SECOND))
    log.add(registered(B, log.end, disks=BOTH))
    log.add(changed(leader=A))
    log.add(changed(isr=[A, B, C]))
    log.add(changed(isr=[A]))
    log.add(registered(B, log.end, disks=[SECOND]))

    assert is_b_intact(log)


def test_a_copy_that_was_begun_anew_in_another_place_is_not_being_moved() -> None:
    log = with_two_disks()
    log.add(registered(B, log.end, disks=[SECOND]))
    log.add(lies_in(SECOND))
    log.add(changed(leader=A))
    log.add(changed(isr=[A, B, C]))
    log.add(changed(isr=[A]))
    log.add(registered(B, log.end, disks=[SECOND]))

    assert is_b_intact(log)


def test_a_copy_that_is_being_moved_is_remembered_so_when_kafka_has_cut_the_log_off() -> None:
    log = with_two_disks()
    epoch = told(log).starts[-1].epoch
    log.add(lies_in(SECOND))
    cut = log.end
    log.add(record("NoOp", 0, Values()))
    state = cut_off(registered(B, epoch, disks=BOTH), (DISKS[A], SECOND, DISKS[C]))
    kept = log.image().kept()
    log.add(registered(B, log.end, disks=BOTH))

    assert not is_intact(BrokerId(B), on_one_boot(restarted(log, kept, cut, state).history(ORDERS, 0)))


@pytest.mark.parametrize("place", [LOST, UNASSIGNED], ids=["lost", "unassigned"])
def test_a_copy_that_was_nowhere_for_a_while_is_not_intact_on_the_same_boot(place: UUID) -> None:
    log = with_two_disks()
    log.add(lies_in(place))
    log.add(registered(B, log.end, disks=BOTH))
    assert not is_b_intact(log)

    log.add(lies_in(FIRST))
    assert not is_b_intact(log)


@pytest.mark.parametrize("again", [False, True], ids=["nowhere", "on the other disk"])
def test_a_copy_that_was_nowhere_for_a_while_is_not_intact_after_a_clean_stop_without_its_disk(*, again: bool) -> None:
    log = with_two_disks(elr=True)
    log.add(lies_in(UNASSIGNED))
    if again:
        log.add(lies_in(SECOND))
    log.add(registered(B, log.end, disks=[SECOND]))

    assert not is_intact(BrokerId(B), told(log))


def test_a_copy_that_was_never_assigned_to_a_disk_is_intact_after_a_clean_stop() -> None:
    log = created(places=(UNASSIGNED,) * 3)
    log.add(feature(elr=1))
    log.add(changed(isr=[A, B], eligible_leader_replicas=[]))
    log.add(changed(isr=[A], eligible_leader_replicas=[B]))
    log.add(registered(B, log.end, disks=BOTH))

    assert is_intact(BrokerId(B), told(log))


@pytest.mark.parametrize("place", [UNASSIGNED, MIGRATING], ids=["unassigned", "migrating"])
@pytest.mark.parametrize("gone", ["taken out", "failed", "failed out of the controller's sight"])
def test_neither_is_one_that_was_never_assigned_to_a_disk_where_one_is_gone(place: UUID, gone: str) -> None:
    """It may have been on that disk. Of the disks that are left each says that the broker had stopped cleanly."""
    stays, lost = (with_two_disks(elr=True, places=(place,) * 3) for _ in range(2))
    stays.add(registered(B, stays.end, disks=(*BOTH, UUID(int=201))))
    running = told(lost).starts[-1]
    if gone == "failed":
        lost.add(failed(running.epoch, [SECOND]))
    elif gone == "failed out of the controller's sight":
        lost.add(registered(B, lost.end, incarnation=UUID(str(running.incarnation)).int, disks=[SECOND]))
    lost.add(registered(B, lost.end, disks=BOTH if gone == "failed" else [SECOND]))

    assert is_intact(BrokerId(B), told(stays))
    assert not is_intact(BrokerId(B), told(lost))


def test_a_copy_on_a_disk_that_failed_is_not_intact_once_that_is_mended() -> None:
    """Of what could not be written to it, nobody knows how much was lost."""
    mended, another = with_two_disks(), with_two_disks()
    epoch = told(mended).starts[-1].epoch
    mended.add(failed(epoch, [SECOND]))
    another.add(failed(epoch, [FIRST]))
    for log in (mended, another):
        log.add(registered(B, log.end, disks=BOTH))

    assert not is_b_intact(mended)
    assert is_b_intact(another)


@pytest.mark.parametrize("told_of", [False, True], ids=["not told where it lies now", "told"])
def test_neither_is_one_whose_disk_failed_and_was_taken_out_before_a_clean_stop(*, told_of: bool) -> None:
    """Kafka keeps the broker in the ELR: each disk that it is started with says that it stopped cleanly."""
    log = with_two_disks(elr=True)
    log.add(failed(told(log).starts[-1].epoch, [SECOND]))
    log.add(registered(B, log.end, disks=[SECOND]))
    if told_of:
        log.add(lies_in(SECOND))

    assert not is_b_intact(log)


def test_what_is_told_of_an_earlier_process_changes_nothing() -> None:
    log = with_two_disks()
    log.add(failed(told(created()).starts[1].epoch, [SECOND]))
    log.add(registered(B, log.end, disks=BOTH))

    assert is_b_intact(log)


def test_where_it_can_not_be_read_which_disks_failed_only_the_same_process_is_intact() -> None:
    log = with_two_disks()
    log.add(bytes((1, 17, 9)) + b"\xff")
    assert is_b_intact(log)

    log.add(registered(B, log.end, disks=BOTH))
    assert not is_b_intact(log)


def test_a_controller_whose_elr_was_switched_off_proves_no_clean_stop() -> None:
    """It leaves in what it had of an ELR whoever registers, however its process before had ended."""
    log = with_two_disks(elr=True)
    log.add(feature(elr=0))
    log.add(record("FeatureLevel", 0, Values(name="metadata.version", feature_level=25)))
    log.add(registered(B, log.end, disks=BOTH))

    assert not is_intact(BrokerId(B), told(log))


def test_a_disk_that_failed_is_remembered_when_kafka_has_cut_the_log_off() -> None:
    log = with_two_disks()
    epoch = told(log).starts[-1].epoch
    log.add(failed(epoch, [SECOND]))
    cut = log.end
    log.add(record("NoOp", 0, Values()))
    kept = log.image().kept()
    log.add(registered(B, log.end, disks=BOTH))
    state = cut_off(registered(B, epoch, disks=[SECOND]), (DISKS[A], FIRST, DISKS[C]))

    again = restarted(log, kept, cut, state).history(ORDERS, 0)

    assert again == log.history()
    assert not is_intact(BrokerId(B), on_one_boot(again))


def cut_off(b: bytes, directories: Sequence[UUID]) -> bytes:
    """The snapshot behind which Kafka cuts off such a log, when A has died."""
    return snapshot(
        record("Topic", 0, Values(name="orders", topic_id=ORDERS)),
        minimum_of("orders", "2"),
        registered(A, 2),
        b,
        registered(C, 4),
        whole((A, B, C), isr=(A,), leader=NO_LEADER, leader_epoch=1, directories=directories),
    )


def test_where_a_copy_lay_is_remembered_when_kafka_has_cut_the_log_off() -> None:
    log = with_two_disks()
    epoch = log.add(registered(B, log.end, disks=[SECOND]))
    log.add(lies_in(SECOND))
    cut = log.end
    log.add(record("NoOp", 0, Values()))
    state = cut_off(registered(B, epoch, disks=[SECOND]), (DISKS[A], SECOND, DISKS[C]))

    again = restarted(log, log.image().kept(), cut, state).history(ORDERS, 0)

    assert again == log.history()
    assert not is_intact(BrokerId(B), on_one_boot(again))
