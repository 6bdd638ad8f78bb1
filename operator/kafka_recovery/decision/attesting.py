"""What a person attests of a broker, held against what the brokers and the controller say themselves.

An attestation that a disk is lost takes one thing away: the hope that something comes back from there. So nobody waits
for that broker, and its silence blocks nothing. It is no answer of that broker, and no rule of a loss class counts it
as one: what its copy held may have been the only one of an acknowledged record. R + W > N keeps its N, because the
lost copy may be among the W that acknowledged. Nor is it anybody's yes: who attests may not be who approves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from kafka_recovery.decision.guards import LOG_DIR_OFFLINE
from kafka_recovery.decision.moments import moment
from kafka_recovery.domain.attestation import Attestation
from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.evidence import ClusterState, Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerEpoch, BrokerId
from kafka_recovery.domain.plan import Decision, Verdict
from kafka_recovery.domain.policy import Approval
from kafka_recovery.domain.reason import Reason

ANSWERS = Decisive.ATTESTED_BROKER_ANSWERS
"""Why an attestation never counts again: its broker gave a sign of life."""


def attested(evidence: Evidence, given: Iterable[Attestation]) -> Evidence:
    """The same look with what a person attested; each that does not count in it says why. What is void stays void."""
    at = evidence.cluster.observed_at
    held = tuple(
        replace(each, void=each.void or _out_of_time(each, at) or _sign_of_life(each.broker, evidence))
        for each in given
    )
    return replace(evidence, cluster=replace(evidence.cluster, attestations=held)) if held else evidence


def given(cluster: ClusterState) -> tuple[Attestation, ...]:
    """All that this look was held against, without what is said against each."""
    return tuple(replace(each, void=None) for each in cluster.attestations)


def standing(cluster: ClusterState) -> tuple[Attestation, ...]:
    """Those that count in this look."""
    return tuple(each for each in cluster.attestations if each.void is None)


def attested_lost(cluster: ClusterState) -> frozenset[BrokerId]:
    """The brokers from whose disks nothing will come back, by an attestation that counts."""
    return frozenset(each.broker for each in standing(cluster))


def asking_about(decision: Decision, lost: frozenset[BrokerId]) -> Decision:
    """The same decision, but a person is asked about the election, for it stands on the disks that are said lost."""
    if decision.verdict is not Verdict.ELECT or decision.needs_approval:
        return decision
    brokers = ", ".join(str(broker) for broker in sorted(lost.intersection(decision.assignment)))
    why = (
        f"without the attested loss of the disk of broker {brokers} nobody would be elected: a person has to approve it"
    )
    return replace(decision, approval=Approval.MANUAL, warnings=(*decision.warnings, why))


def taken_back(cluster: ClusterState, now: Iterable[Attestation] | None) -> tuple[Attestation, ...]:
    """Those that counted in this look, and that nobody attests `now`; None: nobody can take one back."""
    return () if now is None else tuple(each for each in standing(cluster) if each not in now)


def without_a_copy(evidence: Evidence, given: Iterable[Attestation]) -> Attestation | None:
    """The first that is about a broker with no replica of what was looked at; where nothing was seen, none is."""
    hosts = hosting(evidence)
    return next((each for each in given if each.broker not in hosts), None) if hosts else None


def hosting(evidence: Evidence) -> frozenset[BrokerId]:
    """The brokers that have a replica of what was looked at."""
    return frozenset(broker for partition in evidence.partitions for broker in partition.assignment)


def no_longer(planned: PartitionEvidence, before: Sequence[Attestation], fresh: Evidence) -> Attestation | None:
    """What was attested of a broker of this partition and does not count now, so that its plan does not hold any more.

    `before`: those that counted when the plan was made; `fresh` holds them again. A start that the controllers' history
    shows since then is an answer as well, though the broker may be silent again.
    """
    now = {each.broker: each for each in fresh.cluster.attestations}
    seen = next((each for each in fresh.partitions if each.id == planned.id), None)
    for each in before:
        if each.broker not in planned.assignment:
            continue
        if now[each.broker].void:
            return now[each.broker]
        if seen and _last_start(each.broker, seen) > _last_start(each.broker, planned):
            started = _answers(each.broker, "was started after the plan was made, as the controllers saw")
            return replace(each, void=started)
    return None


def told(evidence: Evidence, brokers: Iterable[BrokerId] | None = None) -> Iterator[str]:
    """What was attested of these brokers, or of all, and by whom; what does not count comes first."""
    among = None if brokers is None else frozenset(brokers)
    asked = [each for each in evidence.cluster.attestations if among is None or each.broker in among]
    for each in sorted(asked, key=lambda each: each.void is None):
        said = f"{each.by} attested at {moment(each.at)} that the disk of broker {each.broker} is lost for good"
        if each.void is not None:
            yield f"VOID: {said} ({each.reason}). That does not count: {each.void.message}"
        else:
            yield (
                f"{said} ({each.reason}); that holds until {moment(each.expires)}. Nothing of broker {each.broker} is "
                "waited for. What it alone held is lost, and no loss class is better for it."
            )


def _out_of_time(each: Attestation, now: datetime) -> Reason | None:
    """A clock that was set back must not make it last longer: a look from before it was given does not know it."""
    if each.at <= now <= each.expires:
        return None
    return Reason(
        "AttestationEnded",
        f"what {each.by} attested of broker {each.broker} holds from {moment(each.at)} until {moment(each.expires)}, "
        f"and this look is of {moment(now)}. If it is still so, attest it again, and make a new plan.",
    )


def _sign_of_life(broker: BrokerId, evidence: Evidence) -> Reason | None:
    """The first thing that this look shows of a broker whose disk is said to be lost."""
    for partition in evidence.partitions:
        replica = partition.replica(broker)
        if replica is not None and replica.log is not None:
            return _answers(broker, f"answered for its copy of {partition.id} (log end {replica.log.end})")
        if partition.leader == broker or (replica is not None and replica.leads):
            return _answers(broker, f"leads {partition.id}")
    seen = evidence.cluster.broker(broker)
    if seen is None or _says_so_itself(broker, evidence):
        return None
    if seen.reachable:
        return _answers(broker, "answered this look")
    if seen.registered and not seen.fenced:
        return _answers(
            broker, "still counts as alive at the controller (if it is dead, wait until that ends, and plan again)"
        )
    return None


def _says_so_itself(broker: BrokerId, evidence: Evidence) -> bool:
    """Whether it runs and says of each copy that is looked at that its log directory is offline (KIP-858).

    That is the very thing which is attested: no answer speaks against it.
    """
    copies = [partition.replica(broker) for partition in evidence.partitions if partition.leader is None]
    problems = [copy.problem.code if copy.problem else None for copy in copies if copy is not None]
    return bool(problems) and all(problem == LOG_DIR_OFFLINE for problem in problems)


def _answers(broker: BrokerId, how: str) -> Reason:
    return Reason(
        ANSWERS,
        f"broker {broker} {how}, though its disk was attested lost. If its own disk is there after all, take back what "
        "was attested, and plan again. If only one of its log directories is lost, plan for the partitions in that one "
        f"alone. If broker {broker} was started on an empty or replaced disk, stop it: Kafka can elect it where it is "
        "in the ISR or ELR, and the other replicas then delete every record that it lacks.",
    )


def _last_start(broker: BrokerId, partition: PartitionEvidence) -> BrokerEpoch:
    starts = partition.history.starts if partition.history else ()
    return max((start.epoch for start in starts if start.broker == broker), default=BrokerEpoch(-1))
