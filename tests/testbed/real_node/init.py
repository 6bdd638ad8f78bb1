"""The first process of a node's machine: makes its surroundings, then only buries the dead. Runs alone, as root.

    python -I -S init.py LOGS

Mounts and network are its own (`machine.Machine` gives it namespaces), so all of it is gone when this process is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PRIVATE = ("/run", "/var/lib")
"""Where containerd, its network plugins and the kubelet leave traces whatever they are told."""

TUNED = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
"""Settings of the whole kernel that a kubelet sets; ours sets copies."""


def main(logs: str) -> None:
    for place in PRIVATE:
        mount("-t", "tmpfs", "tmpfs", place)
    mount("--bind", logs, "/var/log")
    for setting in TUNED:
        real, copy = Path("/proc/sys", setting), Path("/run/tuned", setting)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(real.read_bytes())
        mount("--bind", str(copy), str(real))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print("ready", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    while True:
        with suppress(ChildProcessError):
            os.wait()
            continue
        time.sleep(1)


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
