"""One call to the Kubernetes API, and how long its tries go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from tenacity import RetryCallState, wait_exponential, wait_random
from tenacity.wait import wait_base

_AN_ANSWER_TAKES = 0.1
"""Seconds that a try needs to be worth it."""


@dataclass(slots=True)
class Question:
    """One call. `until`: when it must have been answered, on the monotonic clock, in seconds; later if it waited.

    `refused`: what the last try was told that was answered, if any was; the silence of a later one must not hide it.
    """

    method: str
    path: str
    body: bytes | None
    content_type: str
    params: Mapping[str, str]
    until: float
    accept: str = "application/json"
    refused: str = ""

    def is_too_late(self, state: RetryCallState) -> bool:
        """Whether the next try would have no time for an answer: its silence would hide why this one failed."""
        return time.monotonic() + state.upcoming_sleep + _AN_ANSWER_TAKES >= self.until


class AsAsked(wait_base):
    """Pauses grow, with some chance in them against herds, and are never shorter than the server asks for.

    `asked`: seconds that it asks for by an error; 0: it does not.
    """

    def __init__(self, first: timedelta, longest: timedelta, asked: Callable[[BaseException | None], float]) -> None:
        seconds = first.total_seconds()
        self._grow = wait_exponential(seconds, longest) + wait_random(0, seconds)
        self._asked = asked

    def __call__(self, retry_state: RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        return max(self._asked(error), self._grow(retry_state))
