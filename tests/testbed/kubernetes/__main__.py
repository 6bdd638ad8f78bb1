"""A Kubernetes API to play with: `python -m testbed.kubernetes`, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from testbed.go_module import ProgramsUnavailable
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.distribution import VERSION


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m testbed.kubernetes", description=__doc__)
    options.add_argument("--crds", type=Path, metavar="FOLDER", help="definitions to apply, *.yaml")
    options.add_argument("--folder", type=Path, help="where data, logs and kubeconfigs stay; else they are removed")
    chosen = options.parse_args()
    try:
        play(chosen.folder, chosen.crds)
    except KeyboardInterrupt:
        sys.exit("Ended before it was up.")
    except ProgramsUnavailable as trouble:
        sys.exit(str(trouble))


def play(folder: Path | None, definitions: Path | None) -> None:
    """Runs a control plane until SIGINT or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    print(f"Starting Kubernetes {VERSION}; the first time it is built.", flush=True)
    with ControlPlane(folder) as control_plane, suppress(KeyboardInterrupt):
        if definitions:
            control_plane.apply_definitions(definitions)
        print(f"Up after {time.monotonic() - began:.1f} s. There are no nodes: no Pod runs. Ctrl-C ends it.")
        print(f"  API server   {control_plane.url}")
        print(f"  in a shell   export KUBECONFIG={control_plane.administrator()}")
        print(f"  kubectl      {control_plane.kubectl().program}", flush=True)
        while True:
            time.sleep(1)  # signal.pause would sleep on if the signal came just before it
    print("Ended.")


if __name__ == "__main__":
    main()
