"""What became of each partition of a history: how long it had no leader, how that ended, what it cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.policy import Policy
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Concluded
from kafka_recovery.simulator.model.timeline import Event, What

_METHODS = ("engine", "person")
"""How those who act in a rehearsal are named: whoever else elects is Kafka itself or another admin."""


class Ending(StrEnum):
    """Where a partition that had been without a leader stood at the end of all trouble, before all was well again."""

    ELECTED = "elected"
    """It is led, and was elected uncleanly by whoever acts."""
    CLEAN = "clean"
    """It is led by a clean member; nobody had to choose."""
    REFUSED = "refused"
    """It has no leader: the engine refused it, with a reason."""
    FAILED = "failed"
    """It has no leader: something was tried and did not verify."""
    UNTOUCHED = "untouched"
    """It has no leader, and nobody has said anything about it since it lost its last one."""


@dataclass(frozen=True, slots=True)
class Fate:
    """One partition of one history under one method.

    `ending` None: it always had a leader. `offline`: seconds without one that led, until all was well again. `lost`:
    records acknowledged with acks=all that a leader lacked whom the method elected, with those that the leader it
    overthrew acknowledged later; `lost_otherwise`: whom Kafka itself elected, as where every disk of an ISR is gone.
    `said`, `reason`: the engine's last word about it; None if it lost another leader since.
    """

    partition: str
    rule: str | None
    ending: Ending | None
    offline: float
    lost: int
    lost_otherwise: int
    acknowledged: int
    said: str | None = None
    reason: str | None = None


@dataclass(slots=True)
class _Spells:
    """A partition's times without a leader. `since`: of the one that lasts."""

    since: float | None = None
    seconds: float = 0.0
    times: int = 0
    epoch: int = -1
    chosen: bool = False

    def offline(self, at: float) -> None:
        if self.since is None:
            self.since = at
            self.times += 1

    def online(self, at: float) -> None:
        if self.since is not None:
            self.seconds += at - self.since
            self.since = None


@dataclass(slots=True)
class _Watch:
    """Follows a timeline."""

    spells: dict[TopicPartition, _Spells] = field(default_factory=lambda: defaultdict(_Spells))

    def hear(self, event: Event) -> None:
        details, id = event.details, event.partition
        if event.what is What.TOPIC and "deleted" in details:
            for other, spells in self.spells.items():
                if other.topic == details["deleted"]:
                    spells.online(event.at)
                    spells.epoch = -1
        if id is None:
            return
        mine = self.spells[id]
        if event.what is What.ELECTED:
            mine.epoch = details["leader_epoch"]
            if details["leader"] is None:
                mine.offline(event.at)
            mine.chosen |= bool(details["unclean"]) and str(details["by"]).startswith(_METHODS)
        elif event.what is What.LEADS and details["leader_epoch"] >= mine.epoch:
            mine.online(event.at)


def fates(story: Chronicle, until: float, policy: Policy) -> Iterator[Fate]:
    """The fate of every partition, up to the moment `until` at which all is well again. Needs the whole timeline."""
    watch = _watched(story.kafka.timeline.events, until)
    said = {c.outcome.id: c for c in story.concluded if c.at <= until}
    for id in sorted(watch.spells):
        rule, spells = policy.rule_for(id.topic), watch.spells[id]
        last = _since(spells, said.get(id))
        ending = _ending(spells, last) if spells.times else None
        if spells.since is not None:
            spells.online(until)
        yield Fate(
            str(id),
            None if rule is None else rule.name,
            ending,
            round(spells.seconds, 3),
            _lost(story, id, by_method=True),
            _lost(story, id, by_method=False),
            sum(sent.count for sent in story.kafka.truth.acknowledged(id) if (sent.acknowledged_at or 0) <= until),
            None if last is None else last.outcome.value,
            None if last is None or last.reason is None else last.reason.code,
        )


def _watched(events: Iterable[Event], until: float) -> _Watch:
    watch = _Watch()
    for event in events:
        if event.at <= until:
            watch.hear(event)
    return watch


def _since(spells: _Spells, said: Concluded | None) -> PartitionOutcome | None:
    """The engine's last word, unless the partition has lost a leader since: what was said before is about another."""
    if said is None or (spells.since is not None and said.at < spells.since):
        return None
    return said.outcome


def _ending(spells: _Spells, last: PartitionOutcome | None) -> Ending:
    if spells.since is None:
        return Ending.ELECTED if spells.chosen else Ending.CLEAN
    if last is None or last.outcome.is_recovered:
        return Ending.UNTOUCHED
    return Ending.REFUSED if last.outcome is Outcome.REFUSED else Ending.FAILED


def _lost(story: Chronicle, id: TopicPartition, *, by_method: bool) -> int:
    return sum(
        len(held.lost) + len(story.lost_later(held))
        for held in story.held
        if held.id == id and held.by.startswith(_METHODS) == by_method
    )
