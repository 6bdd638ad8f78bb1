"""What real brokers showed when a script was last played on them, kept for tests that have none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from fidelity.script import Script, Sight

FOLDER = Path(__file__).parent / "recorded"


def file_of(script: Script) -> Path:
    """One file a script, named after it."""
    return FOLDER / f"{script.name.replace(' ', '-').replace(',', '').replace(chr(39), '')}.yaml"


def keep(script: Script, sights: Sequence[Sight]) -> None:
    """Write down what was seen, in place of what was seen before."""
    FOLDER.mkdir(exist_ok=True)
    told = [{sight.step: dict(sight.fields)} for sight in sights]
    text = yaml.safe_dump(told, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120)
    file_of(script).write_text(text)


def seen(script: Script) -> list[Sight]:
    """What was written down; FileNotFoundError if the script was never played."""
    told = yaml.safe_load(file_of(script).read_text())
    return [Sight(step, fields) for one in told for step, fields in one.items()]
