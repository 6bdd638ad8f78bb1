"""The leader's side of fetching: one session for each follower, parked until there is something to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.host import Copy
from kafka_recovery.simulator.model.hosted import HostOfCopies
from kafka_recovery.simulator.model.leading import Leading
from kafka_recovery.simulator.model.messages import Fetch, Fetched, FetchPosition
from kafka_recovery.simulator.model.scheduler import Timer

FetchAnswer = Mapping[TopicPartition, Fetched] | None
"""None: the leader knows no such session, begin a new one."""


class Parked(NamedTuple):
    """A fetch that waits. `idles`: an answer without news would bring the same fetch again, so it may go on waiting."""

    answer: Callable[[FetchAnswer], None]
    idles: Callable[[], bool]


@dataclass(slots=True)
class Session:
    """An incremental fetch session (KIP-227). `ready`: has records; `raised`: high watermarks not told yet.

    `outside`: the follower is not in the ISR, so every fetch is a reason to think about that. `at`: the last fetch.
    """

    broker_epoch: int
    at: float = 0.0
    positions: dict[TopicPartition, FetchPosition] = field(default_factory=dict)
    ready: dict[TopicPartition, None] = field(default_factory=dict)
    raised: dict[TopicPartition, int] = field(default_factory=dict)
    outside: dict[TopicPartition, None] = field(default_factory=dict)
    parked: Parked | None = None
    timer: Timer | None = None

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to tell, and no reason to think."""
        return not (self.ready or self.raised or self.outside)

    def unpark(self) -> Callable[[FetchAnswer], None] | None:
        """Whom to answer, if anybody waits."""
        reply, self.parked = self.parked and self.parked.answer, None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        return reply


