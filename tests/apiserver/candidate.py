"""A process that wants a Lease, and writes all the time while it has it: `python -m apiserver.candidate ...`.

    LEASE NAMESPACE NAME MODE DURATION

Prints `leading` when it leads. Each write creates ConfigMap NAME-00001 and so on. SIGTERM: it stops writing, gives the
Lease back and ends with 0. MODE: `writes`; `blocked` (its event loop stands still once it leads); `forward` and
`backward` (as `writes`, and whenever the election asks for the time, the wall clock was set by an hour).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

from kubernetes.leaderelection import leaderelection

from apiserver.calling import calling
from kafka_recovery.kube.process.lease import Leader

HOUR = 3600
PAUSE = 0.05
"""Seconds between two writes: without one it has a core to itself, and who writes too late is seen all the same."""


async def write(leader: Leader, namespace: str, name: str) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    async with calling(Path(os.environ["KUBECONFIG"]), leader.fence) as api:
        for number in count(1):
            if over.is_set():
                return
            config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-{number:05}"}}
            await api.create(f"/api/v1/namespaces/{namespace}/configmaps", config_map)
            await asyncio.sleep(PAUSE)


def set_the_wall_clock(step: float) -> None:
    jumps = count(1)
    clock = SimpleNamespace(time=lambda: time.time() + next(jumps) * step, sleep=time.sleep)
    vars(leaderelection)["time"] = clock


def main(lease: str, namespace: str, name: str, mode: str, duration: str) -> None:
    logging.basicConfig(level=logging.INFO)
    if mode in ("forward", "backward"):
        set_the_wall_clock(HOUR if mode == "forward" else -HOUR)
    leader = Leader(lease, namespace, duration=int(duration), identity=name)
    leader.acquire()
    print("leading", flush=True)
    if mode == "blocked":
        time.sleep(600)
    asyncio.run(write(leader, namespace, name))
    leader.release()


def run() -> None:
    """As a program of its own."""
    main(*sys.argv[1:])


if __name__ == "__main__":
    run()
