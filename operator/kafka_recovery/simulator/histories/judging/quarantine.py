"""A request that was sent and not answered may still take effect for 60 s: its partitions are left alone that long."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Asked, Ran
from kafka_recovery.simulator.histories.findings import Examined, unless
from kafka_recovery.simulator.histories.scenario import Scenario
from kafka_recovery.simulator.host.weather import WireFault

IN_FORCE = 60.0
"""Seconds for which a broker forwards a request to the controller."""

_SLACK = 0.1


def requests_in_doubt_are_waited_out(story: Chronicle, scenario: Scenario) -> Examined:
    """Nothing is asked of a partition on a machine while a request of that machine about it may be under way.

    A request is under way until its answer has arrived; for good after 60 s. That it was answered counts only for who
    lived to hear it.
    """
    changes = [asked for asked in story.asked if asked.what != "approve"]
    for first in changes:
        for id, until in _in_doubt(story, first):
            for later in changes:
                if later.machine == first.machine and later.at > first.at and any(b.id == id for b in later.requests):
                    text = (
                        f"{later.process} asks to {later.what} {id} {later.at - first.at:.1f} s after {first.process}"
                    )
                    text = f"{text} asked to {first.what} it and got no answer"
                    yield unless(later.at >= until - _SLACK or later is first, later.at, text)
                    break


def doubt_is_what_the_wire_shows(story: Chronicle, scenario: Scenario) -> Examined:
    """A driver calls a request unanswered if it was written and no answer that can be read says what became of it.

    Not more, so that nobody waits for nothing; not less, so that nobody takes for undone what may yet happen. A process
    that was stopped meanwhile may have come too late for an answer that had arrived, and what was garbled may be read
    in two ways.
    """
    garbled = any(fault.wire is WireFault.GARBLED for fault in scenario.faults)
    for told in story.answered:
        slept = any(p.process == told.process and p.at <= told.at and p.until >= told.asked_at for p in story.paused)
        for id in sorted(told.partitions - told.open_to_both):
            text = f"{told.process} asked to {told.what} {id} at {told.asked_at:.3f}, and its driver calls that"
            if id in told.doubtful:
                yield unless(id in told.claimed, told.at, f"{text} answered; no answer to it has arrived")
            elif not slept and not garbled:
                yield unless(id not in told.claimed, told.at, f"{text} unanswered; it was answered, or never written")


def an_earlier_wave_is_waited_out(story: Chronicle, scenario: Scenario) -> Examined:
    """Who finds a wave in its journal that was begun and not ended leaves it alone until none of it is under way.

    The journal does not tell which request was the last, so it counts from the last one that was really sent.
    """
    for ran in story.ran:
        if ran.report is not None or ran.sentence is not None:
            continue
        wave = _unended(story, ran)
        mine = [asked for asked in story.asked if asked.process == ran.process and asked.what != "approve"]
        last = {request.id: asked.at for asked in mine for request in asked.requests if request.id in wave}
        machine = next((asked.machine for asked in mine), None)
        for later in story.asked:
            if later.process == ran.process or later.machine != machine or later.what == "approve":
                continue
            for id in [request.id for request in later.requests if later.at > last.get(request.id, float("inf"))]:
                text = f"{later.process} asks to {later.what} {id} {later.at - last[id]:.1f} s after {ran.process}"
                kept = later.at - last[id] >= IN_FORCE - _SLACK
                yield unless(kept, later.at, f"{text}, which ended in the midst of a wave with it")


def _in_doubt(story: Chronicle, asked: Asked) -> Iterator[tuple[TopicPartition, float]]:
    """The partitions whose request got no answer, and until when it may take effect."""
    answer = next(
        (
            answered
            for answered in story.answered
            if (answered.process, answered.what) == (asked.process, asked.what)
            and answered.asked_at <= asked.at <= answered.at
        ),
        None,
    )
    for request in asked.requests:
        if answer is None or request.id in answer.doubtful:
            yield request.id, asked.at + IN_FORCE


def _unended(story: Chronicle, ran: Ran) -> set[TopicPartition]:
    """The partitions of this run's waves that its journal does not know to be ended."""
    mine = [kept for kept in story.kept if kept.process == ran.process]
    ended = {(kept.digest, kept.name[:9]) for kept in mine if kept.name.endswith("-ended.json")}
    started = [kept for kept in mine if kept.name.endswith("-started.json")]
    return {id for kept in started if (kept.digest, kept.name[:9]) not in ended for id in kept.wave}
