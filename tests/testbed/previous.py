"""A folder as it was before the last change of it, from this repository's history."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def previous(folder: Path, into: Path) -> Path | None:
    """It, below `into`; None where there is none: it is new, or this is no clone, or one without its history."""
    place = str(folder.relative_to(ROOT))
    changed = _git("status", "--porcelain", "--", place)
    if changed is None:
        return None
    touched = (_git("log", "--format=%H", "--max-count=2", "--", place) or b"").decode().split()
    before = touched[:1] if changed else touched[1:]
    archive = _git("archive", before[0], place) if before else None
    if archive is None:
        return None
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(into, filter="data")
    return into / place


def _git(*arguments: str) -> bytes | None:
    """What git prints; None if it can't."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None
