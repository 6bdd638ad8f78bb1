"""Writes docs/images/demo.svg: what `make demo` shows on a terminal, from a real run of it.

And docs/images/difference.svg, the accident and the last table of the same run: what a reader sees first.

PYTHONPATH=operator:spark:tests python docs/generate_picture.py    # needs what `make demo` needs; half a minute
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from rich.console import Console
from rich.text import Text

DOCS = Path(__file__).parent
PICTURE = DOCS / "images" / "demo.svg"
DIFFERENCE = DOCS / "images" / "difference.svg"
WIDTH = 118


class _Wrapping(Console):
    """Long lines go on below: a picture has no room to the right."""

    def print(self, *objects: Any, soft_wrap: bool | None = None, **how: Any) -> None:
        super().print(*objects, **how)


def main() -> None:
    """Runs the demo; whatever its commands print passes through the same console."""
    os.environ.update(COLUMNS=str(WIDTH), FORCE_COLOR="1")
    spec = importlib.util.spec_from_file_location("demo_run", DOCS.parent / "demo" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    demo: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = demo
    spec.loader.exec_module(demo)
    console = demo.console = _Wrapping(record=True, width=WIDTH, force_terminal=True)

    def shown(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        console.print(Text.from_ansi(done.stdout))
        return done

    demo.subprocess = SimpleNamespace(run=shown)  # only the demo's own; what starts Kafka goes on as ever
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        demo.tempfile = SimpleNamespace(TemporaryDirectory=lambda: contextlib.nullcontext("."))
        demo.main()
    seen = console.export_text(styles=True, clear=False).splitlines()
    DIFFERENCE.write_text(drawn(shortened(seen)))
    PICTURE.write_text(drawn(console))


def shortened(seen: list[str]) -> Console:
    """The accident, and what was left of the records."""
    plain = [Text.from_ansi(line).plain for line in seen]
    counted = next(place for place, line in enumerate(plain) if line.startswith("Acknowledged records"))
    told = next(place for place, line in enumerate(plain) if line.startswith("orders is led by"))
    short = Console(record=True, width=WIDTH, force_terminal=True, file=io.StringIO())
    for line in [*seen[: plain.index("")], "", *seen[counted:told]]:
        short.print(Text.from_ansi(line))
    return short


def drawn(console: Console) -> str:
    """As a picture that asks nobody for a font."""
    return re.sub(r"(?s)\s*@font-face \{.*?\}", "", console.export_svg(title="make demo"))


if __name__ == "__main__":
    main()
