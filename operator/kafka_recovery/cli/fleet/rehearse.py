"""`rehearse`: a policy on many simulated histories, beside Kafka's own choice and beside waiting."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from kafka_recovery.cli.fleet.rehearsal_plot import METHODS, check_plot, played, plot
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.inputs import read_policy
from kafka_recovery.cli.terminal.new_files import read_text
from kafka_recovery.cli.terminal.render import Output, lines, table, write_result
from kafka_recovery.cli.terminal.text import complain, narrate
from kafka_recovery.cli.terminal.words import records
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.quickly import collect_seldom
from kafka_recovery.formats.documents import InvalidDocument, as_data
from kafka_recovery.formats.printable import printable
from kafka_recovery.simulator.histories.scenario import Scenario
from kafka_recovery.simulator.histories.scenario_files import load_scenario
from kafka_recovery.simulator.histories.schedules import VERSION, seeds
from kafka_recovery.simulator.rehearsal.rehearse import (
    Method,
    Rehearsed,
    drawn,
    given,
    never_rehearsed,
    with_engine,
)
from kafka_recovery.simulator.rehearsal.rehearse import rehearse as rehearsed
from kafka_recovery.simulator.rehearsal.sums import Allowed, Tally, broken, by_method, by_rule, costliest

SEEDS = "200"
_LARGEST_SCENARIO = 1024 * 1024
_TOLD = 10
"""So many broken promises are told; --output json holds all of them."""


@dataclass(frozen=True, slots=True)
class Call:
    """One command line."""

    policy: Path
    scenarios: tuple[Path, ...]
    seeds: str | None
    allowed: Allowed
    plot: Path | None
    jobs: int | None
    output: Output


@dataclass(frozen=True, slots=True)
class Play:
    """A history to come, by its name: `v8:17` for a seed, a file's name for a scenario."""

    name: str
    scenario: Callable[[], Scenario]


@dataclass(frozen=True, slots=True)
class Result:
    """What a rehearsal showed."""

    policy: Policy
    histories: tuple[Rehearsed, ...]
    sums: dict[Method, Tally]
    exceeded: tuple[str, ...]

    @property
    def findings(self) -> tuple[str, ...]:
        """Promises that the engine broke, each with its history."""
        return tuple(f"{history.name}: {finding}" for history in self.histories for finding in history.findings)

    @property
    def rules(self) -> dict[str, dict[Method, Tally]]:
        """Sums by rule."""
        return by_rule(self.histories, [rule.name for rule in self.policy.rules])


async def rehearse(call: Call) -> ExitCode:
    """Play every history, show the sums, and say what exceeds the limits."""
    policy = read_policy(call.policy)
    plays = tuple(_plays(call, policy))
    if call.plot:
        check_plot(call.plot)
    histories = await _all(plays, call.jobs or os.cpu_count() or 1)
    sums = by_method(histories)
    result = Result(policy, histories, sums, broken(call.allowed, sums[Method.POLICY]))
    write_result(call.output, as_data(_told(result)), _shown(result), _next(call, result))
    for finding in result.findings[:_TOLD]:
        complain(f"a promise is broken, which is a bug, in {finding}")
    for sentence in result.exceeded:
        complain(sentence)
    if call.plot:  # last: a picture that can't be drawn must not cost the table
        plot(call.plot, histories, sums)
    return ExitCode.NOT_GOOD_ENOUGH if result.findings or result.exceeded else ExitCode.DONE


async def tell(call: Call) -> ExitCode:
    """Play one history with the engine and write down all that happens in it."""
    if unheard := _about_sums(call):
        raise InvalidDocument(
            f"--timeline tells what happens in one history and sums up nothing: leave out {' and '.join(unheard)}"
        )
    plays = tuple(_plays(call, read_policy(call.policy)))
    if len(plays) != 1:
        raise InvalidDocument(f"--timeline tells one history, and {len(plays)} are asked for; give --seeds 17..18")
    history = await asyncio.to_thread(lambda: with_engine(plays[0].scenario()))
    text = str(history).splitlines()
    unbroken = Group(*(Text(printable(line), no_wrap=True, overflow="ignore") for line in text))
    write_result(call.output, {"history": plays[0].name, "timeline": text}, unbroken)
    return ExitCode.NOT_GOOD_ENOUGH if history.findings else ExitCode.DONE


def _about_sums(call: Call) -> list[str]:
    """The options given that say what is to become of the sums."""
    allowed = call.allowed
    given = {
        "--plot": call.plot,
        "--max-lost": allowed.lost,
        "--max-refused": allowed.refused,
        "--max-failed": allowed.failed,
    }
    return [option for option, value in given.items() if value is not None]


def _plays(call: Call, policy: Policy) -> Iterator[Play]:
    _refuse_twice(call.scenarios)
    wanted = SEEDS if call.seeds is None and not call.scenarios else call.seeds
    for seed in () if wanted is None else seeds(wanted):
        yield Play(f"v{VERSION}:{seed}", partial(drawn, seed, policy))
    for path in call.scenarios:
        scenario = load_scenario(read_text(path, _LARGEST_SCENARIO), str(path))
        if not scenario.engines:
            raise InvalidDocument(f"{path}:1: engines: is missing; say when the policy's engine is run")
        yield Play(str(path), partial(given, scenario, policy))


