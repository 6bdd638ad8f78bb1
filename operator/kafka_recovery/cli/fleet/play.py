"""`play`: a simulated Kafka on this machine, with an incident in it, for other programs and other terminals."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from rich.console import Console
from rich.text import Text

from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.new_files import read_text
from kafka_recovery.cli.terminal.running import Refusal
from kafka_recovery.cli.terminal.signals import Interrupts
from kafka_recovery.cli.terminal.text import complain
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.simulator.model.grants import Operation
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.play.server import PlayServer, PortTaken
from kafka_recovery.simulator.play.stage import Incident, named_incident, read_incident

DEFAULT_INCIDENT = "divergent"
_LARGEST_SCENARIO = 1024 * 1024
_LONGEST_STEP = 3600


@dataclass(frozen=True, slots=True)
class Call:
    """One command line. `user`: name and password."""

    file: Path | None
    incident: str | None
    port: int
    from_start: bool
    stepped: bool
    denied: Sequence[str]
    user: str | None = field(repr=False)


async def play(call: Call, interrupts: Interrupts) -> ExitCode:
    """Serve until a signal ends it, which is how it should end."""
    incident, passwords = _incident(call), _passwords(call.user)
    kafka = incident.staged()
    for operation, topic in _denied(call.denied, tuple(kafka.controllers.state.topics)):
        if passwords is None:
            raise InvalidDocument("--deny takes a right away from the user that --user names; name one")
        kafka.grants.deny(next(iter(passwords)), operation, topic)
    if not call.from_start:
        kafka.run_until(incident.begins_at)
    try:
        async with PlayServer(kafka, call.port, passwords, stepped=call.stepped) as server:
            for line in told(
                incident,
                kafka,
                server.bootstrap,
                server.controllers,
                from_start=call.from_start,
                stepped=call.stepped,
                users=list(passwords or ()),
            ):
                print(line, flush=True)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(server.serve())
                if call.stepped:
                    tasks.create_task(_step(server, _lines(sys.stdin.fileno())))
    except PortTaken as taken:
        raise Refusal(ExitCode.BAD_INPUT, f"{taken}; give another first port with --port, or 0 for free ones") from None
    except asyncio.CancelledError:
        if interrupts.received is None:
            raise
    return ExitCode.DONE


async def _step(server: PlayServer, lines: AsyncIterator[str]) -> None:
    """As many seconds as each line says, one for an empty line."""
    async for line in lines:
        try:
            seconds = float(line or 1)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds <= _LONGEST_STEP:
            complain(f"{line!r}: write a number of seconds up to {_LONGEST_STEP}, or nothing for one")
            continue
        print(f"virtual second {await server.step(seconds):g}", flush=True)


async def _lines(fd: int) -> AsyncIterator[str]:
    """What is typed, until the end. A thread of its own reads it: the program must end while that waits."""
    loop, typed = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def put(line: str | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: the program ends
            loop.call_soon_threadsafe(typed.put_nowait, line)

    def read() -> None:
        rest = b""
        while data := os.read(fd, 4096):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                put(line.decode(errors="replace").strip())
        put(None)

    Thread(target=read, name="steps", daemon=True).start()
    while (line := await typed.get()) is not None:
        yield line


def _incident(call: Call) -> Incident:
    if call.file is None:
        return named_incident(call.incident or DEFAULT_INCIDENT)
    if call.incident is not None:
        raise InvalidDocument("play one of both: a scenario file, or an incident that comes with the program")
    return read_incident(read_text(call.file, _LARGEST_SCENARIO), str(call.file))


def _passwords(user: str | None) -> dict[str, str] | None:
    """None: anybody may come. Raises InvalidDocument."""
    if user is None:
        return None
    name, colon, password = user.partition(":")
    if not (name and colon and password):
        raise InvalidDocument("--user: write it as name:password, both not empty")
    return {name: password}


def _denied(said: Sequence[str], topics: Sequence[str]) -> Iterator[tuple[Operation, str | None]]:
    """Each OPERATION:cluster or OPERATION:TOPIC; `topics`: which there are. Raises InvalidDocument."""
    for each in said:
        name, _, resource = each.partition(":")
        table = _ON_CLUSTER if resource == "cluster" else _ON_TOPICS
        if not resource or name.upper() not in table:
            known = [f"{operation}:cluster" for operation in _ON_CLUSTER] + [f"{name}:TOPIC" for name in _ON_TOPICS]
            raise InvalidDocument(f"--deny {each}: known are {', '.join(known)}; TOPIC may be * for all")
        of = (None,) if table is _ON_CLUSTER else topics if resource == "*" else (resource,)
        yield from ((table[name.upper()], topic) for topic in of)


_ON_CLUSTER = {
    "ALTER": Operation.ALTER,
    "CLUSTER_ACTION": Operation.CLUSTER_ACTION,
    "DESCRIBE": Operation.DESCRIBE_CLUSTER,
}
_ON_TOPICS = {
    "DESCRIBE": Operation.DESCRIBE,
    "READ": Operation.READ,
}


def told(
    incident: Incident,
    kafka: SimulatedKafka,
    bootstrap: str,
    controllers: str,
    *,
    from_start: bool = False,
    stepped: bool = False,
    users: Sequence[str] = (),
) -> Iterator[str]:
    """What a person is told who starts it, line by line. `users`: who alone may come."""
    yield f"Simulated Kafka {kafka.settings.release}, cluster {kafka.cluster_id}: {len(kafka.brokers)} brokers"
    yield f"bootstrap.servers={bootstrap}"
    yield f"bootstrap.controllers={controllers}"
    yield ""
    console = Console(width=100)
    for line in console.render_lines(Text(incident.story), pad=False) if incident.story else ():
        yield "".join(segment.text for segment in line).rstrip()
    if from_start:
        yield f"That happens from now on; after {incident.begins_at:g} seconds all of it has."
    if stepped:
        yield "Time stands still. Enter lets one second pass, a number so many."
    yield ""
    yield "Try in another terminal:"
    settings = " --command-config client.properties" if users else ""
    told_by = f" --bootstrap-controller {controllers}" if incident.scenario.knows_history else ""
    for command, has_history in _commands(kafka):
        yield f"  {command} --bootstrap-server {bootstrap}{told_by if has_history else ''}{settings}"
    yield ""
    for user in users:
        yield f"Only {user} may come, with the password that you gave. Write into client.properties:"
        yield "  security.protocol=SASL_PLAINTEXT"
        yield "  sasl.mechanism=PLAIN"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        yield f'  sasl.jaas.config={module} required username="{user}" password="...";'
    if not users:
        yield "Any Kafka client may come too."
    yield "The cluster keeps nothing. Ctrl-C ends it."


def _commands(kafka: SimulatedKafka) -> Iterator[tuple[str, bool]]:
    """Each with whether it takes a partition's history from the controllers."""
    state = kafka.controllers.state
    yield "kafka-recovery inspect", False
    for partition in (*state.leaderless, *state.partitions)[:1]:
        yield f"kafka-recovery explain {partition}", True
    yield "kafka-recovery plan --all-offline-partitions", True
    yield "kafka-recovery recover --all-offline-partitions", True
    if kafka.switches.designated_elections:
        yield "kafka-unclean-recovery --all-offline-partitions --show-replica-info", False
