"""Who is best, who is as good, in which order the others follow, and what the leader lacks: of all small logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import permutations, product

import pytest

from exhaustive.every_log import every_log
from exhaustive.evidence_space import HEALTHY, of_logs, one_arrangement, policies
from exhaustive.judging import Count, hold_for_each
from exhaustive.naive_logs import contradict, lacking, same_records
from kafka_recovery.decision.logs import common_point, contains, equal
from kafka_recovery.domain.evidence import PartitionEvidence, ReplicaLog
from kafka_recovery.domain.ids import Offset
from kafka_recovery.domain.policy import RequiredAnswers

NOBODY_WAITED = timedelta(0)
IDS = list(permutations((1, 2, 3)))

Logs = tuple[ReplicaLog, ...]


def partitions(arranged: Iterable[Logs]) -> Iterator[PartitionEvidence]:
    """Broker ids are names: which replica has which, changes from one to the next, not in step with the arrangement."""
    for number, logs in enumerate(arranged):
        yield of_logs(number, logs, IDS[number // 7 % len(IDS)])


def test_any_two_logs_of_up_to_three_offsets(counted: Count) -> None:
    looked = list(partitions(one_arrangement(every_log(3), 2)))
    for policy in policies():
        assert hold_for_each(looked, HEALTHY, policy, NOBODY_WAITED) > len(looked) / 2
        counted(len(looked))


def test_any_two_logs_of_up_to_two_offsets_wherever_they_begin_on_their_disks(counted: Count) -> None:
    """Of a tiered topic; also where a broker does not tell it. And whichever has no room there.

    Everybody answers, so how many answers are required changes nothing: that is for the logs above.
    """
    logs = [
        replace(log, local_start=start, almost_full=almost_full)
        for log in every_log(2)
        for start in (None, *map(Offset, range(log.start, log.end + 1)))
        for almost_full in (False, True)
    ]
    looked = list(partitions(one_arrangement(logs, 2)))
    for policy in policies(RequiredAnswers.ANY):
        assert hold_for_each(looked, HEALTHY, policy, NOBODY_WAITED) > len(looked) / 2
        counted(len(looked))


def test_any_three_logs_of_up_to_two_offsets(counted: Count) -> None:
    """Whole ones: what retention does, it does to two logs."""
    looked = list(partitions(one_arrangement([log for log in every_log(2) if log.start == 0], 3)))
    for policy in policies(RequiredAnswers.ANY):
        assert hold_for_each(looked, HEALTHY, policy, NOBODY_WAITED) > len(looked) / 2
        counted(len(looked))


def test_what_two_vectors_prove_is_true_and_is_all_that_they_can_prove(counted: Count) -> None:
    """Of logs that both still hold a record of, all is known; of others, nothing is claimed that is not so."""
    logs = every_log(3)
    for one, other in product(logs, repeat=2):
        common, whole = common_point(one, other), contains(one, other)
        parted = [offset for offset in lacking(other, one) if other.start <= offset < other.end]

        assert (common is None) == (one.epochs is None or other.epochs is None)
        assert not (whole and lacking(one, other))
        assert equal(one, other) == equal(other, one)
        assert not equal(one, other) or same_records(one, other)
        if common is None or contradict(one, other):
            continue
        assert common == common_point(other, one)
        assert common <= min([one.end, other.end, *parted])
        assert equal(one, other) or not same_records(one, other) or one.start == one.end
        if other.start < other.end:
            assert whole is (not lacking(one, other))
    counted(len(logs) ** 2)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_any_three_logs_of_up_to_three_offsets_in_any_arrangement(counted: Count) -> None:
    """Half a million sets of logs, four policies: some five minutes."""
    logs = every_log(3)
    for policy in policies():
        assert hold_for_each(partitions(product(logs, repeat=3)), HEALTHY, policy, NOBODY_WAITED) > len(logs) ** 3 / 2
        counted(len(logs) ** 3)


@pytest.mark.full
def test_any_two_logs_of_up_to_five_offsets_in_any_arrangement(counted: Count) -> None:
    """A hundred thousand pairs, four policies: most of a minute."""
    logs = every_log(5)
    for policy in policies():
        assert hold_for_each(partitions(product(logs, repeat=2)), HEALTHY, policy, NOBODY_WAITED) > len(logs) ** 2 / 2
        counted(len(logs) ** 2)
