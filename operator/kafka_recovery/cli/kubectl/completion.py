"""`kubectl_complete-kafka_recovery`: kubectl calls it for whoever presses Tab behind `kubectl kafka-recovery`.

It hands over the words that were typed, the unfinished one last, and wants a suggestion a line, its description behind
a tab, and in the last line a colon and what the shell may suggest besides.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from contextlib import redirect_stdout
from typing import NoReturn

FILES, NOTHING_ELSE = ":0", ":4"
"""The directives of Cobra, by which kubectl is made: files may be meant; or nothing but what is suggested."""


def suggestions(words: list[str], given: object = None) -> list[str]:
    """What may stand in the place of the last word; fish's form of a suggestion is kubectl's."""
    import typer.main
    from typer.completion import completion_init, shell_complete  # type: ignore[attr-defined]

    from kafka_recovery.cli.kubectl.commands import app

    completion_init()
    os.environ["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    os.environ["_TYPER_COMPLETE_ARGS"] = shlex.join(["plugin", *words])
    with redirect_stdout(io.StringIO()) as said:
        shell_complete(typer.main.get_command(app), {"obj": given}, "plugin", "_COMPLETE", "complete_fish")
    # An option that takes a file suggests what was typed, without a description.
    return [line for line in said.getvalue().splitlines() if line and line != words[-1]]


def main() -> NoReturn:
    """The program."""
    words = sys.argv[1:] or [""]
    found = suggestions(words)
    for line in found:
        print(line)
    print(NOTHING_ELSE if found else FILES)
    sys.exit(0)


if __name__ == "__main__":
    main()
