"""What a person attests on a command line: `broker=3:disk-lost`, why, and for how long."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from pydantic_core import PydanticCustomError

from kafka_recovery.domain.attestation import Attestation, Witness
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.fields import Duration

SHORTEST, USUAL, LONGEST = "1m", "1h", "24h"
"""What is true of a disk today may not be tomorrow: somebody may find it in a drawer."""
SHORTEST_LASTS, LONGEST_LASTS = timedelta(minutes=1), timedelta(hours=24)
"""The same."""
LONGEST_REASON = 500
_LARGEST_BROKER = 2**31 - 1
_FORM = re.compile(r"broker=(?P<id>0|[1-9][0-9]{0,9}):(?P<witness>[^:]*)")
_LASTS = Duration(LONGEST, SHORTEST)


def read_attestations(
    texts: Sequence[str], reason: str | None, lasts: str | None, by: str, at: datetime
) -> tuple[Attestation, ...]:
    """What these options say together, by broker; raises InvalidDocument naming option, value and what is right."""
    if not texts:
        for option, value in (("--attest-reason", reason), ("--attest-for", lasts)):
            if value is not None:
                raise InvalidDocument(f"{option} {_shown(value)}: says something of --attest, and there is none")
        return ()
    brokers = [_broker(text) for text in texts]
    twice = next((broker for broker, times in Counter(brokers).items() if times > 1), None)
    if twice is not None:
        raise InvalidDocument(f"--attest broker={twice} is given twice; did you mean another broker?")
    why = how_known("--attest-reason", reason)
    expires = at + how_long("--attest-for", lasts)
    return tuple(Attestation(broker, Witness.DISK_LOST, by, why, at, expires) for broker in sorted(brokers))


def _broker(text: str) -> BrokerId:
    found = _FORM.fullmatch(text)
    if found is None or int(found["id"]) > _LARGEST_BROKER:
        raise InvalidDocument(
            f"--attest {_shown(text)}: must be broker=ID:{Witness.DISK_LOST}, such as broker=3:{Witness.DISK_LOST}"
        )
    if found["witness"] not in list(Witness):
        known = ", ".join(Witness)
        raise InvalidDocument(f"--attest {_shown(text)}: what is attested must be {known} (got {found['witness']!r})")
    return BrokerId(int(found["id"]))


def how_known(option: str, given: str | None) -> str:
    """The reason that was typed with this option. Raises InvalidDocument where it says nothing, or too much."""
    if given is None or not given.strip():
        got = "" if given is None else f" {_shown(given)}"
        raise InvalidDocument(f'{option}{got}: say how you know it, such as {option} "INC-7: volume vol-3 was deleted"')
    if len(given) > LONGEST_REASON or not given.isprintable():
        raise InvalidDocument(
            f"{option} {_shown(given)}: must be one line of at most {LONGEST_REASON} printable characters"
        )
    return given.strip()


def how_long(option: str, given: str | None) -> timedelta:
    """How long it holds, as typed with this option; None: as long as usual. Raises InvalidDocument."""
    try:
        lasts: timedelta = _LASTS.read(USUAL if given is None else given)
    except PydanticCustomError as problem:
        raise InvalidDocument(f"{option} {_shown(given)}: {problem.message()}") from None
    return lasts


def _shown(value: str | None) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"
