"""What an engine is heard with at its ports: the answers to its changes, as it hears them itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from kafka_recovery.domain.election import Answer, Ballot, ElectionAnswer
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.recovery.ports import Election
from kafka_recovery.simulator.histories.chronicle import Answered, Chronicle

Answers = Mapping[TopicPartition, ElectionAnswer]


@dataclass(frozen=True, slots=True)
class HeardElection:
    """Port `Election` of one process: the driver, and a note of each answer."""

    driver: Election
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
        asked_at = self.story.now
        answers = await ask(ballots)
        doubtful = frozenset(id for id, answer in answers.items() if answer.answer is Answer.UNANSWERED)
        self.story.answered.append(
            Answered(self.story.now, self.process, self.machine, what, asked_at, frozenset(answers), doubtful)
        )
        return answers
