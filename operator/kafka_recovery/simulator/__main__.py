"""`python -m kafka_recovery.simulator`: run many histories, or replay one and read what happened."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.simulator.histories.field import judge_journal
from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.many import Told, many
from kafka_recovery.simulator.histories.scenario import Scenario
from kafka_recovery.simulator.histories.scenario_files import load_scenario, written
from kafka_recovery.simulator.histories.schedules import VERSION, draw, seeds, the_seed
from kafka_recovery.simulator.histories.shrink import shrink
from kafka_recovery.simulator.histories.tables import Coverage, Vacuity

_FOUND, _MISUSED = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: no finding; 1: at least one; 2: asked wrongly."""
    parser = argparse.ArgumentParser(prog="kafka_recovery.simulator", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="let many histories happen; a failing one is shortened and printed")
    run.add_argument("--seeds", default="500", help="how many, or first..last+1, with or without v8: (default: 500)")
    run.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    run.add_argument("--failures", type=int, default=5, help="how many failing seeds to shorten (default: 5)")
    run.add_argument("--scenarios", type=Path, default=Path("build/scenarios"), help="where shortened ones are written")
    replay = commands.add_parser("replay", help="let one history happen and print all of it")
    replay.add_argument("--seed", help="the seed of a run, as it printed it (v8:17)")
    replay.add_argument("--scenario", type=Path, help="a scenario file, as a run writes it")
    trace = commands.add_parser("trace", help="print what all that happened in each history comes to, as one number")
    trace.add_argument("--seeds", default="4", help="as of run")
    journal = commands.add_parser("judge", help="judge a journal from the field by what needs no true logs")
    journal.add_argument(
        "journal", type=Path, help="a folder that --journal named, or a file: kubectl get recoveryrecords -o json"
    )
    given = parser.parse_args(arguments)
    does = {"run": _run, "replay": _replay, "trace": _trace, "judge": _judge}
    try:
        return does[given.command](given)
    except InvalidDocument as problem:
        print(problem, file=sys.stderr)
        return _MISUSED


def _run(given: argparse.Namespace) -> int:
    began, failed, outcomes, runs = time.monotonic(), [], Counter[str](), 0
    vacuity, coverage, known = Vacuity(), Coverage(), Counter[str]()
    for told in many(seeds(given.seeds), given.jobs):
        runs += 1
        outcomes.update(told.outcomes)
        vacuity.add(told.examined)
        coverage.add(told.marks)
        known.update({finding.named for finding in told.known if finding.named})
        if told.findings:
            failed.append(told)
            print(f"seed v{VERSION}:{told.seed}: {told.findings[0]}", flush=True)
    took = time.monotonic() - began
    happened = _so_many(runs, "history", "histories")
    print(f"{happened} in {took:.1f} s, {runs / took:.1f} a second; {len(failed)} with findings")
    print("outcomes: " + ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items())))
    for name, histories in sorted(known.items()):
        print(f"known defect {name}: shown by {_so_many(histories, 'history', 'histories')}")
    print(f"\n{vacuity}\n\n{coverage}")
    for told in failed[: given.failures]:
        _shorten(told, given.scenarios)
    return _FOUND if failed else 0


def _shorten(told: Told, folder: Path) -> None:
    wanted = told.findings[0].invariant

    def fails(scenario: Scenario) -> bool:
        return any(finding.invariant == wanted for finding in happen(scenario).findings)

    short = shrink(draw(told.seed), fails)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{wanted}-{told.seed}.yaml"
    path.write_text(written(short))
    faults, engines = _so_many(len(short.faults), "fault"), _so_many(len(short.engines), "run")
    print(f"\nseed {told.seed}, {wanted}, shortened to {faults} and {engines}. Replay:")
    print(f"  python -m kafka_recovery.simulator replay --scenario {path}")
    print(f"  python -m kafka_recovery.simulator replay --seed v{VERSION}:{told.seed}")


def _so_many(count: int, one: str, more: str | None = None) -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"


def _trace(given: argparse.Namespace) -> int:
    for seed in seeds(given.seeds):
        told = str(happen(draw(seed), timeline=True))
        print(f"v{VERSION}:{seed} {sha256(told.encode()).hexdigest()}")
    return 0


def _judge(given: argparse.Namespace) -> int:
    verdict, vacuity = judge_journal(given.journal), Vacuity()
    vacuity.add(verdict.examined)
    for finding in verdict.findings:
        print(finding)
    print(f"{_so_many(len(verdict.findings), 'finding')}\n\n{vacuity}")
    return _FOUND if verdict.findings else 0


def _replay(given: argparse.Namespace) -> int:
    if (given.seed is None) == (given.scenario is None):
        print("give either --seed or --scenario", file=sys.stderr)
        return _MISUSED
    if given.seed is not None:
        scenario = draw(the_seed(given.seed))
    else:
        try:
            text = given.scenario.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise InvalidDocument(f"{given.scenario}: can't be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InvalidDocument(f"{given.scenario}: is not text; a scenario is YAML in UTF-8") from None
        scenario = load_scenario(text, str(given.scenario))
    history = happen(scenario, timeline=True)
    print(written(scenario))
    print(history)
    return _FOUND if history.findings else 0


if __name__ == "__main__":
    sys.exit(main())
