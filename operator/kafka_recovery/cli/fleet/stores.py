"""A store that can't be used, as the end of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.running import Refusal

if TYPE_CHECKING:  # pyarrow may not be installed
    from kafka_recovery.fleet.storage import StorageUnavailable


def unusable(error: StorageUnavailable, option: str = "") -> Refusal:
    """`option`: what stands before the message."""
    return Refusal(ExitCode.NOT_LET_IN if error.refused else ExitCode.UNAVAILABLE, f"{option}{error}")
