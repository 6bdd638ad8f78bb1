"""Logs on standard error, as JSON lines or plain text, that say which cluster, recovery and partition they are about.

    with about(cluster="kafka/prod", recovery="kafka/prod-1a2b"):
        _LOG.warning("it is waited for")         # and what is called in here, and tasks started in here

Nothing can prove that no secret is logged. What holds secrets has no repr instead: see `cluster.security`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal, TextIO

from kafka_recovery.formats.printable import printable

_LOG = logging.getLogger(__name__)

FIELDS = ("cluster", "recovery", "partition")
"""In this order in plain text. `cluster` and `recovery` are namespace/name."""

Field = Literal["cluster", "recovery", "partition"]

CHATTY = ("aiohttp", "asyncio", "httpx", "kopf", "kubernetes", "urllib3", "kafka")
"""Libraries whose debug lines are theirs, not ours; some of them print whole answers of the API server."""

_about: ContextVar[Mapping[str, str]] = ContextVar("about", default={})  # noqa: B039 - it is only ever replaced


class LogFormat(StrEnum):
    """How a line looks."""

    JSON = "json"
    PLAIN = "plain"


@contextmanager
def about(**fields: str) -> Iterator[None]:
    """What all log lines in a `with` block are about, those of tasks begun in it included."""
    if unknown := fields.keys() - set(FIELDS):
        raise TypeError(f"log lines have no field {', '.join(sorted(unknown))}; they have {', '.join(FIELDS)}")
    token = _about.set({**_about.get(), **fields})
    try:
        yield
    finally:
        _about.reset(token)


def set_up(form: LogFormat, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Everything that this process logs goes there from now on. `level`: of our own; libraries tell from INFO on.

    Raises ValueError for a level that does not exist.
    """
    least = logging.getLevelNamesMapping().get(level)
    if least is None:
        raise ValueError(f"{level!r} is no level of a log; right are DEBUG, INFO, WARNING and ERROR")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Json() if form is LogFormat.JSON else _Plain())
    logging.basicConfig(level=least, handlers=[handler], force=True)
    logging.captureWarnings(True)
    for library in CHATTY:
        logging.getLogger(library).setLevel(max(least, logging.INFO))


def say_less_of_watches(loop: asyncio.AbstractEventLoop) -> None:
    """One line at debug level of a watch that could not be closed as the generator it is, when its loop ends.

    kopf 1.45 leaves its watches to the loop's end, and one that was just giving an event raises there.
    """

    def tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "asyncgen" in context:
            _LOG.debug("%s: %s", context.get("message"), context.get("exception"))
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(tell)


def _fields(record: logging.LogRecord) -> dict[str, str]:
    """What it is about: by its own `extra` first, then by the place that it was logged from."""
    around = _about.get()
    found = {field: getattr(record, field, None) or around.get(field) for field in FIELDS}
    return {field: str(value) for field, value in found.items() if value}


def _instant(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Json(logging.Formatter):
    """One object a line. A traceback is one string, so that a line stays a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _instant(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            **_fields(record),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        text = json.dumps(line, ensure_ascii=False)
        return text if text.isprintable() else json.dumps(line).replace("\x7f", "\\u007f")


class _Plain(logging.Formatter):
    """Time, level, where from, what about, what; a traceback follows on its own lines."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {field}={value}" for field, value in _fields(record).items())
        message = _one_line(record.getMessage())
        line = f"{_instant(record)} {record.levelname:<8} {record.name}{_one_line(fields)}: {message}"
        trace = self.formatException(record.exc_info).splitlines() if record.exc_info else ()
        return "\n".join((line, *map(printable, trace)))


def _one_line(text: str) -> str:
    """Names and reasons come from outside: none of them may look like a line of ours."""
    return printable(text.replace("\r", "\\r").replace("\n", "\\n"))
