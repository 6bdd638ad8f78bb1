"""`python -m kafka_recovery_spark`: the job, as a Spark operator or plain `spark-submit` starts it."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from kafka_recovery.fleet.storage import StorageUnavailable
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.printable import printable
from kafka_recovery_spark.job import Asked, Task, answer, instant
from kafka_recovery_spark.session import JavaMissing

LAST_WORDS = Path("/dev/termination-log")
"""What Kubernetes shows of a container that ended; it is there, if it is to be written."""

LONGEST = 1000
"""Characters; Kubernetes keeps 4096 bytes."""

DONE, BAD_INPUT, UNAVAILABLE, NOT_LET_IN, BUG = 0, 2, 3, 6, 70
"""Exit codes as those of `kafka-recovery`."""


def main(words: Sequence[str] | None = None, last_words: Path = LAST_WORDS) -> int:
    """Answer one question; the exit code. An error is one sentence, but for one that nobody expected."""
    options = _parser().parse_args(words)
    try:
        manifest = answer(_asked(options))
    except (InvalidDocument, JavaMissing) as error:
        return _ended(BAD_INPUT, f"Error: {error}", last_words)
    except StorageUnavailable as error:
        return _ended(NOT_LET_IN if error.refused else UNAVAILABLE, f"Error: {error}", last_words)
    except Exception as error:  # noqa: BLE001 - the outermost frame; Spark raises whatever Java does
        traceback.print_exc()
        return _ended(BUG, f"Error: {type(error).__name__}: {error}", last_words)
    numbers = manifest.summary
    return _ended(
        DONE,
        f"{manifest.run}: {numbers.partitions} partitions of {numbers.clusters} clusters: {numbers.lossless} lossless, "
        f"{numbers.bounded} bounded, {numbers.unknown} unknown, {numbers.none} none",
        last_words,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kafka_recovery_spark",
        description="Ask evidence of many clusters. Writes TO/RUN/, its manifest last. Changes nothing in Kafka.",
        allow_abbrev=False,
    )
    parser.add_argument("task", choices=[str(task) for task in Task])
    parser.add_argument("--evidence", required=True, metavar="URL", help="what `kafka-recovery snapshot` keeps")
    parser.add_argument("--policy", required=True, metavar="FILE", help="a RecoveryPolicy, or its spec")
    parser.add_argument("--to", required=True, metavar="URL", help="where results go")
    parser.add_argument("--run", required=True, metavar="NAME", help="the folder there; a new one")
    parser.add_argument("--cluster", action="append", default=[], metavar="ID", help="only this one; may be repeated")
    parser.add_argument("--not-before", metavar="INSTANT", help="refuse evidence that is older")
    parser.add_argument("--master", metavar="URL", help="of Spark, such as local[*]; else spark-submit's")
    return parser


def _asked(options: argparse.Namespace) -> Asked:
    try:
        not_before = None if options.not_before is None else instant(options.not_before)
    except InvalidDocument as error:
        raise InvalidDocument(f"--not-before: {error}") from None
    return Asked(
        task=Task(options.task),
        evidence=options.evidence,
        policy=Path(options.policy),
        to=options.to,
        run=options.run,
        clusters=tuple(options.cluster),
        not_before=not_before,
        master=options.master,
    )


def _ended(code: int, message: str, last_words: Path) -> int:
    """Say it, on one line and without control characters, also where Kubernetes looks for it."""
    line = printable(" ".join(message.split()))[:LONGEST]
    print(line, file=sys.stderr, flush=True)
    try:
        with last_words.open("r+", encoding="utf-8") as file:  # never made: outside of a Pod it is none of ours
            file.write(line)
            file.truncate()
    except OSError:
        pass
    return code


if __name__ == "__main__":
    sys.exit(main())
