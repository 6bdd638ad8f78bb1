"""A report as one HTML page: it loads nothing, runs nothing, and shows whatever a topic is called as text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from kafka_recovery.fleet.report import Report, level, shown


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a bar, in hundredths of its length."""

    name: str
    x: float
    width: float


def page(report: Report) -> bytes:
    """The file's content. Its policy allows nothing but the page's own style, by its hash."""
    style = _own("report.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": _number, "name": shown, "instant": _instant}
    environment.globals |= {"segments": segments, "level": partial(level, bounds=report.levels)}
    template = environment.from_string(_own("report.html"))
    return template.render(report=report, style=style, style_digest=digest).encode(errors="replace")


def segments(parts: Mapping[str, int], whole: int) -> list[Segment]:
    """The parts one after the other; those that are nothing are left out."""
    found, x = [], 0.0
    for name, count in parts.items():
        width = 100 * count / whole if whole else 0.0
        if width:
            found.append(Segment(name, round(x, 2), round(width, 2)))
        x += width
    return found


def _own(name: str) -> str:
    return files("kafka_recovery.fleet").joinpath(name).read_text(encoding="utf-8")


def _number(count: int) -> str:
    return f"{count:,}"


def _instant(moment: datetime | None) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC") if moment else "unknown"
