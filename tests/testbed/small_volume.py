"""A volume of a few MiB for one process: a tmpfs in a mount namespace of its own, which ends with the process.

A user namespace gives the right to mount to whoever runs the tests; nobody else sees the volume, and none is left.
"""

from __future__ import annotations

import os
from pathlib import Path

_MOUNTED = """
set -e
kept=$(cat "$1/meta.properties")
mount -t tmpfs -o size="$2"m tmpfs "$1"
printf '%s\\n' "$kept" > "$1/meta.properties"
shift 2
exec "$@"
"""
_BALLAST = "ballast"
_PIECE = 1 << 20


def on_small_volume(command: tuple[str, ...], at: Path, mebibytes: int) -> tuple[str, ...]:
    """The same command, with the formatted log directory `at` on a volume of its own; its process keeps its number."""
    namespace = ("unshare", "--user", "--map-root-user", "--mount")
    return (*namespace, "sh", "-c", _MOUNTED, "sh", str(at), str(mebibytes), *command)


def seen_by(process: int | None, path: Path) -> Path:
    """A path of what this process sees there."""
    return Path(f"/proc/{process}/root") / path.relative_to("/")


def fill(volume: Path, leave: int) -> None:
    """Take all room there is, but for `leave` bytes."""
    with (volume / _BALLAST).open("wb", buffering=0) as file:
        while room := max(0, _left(volume) - leave):
            file.write(bytes(min(room, _PIECE)))


def _left(volume: Path) -> int:
    found = os.statvfs(volume)
    return found.f_bavail * found.f_frsize
