"""Hearing what an engine sees and asks for: around its ports, and in the frames that it sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest

from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.domain.election import Answer, Ballot, ElectionAnswer, Lead, Leadership, Scope
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.recovery.ports import Election
from kafka_recovery.simulator.histories.chronicle import Answered, Chronicle

Answers = Mapping[TopicPartition, ElectionAnswer]

_LENGTH = 4
_ELECTIONS, _ORDERS = ElectLeadersRequest.API_KEY, AlterPartitionReassignmentsRequest.API_KEY


@dataclass(frozen=True, slots=True)
class HeardCluster:
    """Port `Cluster`: the real client. `looked` hears of every evidence that it gathers."""

    cluster: KafkaCluster
    looked: Callable[[Evidence], object]

    async def gather(
        self, scope: Scope, rules: EvidenceRules, known: Mapping[TopicPartition, PartitionEvidence] | None = None
    ) -> Evidence:
        """See the port."""
        evidence = await self.cluster.gather(scope, rules, known)
        self.looked(evidence)
        return evidence

    async def leaders(
        self, partitions: Sequence[TopicPartition], deadline: timedelta
    ) -> Mapping[TopicPartition, Leadership]:
        """See the port."""
        return await self.cluster.leaders(partitions, deadline)

    async def answering(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        """See the port."""
        return await self.cluster.answering(candidates, deadline)


@dataclass(slots=True)
class Requests:
    """The changes of one process: what its driver was told to do, and which requests it then sends for that.

    `asked` hears of a request just before it is sent: "designate", "elect" or "restore", and for which ballots.
    """

    asked: Callable[[str, Sequence[Ballot]], object]
    _told: dict[tuple[str, TopicPartition], Ballot] = field(default_factory=dict)

    def told(self, what: str, ballots: Sequence[Ballot]) -> None:
        """The driver is about to do this."""
        self._told |= {(what, ballot.id): ballot for ballot in ballots}

    def sending(self, frame: bytes) -> None:
        """A frame with its length is about to be sent."""
        key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (_LENGTH, _LENGTH + 2))
        if key == _ELECTIONS:
            named = ElectLeadersRequest.decode(frame[_LENGTH:], version=version, header=True).topic_partitions
            ids = {TopicPartition(topic.topic, index) for topic in named or () for index in topic.partitions}
            told = [ballot for (what, _), ballot in self._told.items() if what == "elect"]
            self._tell("elect", [ballot for ballot in told if named is None or ballot.id in ids])
        elif key == _ORDERS:
            orders = tuple(_orders(frame[_LENGTH:], version))
            for what in ("designate", "restore"):
                self._tell(what, [ballot for id, order in orders if (ballot := self._wanted(what, id, order))])

    def _wanted(self, what: str, id: TopicPartition, order: tuple[BrokerId, ...]) -> Ballot | None:
        """The ballot that this order is set for; the original order is set by restoring, every other by designating."""
        ballot = self._told.get((what, id))
        restored = ballot is not None and order == ballot.assignment
        return ballot if restored == (what == "restore") else None

    def _tell(self, what: str, ballots: Sequence[Ballot]) -> None:
        if ballots:
            self.asked(what, ballots)


@dataclass(frozen=True, slots=True)
class HeardElection:
    """Port `Election` of one process: a real driver, and a note of each answer."""

    driver: Election
    requests: Requests
    story: Chronicle
    process: str
    machine: str

    async def designate(self, ballots: Sequence[Ballot]) -> Answers:
        """As the driver does."""
        return await self._heard("designate", ballots, self.driver.designate)

    async def elect(self, ballots: Sequence[Ballot]) -> Answers:
        """As the driver does."""
        return await self._heard("elect", ballots, self.driver.elect)

    async def restore(self, ballots: Sequence[Ballot]) -> Answers:
        """As the driver does."""
        return await self._heard("restore", ballots, self.driver.restore)

    async def _heard(
        self, what: str, ballots: Sequence[Ballot], ask: Callable[[Sequence[Ballot]], Awaitable[Answers]]
    ) -> Answers:
        self.requests.told(what, ballots)
        asked_at = self.story.now
        answers = await ask(ballots)
        doubtful = frozenset(id for id, answer in answers.items() if answer.answer is Answer.UNANSWERED)
        self.story.answered.append(
            Answered(self.story.now, self.process, self.machine, what, asked_at, frozenset(answers), doubtful)
        )
        return answers


def _orders(frame: bytes, version: int) -> Iterator[tuple[TopicPartition, tuple[BrokerId, ...]]]:
    for topic in AlterPartitionReassignmentsRequest.decode(frame, version=version, header=True).topics:
        for partition in topic.partitions:
            yield (
                TopicPartition(topic.name, partition.partition_index),
                tuple(map(BrokerId, partition.replicas or ())),
            )
