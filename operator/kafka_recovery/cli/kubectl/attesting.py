"""`attest`: a person says in their own name that a broker's disk is lost, where the operator makes its plan."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from kafka_recovery.cli.kubectl import reading
from kafka_recovery.cli.kubectl.asking import consent
from kafka_recovery.cli.kubectl.reading import Incident
from kafka_recovery.cli.kubectl.saying import who_am_i
from kafka_recovery.cli.kubectl.steering import plain
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.render import lines, write_result
from kafka_recovery.cli.terminal.running import Refusal
from kafka_recovery.decision.attesting import hosting
from kafka_recovery.decision.moments import moment
from kafka_recovery.domain.attestation import Witness
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.formats.attestations import how_known, how_long
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.machinery.conditions import instant
from kafka_recovery.kube.resources.fields import MOST_ATTESTATIONS
from kafka_recovery.kube.resources.kinds import RECOVERIES


@dataclass(frozen=True, slots=True)
class Word:
    """What was typed. `lost`: that the disk is; False: that nobody says so any more; None: neither."""

    broker: int
    lost: bool | None
    reason: str | None
    expires: str | None

    def check(self) -> None:
        """Raise InvalidDocument for what says nothing, or too much."""
        if self.lost is None:
            raise InvalidDocument("say what you attest: --disk-lost; or --withdraw what was attested of that broker")
        if self.lost:
            how_known("--reason", self.reason)
            how_long("--expires", self.expires)
            return
        for option, value in (("--reason", self.reason), ("--expires", self.expires)):
            if value is not None:
                raise InvalidDocument(f"{option} {value!r}: goes with --disk-lost only")


def attest(session: Session, name: str, word: Word, yes: bool) -> ExitCode:
    """Ask, and have the recovery say that a broker's disk is lost; or take that back, which is not asked about."""
    word.check()
    incident = reading.incident(session, name)
    if incident.finished:
        raise Refusal(ExitCode.BAD_INPUT, f"{name} has finished: {incident.state}; there is nothing to attest for")
    others = [each for each in _attested(incident) if each["broker"] != word.broker]
    if word.lost:
        _check_place(session, incident, word.broker, others)
        return _say(session, incident, word, others, yes)
    if len(others) == len(_attested(incident)):
        raise Refusal(ExitCode.BAD_INPUT, f"nothing is attested of broker {word.broker} in {name}")
    now = _written(session, incident, others)
    meaning = "The operator makes the plan again without it; an approval of the plan that stood on it does not count."
    shown = lines(f"What was attested of broker {word.broker} is taken back from {name}. {meaning}")
    write_result(session.output, plain(now), shown, f"Next: {session.command(f'status {name}')}")
    return ExitCode.DONE


def _say(session: Session, incident: Incident, word: Word, others: list[Object], yes: bool) -> ExitCode:
    who, why = who_am_i(session), how_known("--reason", word.reason)
    at = datetime.now(UTC).replace(microsecond=0)
    expires = at + how_long("--expires", word.expires)
    until = f"until {moment(expires)}"
    if not yes:
        consent(
            f"Attest as {who} that the disk of broker {word.broker} is lost for good, {until}? Nothing on it is waited "
            "for then, and what it alone holds is lost once an election is approved.",
            "attested",
        )
    entry = {
        "broker": word.broker,
        "witness": str(Witness.DISK_LOST),
        "by": who,
        "reason": why,
        "at": instant(at),
        "expires": instant(expires),
    }
    now = _written(session, incident, [*others, entry])
    shown = lines(
        f"{who} attests for {incident.name} that the disk of broker {word.broker} is lost for good, {until}.",
        "The operator makes the plan again. Read it: it says VOID if the broker gives a sign of life. A person has to "
        "approve each election that nothing else makes possible.",
    )
    write_result(session.output, plain(now), shown, f"Next: {session.command(f'plan {incident.name}')}")
    return ExitCode.DONE


def _attested(incident: Incident) -> list[Object]:
    """What is attested there now, as it was written."""
    return list(incident.obj["spec"].get("attestations") or ())


def _check_place(session: Session, incident: Incident, broker: int, others: list[Object]) -> None:
    """Raise InvalidDocument where it would say nothing, or there is no room for it."""
    if len(others) >= MOST_ATTESTATIONS:
        raise InvalidDocument(f"{incident.name} has {len(others)} attestations, and no more fit; --withdraw one first")
    hosts: frozenset[BrokerId] = frozenset()
    with suppress(ApiError, InvalidDocument, Refusal):  # where no plan can be read, nobody knows better
        hosts = hosting(reading.plan_of(session, incident)[1].evidence)
    if hosts and broker not in hosts:
        named = ", ".join(map(str, sorted(hosts)))
        raise InvalidDocument(
            f"--broker {broker}: has no replica of the partitions in the plan of {incident.name}; those that have are "
            f"{named}"
        )


def _written(session: Session, incident: Incident, attestations: list[Object]) -> Object:
    """Change exactly what was looked at: what somebody else attests at the same moment must not get lost."""
    meta = incident.obj["metadata"]
    seen = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    change = {"metadata": seen, "spec": {"attestations": attestations}}
    return session.api.patch(RECOVERIES.path(session.namespace, incident.name), change)
