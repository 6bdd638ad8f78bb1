"""How runs end: with an outcome for everybody, or with a sentence that a person can act on."""

from __future__ import annotations

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.simulator.histories.chronicle import Chronicle, Ran
from kafka_recovery.simulator.histories.findings import Broken, Examined, unless
from kafka_recovery.simulator.histories.scenario import Scenario

UNWRITABLE = "JournalUnwritable"
"""The one sentence that may end a run at any point: nothing may be done without its record."""


def everybody_has_an_outcome(story: Chronicle, scenario: Scenario) -> Examined:
    """At the end of a run every partition of its scope has an outcome, and a reason unless recovered."""
    for ran in story.ran:
        if ran.hangs:
            text = f"{ran.process} ({ran.command}) is not done after {ran.ended - ran.began:.0f} s"
            yield Broken(ran.ended, text)
        if ran.report is None:
            continue
        told = {outcome.id for outcome in ran.report.outcomes}
        for id in sorted(_scope(story, ran) | told):
            yield unless(id in told, ran.ended, f"{ran.process} gave {id} no outcome")
        for outcome in ran.report.outcomes:
            if outcome.outcome is not Outcome.RECOVERED and outcome.reason is None:
                yield Broken(ran.ended, f"{ran.process} says {outcome.id} is {outcome.outcome} and gives no reason")


def engines_never_break(story: Chronicle, scenario: Scenario) -> Examined:
    """An engine ends with a report, or with a sentence a person can act on; anything else is a mistake in it.

    Who has asked for a change owes a report: a sentence alone leaves open what became of the change. Only a journal
    that can't be written ends a run at any point, because nothing may be done without its record. Who has only put back
    what an earlier run altered, and then can't look at the cluster, owes none: the journal knows of the earlier run.
    """
    for ran in story.ran:
        text = f"{ran.process} ({ran.command}) broke: {type(ran.error).__name__}: {ran.error}"
        yield unless(ran.error is None, ran.ended, text)
        if ran.sentence is not None and type(ran.sentence).__name__ != UNWRITABLE:
            asked = [a.what for a in story.asked if a.process == ran.process and a.what != "approve"]
            only_tidied = ran.command in ("recover", "execute") and set(asked) == {"restore"}
            text = f"{ran.process} ({ran.command}) asked to {asked[-1:]} and ends without a report: {ran.sentence}"
            yield unless(not asked or only_tidied, ran.ended, text)


def _scope(story: Chronicle, ran: Ran) -> set[TopicPartition]:
    """What was asked for, and what the run looked at: where nobody named anything, whatever it found offline."""
    looks = [looked.evidence for looked in story.looked if looked.process == ran.process]
    return {*(ran.scope or ()), *(partition.id for evidence in looks for partition in evidence.partitions)}
