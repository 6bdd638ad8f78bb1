"""Lies in what is said of partitions."""

from __future__ import annotations

from dataclasses import replace

from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.reason import Reason
from kafka_recovery.simulator.histories.facts import Configured, Led, Shown
from simulation.lies.honest import ANOTHER, FORKED, KILLED, PLAIN, REFUSED
from simulation.lies.liars import FIRST, SECOND, WHY, Liar, Tell, lies, together

RECOVERED, CLEANLY, UNDER = Outcome.RECOVERED, Outcome.RECOVERED_CLEANLY, Outcome.RECOVERED_UNDER_MIN_ISR


def _because(code: str, outcome: Outcome = Outcome.REFUSED, why: str = "so they say") -> Tell:
    return lambda it: it.says(outcome=outcome, reason=Reason(code, why))


def _shown(epoch: int, leader: int | None) -> Tell:
    """The metadata had shown another leader by then."""
    by = None if leader is None else BrokerId(leader)
    return lambda it: it.story.shown.extend(
        Shown(said.at - 0.001, said.process, FIRST, said.topic_id, by, LeaderEpoch(epoch))
        for said in it.story.concluded
        if said.topic_id is not None
    )


def _made_anew(id: str, garbled_before: float = 0.0) -> Tell:
    """Refused as another topic, whose id was read so; so many seconds before that an answer was garbled."""

    def tell(it: Liar) -> None:
        it.says(
            outcome=Outcome.REFUSED,
            reason=Reason("PlanOutdated", f"topic orders was deleted and created again: now {id}"),
        )
        it.looks(topic_id=TopicId(id))
        it.story.struck = {"garbled": [it.story.concluded[-1].at - garbled_before]}

    return tell


def _unseen(error_before: float) -> Tell:
    """In doubt about a partition that Kafka answered an error for; so many seconds before that the wire made one."""

    def tell(it: Liar) -> None:
        why = "since then it was not to be seen: Kafka answered UNKNOWN_SERVER_ERROR (-1)"
        it.says(outcome=Outcome.IN_DOUBT, reason=Reason("InDoubt", why))
        it.story.struck = {"unknown-error": [it.story.concluded[-1].at - error_before]}

    return tell


