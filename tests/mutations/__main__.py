"""`python -m mutations`: each listed mutation in a copy of the tree, and who notices. Exit code 1: not all of them are.

PYTHONPATH=operator:spark:tests .venv/bin/python -m mutations                     # all that need no real processes
PYTHONPATH=operator:spark:tests .venv/bin/python -m mutations --tier apiserver    # more tiers: --tier again
PYTHONPATH=operator:spark:tests .venv/bin/python -m mutations --only digest-not-compared
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from mutations.catalogue import CHEAP, Mutation, NotInTree, Tier, listed
from mutations.workspace import Verdict, Workspace, copy_tree

ROOT = Path(__file__).parents[2]
ALLOWED = {Tier.UNIT: 180, Tier.PROPERTY: 300, Tier.SIMULATION: 600, Tier.SPARK: 900}
"""Seconds for the tests of one mutation; real brokers and API servers get more."""
ALLOWED_ON_PROCESSES = 1800


def main() -> int:
    """The program."""
    options = _options()
    chosen = [m for m in listed() if m.id in options.only or (not options.only and m.tier in (options.tier or CHEAP))]
    if unknown := set(options.only) - {mutation.id for mutation in chosen}:
        print(f"there is no mutation {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    began = time.monotonic()
    with workspaces(options.jobs) as (pool, free):
        if not options.unproven and not _green_without(chosen, pool, free):
            return 1
        print(f"{'mutation':<42} {'s':>5}  caught by")
        results = []
        for mutation, verdict in zip(chosen, pool.map(lambda each: _tried(each, free), chosen), strict=True):
            results.append(verdict)
            print(f"{mutation.id:<42} {verdict.seconds:5.1f}  {_told(mutation, verdict)}", flush=True)
    caught = sum(verdict.caught_by is not None for verdict in results)
    print(f"{caught} of {len(chosen)} mutations were caught, in {time.monotonic() - began:.0f} s")
    return 0 if caught == len(chosen) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutations", description="Small defects, and the tests that notice")
    parser.add_argument("--tier", action="append", type=Tier, help="unit, property, simulation (the default) or more")
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="this mutation, whatever its tier")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="so many at a time")
    parser.add_argument("--unproven", action="store_true", help="do not run the tests on the unspoilt tree before")
    return parser.parse_args()


Free = SimpleQueue[Workspace]


@contextmanager
def workspaces(jobs: int) -> Iterator[tuple[ThreadPoolExecutor, Free]]:
    """So many copies of this tree, and who works in them."""
    folder = Path(tempfile.mkdtemp(prefix="mutations-"))
    free: Free = SimpleQueue()
    try:
        for number in range(jobs):
            copy_tree(ROOT, folder / str(number))
            free.put(Workspace(folder / str(number)))
        with ThreadPoolExecutor(jobs) as pool:
            yield pool, free
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _lent(free: Free) -> Iterator[Workspace]:
    workspace = free.get()
    try:
        yield workspace
    finally:
        free.put(workspace)


def _green_without(chosen: Sequence[Mutation], pool: ThreadPoolExecutor, free: Free) -> bool:
    """Whether all tests pass on the unspoilt tree: else that they fail under a mutation says nothing."""

    def tried(tests: Sequence[str]) -> Verdict:
        with _lent(free) as workspace:
            return workspace.run(tests, ALLOWED_ON_PROCESSES, to_the_end=True)

    try:
        tests = sorted({test for mutation in chosen for test in mutation.test_ids(ROOT)})
    except NotInTree as wrong:
        print(wrong, file=sys.stderr)
        return False
    shares = [share for number in range(free.qsize()) if (share := tests[number :: free.qsize()])]
    red = [verdict for verdict in pool.map(tried, shares) if verdict.caught_by or verdict.trouble]
    for verdict in red:
        print(f"red without any mutation: {verdict.caught_by or verdict.trouble}", file=sys.stderr)
    return not red


def _tried(mutation: Mutation, free: Free) -> Verdict:
    with _lent(free) as workspace:
        try:
            with workspace.spoilt(mutation):
                allowed = ALLOWED.get(mutation.tier, ALLOWED_ON_PROCESSES)
                tests = mutation.test_ids(workspace.root)
                return workspace.run(tests, allowed, reported_by=mutation.reported_by)
        except NotInTree as wrong:
            return Verdict(None, 0, str(wrong))


def _told(mutation: Mutation, verdict: Verdict) -> str:
    if verdict.caught_by:
        return verdict.caught_by.removeprefix("tests/")
    if verdict.trouble:
        return f"NOT TRIED: {verdict.trouble}"
    return f"SURVIVES: {mutation.breaks}"


if __name__ == "__main__":
    sys.exit(main())