@dataclass(slots=True)
class FetchSessions:
    """All followers that fetch from this broker."""

    broker: HostOfCopies
    sessions: dict[BrokerId, Session] = field(default_factory=dict)

    def fetch(self, request: Fetch, reply: Callable[[FetchAnswer], None], idles: Callable[[], bool]) -> None:
        """Answer now if there is something to say, else when there is, or after the longest wait.

        High watermarks travel with an answer and never cause one, and they are read before this fetch raises them: so a
        follower's is behind by one round trip, the window that KAFKA-1211 is about. Where acknowledgements wait for
        what followers know, it is told at once.
        """
        session = self.sessions.get(request.broker)
        if request.first:
            session = self.sessions[request.broker] = Session(request.broker_epoch)
        elif session is None:
            reply(None)
            return
        session.unpark()
        session.broker_epoch, session.at = request.broker_epoch, self.broker.now
        for id in request.forgotten:
            session.positions.pop(id, None)
            session.outside.pop(id, None)
        session.positions.update(request.changed)
        raised, session.raised = session.raised, {}
        asked, session.ready = {**session.ready, **session.outside, **dict.fromkeys(request.changed)}, {}
        found = self._read(request.broker, session, asked)
        at_once = self.broker.switches.acks_wait_for_replicas_watermark
        if at_once:
            raised, session.raised = _unheard({**raised, **session.raised}, session), {}
        if found or (at_once and raised):
            reply(self._with_watermarks(found, raised, session))
            return
        session.raised = {**raised, **session.raised}
        session.parked = Parked(reply, idles)
        self._wait(request.broker, session)

    def _wait(self, follower: BrokerId, session: Session, waits: int = 1) -> None:
        seconds = waits * self.broker.settings.fetch_max_wait
        session.timer = self.broker.node.after(seconds, partial(self._waited, follower))

    def _waited(self, follower: BrokerId) -> None:
        """The longest wait is over. Of exchanges in which nobody would say anything, one stands for several."""
        session = self.sessions[follower]
        if session.parked is not None and session.quiet and session.parked.idles():
            session.at = self.broker.now
            self._wait(follower, session, self.broker.settings.idle_exchanges)
        else:
            self._wake(follower)

    def heard_at(self, follower: BrokerId) -> float:
        """When the follower fetched last; a parked fetch shows that it is alive without saying anything new."""
        session = self.sessions.get(follower)
        return session.at if session is not None else -1e9

    def moved(self, partition: Copy) -> None:
        """The partition's log or high watermark has grown."""
        id, log = partition.id, partition.log
        for follower in partition.state.replicas:
            session = self.sessions.get(follower)
            position = session.positions.get(id) if session is not None else None
            if session is None or position is None:
                continue
            session.raised[id] = log.high_watermark
            if position.offset < log.end:
                session.ready[id] = None
                if session.parked is not None:
                    self._wake(follower)
            elif (
                self.broker.switches.acks_wait_for_replicas_watermark
                and session.parked is not None
                and position.high_watermark < log.high_watermark
            ):
                self._wake(follower)

    def _wake(self, follower: BrokerId) -> None:
        """Answer the parked fetch, with nothing if there is nothing."""
        session = self.sessions[follower]
        reply = session.unpark()
        if reply is not None:
            asked, session.ready = session.ready, {}
            raised, session.raised = session.raised, {}
            reply(self._with_watermarks(self._read(follower, session, asked), raised, session))

    def _with_watermarks(
        self, found: dict[TopicPartition, Fetched], raised: Mapping[TopicPartition, int], session: Session
    ) -> dict[TopicPartition, Fetched]:
        for id, mark in raised.items():
            if id not in found and (position := session.positions.get(id)) is not None:
                found[id] = Fetched(Error.NONE, position.leader_epoch, high_watermark=mark)
        return found

    def _read(
        self, follower: BrokerId, session: Session, asked: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Fetched]:
        """Those partitions that have records, an error, or a log that parts from the follower's."""
        found = {}
        for id in asked:
            position = session.positions.get(id)
            if position is not None:
                fetched = self._read_one(follower, session, id, position)
                if fetched.batches or fetched.error is not Error.NONE or fetched.diverging is not None:
                    found[id] = fetched
        return found

    def _read_one(self, follower: BrokerId, session: Session, id: TopicPartition, at: FetchPosition) -> Fetched:
        leading = self._leading(id, at)
        if isinstance(leading, Error):
            return Fetched(leading, at.leader_epoch)
        log = leading.partition.log
        switches = self.broker.switches
        if switches.truncate_by_epochs and at.last_epoch >= 0:
            if switches.refuse_forgotten_epochs and log.forgets(at.last_epoch):
                return Fetched(Error.OFFSET_NOT_AVAILABLE, at.leader_epoch)
            epoch, end = log.end_of(at.last_epoch)
            another = epoch < at.last_epoch and switches.truncate_to_common_epochs
            if epoch >= 0 and (another or end < at.offset):
                return Fetched(Error.NONE, at.leader_epoch, diverging=(epoch, end))
        if not log.start <= at.offset <= log.end:
            return Fetched(Error.OFFSET_OUT_OF_RANGE, at.leader_epoch, start=log.start, end=log.end)
        mark = log.high_watermark
        batches = log.read(at.offset, self.broker.settings.fetch_records)
        if not leading.fetched(follower, at.offset, session.broker_epoch, at.high_watermark):
            return Fetched(Error.NOT_LEADER_OR_FOLLOWER, at.leader_epoch)
        if follower in leading.state.isr:
            session.outside.pop(id, None)
        else:
            session.outside[id] = None
        return Fetched(Error.NONE, at.leader_epoch, batches, mark, log.start, log.end)

    def _leading(self, id: TopicPartition, at: FetchPosition) -> Leading | Error:
        if self.broker.offline(id):
            return Error.KAFKA_STORAGE_ERROR
        partition = self.broker.hosted(id)
        if partition is None or partition.log.topic_id != at.topic_id:
            return Error.UNKNOWN_TOPIC_ID
        if self.broker.switches.fetches_name_leader_epochs and at.leader_epoch != partition.state.leader_epoch:
            newer = at.leader_epoch > partition.state.leader_epoch
            return Error.UNKNOWN_LEADER_EPOCH if newer else Error.FENCED_LEADER_EPOCH
        return partition.leading or Error.NOT_LEADER_OR_FOLLOWER


def _unheard(raised: Mapping[TopicPartition, int], session: Session) -> dict[TopicPartition, int]:
    """The high watermarks that the follower does not know yet, by what its fetches say."""
    known = session.positions
    return {id: mark for id, mark in raised.items() if id in known and known[id].high_watermark < mark}
