"""Writes what the commands of docs/tutorials/play.md show, from a run of them on the incident that it plays.

    python docs/generate_played.py    # half a minute; needs neither Kafka nor Java

tests/unit/docs holds page and run equal. What differs from run to run stands there as it was once: digests, the
cluster's id, times, ports, and which broker showed the metadata.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "tutorials" / "play.md"
OPERATOR = DOCS.parent / "operator"
SHOWN = re.compile(
    r"(?<=```bash\n)(kafka-recovery (?:[^\n]|(?<=\\)\n)*)(\n```\n\n```text\n)(.*?)(?=^```)", re.DOTALL | re.MULTILINE
)
RECOVERY = "from kafka_recovery.cli.main import main; main()"
FIRST_PORT = 19092
SAME = (
    (re.compile(r"\b[0-9a-f]{64}\b"), "3f1c20c9aa5d" + "8" * 52),
    (re.compile(r"(?<=\bplan )[0-9a-f]{12}\b"), "3f1c20c9aa5d"),
    (re.compile(r"\bplayed-[0-9a-f]{16}\b"), "played-4a0fc8d21b7e6935"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b"), "2026-11-24 01:00:00"),
    (re.compile(r"(?<=\bseen from broker )\d+"), "1"),
)


def wanted(folder: Path) -> str:
    """What the page should hold; commands write their files into `folder`."""
    page = PAGE.read_text()
    typed = [found[1] for found in SHOWN.finditer(page)]
    with played(folder) as ports:
        said = run_all(typed, ports, folder)
    return SHOWN.sub(lambda found: found[1] + found[2] + said[found[1]], page)


def run_all(typed: list[str], ports: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What each prints. All but the last only look, so they wait side by side for a silent broker."""
    looks, elects = typed[:-1], typed[-1]
    with ThreadPoolExecutor() as together:
        said = dict(zip(looks, together.map(lambda line: run(line, ports, folder), looks), strict=True))
    (digest,) = re.findall(r"^Digest: (\w+)", "\n".join(said.values()), re.MULTILINE)
    said[elects] = run(elects.replace("DIGEST", digest), ports, folder)
    return {line: told(text, ports) for line, text in said.items()}


def run(line: str, ports: Mapping[str, str], folder: Path) -> str:
    """What the command prints on stdout, where brokers listen on the ports of this run."""
    for shown, real in ports.items():
        line = line.replace(shown, real)
    line = line.replace("\\\n", "")
    with started(shlex.split(line)[1:], folder) as process:
        shown, said = process.communicate(timeout=120)
    if process.returncode:
        raise RuntimeError(f"{line}\n{shown}{said}")
    return shown


def started(words: list[str], folder: Path) -> subprocess.Popen[str]:
    """`kafka-recovery` with these words, as a process that works in `folder`."""
    return subprocess.Popen(
        [sys.executable, "-c", RECOVERY, *words],
        cwd=folder,
        env=surroundings(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(text: str, ports: Mapping[str, str]) -> str:
    """As it would be said in every run, on the ports of the page."""
    for shown, real in ports.items():
        text = text.replace(real, shown)
    for pattern, instead in SAME:
        text = pattern.sub(instead, text)
    return text


@contextmanager
def played(folder: Path, incident: str = "divergent") -> Iterator[dict[str, str]]:
    """The incident; yields each address of the page with the address of this run: brokers', then controllers'."""
    with started(["play", "--incident", incident, "--port", "0"], folder) as playing:
        assert playing.stdout is not None
        addresses: list[str] = []
        for line in playing.stdout:
            addresses += re.findall(r"127\.0\.0\.1:\d+", line) if line.startswith("bootstrap.") else []
            if line.startswith("Any Kafka client"):
                break
        if not addresses:
            _, said = playing.communicate(timeout=120)
            raise RuntimeError(f"the incident was not played: {said}")
        try:
            yield {f"127.0.0.1:{FIRST_PORT + place}": address for place, address in enumerate(addresses)}
        finally:
            playing.send_signal(signal.SIGINT)


def surroundings(folder: Path) -> dict[str, str]:
    """The commands of this checkout, whatever is installed; a journal of this run's own; the page's width.

    They run in another folder, where a relative path would lead nowhere.
    """
    return os.environ | {"PYTHONPATH": str(OPERATOR), "XDG_STATE_HOME": str(folder), "COLUMNS": "84"}


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        PAGE.write_text(wanted(Path(scratch)))
