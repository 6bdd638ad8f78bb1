"""`status`: shown once, or again whenever something has changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from kafka_recovery.cli.kubectl.overview import Part, Standing, overview
from kafka_recovery.cli.kubectl.standing import standing
from kafka_recovery.cli.kubectl.troubles import Session, told
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.render import write_result
from kafka_recovery.cli.terminal.text import say
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.machinery.api import ApiError

LOOK = timedelta(seconds=2)
"""How often the API is asked what has changed."""


def status(session: Session, name: str | None, part: Part, watch: bool) -> ExitCode:
    """One recovery, or all of the part that is asked for. `watch`: until it has finished, or for ever."""
    if name is not None and part.chosen:
        raise InvalidDocument("a NAME is one recovery: give it, or --all-namespaces, --selector and --cluster")
    for seen in _seen(session, name, part) if watch else [_look(session, name, part)]:
        if watch:
            say(f"--- {datetime.now(UTC):%H:%M:%S} UTC")
        write_result(session.output, seen.document, seen.shown, seen.following)
    return ExitCode.DONE


def _look(session: Session, name: str | None, part: Part) -> Standing:
    return standing(session, name) if name is not None else overview(session, part)


def _seen(session: Session, name: str | None, part: Part) -> Iterator[Standing]:
    """What there is, and again whenever it is another. An API server that is away is told of, and waited for.

    The first look must succeed: a name that is wrong is no change to wait for.
    """
    last = _look(session, name, part)
    yield last
    while not last.over:
        time.sleep(LOOK.total_seconds())
        try:
            now = _look(session, name, part)
        except ApiError as error:
            if not error.may_pass:
                raise
            say(f"not seen at {datetime.now(UTC):%H:%M:%S} UTC: {told(error)}")
            continue
        if now.document != last.document:
            yield now
        last = now
