"""When a ranking is due, by five fields of cron in UTC."""

from __future__ import annotations

from datetime import datetime, timedelta

from cronsim import CronSim, CronSimError

from kafka_recovery.formats.documents import InvalidDocument

_SECOND = timedelta(seconds=1)


def next_due(schedule: str, after: datetime) -> datetime:
    """The first instant after `after`. Raises InvalidDocument for what is no schedule, or never comes."""
    return _found(schedule, after, backwards=False)


def last_due(schedule: str, after: datetime, until: datetime) -> datetime | None:
    """The last instant after `after` and not after `until`; those between are missed. Raises InvalidDocument."""
    found = _found(schedule, until.replace(microsecond=0) + _SECOND, backwards=True)
    return found if found > after else None


def _found(schedule: str, start: datetime, *, backwards: bool) -> datetime:
    try:
        return next(CronSim(schedule, start, reverse=backwards))
    except CronSimError as error:
        raise InvalidDocument(f"spec.schedule: {schedule!r} is no schedule: {error}") from None
    except StopIteration:
        raise InvalidDocument(f"spec.schedule: {schedule!r} never comes") from None
