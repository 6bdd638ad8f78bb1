"""What decides is what the guards and orders say."""

from __future__ import annotations

import write_checks


def test_the_checks_are_those_that_the_guards_and_orders_say() -> None:
    """Else: PYTHONPATH=operator python operator/write_checks.py"""
    assert write_checks.PLACE.read_text() == write_checks.module()


def test_nothing_that_decides_executes_text() -> None:
    for module in write_checks.PLACE.parent.glob("*.py"):
        text = module.read_text()
        assert not [word for word in ("exec(", "eval(", "compile(") if word in text], module.name
