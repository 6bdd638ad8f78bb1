"""Asking brokers what they say of themselves: one question a broker at a time, whoever wants to know."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from kafka_recovery.cluster.brokers import ATTEMPTS, Address, Brokers
from kafka_recovery.cluster.errors import AheadOfController, BrokerTimeout, BrokerUnreachable, ClusterError
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.metadata import BrokerEntry
from kafka_recovery.cluster.versions import ApiVersions
from kafka_recovery.domain.ids import BrokerId, MetadataOffset

Place = tuple[BrokerId, Address]
"""A broker under an address: what was said elsewhere may have been said by another one."""

BRIEF = timedelta(seconds=1)
"""A broker that owes an answer for so long is silent, and nobody waits for it."""

_FORGIVEN = timedelta(seconds=10)
"""For so long after its silence was found a broker is not waited for; then it is again, briefly."""


def place(entry: BrokerEntry) -> Place:
    """Where this broker is asked."""
    return entry.id, entry.address


def applied(versions: ApiVersions) -> MetadataOffset | None:
    """The metadata offset that the broker said to have applied."""
    told = versions.finalized_features_epoch
    return None if told is None else MetadataOffset(told)


@dataclass(frozen=True, slots=True)
class Said:
    """What a broker said of itself, or why it did not, and how often it was tried. Times are the loop's."""

    told: ApiVersions | ClusterError
    put_at: float
    at: float
    attempts: int


Question = asyncio.Task[Said]

_PRESENT = timedelta(seconds=10)
"""So old an answer at most is a broker's present word: who is listed no more is not asked any more."""

_DISBELIEVED = timedelta(seconds=10)
"""For so long a broker is passed over that claims more than was committed. A deposed controller may have said so."""


