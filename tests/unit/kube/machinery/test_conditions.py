"""Conditions: when their time changes, and what tools make of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_recovery.kube.machinery.conditions import LONGEST_MESSAGE, Standing, condition, merged, standing
from testbed.kstatus import Kstatus, kstatus

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)


def ready(holds: bool | None, reason: str = "Because", message: str = "", generation: int = 1) -> dict[str, Any]:
    return condition("Ready", holds, reason, message, generation)


class TestTimes:
    def test_the_time_changes_when_the_status_flips(self) -> None:
        old = merged([], [ready(False)], NOON)

        assert merged(old, [ready(True)], LATER)[0]["lastTransitionTime"] == "2026-11-21T12:05:00Z"

    def test_another_reason_message_or_generation_leaves_the_time(self) -> None:
        old = merged([], [ready(False)], NOON)
        new = merged(old, [ready(False, "Otherwise", "it is now something else", 2)], LATER)

        assert new == [
            {
                "type": "Ready",
                "status": "False",
                "reason": "Otherwise",
                "message": "it is now something else",
                "observedGeneration": 2,
                "lastTransitionTime": "2026-11-21T12:00:00Z",
            }
        ]

    def test_a_condition_without_a_time_gets_one(self) -> None:
        assert merged([{"type": "Ready", "status": "True"}], [ready(True)], NOON)[0]["lastTransitionTime"]


class TestForm:
    def test_no_terminal_obeys_a_message_and_it_is_one_line_of_a_table(self) -> None:
        said = ready(False, message="ann refused the plan: \x1b[2J\u202eno,\nnever")

        assert said["message"] == "ann refused the plan: \\x1b[2J\\u202eno, never"

    @pytest.mark.parametrize("reason", ["", "no candidate", "Ends-", "1Digit", "Ends:"])
    def test_a_reason_that_the_schema_would_refuse_is_refused_here(self, reason: str) -> None:
        with pytest.raises(ValueError, match="no reason of a condition"):
            ready(True, reason)

    def test_a_long_message_is_cut(self) -> None:
        message = ready(True, message="x" * 5000)["message"]

        assert (len(message), message[-1]) == (LONGEST_MESSAGE, "…")

    def test_a_type_may_not_come_twice(self) -> None:
        with pytest.raises(ValueError, match="twice"):
            merged([], [ready(True), ready(False)], NOON)

    def test_reconciling_and_stalled_are_never_both_true(self) -> None:
        both = [condition(kind, True, "Because", "", 1) for kind in ("Reconciling", "Stalled")]
        with pytest.raises(ValueError, match="both True"):
            merged([], both, NOON)


class TestTools:
    @pytest.mark.parametrize(
        ("how", "shown"),
        [
            (Standing.DONE, Kstatus.CURRENT),
            (Standing.WORKING, Kstatus.IN_PROGRESS),
            (Standing.STUCK, Kstatus.FAILED),
        ],
    )
    def test_each_standing_is_shown_as_what_it_is(self, how: Standing, shown: Kstatus) -> None:
        assert kstatus(self.resource(how)) is shown

    @pytest.mark.parametrize("how", Standing)
    def test_a_spec_that_was_not_looked_at_yet_is_in_progress(self, how: Standing) -> None:
        changed = self.resource(how) | {"metadata": {"generation": 2}}

        assert kstatus(changed) is Kstatus.IN_PROGRESS

    def test_a_newborn_is_in_progress_by_the_schemas_default(self) -> None:
        assert kstatus({"metadata": {"generation": 1}, "status": {"observedGeneration": -1}}) is Kstatus.IN_PROGRESS

    @pytest.mark.parametrize("how", Standing)
    def test_what_is_being_deleted_is_terminating(self, how: Standing) -> None:
        leaving = self.resource(how) | {"metadata": {"generation": 1, "deletionTimestamp": "2026-11-21T12:00:00Z"}}

        assert kstatus(leaving) is Kstatus.TERMINATING

    @pytest.mark.parametrize(
        ("conditions", "shown"),
        [
            ([], Kstatus.CURRENT),
            ([("KafkaHealthy", "False")], Kstatus.CURRENT),
            ([("Ready", "Unknown")], Kstatus.IN_PROGRESS),
            ([("Ready", "False")], Kstatus.IN_PROGRESS),
            ([("Ready", "True"), ("KafkaHealthy", "False"), ("ViewTrusted", "False")], Kstatus.CURRENT),
            ([("Ready", "True"), ("Stalled", "False"), ("Reconciling", "False")], Kstatus.CURRENT),
        ],
    )
    def test_other_conditions_count_for_nothing(self, conditions: list[tuple[str, str]], shown: Kstatus) -> None:
        """A sick Kafka must not block the Git sync that mends it."""
        told = [{"type": kind, "status": status} for kind, status in conditions]

        assert kstatus({"metadata": {"generation": 1}, "status": {"conditions": told}}) is shown

    def resource(self, how: Standing) -> dict[str, Any]:
        conditions = merged([], standing(how, "Because", "of this", 1), NOON)
        return {"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "conditions": conditions}}
