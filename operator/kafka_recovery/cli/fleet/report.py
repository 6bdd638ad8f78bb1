"""`kafka-recovery fleet report`: what runs have written, read, checked, and shown as one page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_recovery.cli.fleet.stores import unusable
from kafka_recovery.cli.terminal.new_files import refuse_unwritable, write_new
from kafka_recovery.formats.documents import InvalidDocument

if TYPE_CHECKING:
    from kafka_recovery.fleet.report import Report

NEEDED = ("fsspec", "jinja2", "pyarrow")
"""The extra `fleet`."""


def write_report(urls: Sequence[str], page: Path) -> Report:
    """Write the page and give back what it shows. Raises InvalidDocument, or Refusal if results can't be reached."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        names = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
        raise InvalidDocument(f"fleet report: {names}: pip install '.[fleet]' in its checkout")
    # Imported where it is used: other commands need neither these packages nor the time to load them.
    from kafka_recovery.fleet.report_page import page as drawn
    from kafka_recovery.fleet.storage import StorageUnavailable

    refuse_unwritable(page)
    try:
        found = _collected(urls, datetime.now(UTC))
    except StorageUnavailable as error:
        raise unusable(error) from None
    write_new(page, drawn(found))
    return found


def _collected(urls: Sequence[str], made_at: datetime) -> Report:
    from pyarrow import ArrowException

    from kafka_recovery.fleet import report_figures
    from kafka_recovery.fleet.parquet_files import first_line
    from kafka_recovery.fleet.report import Source, each_once, report
    from kafka_recovery.fleet.report_results import Result

    results = [Result.at(url) for url in urls]
    sources = [Source(result.manifest, result.checksum, result.place.shown) for result in results]
    each_once(sources)
    by_task = {result.manifest.task: result for result in results}
    try:
        readiness = report_figures.readiness(by_task["readiness"].batches) if "readiness" in by_task else None
        ranking = report_figures.ranking(by_task["rank"].batches) if "rank" in by_task else None
    except ArrowException as error:
        folders = " and ".join(source.folder for source in sources)
        raise InvalidDocument(f"{folders}: hold what no run writes: {first_line(error)}") from None
    return report(sources, readiness, ranking, made_at)