class Asking:
    """The questions that are open, and what came of the last one to each broker.

    A question outlives whoever put it: one that is silent is asked on in the background, and nobody waits for it again.
    `said`: the last answers; `late`: who owed an answer when a pulse was over.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._open: dict[Place, tuple[float, Question]] = {}
        self._let_go: set[Question] = set()
        self.said: dict[Place, Said] = {}
        self.late: set[Place] = set()
        self._applied: dict[BrokerId, MetadataOffset] = {}
        self._refuted: dict[Place, tuple[AheadOfController, float]] = {}

    def ask(self, entries: Iterable[BrokerEntry], deadline: timedelta, attempts: int = 1) -> dict[Place, Question]:
        """The open question to each of these, put now where there is none. Brokers that are fenced are tried once."""
        return {place(entry): self._question(entry, deadline, attempts) for entry in entries}

    def is_open(self, at: Place) -> bool:
        """Whether it owes an answer."""
        return at in self._open

    def patience(self, entry: BrokerEntry, longest: timedelta) -> timedelta:
        """How long to wait for this broker: not at all, if it was silent a moment ago."""
        at, now = place(entry), loop_time()
        if at in self._open and now - self._open[at][0] > BRIEF.total_seconds():
            return timedelta()
        last = self.said.get(at)
        if last is None or not isinstance(last.told, BrokerTimeout):
            return longest
        return min(longest, BRIEF) if now - last.at > _FORGIVEN.total_seconds() else timedelta()

    def applied_by(self, broker: BrokerId) -> int:
        """The newest metadata that it ever said to have applied; -1 if it never did."""
        return self._applied.get(broker, -1)

    def applied_now(self) -> dict[BrokerId, MetadataOffset]:
        """What each broker says to have applied that answers: who does not can't be held to its word any more."""
        oldest = loop_time() - _PRESENT.total_seconds()
        last = self.said.items()
        answer = {id for (id, _), said in last if said.at >= oldest and isinstance(said.told, ApiVersions)}
        return {id: offset for id, offset in self._applied.items() if id in answer}

    def applied_by_two(self) -> MetadataOffset | None:
        """The newest metadata that two brokers say to have applied that answer."""
        newest = heapq.nlargest(2, self.applied_now().values())
        return newest[1] if len(newest) > 1 else None

    def refute(self, at: Place, fault: AheadOfController) -> None:
        """The broker claims metadata that are not there: for a moment it is not believed to know as much, or more."""
        self._refuted[at] = fault, loop_time() + _DISBELIEVED.total_seconds()
        self._applied.pop(at[0], None)

    def refuted(self, at: Place, offset: MetadataOffset | None) -> AheadOfController | None:
        """Why a broker is not believed that says to have applied this."""
        fault, until = self._refuted.get(at, (None, 0.0))
        believed = fault is None or offset is None or offset < fault.applied or loop_time() > until
        return None if believed else fault

    def answers(self, broker: BrokerEntry) -> bool:
        """Whether its last word was an answer."""
        last = self.said.get(place(broker))
        return last is not None and isinstance(last.told, ApiVersions) and place(broker) not in self.late

    def since(self, moment: float) -> Mapping[Place, ApiVersions | ClusterError]:
        """What came after this moment."""
        return {at: said.told for at, said in self.said.items() if said.at > moment}

    async def wait_for_prompt(self, until: float) -> None:
        """Wait a moment for those that were not late the last time; those that owe an answer then are late."""
        prompt = [question for at, (_, question) in self._open.items() if at not in self.late]
        await _wait(prompt, until)
        self.late |= self._open.keys()

    async def wait(
        self, questions: Mapping[Place, Question], entries: Sequence[BrokerEntry], longest: timedelta
    ) -> None:
        """Wait for answers: for each broker as long as it deserves."""
        began, waits = loop_time(), {place(entry): self.patience(entry, longest) for entry in entries}
        for patience in sorted(set(waits.values()), reverse=True):
            due = [question for at, question in questions.items() if waits.get(at) == patience]
            await _wait(due, began + patience.total_seconds())

    def let_go(self) -> None:
        """What was asked in an outage says nothing once it is over: neither its silence nor its answers."""
        self._let_go |= {question for _, question in self._open.values()}
        self._open.clear()
        self.late.clear()

    async def aclose(self) -> None:
        """Ask no further."""
        self.let_go()
        questions, self._let_go = list(self._let_go), set()
        for question in questions:
            question.cancel()
        await asyncio.gather(*questions, return_exceptions=True)

    def _question(self, entry: BrokerEntry, deadline: timedelta, attempts: int) -> Question:
        at = place(entry)
        if at not in self._open:
            tries = 1 if entry.fenced else attempts
            question = asyncio.create_task(self._ask(entry, deadline, tries), name=f"ask broker {entry.id}")
            self._open[at] = loop_time(), question
            question.add_done_callback(lambda question: self._note(at, question))
        return self._open[at][1]

    async def _ask(self, entry: BrokerEntry, deadline: timedelta, attempts: int) -> Said:
        put_at = loop_time()
        try:
            told: ApiVersions | ClusterError = await self._brokers.api_versions(entry.address, deadline, attempts)
        except ClusterError as error:
            told = error
        return Said(told, put_at, loop_time(), attempts)

    def _note(self, at: Place, question: Question) -> None:
        self._let_go.discard(question)
        if at not in self._open or self._open[at][1] is not question:
            return
        del self._open[at]
        if question.cancelled() or question.exception() is not None:
            return
        said = self.said[at] = question.result()
        if isinstance(said.told, BrokerTimeout):
            self.late.add(at)
        else:
            self.late.discard(at)
        offset = applied(said.told) if isinstance(said.told, ApiVersions) else None
        if offset is not None and self.refuted(at, offset) is None:
            self._applied[at[0]] = offset


def worth_another_try(entry: BrokerEntry, said: Said) -> bool:
    """Whether somebody in less of a need of it put the question, and a connection failed."""
    return isinstance(said.told, BrokerUnreachable) and said.attempts < ATTEMPTS and not entry.fenced


async def _wait(questions: Sequence[Question], until: float) -> None:
    left = until - loop_time()
    waiting = [question for question in questions if not question.done()]
    if waiting and left > 0:
        await asyncio.wait(waiting, timeout=left)
