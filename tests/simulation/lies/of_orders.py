"""Lies about records, orders and requests in doubt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.simulator.histories.facts import Asked, Kept, Ordered
from simulation.lies.honest import CROSSED, KILLED, PLAIN
from simulation.lies.liars import FIRST, SECOND, Liar, Tell, is_about, lies

ANOTHER = (BrokerId(2), BrokerId(1), BrokerId(3))


def _file(end: str) -> Callable[[Kept], bool]:
    """Whether it is a fact of a journal whose name ends so."""
    return lambda kept: kept.name.endswith(end)


def _of(what: str) -> Callable[[Asked], bool]:
    return lambda asked: asked.what == what


def _restores(change: Ordered) -> bool:
    return change.by.startswith("engine") and tuple(change.after) == (1, 2, 3)


def _somebody_orders(at: float) -> Tell:
    """Somebody else wanted another order by then, and the cluster has forgotten."""

    def tell(it: Liar) -> None:
        topic = it.story.ordered[0].topic_id
        change = Ordered(at, FIRST, topic, (BrokerId(1), BrokerId(2), BrokerId(3)), ANOTHER, "somebody")
        it.story.ordered.append(change)
        it.story.ordered.sort(key=lambda change: change.at)

    return tell


def _somebody_orders_what_was_put_back(it: Liar) -> None:
    """The very order of the plan, once the plan has put the original one back; and the cluster has forgotten."""
    back = next(change for change in it.story.ordered if _restores(change) and change.id == FIRST)
    theirs = replace(back, at=back.at + 0.001, before=back.after, after=back.before, by="somebody")
    it.story.ordered.insert(it.story.ordered.index(back) + 1, theirs)


def _asked_after(seconds: float) -> Tell:
    """Whoever comes after the killed run asks so soon after its last request."""

    def tell(it: Liar) -> None:
        last = max(asked.at for asked in it.story.asked if asked.process == "engine-1")
        it.tells(it.story.asked, lambda asked: asked.process == "engine-2", at=last + seconds)

    return tell


def _dies_with_its_last_wave(it: Liar) -> None:
    """The first run is killed before its second wave is written down as ended, and another one asks soon."""
    it.hides(it.story.kept, _file("wave-0002-ended.json"))
    it.tells(it.story.ran, lambda ran: ran.process == "engine-1", report=None)
    asked = next(asked for asked in it.story.asked if asked.what == "restore" and is_about(SECOND)(asked))
    it.story.asked.append(Asked(asked.at + 20, "engine-2", asked.machine, "restore", asked.requests))


LIES = (
    *lies("nothing_without_its_record", PLAIN, {
        "that a plan begins": lambda it: it.hides(it.story.kept, _file("begun.json")),
        "that a wave is under way": lambda it: it.hides(it.story.kept, _file("started.json")),
        "that a wave is under way, until it is over": lambda it: it.tells(
            it.story.kept, _file("started.json"), at=lambda kept: kept.at + 1
        ),
        "another order than the plan's": lambda it: it.asks("designate", order=ANOTHER),
    }),
    *lies("nothing_that_was_not_asked", PLAIN, {
        "that it designates": lambda it: it.hides(it.story.asked, _of("designate")),
        "that it elects": lambda it: it.hides(it.story.asked, _of("elect")),
        "that it restores": lambda it: it.hides(it.story.asked, _of("restore")),
        "in which order": lambda it: it.asks("designate", order=ANOTHER),
    }),
    *lies("plans_know_the_owners_order", PLAIN, {
        "what it takes for the original one": lambda it: it.asks("designate", assignment=ANOTHER),
        "what somebody wanted long before": _somebody_orders(25.0),
        "what somebody wanted at first": _somebody_orders(3.0),
    }),
    *lies("only_own_orders_are_replaced", PLAIN, {
        "another order stood there": lambda it: it.tells(it.story.ordered, _restores, before=ANOTHER),
        "it knows its own order wrong": lambda it: it.asks("restore", order=ANOTHER),
        "in the second wave": lambda it: it.tells(
            it.story.ordered, lambda change: _restores(change) and change.id == SECOND, before=ANOTHER
        ),
    }),
    *lies("no_order_is_left_behind", PLAIN, {
        "what somebody wanted since": _somebody_orders(60.0),
        "what somebody wanted much later": _somebody_orders(160.0),
        "what somebody wanted once it was put back": _somebody_orders_what_was_put_back,
    }),
    *lies("no_order_is_left_behind", KILLED, {
        "what somebody wanted after a crash": _somebody_orders(190.0),
    }),
    *lies("no_order_is_left_behind", CROSSED, {
        "what somebody wanted when the original one had been seen": lambda it: it.tells(
            it.story.ordered, lambda change: change.by == "somebody", at=lambda change: change.at + 0.3
        ),
    }),
    *lies("restored_is_restored", PLAIN, {
        "the order still stands": lambda it: it.hides(it.story.ordered, _restores),
        "said before it is done": lambda it: it.tells(it.story.concluded, at=lambda said: said.at - 0.05),
        "the second one still stands": lambda it: it.hides(
            it.story.ordered, lambda change: _restores(change) and change.id == SECOND
        ),
    }),
    *lies("the_order_is_as_told", PLAIN, {
        "that the election's order stands": lambda it: it.says(order_restored=False),
        "that nobody knows whose the order is": lambda it: it.says(order_restored=None),
        "of one that it has left in doubt": lambda it: it.says(outcome=Outcome.IN_DOUBT, order_restored=None),
    }),
    *lies("the_order_is_as_told", KILLED, {
        "that the order of a killed run stands": lambda it: it.says(order_restored=False),
    }),
    *lies("doubt_is_what_the_wire_shows", PLAIN, {
        "an election that nobody answered was answered": lambda it: it.tells(
            it.story.answered, lambda told: told.what == "elect", doubtful=lambda told: told.partitions
        ),
        "an order that nobody answered was answered": lambda it: it.tells(
            it.story.answered, lambda told: told.what == "designate", doubtful=lambda told: told.partitions
        ),
        "an answer that came did not come": lambda it: it.tells(
            it.story.answered, lambda told: told.what == "elect", claimed=lambda told: told.partitions
        ),
        "what was restored is in doubt": lambda it: it.tells(
            it.story.answered, lambda told: told.what == "restore", claimed=lambda told: told.partitions
        ),
    }),
    *lies("requests_in_doubt_are_waited_out", PLAIN, {
        "a designation without an answer": lambda it: it.hides(
            it.story.answered, lambda told: told.what == "designate"
        ),
        "an election without an answer": lambda it: it.hides(it.story.answered, lambda told: told.what == "elect"),
        "an election in doubt": lambda it: it.tells(
            it.story.answered, lambda told: told.what == "elect", doubtful=lambda told: told.partitions
        ),
    }),
    *lies("requests_in_doubt_are_waited_out", KILLED, {
        "what a killed run had asked": _asked_after(20),
    }),
    *lies("an_earlier_wave_is_waited_out", KILLED, {
        "ten seconds are enough": _asked_after(10),
        "a minute is not": _asked_after(59.5),
    }),
    *lies("an_earlier_wave_is_waited_out", PLAIN, {
        "a run that had nearly ended": _dies_with_its_last_wave,
    }),
    *lies("facts_in_their_order", PLAIN, {
        "a wave of a plan that never began": lambda it: it.hides(it.story.kept, _file("begun.json")),
        "the end of a wave that never began": lambda it: it.hides(it.story.kept, _file("started.json")),
        "an approval of no plan": lambda it: it.hides(it.story.kept, _file("plan.json")),
        "begun before it was written": lambda it: it.tells(it.story.kept, _file("begun.json"), at=30.0),
    }),
    *lies("waves_are_of_their_plan", PLAIN, {
        "a wave of others": lambda it: it.tells(
            it.story.kept, _file("started.json"), wave=lambda kept: kept.wave | {FIRST._replace(partition=7)}
        ),
        "of what it does not elect": lambda it: it.decides(SECOND, leader=None),
        "of what it does not know": lambda it: it.plans_are(decisions=lambda plan: plan.decisions[:1]),
    }),
    *lies("finished_is_finished", PLAIN, {
        "a wave that never ended": lambda it: it.hides(it.story.kept, _file("wave-0002-ended.json")),
        "an order that is left": lambda it: it.writes(order_restored=False),
        "what is in doubt": lambda it: it.writes(SECOND, outcome=Outcome.IN_DOUBT),
    }),
)  # fmt: skip
