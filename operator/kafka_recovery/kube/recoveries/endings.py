"""How a recovery ends of which nothing is left to do, and why one does not go on. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from kafka_recovery.domain.counts import elected_uncleanly, is_led_by_member
from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.outcome import End, Outcome, PartitionOutcome
from kafka_recovery.domain.reason import Reason, code_of
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.machinery.api import ApiError


def end_of(outcomes: Sequence[PartitionOutcome], total: int) -> tuple[End, Reason]:
    """`outcomes`: of its partitions, in their order; `total`: how many it was for."""
    failed = [outcome for outcome in outcomes if outcome.outcome is Outcome.FAILED]
    if failed:
        first = failed[0]
        message = f"{len(failed)} of {total} did not verify, the first: {first.id}: {first.reason}"
        return End.FAILED, Reason(str(End.FAILED), message)
    recovered = sum(outcome.outcome.is_recovered for outcome in outcomes)
    if recovered == 0:
        message = "none of its partitions is there any more: their topics were deleted, or can't be seen"
        message = message if total else "nothing was offline under the policy's rules when it was taken up"
        return End.NOTHING_TO_RECOVER, Reason("NothingToRecover", message)
    good = f"{recovered} of {total} partitions have a leader that answered itself{_but(outcomes)}"
    return End.RECOVERED, Reason("Recovered", good)


def _but(outcomes: Collection[PartitionOutcome]) -> str:
    """What a person should not miss behind a good end."""
    by = Counter(outcome.outcome for outcome in outcomes)
    below = by[Outcome.RECOVERED_UNDER_MIN_ISR]
    elected, members = sum(map(elected_uncleanly, outcomes)), sum(map(is_led_by_member, outcomes))
    unclean = f"; {elected} were elected uncleanly" if elected else ""
    if members:
        unclean += f"; {members} are led by a member of the ISR or ELR, after an election that was, or may be, unclean"
    return unclean + (f"; {below} had fewer than min.insync.replicas in sync: acks=all fails there" if below else "")


def foremost(reasons: Sequence[Reason]) -> Reason:
    """The reason most partitions have; it stands for all in a condition."""
    if not reasons:
        return Reason("OfflinePartitions", "partitions are left without a leader")
    codes = [reason.code for reason in reasons]
    first = max(dict.fromkeys(codes), key=codes.count)
    reason = next(reason for reason in reasons if reason.code == first)
    more = f" (and {codes.count(first) - 1} more like it)" if codes.count(first) > 1 else ""
    return Reason(reason.code, reason.message + more)


def reason_of(trouble: BaseException) -> Reason:
    """Of what is no fault of the cluster."""
    if isinstance(trouble, InvalidDocument):
        return Reason(Decisive.JOURNAL_DAMAGED, str(trouble))
    return Reason("ObjectsUnreadable" if isinstance(trouble, ApiError) else code_of(trouble), str(trouble))
