"""One look at a cluster: every broker that is listed is asked, and waited for as long as it may still live.

That a broker is fenced does not say that it is dead. Of KIP-343's two timeouts only the shorter one is over
(`controller.heartbeat.timeout.ms`, in KRaft `broker.session.timeout.ms`): the controller counts the broker as gone,
while by the longer one (`broker.heartbeat.timeout.ms`) the broker still serves. It may be cut off from the controller
alone, or about to come back with the records that make an unclean election needless. So a fenced broker has the whole
deadline, like any other.

Only a host of which nothing at all comes back is not waited for so long, where the network is seen to work: the newest
metadata have its broker fenced, and every broker that they count as alive has answered. Then a connection of its own is
asked for. The kernel of a host that is up takes it in one round trip, also for a process that stands still while its
accept queue has room (`socket.listen.backlog.size`); a first packet that is lost is sent once more after a second. Who
gives no sign by then is silent for this look, exactly as one is that lets the deadline pass: unknown, never empty. The
question to it stays open, and the next look hears its answer.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from kafka_recovery.cluster.asking import Place, Question, Said, applied, place, worth_another_try
from kafka_recovery.cluster.brokers import ATTEMPTS, Address
from kafka_recovery.cluster.errors import AddressShared, BrokerTimeout, ClusterError, HostSilent
from kafka_recovery.cluster.listing import AT_ONCE, Listing, cancelled
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.metadata import BrokerEntry, ClusterEntry
from kafka_recovery.cluster.versions import ApiVersions
from kafka_recovery.domain.ids import BrokerId, MetadataOffset
from kafka_recovery.domain.reason import Reason

_NO_OPS_A_SECOND = 2
"""What a controller writes when nothing happens (metadata.max.idle.interval.ms)."""

_SENT_AGAIN = timedelta(seconds=1)
"""After so long a kernel asks once more for a connection that was not answered (RFC 6298)."""


class Look:
    """One look: who was asked, and what they said.

    `views`: the cluster as brokers see it, by their address. `versions` and `newest`: what each answered, and which
    metadata it knows for that. `questions`: all that were put. `_until`: how long each is waited for (the loop's time).
    `_silent`: hosts that gave no sign of life, and for how long.
    """

    def __init__(self, listing: Listing, deadline: timedelta, patience: timedelta) -> None:
        self._listing = listing
        self._deadline = deadline
        self._patience = patience
        self._unlisted: set[Address] = set()
        self.questions: dict[Place, Question] = {}
        self.views: dict[Address, ClusterEntry] = {}
        self.versions: dict[Place, ApiVersions] = {}
        self.newest: dict[Place, int] = {}
        self._until: dict[Place, float] = {}
        self._knocks: dict[Place, asyncio.Task[None]] = {}
        self._silent: dict[Place, timedelta] = {}

    async def newest_view(self) -> ClusterEntry:
        """The cluster as the broker with the newest metadata sees it that says so; every broker listed was asked.

        Who is cut off lists others as fenced, and not those that came since: the newest says who is alive.
        """
        give_up_at = loop_time() + 2 * self._deadline.total_seconds()
        self._put(self._listing.latest.values(), ATTEMPTS)
        self.views = dict(await self._listing.views(self._deadline))
        try:
            while True:
                await self._ask(self._listed())
                at = max(self.newest, key=lambda at: (self.newest[at], -at[0]), default=None)
                if loop_time() > give_up_at:
                    return next(iter(self.views.values()))
                if at is not None and at[1] not in self.views:
                    await self._read_view(at[1])
                elif not await self._heard_another(None if at is None else self.views[at[1]]):
                    return next(iter(self.views.values())) if at is None else self.views[at[1]]
        finally:
            await cancelled(self._knocks.values())

    async def _read_view(self, at: Address) -> None:
        """Who there is by this broker; it is not the newest one if it does not say so."""
        views, faults = await self._listing.described([at], self._deadline)
        self.views |= views
        for address in faults:
            self._unlisted.add(address)
            self.newest = {at: offset for at, offset in self.newest.items() if at[1] != address}

    def alive(self, cluster: ClusterEntry) -> list[BrokerEntry]:
        """Brokers that answer, are not fenced, and could be gone through."""
        shared = shared_addresses(cluster)
        entries = [entry for entry in cluster.brokers.values() if not entry.fenced and entry.address not in shared]
        return [entry for entry in entries if place(entry) in self.newest]

    def told(self, cluster: ClusterEntry) -> tuple[dict[BrokerId, ApiVersions], dict[BrokerId, Reason]]:
        """What brokers said of themselves, or why they did not: those of the view, and whoever another one lists."""
        versions: dict[BrokerId, ApiVersions] = {}
        faults: dict[BrokerId, Reason] = {}
        shared = shared_addresses(cluster)
        listed = [*self._listed(), *cluster.brokers.values()]
        entries = {entry.id: place(entry) for entry in listed}
        for id, at in entries.items():
            if at[1] in shared:
                faults[id] = AddressShared(at[1], shared[at[1]]).reason
            elif at in self.versions:
                versions[id] = self.versions[at]
            else:
                faults[id] = self._why(at)
        return versions, faults

    def why_nobody(self, cluster: ClusterEntry) -> dict[Address, Reason]:
        """Why there is nobody to go through."""
        versions, faults = self.told(cluster)
        for id in versions:
            faults[id] = Reason("Fenced", f"broker {id} answers, but the controller has fenced it")
        return {self._listing.known[id].address: reason for id, reason in faults.items()}

    def _listed(self) -> list[BrokerEntry]:
        listed = {place(entry): entry for view in self.views.values() for entry in view.brokers.values()}
        return list(listed.values())

    def _put(self, entries: Iterable[BrokerEntry], attempts: int) -> None:
        for at, question in self._listing.asking.ask(entries, self._deadline, attempts).items():
            self.questions.setdefault(at, question)

    async def _ask(self, entries: Sequence[BrokerEntry]) -> None:
        """Ask those that were not asked yet, wait for those that are not fenced, and note what all said by then."""
        asking = self._listing.asking
        self._put([entry for entry in entries if place(entry) not in self.questions], ATTEMPTS)
        for entry in entries:
            patience = asking.patience(entry, self._patience).total_seconds()
            self._until.setdefault(place(entry), loop_time() + patience)
        alive = [entry for entry in entries if not entry.fenced]
        await asking.wait(self.questions, alive, self._patience)
        again = [entry for entry in entries if self._worth_another_try(entry)]
        if again:
            self.questions |= asking.ask(again, self._deadline, ATTEMPTS)
            await asking.wait(self.questions, again, self._patience)
        if not any(self._answered(entry) for entry in alive):
            await self._first_answer(alive)
        for entry in entries:
            self._note(entry)

    async def _heard_another(self, view: ClusterEntry | None) -> bool:
        """Wait until one more of the fenced brokers is heard of; False: none is waited for any more.

        `view`: what the newest metadata say; None: nobody that could be gone through has answered.
        """
        if view is not None:
            self._knock(view)
        while owing := self._owing():
            questions = [self.questions[at] for at in owing]
            knocks = [self._knocks[at] for at in owing if at in self._knocks and not self._knocks[at].done()]
            left = max(self._until[at] for at in owing) - loop_time()
            await asyncio.wait({*questions, *knocks}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if any(question.done() for question in questions):
                return True
            for knock in knocks:
                if knock.done():
                    knock.result()
        return False

    def _owing(self) -> list[Place]:
        """Where a fenced broker is that may still answer in time."""
        now, places = loop_time(), [place(entry) for entry in self._listed() if entry.fenced]
        waited_for = [at for at in places if now < self._until[at] and at not in self._silent]
        return [at for at in waited_for if not self.questions[at].done()]

    def _knock(self, view: ClusterEntry) -> None:
        """Find out which of the fenced hosts are gone, if all others answer: else it may be the network that is.

        Who is fenced by an older view alone is one of those others.
        """
        if all(self._answered(entry) for entry in view.brokers.values() if not entry.fenced):
            for at in self._owing():
                if at not in self._knocks:
                    self._knocks[at] = asyncio.create_task(self._knock_at(at), name=f"knock at broker {at[0]}")

    async def _knock_at(self, at: Place) -> None:
        within = _SENT_AGAIN + self._listing.brief
        if await self._listing.brokers.is_deaf(at[1], within):
            self._silent[at] = within

    def _said(self, at: Place) -> Said | None:
        question = self.questions.get(at)
        return question.result() if question is not None and question.done() and not question.cancelled() else None

    def _answered(self, entry: BrokerEntry) -> bool:
        said = self._said(place(entry))
        return said is not None and isinstance(said.told, ApiVersions)

    def _worth_another_try(self, entry: BrokerEntry) -> bool:
        said = self._said(place(entry))
        return said is not None and worth_another_try(entry, said)

    async def _first_answer(self, entries: Sequence[BrokerEntry]) -> None:
        """All were silent a moment ago, or are now: then whoever answers first, and those that do about then."""
        until = loop_time() + self._deadline.total_seconds()
        waiting = {self.questions[place(entry)] for entry in entries}
        while waiting and (left := until - loop_time()) > 0:
            if any(self._answered(entry) for entry in entries):
                await asyncio.wait(waiting, timeout=min(left, AT_ONCE.total_seconds()))
                return
            _, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    def _note(self, entry: BrokerEntry) -> None:
        at = place(entry)
        said = self._said(at)
        if said is not None and isinstance(said.told, ApiVersions):
            if self._listing.asking.refuted(at, applied(said.told)) is not None:
                return
            self.versions[at] = said.told
            if entry.address not in self._unlisted:
                self.newest[at] = number(applied(said.told)) - _no_ops(said.at - said.put_at)

    def _why(self, at: Place) -> Reason:
        said = self._said(at)
        late = BrokerTimeout(at[1], self._patience, "ApiVersions")
        if said is None:
            return (HostSilent(at[1], self._silent[at]) if at in self._silent else late).reason
        told = said.told
        fault = told if isinstance(told, ClusterError) else self._listing.asking.refuted(at, applied(told))
        return (fault or late).reason


def shared_addresses(cluster: ClusterEntry) -> Mapping[Address, Sequence[BrokerId]]:
    """Addresses under which more than one broker is listed, and which: who answers there can't be told."""
    listed = Counter(entry.address for entry in cluster.brokers.values())
    return {
        address: [id for id, entry in sorted(cluster.brokers.items()) if entry.address == address]
        for address, brokers in listed.items()
        if brokers > 1
    }


def number(offset: MetadataOffset | None) -> int:
    """To be compared: an offset that is not known is older than any."""
    return -1 if offset is None else offset


def _no_ops(waited: float) -> int:
    """Metadata records that may have been written for their own sake while an answer was late.

    A slow broker answers last, so it seems to know the newest; it must not be the one to go through for that.
    """
    return 0 if waited < AT_ONCE.total_seconds() else math.ceil(waited * _NO_OPS_A_SECOND) + 1
