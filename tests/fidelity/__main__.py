"""`python -m fidelity [--release R] [--record] [PART OF A NAME...]`: play scripts on real brokers, show what they saw.

Lines that differ on the model are marked; `--record` keeps what the brokers said for the tests without brokers.
"""

from __future__ import annotations

import argparse
import time

from fidelity import on_brokers, on_model, recorded
from fidelity.script import Script, differences
from fidelity.scripts import SCRIPTS
from testbed.cluster import RealKafka
from testbed.warm import WarmKafka

NEWEST = "newest"


def main() -> None:
    """Exit status 1 if the model differs anywhere."""
    options = argparse.ArgumentParser(prog="fidelity", description=__doc__)
    options.add_argument("--release", default=NEWEST, help="of an older one only what concerns no ELR is played")
    options.add_argument("--record", action="store_true")
    options.add_argument("names", nargs="*")
    given = options.parse_args()
    old = given.release != NEWEST
    chosen = [script for script in SCRIPTS if not (old and (script.elr or script.newest_only))]
    if given.names:
        chosen = [script for script in chosen if any(name in script.name for name in given.names)]
    differs = 0
    with WarmKafka() as warm:
        for script in chosen:
            with warm.lent(for_good=script.spoils, **on_brokers.wish(given.release, script.elr)) as kafka:
                differs += _play(script, kafka, given.record)
    raise SystemExit(1 if differs else 0)


def _play(script: Script, kafka: RealKafka, record: bool) -> int:
    print(f"\n{script.name} (ELR {'on' if script.elr else 'off'})", flush=True)
    began = time.monotonic()
    try:
        real = on_brokers.play([script], kafka)[script]
    except AssertionError as failure:
        print(f"  can't be played: {failure}", flush=True)
        return 1
    for sight in real:
        print(f"  {sight.step}: {', '.join(f'{key} {value}' for key, value in sight.fields.items())}")
    if record:
        recorded.keep(script, real)
    try:
        found = differences(real, on_model.play(script))
    except AssertionError as failure:
        found = [f"the model: {failure}"]
    for difference in found:
        print(f"  DIFFERS {difference}")
    print(f"  {time.monotonic() - began:.1f} s", flush=True)
    return len(found)


if __name__ == "__main__":
    main()