def _refuse_twice(scenarios: Sequence[Path]) -> None:
    """A file counts once, whatever it is called; who gives it twice may have meant another one."""
    seen: dict[str, Path] = {}
    for path in scenarios:
        first = seen.setdefault(os.path.realpath(path), path)
        if first is not path:
            called = "" if str(first) == str(path) else f", as {first} too"
            raise InvalidDocument(f"--scenario {path} is given twice{called}; did you mean another one?")


def play(one: Play) -> Rehearsed:
    """One history, in a process of its own."""
    return rehearsed(one.name, one.scenario())


async def _all(plays: Sequence[Play], jobs: int) -> tuple[Rehearsed, ...]:
    """Every history, in order. The processes leave signals to this one."""
    loop, done = asyncio.get_running_loop(), 0
    with ProcessPoolExecutor(min(jobs, len(plays)), get_context("spawn"), _only_play) as pool:

        async def one(this: Play) -> Rehearsed:
            nonlocal done
            found = await loop.run_in_executor(pool, play, this)
            done += 1
            if sys.stderr.isatty() and done % 100 == 0:
                narrate(f"{done} of {len(plays)} histories")
            return found

        try:
            found = tuple(await asyncio.gather(*map(one, plays)))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        await asyncio.to_thread(pool.shutdown)
        return found


def _only_play() -> None:
    """Ctrl-C reaches every process of a terminal, and the first one ends the others. Cycles are looked for seldom."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_seldom()


def _next(call: Call, result: Result) -> str:
    """How to see the history that cost most, or in which a promise was broken."""
    broke = [history.name for history in result.histories if history.findings]
    worst = [*broke, *(name for name, _ in costliest(result.histories))]
    if not worst:
        return ""
    seed = worst[0].removeprefix(f"v{VERSION}:")
    which = ["--scenario", worst[0]] if seed == worst[0] else ["--seeds", f"v{VERSION}:{seed}..{int(seed) + 1}"]
    return "See why: " + shlex.join(["kafka-recovery", "rehearse", "--policy", str(call.policy), *which, "--timeline"])


@dataclass(frozen=True, slots=True)
class Costly:
    """A history, and how many acknowledged records the policy lost in it."""

    history: str
    lost: int


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Sums over all histories: by who acts, and the same by rule. `version`: of the histories that seeds draw.

    `exceeded`: limits that were asked for; `findings`: promises that the engine broke.
    """

    version: int
    histories: int
    total: Mapping[Method, Tally]
    rules: Mapping[str, Mapping[Method, Tally]]
    never_rehearsed: tuple[str, ...]
    costliest: tuple[Costly, ...]
    exceeded: tuple[str, ...]
    findings: tuple[str, ...]


def _told(result: Result) -> Rehearsal:
    return Rehearsal(
        version=VERSION,
        histories=len(result.histories),
        total=result.sums,
        rules=result.rules,
        never_rehearsed=tuple(never_rehearsed(result.policy)),
        costliest=tuple(Costly(*each) for each in costliest(result.histories)),
        exceeded=tuple(result.exceeded),
        findings=result.findings,
    )


def _shown(result: Result) -> RenderableType:
    total = result.sums[Method.POLICY]
    heading = f"{played(len(result.histories), total.partitions)}; the same accidents in every row"
    rules = result.rules
    rows = [_row("all rules", method, tally) for method, tally in result.sums.items()]
    if len(rules) > 1:
        rows += [_row(name, method, tally) for name, sums in rules.items() for method, tally in sums.items()]
    shown = table(
        "Rule", "Who acts", "Offline", "Elected", "By itself", "Refused", "Failed", "Still offline", "Acknowledged",
        "Lost", "Lost otherwise", "Median s", "p95 s", rows=rows,
    )  # fmt: skip
    return Group(lines(heading, ""), shown, lines("", *_remarks(result)))


def _row(rule: str, method: Method, tally: Tally) -> tuple[object, ...]:
    return (
        rule, METHODS[method], tally.offline, tally.elected, tally.clean, tally.refusals, tally.failed, tally.untouched,
        tally.acknowledged, tally.lost, tally.lost_otherwise, _seconds(tally.median), _seconds(tally.p95),
    )  # fmt: skip


def _remarks(result: Result) -> Iterator[str]:
    for name, sums in result.rules.items():
        refused = sums[Method.POLICY].refused
        if refused:
            yield f"Refused by rule {name}: " + ", ".join(f"{reason} {times}" for reason, times in refused.items())
    for name in never_rehearsed(result.policy):
        yield f"Rule {name} was not rehearsed: no topic can be named that no rule before it takes."
    if costly := costliest(result.histories):
        yield "Lost most: " + ", ".join(f"{name} ({records(lost)})" for name, lost in costly)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
