"""A command that halts at steps of a recovery: there it says so on stdout, and waits for a line or for its death."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any

from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.cluster.connection import Connection
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.recovery.journal_files import FileJournal

_STEPS, _NEVER = "TESTS_HALT_AT", "TESTS_NEVER_DO"


def at(steps: str, never: str = "") -> Mapping[str, str]:
    """The environment of a command that halts at these steps, separated by commas; one step it never gets done."""
    return {_STEPS: steps, _NEVER: never}


def install() -> None:
    """In the command's process, before it begins."""
    steps, never = (os.environ.pop(name, "") for name in (_STEPS, _NEVER))
    if steps:
        _Halts(frozenset(steps.split(",")), never).install()


class _Halts:
    def __init__(self, steps: frozenset[str], never: str) -> None:
        self._steps, self._never = steps, never

    def install(self) -> None:
        for name in ("record", "approved", "wave_started", "finished"):
            self._around(FileJournal, name)
        for name in ("designate", "elect", "restore"):
            self._around(AssignmentOrderElection, name)
        for name in ("answering", "leaders"):
            self._around(KafkaCluster, name)
        self._around_sending()

    def _reached(self, step: str, where: str = "") -> None:
        if step in self._steps:
            print("halted", step, where, flush=True)
            sys.stdin.readline()

    async def _awaited(self, step: str) -> None:
        self._reached(step)
        for _ in range(3):  # a loop hears of a signal two turns after it came
            await asyncio.sleep(0)

    def _around(self, kind: Any, name: str) -> None:
        alive = getattr(kind, name)

        async def step(*words: Any) -> Any:
            await self._awaited(f"before {name}")
            if name == self._never:
                await asyncio.sleep(3600)
            result = await alive(*words)
            await self._awaited(f"after {name}")
            return result

        setattr(kind, name, step)

    def _around_sending(self) -> None:
        write = Connection.send

        def send(connection: Connection, request: Any, version: int) -> Any:
            elects = request.name == "ElectLeadersRequest"
            if elects:
                self._reached("before sending", str(connection.address))
            answer = write(connection, request, version)
            if elects:
                self._reached("after sending", str(connection.address))
            return answer

        setattr(Connection, "send", send)  # noqa: B010  # mypy takes an assignment to a method for a mistake
