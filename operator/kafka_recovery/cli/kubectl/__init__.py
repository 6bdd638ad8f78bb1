"""`kubectl kafka-recovery`: what waits for whom, and what a person says to it, by their own kubeconfig and rights."""

from __future__ import annotations

import sys
from typing import NoReturn

from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.text import complain

_EXTRA = ("aiohttp", "kubernetes", "urllib3")


def main() -> NoReturn:
    """The program; its libraries come with an extra that not everybody has installed."""
    try:
        from kafka_recovery.cli.kubectl.commands import main as program
    except ModuleNotFoundError as missing:
        library = str(missing.name).partition(".")[0]
        if library not in _EXTRA:
            raise
        complain(f"{library} is not installed; pip install '.[operator]' in its checkout")
        sys.exit(ExitCode.BAD_INPUT)
    program()
