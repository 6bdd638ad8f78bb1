"""What all programs have alike: `-h`, `--version`, shell completion, help and errors as plain text."""

from __future__ import annotations

from importlib.metadata import version as installed
from typing import Annotated, Final

import typer

HELP: Final[dict[str, list[str]]] = {"help_option_names": ["-h", "--help"]}
"""Settings of a program's context, which its commands inherit."""


def program(name: str, says: str, epilog: str | None = None, *, completes: bool = True) -> typer.Typer:
    """A program of several commands. `completes`: whether it has options that install its completion."""
    return typer.Typer(
        name=name,
        help=says,
        epilog=epilog,
        no_args_is_help=True,
        add_completion=completes,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=HELP,
    )


def _say_version(asked: bool) -> None:
    if asked:
        print(installed("kafka-recovery-operator"))
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the release and exit.")
]
