"""What others wrote, on one line that no terminal obeys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.formats.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-17: Größe, 支払い", "orders-17: Größe, 支払い"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("one\nand\tanother\r", "one and another "),
        ("\u202eright to left\u200b", "\\u202eright to left\\u200b"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
    ],
)
def test_what_can_not_be_seen_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_whatever_it_is_it_can_be_printed_and_is_printed_the_same_again(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)