LIES = (
    *lies("recovered_means_verified", PLAIN, {
        "nobody ever led": lambda it: it.hides(it.story.led, lambda led: led.epoch == 2),
        "another leader": lambda it: it.says(leader=BrokerId(2)),
        "in another epoch": lambda it: it.says(leader_epoch=LeaderEpoch(1)),
        "a shorter log than was planned": lambda it: it.says(log_end=Offset(1)),
        "another one than was planned": together(
            lambda it: it.says(leader=BrokerId(2)),
            lambda it: it.story.led.append(Led(31.2, FIRST, "broker 2", LeaderEpoch(2))),
        ),
    }),
    *lies("recovered_is_so", PLAIN, {
        "another leader": lambda it: it.says(leader=BrokerId(2)),
        "in an epoch that never came": lambda it: it.says(leader_epoch=LeaderEpoch(7)),
        "before it led": lambda it: it.tells(it.story.concluded, at=lambda said: said.at - 2),
    }),
    *lies("nothing_older_than_was_shown", PLAIN, {
        "the leader was shown to be gone": _shown(3, None),
        "another one was shown to lead": _shown(4, 2),
        "what was shown was newer": lambda it: it.tells(it.story.shown, epoch=lambda shown: shown.epoch + 1),
    }),
    *lies("min_isr_is_told", PLAIN, {
        "too few that are enough": lambda it: it.says(outcome=UNDER, reason=WHY),
        "enough that are too few": lambda it: it.scenario_is(
            topics=tuple(replace(topic, min_isr=3) for topic in it.scenario.topics)
        ),
        "more are asked for since": lambda it: it.story.configured.append(Configured(25.0, "orders", 3)),
    }),
    *lies("cleanly_is_clean", PLAIN, {
        "its own election": lambda it: it.says(outcome=CLEANLY, reason=WHY),
        "its own election of a later wave": lambda it: it.says(SECOND, outcome=CLEANLY, reason=WHY),
    }),
    *lies("cleanly_is_clean", KILLED, {
        "an election of its killed predecessor": lambda it: it.says(outcome=CLEANLY, reason=WHY),
    }),
    *lies("who_came_back_was_in_sync", PLAIN, {
        "whom it had elected": lambda it: it.says(outcome=CLEANLY, reason=WHY),
    }),
    *lies("who_came_back_was_in_sync", ANOTHER, {
        "whom somebody else had elected": lambda it: it.says(outcome=CLEANLY, reason=WHY),
    }),
    *lies("who_came_back_was_in_sync", FORKED, {
        "another than the in-sync one": lambda it: it.says(outcome=CLEANLY, reason=WHY, leader=BrokerId(3)),
    }),
    *lies("what_is_refused_is_so", REFUSED, {
        "that nobody may lead": _because("NoCandidate"),
        "that an old leader answers": _because("OldLeaderAnswers"),
        "that a living broker is silent": _because("LiveReplicaUnmeasured"),
        "that it is being reassigned": _because("ReassignmentOngoing"),
        "that its owners stopped it": _because("Suspended"),
        "that its time is over": _because("Interrupted", why="the 5 s allowed were over before its wave"),
        "that somebody leads again": _because("AlreadyOnline"),
        "that its order is altered": _because("OrderNotRestored"),
        "that an earlier wave failed": _because("EarlierWaveFailed"),
        "a word that nobody knows": _because("BadWeather"),
        "that the metadata it saw were old": _because("StaleMetadata"),
        "that a broker stood behind the controllers": _because(
            "StaleMetadata", why="kafka-2:9092 stands at metadata offset 3, the controller had committed 9"
        ),
        "that controllers did not answer a broker": _because(
            "StaleMetadata", why="kafka-2:9092 stands at metadata offset 3, the controller does not answer it"
        ),
        "that it came too late": _because("EvidenceTooOld", why="2s were over, and what was seen before is too old"),
        "that its look took long": _because("EvidenceTooOld", why="the last look at it took 40.0 s: what it saw first"),
        "that no order can be set": _because("OrderCannotBeSet"),
        "that the order elects another": _because("PlanOutdated", why="the assignment was left as it stands"),
        "that its plan is outdated in a way that nobody knows": _because("PlanOutdated"),
        "that two share an address": _because("AnotherBroker", why="brokers 2, 3 are all listed at kafka-2:9092"),
        "that no wave unlocked it": _because("EarlierWaveFailed", why="no wave that would have unlocked one"),
        "that it is another cluster": _because("ClusterIdMismatch"),
        "that a relay is silent": _because("RelaySilent", why="a request went through broker 2 (kafka-2:9092)"),
    }),
    *lies("what_is_refused_is_so", PLAIN, {
        "that an order stands which was put back": _because("OrderNotRestored"),
        "that the view was not seen to move": _because("MetadataAgeUnknown", why="leaders were read from broker 2"),
        "that it was made anew, by an id that was read right": _made_anew("AAAAAAAAAAEAAAAAAAAAAA"),
        "that it was made anew, by an id that no garbled answer holds": _made_anew("AAAAAAAAAAEAAAB____-AA"),
        "that it was made anew, by an id that was garbled long before": _made_anew("AAAAAAAAAAEAAAAAf____w", 60.0),
    }),
    *lies("refused_is_untouched", PLAIN, {
        "what it has elected": _because("NoCandidate"),
        "what it has elected in a later wave": lambda it: it.says(SECOND, outcome=Outcome.REFUSED, reason=WHY),
    }),
    *lies("refused_is_untouched", FORKED, {
        "what it has elected by the longest log": _because("AwaitingApproval"),
    }),
    *lies("failed_is_so", PLAIN, {
        "the planned one is another one": _because("UnexpectedLeader", Outcome.FAILED, "planned was broker 2"),
        "who leads has died": _because("LeaderGone", Outcome.FAILED, "a leader was elected, and is gone again"),
        "an old leader was shown": _because(
            "StaleMetadata", Outcome.FAILED,
            "broker 3 leads it in epoch 2 by what is to be seen now, but it was seen without a leader",
        ),
        "it came too late": _because("EvidenceTooOld", Outcome.FAILED, "9s were over, and what was seen before is old"),
        "nobody was to be seen": _because("InDoubt", Outcome.IN_DOUBT, "since then it was not to be seen"),
        "nobody was to be seen, by an error that the wire made long before": _unseen(30.0),
    }),
    *lies("failed_is_so", REFUSED, {
        "in doubt, and nothing was asked": lambda it: it.says(outcome=Outcome.IN_DOUBT, reason=WHY),
    }),
    *lies("outcomes_fit_the_plan", PLAIN, {
        "another leader is written down": lambda it: it.writes(leader=BrokerId(2)),
        "the epoch it was planned in": lambda it: it.writes(leader_epoch=LeaderEpoch(1)),
        "a shorter log": lambda it: it.writes(log_end=Offset(1)),
        "a failure without a reason": lambda it: it.writes(outcome=Outcome.FAILED),
        "a partition nobody planned": lambda it: it.writes(id=TopicPartition("orders", 9)),
    }),
    *lies("everybody_has_an_outcome", PLAIN, {
        "a partition is left out": lambda it: it.tells(
            it.story.ran, lambda ran: bool(ran.report and ran.report.outcomes),
            report=lambda ran: ran.report and replace(ran.report, outcomes=ran.report.outcomes[1:]),
        ),
        "a failure without a reason": lambda it: it.reports(outcome=Outcome.FAILED),
        "no end": lambda it: it.tells(it.story.ran, hangs=True),
    }),
)  # fmt: skip
