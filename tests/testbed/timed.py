"""How long each tier of the tests takes: `python -m testbed.timed TIER COMMAND...` runs it and keeps its seconds.

They are kept in `build/timings.json`, beside those of other tiers that may run meanwhile.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from testbed.locks import locked

TIMINGS = Path("build/timings.json")


def main() -> None:
    """Exits as the command did."""
    tier, *command = sys.argv[1:]
    began = time.monotonic()
    status = subprocess.run(command).returncode
    took, used = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{tier}: {took:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU", flush=True)
    keep(TIMINGS, tier, took)
    sys.exit(status if status >= 0 else 128 - status)


def keep(file: Path, tier: str, seconds: float) -> None:
    """Add a tier's seconds to the file, or replace those it has."""
    with locked(file.with_suffix(".lock")):
        known = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(known | {tier: round(seconds, 1)}, indent=2) + "\n")


if __name__ == "__main__":
    main()
