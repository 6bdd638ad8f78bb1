"""What brokers told of their logs, held against the true logs: who can be found out is found out, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_recovery.domain.evidence import PartitionEvidence, Replica
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Looked
from kafka_recovery.simulator.histories.findings import KEPT, Examined, unless
from kafka_recovery.simulator.histories.judging.words import LAST_SEEN
from kafka_recovery.simulator.histories.scenario import Scenario
from kafka_recovery.simulator.host.weather import WireFault

CONTRADICTS = "LogEndsContradict"
"""The problem of a replica whose broker told two ends of its log."""


def who_contradicts_itself_is_named(story: Chronicle, scenario: Scenario) -> Examined:
    """A log end that its broker's own leader epochs contradict is not believed, and that broker is named.

    Of one that follows somebody, or whose epochs nobody could read, a wrong end can't be told from a right one.
    """
    if not story.misreported:
        return
    for look, partition, replica in _measured(story):
        log, copy = replica.log, look.copies.get((partition.id, replica.broker))
        off = {told.records for told in story.misreported if told.broker == replica.broker and told.at <= look.at}
        if replica.problem is not None and replica.problem.code == CONTRADICTS:
            yield KEPT
        if log is None or log.epochs is None or copy is None or not off:
            continue
        stands_still = partition.leader is None and log.answered_under == partition.leader_epoch
        wrong = stands_still and log.end != copy.end and log.end - copy.end in off
        text = f"{look.process} believes broker {replica.broker} that its log of {partition.id} ends at {log.end}"
        yield unless(not wrong, look.at, f"{text}; it ends at {copy.end}, and so its leader epochs say")


def nobody_else_is_named(story: Chronicle, scenario: Scenario) -> Examined:
    """No broker is said to contradict itself that has told the truth.

    Where answers were garbled on the way, an engine may have read two ends of a broker that told one.
    """
    wrong = {told.broker for told in story.misreported}
    for look, partition, replica in _measured(story):
        if replica.problem is not None and replica.problem.code == CONTRADICTS and not _was_garbled(story, look):
            text = f"{look.process} says of broker {replica.broker} and {partition.id}: {replica.problem}"
            yield unless(replica.broker in wrong, look.at, f"{text}; that broker has told the truth")


def _was_garbled(story: Chronicle, look: Looked) -> bool:
    """Whether an answer to any question of this look may have been."""
    took = look.evidence.cluster.took.total_seconds()
    return story.has_struck(WireFault.GARBLED, story.awake_before(look.process, look.at, took + LAST_SEEN), look.at)


def _measured(story: Chronicle) -> Iterator[tuple[Looked, PartitionEvidence, Replica]]:
    for look in story.looked:
        for partition in look.evidence.partitions:
            for replica in partition.replicas:
                yield look, partition, replica
