"""What goes wrong on the wire: answers that come late, in pieces, torn, or as something that no broker would say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

_PAUSES = (20, 200, 1000, 5000, 30_000)
_UNKNOWN = (-1, 4242, 32_767)
"""UNKNOWN_SERVER_ERROR, and two that no release has given a meaning."""

_GARBLE = b"\x7f\xff\xff\xff"
"""The largest number there is, where an array's length may stand."""

WAITS_FOR_THE_NEXT = 3.0
"""Seconds after which an answer that was to come after another one comes without it."""


class WireFault(StrEnum):
    """What may become of one answer."""

    SILENCE = "silence"
    """It never comes, and the connection stays open."""
    SLOW = "slow"
    """Its bytes come one piece after the other, for seconds."""
    TORN = "torn"
    """The connection is reset in its middle."""
    OTHER_ID = "other-id"
    """It names another correlation id."""
    TWICE = "twice"
    """It comes twice."""
    OVERSIZED = "oversized"
    """It announces more bytes than anybody would read."""
    GARBLED = "garbled"
    """Four of its bytes are the largest number there is, where an array's length may stand."""
    LEFT_OVER = "left-over"
    """It is longer than its version says."""
    THROTTLED = "throttled"
    """It asks the client to be quiet for a while, and the connection is muted for so long (KIP-219)."""
    UNKNOWN_ERROR = "unknown-error"
    """One of its error codes is that of a newer Kafka, or one that says nothing; what was asked may have been done."""
    OUT_OF_ORDER = "out-of-order"
    """It comes after the connection's next one; where there is none, some seconds late."""


@dataclass(frozen=True, slots=True)
class Became:
    """What is sent in an answer's place: pieces, each after so many seconds; and whether the connection ends then.

    `after_next`: the next answer of the connection comes first.
    """

    pieces: tuple[tuple[float, bytes], ...]
    then_reset: bool = False
    after_next: bool = False

    @property
    def lasts(self) -> float:
        """Seconds until the last piece is sent."""
        return max((delay for delay, _ in self.pieces), default=0.0)


@dataclass(slots=True)
class Weather:
    """The wire's weather now. `odds`: how probable each fault is for an answer; fair where there are none.

    `now`: virtual seconds.
    """

    random: Random = field(default_factory=lambda: Random(0))
    odds: dict[WireFault, float] = field(default_factory=dict)
    now: Callable[[], float] = lambda: 0.0
    struck: dict[str, list[float]] = field(default_factory=dict)
    """When each fault has struck: of those above, and of others that were noted by their name."""

    def becomes_of(self, frame: bytes) -> Became:
        """`frame`: an answer with its length."""
        for fault, effect in _EFFECTS.items():
            if self._strikes(fault):
                return effect(frame, self.random)
        return Became(((0.0, frame),))

    def throttle(self) -> int:
        """For how many milliseconds a client is muted that is answered now."""
        return self.random.choice(_PAUSES) if self._strikes(WireFault.THROTTLED) else 0

    def error(self) -> int | None:
        """Which error code an answer has that should have another one."""
        return self.random.choice(_UNKNOWN) if self._strikes(WireFault.UNKNOWN_ERROR) else None

    def note(self, fault: str) -> None:
        """One more has met a fault of this name."""
        self.struck.setdefault(fault, []).append(self.now())

    def _strikes(self, fault: WireFault) -> bool:
        odds = self.odds.get(fault, 0.0)
        if not odds or self.random.random() >= odds:
            return False
        self.note(fault)
        return True


def _slowly(frame: bytes, random: Random) -> Became:
    step = max(1, len(frame) // 5)
    pieces = [frame[at : at + step] for at in range(0, len(frame), step)]
    return Became(tuple((number * random.uniform(0.1, 1.0), piece) for number, piece in enumerate(pieces)))


def _garbled(frame: bytes, random: Random) -> Became:
    at = random.randrange(8, len(frame) - 3) if len(frame) > 11 else len(frame)
    return _whole(frame[:at] + _GARBLE + frame[at + 4 :])


def is_garbled(read: bytes, sent: bytes) -> bool:
    """Whether a field that was sent so may be read so in a garbled answer: spoilt within it, or across an end of it."""
    size, reach = len(sent), len(_GARBLE) - 1
    around = bytes(reach) + sent + bytes(reach)
    spoilt = (around[:at] + _GARBLE + around[at + len(_GARBLE) :] for at in range(size + reach))
    return read != sent and any(read == each[reach : reach + size] for each in spoilt)


def _other_id(frame: bytes, random: Random) -> Became:
    other = (int.from_bytes(frame[4:8], "big") + random.randrange(1, 1000)) & 0x7FFFFFFF
    return _whole(frame[:4] + other.to_bytes(4, "big") + frame[8:])


def _left_over(frame: bytes, random: Random) -> Became:
    longer = frame[4:] + bytes(random.randrange(1, 9))
    return _whole(len(longer).to_bytes(4, "big") + longer)


def _whole(frame: bytes) -> Became:
    return Became(((0.0, frame),))


_EFFECTS: Mapping[WireFault, Callable[[bytes, Random], Became]] = {
    WireFault.SILENCE: lambda frame, random: Became(()),
    WireFault.SLOW: _slowly,
    WireFault.TORN: lambda frame, random: Became(((0.0, frame[: random.randrange(len(frame))]),), then_reset=True),
    WireFault.OTHER_ID: _other_id,
    WireFault.TWICE: lambda frame, random: Became(((0.0, frame), (0.01, frame))),
    WireFault.OVERSIZED: lambda frame, random: _whole(b"\x7f\xff\xff\xf0" + frame[4:]),
    WireFault.GARBLED: _garbled,
    WireFault.LEFT_OVER: _left_over,
    WireFault.OUT_OF_ORDER: lambda frame, random: Became(((0.0, frame),), after_next=True),
}
