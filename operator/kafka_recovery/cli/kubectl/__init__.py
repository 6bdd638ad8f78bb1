"""`kubectl kafka-recovery`: what waits for whom, and what a person says to it, by their own kubeconfig and rights."""

from __future__ import annotations

from typing import NoReturn


def main() -> NoReturn:
    """The program."""
    from kafka_recovery.cli.kubectl.commands import main as program

    program()
