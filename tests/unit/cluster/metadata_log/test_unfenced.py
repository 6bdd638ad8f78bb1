"""Who is alive by the metadata log, and under which registration: only who is surely told is counted."""

from __future__ import annotations

from kafka_recovery.simulator.wire.exchange import Values
from kafka_recovery.simulator.wire.record_schemas import record
from unit.cluster.metadata_log.writing import A, B, C, Written, created, registered
from unit.cluster.metadata_log.writing import changed as partition_changed

UNFENCED, FENCED = -1, 1


def changed(broker: int, epoch: int, fenced: int = 0, version: int = 0) -> bytes:
    values = Values(broker_id=broker, broker_epoch=epoch, log_dirs=None, fenced=fenced, in_controlled_shutdown=0)
    return record("BrokerRegistrationChange", version, values)


def unregistered(broker: int, epoch: int) -> bytes:
    """An UnregisterBrokerRecord of version 0, without tagged fields."""
    return bytes((1, 1, 0)) + broker.to_bytes(4, "big") + epoch.to_bytes(8, "big") + b"\0"


def started(log: Written, broker: int) -> int:
    """A broker registers, and is unfenced a moment later."""
    epoch = log.add(registered(broker, log.end))
    log.add(changed(broker, epoch, UNFENCED))
    return epoch


def alive(log: Written) -> dict[int, int]:
    told = log.image().alive()
    assert told is not None
    return {int(id): int(epoch) for id, epoch in told.brokers.items()}


def test_a_broker_is_alive_once_it_is_unfenced_under_the_registration_that_it_was_unfenced_in() -> None:
    log = created()
    assert alive(log) == {}

    epoch = started(log, B)
    assert alive(log) == {B: epoch}

    log.add(changed(B, epoch, FENCED))
    assert alive(log) == {}

    log.add(changed(B, epoch, UNFENCED))
    assert alive(log) == {B: epoch}


def test_another_process_of_it_is_not_alive_before_it_is_unfenced_itself() -> None:
    log = created()
    before = started(log, B)
    later = log.add(registered(B, log.end))

    log.add(changed(B, before, UNFENCED))
    assert alive(log) == {}

    log.add(changed(B, later, UNFENCED))
    assert alive(log) == {B: later}


def test_a_change_that_leaves_the_fence_as_it_is_changes_nothing() -> None:
    log = created()
    epoch = started(log, B)
    log.add(changed(B, epoch))

    assert alive(log) == {B: epoch}


def test_a_change_of_the_fence_that_a_later_release_may_know_leaves_its_broker_for_dead() -> None:
    for unknown in (2, -2, 127):
        log = created()
        epoch = started(log, B)
        log.add(changed(B, epoch, unknown))

        assert alive(log) == {}


def test_who_is_unregistered_is_not_alive() -> None:
    log = created()
    epoch = started(log, B)
    log.add(unregistered(B, epoch))

    assert alive(log) == {}


def test_a_record_that_cannot_be_read_leaves_nobody_alive_and_every_history_as_it_is() -> None:
    for unreadable in (bytes((1, 17, 120)) + b"\xff", bytes((1, 17, 0)) + b"\xff", bytes((1, 1, 9)) + b"whatever"):
        log = created()
        for broker in (B, C):
            started(log, broker)
        log.add(partition_changed(isr=[A]))
        log.add(partition_changed(isr=[A, B, C]))
        log.add(unreadable)

        assert alive(log) == {}
        assert log.history() is not None

        again = started(log, B)
        assert alive(log) == {B: again}


def test_it_says_how_far_it_was_read_and_who_led_the_quorum() -> None:
    log = created()
    log.epoch = 4
    started(log, B)

    told = log.image().alive()

    assert told is not None
    assert (told.as_of, told.quorum_epoch) == (log.end - 1, 4)


def test_of_a_log_in_doubt_nobody_is_known_to_be_alive() -> None:
    log = created()
    started(log, B)
    log.add(bytes((1, 99, 0)))

    assert log.image().alive() is None
