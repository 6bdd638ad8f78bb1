"""Values that are made quickly are the same as those that their own constructors make."""

from __future__ import annotations

import gc
from dataclasses import FrozenInstanceError, dataclass
from weakref import WeakSet

import pytest

from kafka_recovery.domain.ids import BrokerId, Offset
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Lack, Loss
from kafka_recovery.domain.quickly import made_quickly, uncollected


def test_a_value_made_quickly_equals_one_that_was_made_as_usual() -> None:
    quick = made_quickly(Lack)(BrokerId(3), Offset(7), 2)

    assert quick == Lack(BrokerId(3), Offset(7), 2)
    assert type(quick) is Lack
    assert hash(quick) == hash(Lack(BrokerId(3), Offset(7), 2))


def test_what_is_left_out_has_its_default() -> None:
    assert made_quickly(Loss)(LossClass.UNKNOWN, proof="none") == Loss(LossClass.UNKNOWN, proof="none")


def test_a_value_made_quickly_is_frozen() -> None:
    lack = made_quickly(Lack)(BrokerId(3), Offset(7), 2)

    with pytest.raises(FrozenInstanceError):
        lack.records = 0  # type: ignore[misc]


def test_a_class_with_more_to_do_when_it_is_made_is_not_made_quickly() -> None:
    @dataclass(frozen=True, slots=True)
    class Checked:
        broker: int

        def __post_init__(self) -> None:
            if self.broker < 0:
                raise ValueError

    with pytest.raises(TypeError, match="Checked has slots other than its fields, or more to do"):
        made_quickly(Checked)


def test_very_much_that_is_made_uncollected_is_old_at_once_and_the_collector_works_on_afterwards() -> None:
    gc.collect(1)
    with uncollected():
        assert not gc.isenabled()
        made = [[n] for n in range(60_000)]

    assert gc.isenabled()
    young = {id(each) for generation in (0, 1) for each in gc.get_objects(generation)}
    assert not young & {id(each) for each in made}
    assert gc.get_freeze_count() == 0


def test_who_makes_a_little_uncollected_again_and_again_keeps_no_cycles() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self
            self.known = [[n] for n in range(10)]

    kept, thresholds = WeakSet[Cycle](), gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        for _ in range(1_000):
            with uncollected():
                kept.add(Cycle())
    finally:
        gc.set_threshold(*thresholds)

    assert len(kept) < 500


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
