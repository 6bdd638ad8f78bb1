"""Accidents aimed at what engines are written for: each strikes at the step of an engine at which it hurts most.

Chance alone seldom hits a moment of some milliseconds, and the marks of the oracle (`judging.marks`) want each of
these situations among some hundred histories.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kafka_recovery.simulator.histories.scenario import Authority, Fault, Kind, Rules, Upon

_AT_ONCE = (0.0, 0.01, 0.03, 0.08)
"""Seconds after a request, before its answer or the first look at what came of it."""


@dataclass(frozen=True, slots=True)
class Ordeals:
    """Of one seed: aimed at the partition of its incident, which falls at `fallen`, once an engine is `called`.

    The first run `begins` a little later.
    """

    chance: random.Random
    partition: str
    replicas: tuple[int, ...]
    fallen: float
    called: float
    begins: float
    rules: Callable[[], Rules]

    def drawn(self) -> Iterator[Fault]:
        """None, one or two of them."""
        kinds: tuple[Callable[[], Iterator[Fault]], ...] = (
            self._stopped_between_look_and_election, self._killed_at_a_request, self._owners_change_their_minds,
            self._somebody_else_reorders, self._somebody_else_elects, self._the_designated_one_leaves, self._unanswered,
            self._deaf_follower, self._clean_member_answers, self._better_late_than_never, self._another_topic,
            self._another_disk, self._the_designated_one_leaves, self._somebody_else_reorders,
            self._kafka_elects_uncleanly, self._falls_silent_when_asked_for_news, self._owners_change_their_minds,
            self._kafka_elects_uncleanly,
        )  # fmt: skip
        for kind in self.chance.sample(kinds, self.chance.choice((1, 2, 2))):
            for fault in kind():
                yield fault if fault.upon is None else replace(fault, at=round(self.called - 1, 2))

    def _stopped_between_look_and_election(self) -> Iterator[Fault]:
        turn, lasting = self.chance.choice((1, 2, 2, 3)), self._moment(0.5, 90)
        yield Fault(0, Kind.PAUSE_ENGINE, upon=Upon.LOOKED, turn=turn, lasting=lasting)
        yield Fault(0, Kind.PAUSE_ENGINE, upon=Upon.BEGUN, lasting=self.chance.choice((0.8, 1.5, lasting)))

    def _killed_at_a_request(self) -> Iterator[Fault]:
        upon = self.chance.choice((Upon.DESIGNATE, Upon.ELECT, Upon.RESTORE, Upon.BEGUN))
        yield Fault(0, Kind.KILL_ENGINE, upon=upon, later=self.chance.choice((0.0, 0.01, 0.05, 0.3)))

    def _owners_change_their_minds(self) -> Iterator[Fault]:
        upon = self.chance.choice((Upon.LOOKED, Upon.PLANNED, Upon.BEGUN, Upon.ENDED))
        match self.chance.randrange(4):
            case 0:
                yield Fault(0, Kind.SUSPEND, upon=upon, lasting=self._moment(1, 40))
            case 1:
                authority = self.chance.choice((Authority.OBSERVE, Authority.APPROVE))
                yield Fault(0, Kind.AUTHORITY, upon=upon, authority=authority, lasting=self._moment(1, 60))
            case _:
                yield Fault(0, Kind.RULES, upon=upon, rules=self.rules())

    def _somebody_else_reorders(self) -> Iterator[Fault]:
        """Just before or after a request of the engine; sometimes into the very order that the engine wants."""
        later = self.chance.choice((0.0, 0.0, 0.01, 0.05))
        if self.chance.random() < 0.5:
            upon = self.chance.choice((Upon.DESIGNATE, Upon.BEGUN))
            yield Fault(0, Kind.REASSIGN, upon=upon, later=later, partition=self.partition, designated=True)
            return
        upon = self.chance.choice((Upon.DESIGNATE, Upon.DESIGNATE, Upon.BEGUN, Upon.ELECT, Upon.RESTORE))
        order = self.chance.sample(self.replicas, len(self.replicas))
        yield Fault(0, Kind.REASSIGN, upon=upon, later=later, partition=self.partition, replicas=tuple(order))

    def _somebody_else_elects(self) -> Iterator[Fault]:
        upon = self.chance.choice((Upon.LOOKED, Upon.PLANNED, Upon.BEGUN, Upon.DESIGNATE))
        yield Fault(0, Kind.ELECT, upon=upon, partition=self.partition)

    def _the_designated_one_leaves(self) -> Iterator[Fault]:
        """Before it is elected, or just when it leads."""
        if self.chance.random() < 0.5:
            kind = self.chance.choice((Kind.STOP, Kind.STOP, Kind.KILL, Kind.FREEZE, Kind.LOG_DIR))
            yield Fault(0, kind, designated=True, upon=self.chance.choice((Upon.DESIGNATE, Upon.BEGUN)))
            return
        kind, later = self.chance.choice((*(Kind.HIDE,) * 4, Kind.FREEZE, Kind.KILL)), self.chance.choice(_AT_ONCE)
        yield Fault(0, kind, designated=True, upon=Upon.ELECT, later=later, lasting=60.0)

    def _unanswered(self) -> Iterator[Fault]:
        upon = self.chance.choice((Upon.DESIGNATE, Upon.ELECT, Upon.RESTORE))
        kind = self.chance.choice((Kind.NO_CONTROLLER, Kind.KILL_CONTROLLER, Kind.LOSE))
        likely = 0.9 if kind is Kind.LOSE else 0.0
        yield Fault(0, kind, upon=upon, chance=likely, lasting=self._moment(20, 50))

    def _deaf_follower(self) -> Iterator[Fault]:
        """It lags, tells the controllers that it lives, and hears nothing of its leader's fall."""
        leader, broker = self.replicas[:2]
        yield Fault(4.0, Kind.START, broker)
        yield Fault(5.0, Kind.CUT, leader, other=broker, lasting=round(self.fallen + 20, 2))
        yield Fault(5.0, Kind.CUT, broker, other=leader, lasting=round(self.fallen + 20, 2))
        yield Fault(round(self.fallen - 4, 2), Kind.START, broker)
        yield Fault(round(self.fallen - 0.2, 2), Kind.DEAF, broker, lasting=self._moment(20, 70))

    def _another_disk(self) -> Iterator[Fault]:
        """The candidate has another disk by the time a person has said yes."""
        yield Fault(0, Kind.REPLACE_DISK, designated=True, upon=Upon.APPROVE)

    def _clean_member_answers(self) -> Iterator[Fault]:
        """The last leader is back and answers, but the controllers do not hear it yet."""
        upon = self.chance.choice((Upon.LOOKED, Upon.PLANNED, Upon.APPROVE))
        yield Fault(0, Kind.MUTE, self.replicas[0], upon=upon, lasting=self._moment(5, 50))
        yield Fault(0, Kind.START, self.replicas[0], upon=upon)

    def _better_late_than_never(self) -> Iterator[Fault]:
        """Another replica, mostly a better one, is back once the plan is made and before the engine looks again."""
        broker = self.chance.choice((self.replicas[-1], self.replicas[-1], self.replicas[1]))
        yield Fault(round(self.begins - 0.5, 2), Kind.KILL, broker)
        yield Fault(0, Kind.START, broker, upon=Upon.PLANNED)
        yield Fault(0, Kind.PAUSE_ENGINE, upon=Upon.PLANNED, lasting=self._moment(3, 20))

    def _another_topic(self) -> Iterator[Fault]:
        yield Fault(0, Kind.RECREATE, upon=self.chance.choice((Upon.PLANNED, Upon.BEGUN)), partition=self.partition)

    def _falls_silent_when_asked_for_news(self) -> Iterator[Fault]:
        """It has told where its log ends, and nobody ever learns whether its metadata moves."""
        broker = self.chance.choice(self.replicas[1:])
        yield Fault(round(self.begins - 1.5, 2), Kind.DEAF, broker, lasting=self._moment(8, 20))
        yield Fault(round(self.begins + self.chance.uniform(0.2, 1.1), 2), Kind.FREEZE, broker, lasting=7.0)

    def rivals(self) -> Iterator[Fault]:
        """Who has set an order stands still, and finds that another machine took it for the original one meanwhile."""
        later, lasting = self.chance.choice((0.02, 0.05)), self._moment(8, 30)
        yield Fault(round(self.called - 1, 2), Kind.PAUSE_ENGINE, upon=Upon.DESIGNATE, later=later, lasting=lasting)
        yield Fault(round(self.called - 1, 2), Kind.START, self.replicas[-1], upon=Upon.DESIGNATE)

    def _kafka_elects_uncleanly(self) -> Iterator[Fault]:
        yield Fault(round(self.fallen, 2), Kind.UNCLEAN, partition=self.partition)

    def _moment(self, first: float, last: float) -> float:
        return round(self.chance.uniform(first, last), 2)
