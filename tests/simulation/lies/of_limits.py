"""Lies about limits, people, times, and how runs end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from kafka_recovery.cluster.errors import ClusterUnavailable
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Limits, Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.simulator.histories.facts import LAST, Ran
from simulation.lies.honest import FORKED, KILLED, PLAIN, REFUSED
from simulation.lies.liars import FIRST, SECOND, Liar, Tell, is_about, lies, together


def _under(**limits: Any) -> Tell:
    """The plans' policies have other limits."""
    return lambda it: it.plans_are(
        policy=lambda plan: replace(plan.policy, limits=replace(plan.policy.limits, **limits))
    )


def _ruled(plan: Plan, **values: Any) -> Policy:
    return replace(plan.policy, rules=tuple(replace(rule, **values) for rule in plan.policy.rules))


def _sees(**values: Any) -> Tell:
    """So in plans and in looks."""
    return together(lambda it: it.plans_on(**values), lambda it: it.looks(**values))


def _fails(outcome: Outcome, code: str) -> Tell:
    return lambda it: it.says(outcome=outcome, reason=Reason(code, "so they say"))


def _is(process: str) -> Callable[[Ran], bool]:
    return lambda ran: ran.process == process


def _before_the_second(it: Liar) -> None:
    """What is said of the first partition is said before the second one is elected."""
    second = next(asked for asked in it.story.requests("elect") if is_about(SECOND)(asked))
    it.tells(it.story.concluded, lambda said: said.outcome.id == FIRST, at=second.at - 0.001)


def _at_once(it: Liar) -> None:
    """Both partitions are elected by one request."""
    both = tuple(request for asked in it.story.requests("elect") for request in asked.requests)
    it.tells(it.story.asked, lambda asked: asked.what == "elect", requests=both)


LIES = (
    *lies("approval_is_for_this_plan", PLAIN, {
        "nobody was asked": lambda it: it.hides(it.story.granted, lambda granted: True),
        "they said no": lambda it: it.tells(it.story.granted, by=None),
        "of another plan": lambda it: it.tells(it.story.granted, digest="another"),
        "too late": lambda it: it.tells(it.story.granted, at=lambda granted: granted.at + 30),
    }),
    *lies("approval_is_for_this_plan", FORKED, {
        "owners who want to approve everything": lambda it: it.tells(it.story.wished, authority="Approve"),
    }),
    *lies("nobody_acts_when_told_not_to", PLAIN, {
        "it was suspended": lambda it: it.tells(it.story.wished, suspended=True),
        "it was to observe only": lambda it: it.tells(it.story.wished, authority="Observe"),
    }),
    *lies("nobody_acts_when_told_not_to", KILLED, {
        "it was suspended since": lambda it: it.story.wished.append(
            replace(it.story.wished[0], at=20.0, suspended=True)
        ),
    }),
    *lies("limits_hold", PLAIN, {
        "one partition": _under(partitions=1),
        "a tenth of the brokers": _under(brokers_down_percent=10),
        "four replicas": lambda it: it.plans_are(policy=lambda plan: _ruled(plan, min_replication_factor=4)),
        "no rule": lambda it: it.plans_are(policy=lambda plan: replace(plan.policy, rules=())),
    }),
    *lies("waves_hold", PLAIN, {
        "one large wave": lambda it: it.plans_are(waves=((FIRST, SECOND),)),
        "one request for two waves": _at_once,
        "one that does not lead yet": lambda it: it.hides(it.story.led, lambda led: led.epoch == 2),
    }),
    *lies("a_failed_wave_stops_the_next", PLAIN, {
        "it failed": _fails(Outcome.FAILED, "LeaderUnresponsive"),
        "it is in doubt": _fails(Outcome.IN_DOUBT, "ClusterUnavailable"),
        "it failed, and that was told late": together(
            _fails(Outcome.FAILED, "LeaderUnresponsive"),
            lambda it: it.tells(it.story.concluded, at=lambda said: said.at + 100),
        ),
        "it failed by an election that was not held": together(
            _fails(Outcome.FAILED, "LeaderUnresponsive"),
            lambda it: it.hides(it.story.held, lambda held: held.id == FIRST and held.by == "engine-1"),
            lambda it: it.hides(it.story.led, lambda led: led.id == FIRST and led.epoch > 0),
            _before_the_second,
        ),
    }),
    *lies("patience_is_kept", PLAIN, {
        "a member of the ISR was back": _sees(isr=(BrokerId(2),)),
        "a member of the ELR was back": _sees(elr=(BrokerId(2),)),
        "it came back after the plan": lambda it: it.looks(isr=(BrokerId(1), BrokerId(2))),
        "its rule is more patient": together(
            _sees(isr=(BrokerId(2),)),
            lambda it: it.tells(it.story.looked, lambda look: look.at < 30.1, at=lambda look: look.at - 20),
            lambda it: it.plans_are(policy=lambda plan: _ruled(plan, patience=timedelta(seconds=30))),
        ),
    }),
    *lies("the_deadline_is_kept", PLAIN, {
        "its time was over": lambda it: it.scenario_is(within=0.5),
        "its time began long before": lambda it: it.tells(it.story.ran, timed_from=lambda ran: ran.timed_from - 400),
        "it did not end": lambda it: it.tells(it.story.ran, ended=lambda ran: ran.ended + 500),
    }),
    *lies("engines_never_break", PLAIN, {
        "a mistake": lambda it: it.tells(it.story.ran, error=KeyError("wave")),
        "a sentence after an election": lambda it: it.tells(
            it.story.ran, _is("engine-1"), report=None, sentence=ClusterUnavailable({})
        ),
    }),
    *lies("engines_never_break", KILLED, {
        "a sentence after a restore that went on": lambda it: it.tells(
            it.story.ran, _is("engine-2"), report=None, sentence=ClusterUnavailable({})
        ),
    }),
    *lies("the_quiet_end_is_explained", REFUSED, {
        "for what is not so": lambda it: it.reports(_is(LAST), reason=Reason("NoCandidate", "so they say")),
        "for what nobody accepts then": lambda it: it.reports(_is(LAST), reason=Reason("OldLeaderAnswers", "")),
        "without a word": lambda it: it.tells(it.story.ran, _is(LAST), report=None),
        "the limit that it had": lambda it: it.tells(
            it.story.wished, policy=lambda wish: replace(wish.policy, rules=(), limits=Limits(1))
        ),
    }),
)  # fmt: skip
