"""A Kafka to play with: `python -m testbed --release newest --brokers 3`, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from contextlib import suppress

from testbed.cluster import RealKafka
from testbed.distribution import RELEASES, DistributionUnavailable, Release


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m testbed", description=__doc__)
    options.add_argument("--release", choices=list(RELEASES), default="newest")
    options.add_argument("--brokers", type=int, default=3, help="how many (default: %(default)s)")
    options.add_argument(
        "--elr", choices=["on", "off"], help="eligible leader replicas; as the release has it if left out"
    )
    chosen = options.parse_args()
    try:
        play(chosen.release, chosen.brokers, None if chosen.elr is None else chosen.elr == "on")
    except KeyboardInterrupt:
        sys.exit("Ended before it was up.")
    except (DistributionUnavailable, ValueError) as trouble:
        sys.exit(str(trouble))


def play(release: str, brokers: int, elr: bool | None) -> None:
    """Runs a cluster until SIGINT or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    print(
        f"Starting Kafka {Release.named(release).version} ({brokers} brokers); the first time it is fetched.",
        flush=True,
    )
    with RealKafka(release, brokers=brokers, elr=elr) as kafka, suppress(KeyboardInterrupt):
        print(f"Up after {time.monotonic() - began:.1f} s. Ctrl-C ends it.")
        print(f"  bootstrap servers   {kafka.bootstrap}")
        print(f"  controller          {kafka.controller_address}", flush=True)
        while True:
            time.sleep(1)  # signal.pause would sleep on if the signal came just before it
    print("Ended.")


if __name__ == "__main__":
    main()
