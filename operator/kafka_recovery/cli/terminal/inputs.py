"""What the command line and the files it names say, checked before any broker is asked."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from kafka_recovery.cli.terminal.new_files import read_text
from kafka_recovery.cli.terminal.text import say
from kafka_recovery.decision.attesting import hosting, without_a_copy
from kafka_recovery.domain.attestation import Attestation
from kafka_recovery.domain.election import ALL_OFFLINE, Scope
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import Policy
from kafka_recovery.formats import partition_files, policy_file
from kafka_recovery.formats.attestations import read_attestations
from kafka_recovery.formats.documents import InvalidDocument

_LARGEST_PARTITION = 2**31 - 1
_NUMBER = re.compile("0|[1-9][0-9]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which partitions, and the leaders a person chose for them, if any."""

    scope: Scope
    designated: Mapping[TopicPartition, BrokerId] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attesting:
    """What a person attests, as typed: which brokers' disks are lost, why, and for how long that holds."""

    texts: tuple[str, ...] = ()
    reason: str | None = None
    lasts: str | None = None

    @property
    def given(self) -> bool:
        """Whether any of its options was used."""
        return bool(self.texts) or self.reason is not None or self.lasts is not None

    def read(self, by: str) -> tuple[Attestation, ...]:
        """What `by` says with it now; raises InvalidDocument."""
        return read_attestations(self.texts, self.reason, self.lasts, by, datetime.now(UTC).replace(microsecond=0))

    def __str__(self) -> str:
        """As it was typed, to follow other options."""
        words = [f" --attest {shlex.quote(text)}" for text in self.texts]
        words += [] if self.reason is None else [f" --attest-reason {shlex.quote(self.reason)}"]
        return "".join(words + ([] if self.lasts is None else [f" --attest-for {shlex.quote(self.lasts)}"]))


def check_hosts(evidence: Evidence, attestations: Sequence[Attestation]) -> None:
    """Raise InvalidDocument for the first that is about a broker without a replica of what was looked at."""
    other = without_a_copy(evidence, attestations)
    if other is not None:
        hosts = ", ".join(map(str, sorted(hosting(evidence))))
        raise InvalidDocument(
            f"--attest broker={other.broker}:{other.witness}: broker {other.broker} has no replica of the partitions "
            f"that were looked at; those that have are {hosts}"
        )


def read_policy(path: Path | None) -> Policy:
    """The policy file, or the default policy: every topic, and a person approves. Tells of what has no effect here."""
    if path is None:
        return Policy()
    policy = policy_file.load_policy(read_text(path, policy_file.LARGEST_FILE), str(path))
    if policy.hold_back:
        say(f"{path}: holdBack: {policy.hold_back} has no effect here: only the operator holds Pods back.")
    if policy.require_reason:
        say(f"{path}: requireReason has no effect here: only the operator reads approvals that say why.")
    return for_a_terminal(policy)


def for_a_terminal(policy: Policy) -> Policy:
    """The same without what only the operator heeds."""
    return replace(policy, hold_back=None, require_reason=False)


def read_partition_file(path: Path) -> Wanted:
    """A file of partitions in either form; raises InvalidDocument."""
    found = partition_files.read_partitions(read_text(path, partition_files.LARGEST_FILE), str(path))
    return Wanted(Scope(found.partitions), found.designated)


def wanted(all_offline: bool, partitions: Sequence[str], file: Path | None) -> Wanted:
    """Exactly one of the three ways to name partitions; raises InvalidDocument otherwise."""
    options = ("--all-offline-partitions", "--partition", "--path-to-json-file")
    given = [name for name, used in zip(options, (all_offline, partitions, file), strict=True) if used]
    if not given:
        raise InvalidDocument(f"no partitions are named; give one of {', '.join(options)}")
    if len(given) > 1:
        raise InvalidDocument(f"{' and '.join(given)} exclude each other; give one of them")
    if file:
        return read_partition_file(file)
    return Wanted(ALL_OFFLINE if all_offline else Scope(_each_once(tuple(map(partition, partitions)))))


def _each_once(ids: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
    """As in a file: who names a partition twice may have meant another one."""
    twice = next((id for id, times in Counter(ids).items() if times > 1), None)
    if twice:
        raise InvalidDocument(f"--partition {twice} is given twice; did you mean another one?")
    return ids


def of_topic(topic: str | None, partitions: tuple[str, ...]) -> tuple[str, ...]:
    """What `--topic` and `--partition` say together, each as `topic-index`; raises InvalidDocument for half of it."""
    if topic is None:
        return partitions
    if not partitions:
        raise InvalidDocument(f"--topic {topic} names no partition; add its number, such as --partition 17")
    if other := next((text for text in partitions if not _NUMBER.fullmatch(text)), None):
        raise InvalidDocument(
            f"--partition {other!r} is not a partition's number; with --topic {topic} write --partition N, "
            f"without --topic write --partition TOPIC-N"
        )
    return tuple(f"{topic}-{number}" for number in partitions)


def partition(text: str) -> TopicPartition:
    """One partition as `topic-index`; raises InvalidDocument with the form that is right."""
    if text.isdecimal():
        raise InvalidDocument(f"{text!r} is a number without its topic; write both as TOPIC-{text}, or give --topic")
    try:
        id = TopicPartition.parse(text)
    except ValueError as error:
        raise InvalidDocument(str(error)) from None
    if str(id) != text:
        raise InvalidDocument(
            f"{text!r} is not a partition: its number is written with a leading zero; did you mean {id}, or a "
            f"partition of a topic {text!r}, such as {text}-0?"
        )
    problem = partition_files.topic_name_problem(id.topic)
    if problem:
        raise InvalidDocument(f"{text!r} is not a partition: the topic's name {problem}")
    if id.partition > _LARGEST_PARTITION:
        raise InvalidDocument(f"{text!r} is not a partition: its number is larger than {_LARGEST_PARTITION}")
    return id


def journal_directory(given: Path | None) -> Path:
    """`--journal`, or `$XDG_STATE_HOME/kafka-recovery`, or `~/.local/state/kafka-recovery`."""
    if given:
        return given
    state = os.environ.get("XDG_STATE_HOME", "")
    if Path(state).is_absolute():  # the XDG specification: a relative path is to be ignored
        return Path(state) / "kafka-recovery"
    try:
        return Path.home() / ".local" / "state" / "kafka-recovery"
    except RuntimeError:
        raise InvalidDocument("there is no home directory to keep the journal in; name one with --journal") from None
