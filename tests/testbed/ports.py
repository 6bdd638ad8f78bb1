"""Free loopback ports that stay ours while a broker is down, so that it can come back on the same one."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
# Below what Linux and macOS hand out to outgoing connections: one of those could sit on the port of a killed broker.
FIRST, LAST = 20_000, 29_999


class Ports:
    """Reserves TCP ports on loopback for the length of a `with` block.

    The reservation is a bound UDP socket with the same number: it keeps other testbeds away, whichever process they run
    in, leaves the TCP port to the broker, and ends with our process however that ends.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []
        self._candidates = _shuffled()

    def take(self) -> int:
        """A port nobody listens on; OSError when all are taken."""
        for port in self._candidates:
            if reservation := _reserve(port):
                self._held.append(reservation)
                return port
        raise OSError(f"no free port on {HOST} between {FIRST} and {LAST}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._held:
            self._held.pop().close()


def _shuffled() -> Iterator[int]:
    # Not a seeded order: two clusters that start together should not try the same ports.
    yield from random.sample(range(FIRST, LAST + 1), LAST - FIRST + 1)


def _reserve(port: int) -> socket.socket | None:
    reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with suppress(OSError), socket.socket() as probe:
        reservation.bind((HOST, port))
        probe.bind((HOST, port))
        return reservation
    reservation.close()
    return None
