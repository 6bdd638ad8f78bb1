"""What must hold in every history, whatever goes wrong: one named function an invariant, each with its reason.

The oracle knows what the engine can't see: the true logs, what was acknowledged, what the controller did for whom. It
finds; it never raises because a history is strange.
"""

from __future__ import annotations

from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.findings import Finding, Invariant
from kafka_recovery.simulator.histories.oracle_changes import (
    no_order_is_left_behind,
    nothing_that_was_not_asked,
    nothing_without_its_record,
    only_own_orders_are_replaced,
    restored_is_restored,
)
from kafka_recovery.simulator.histories.oracle_choices import (
    best_first,
    class_is_proven,
    loss_stays_in_its_class,
    nobody_from_silence,
    recovered_means_verified,
)
from kafka_recovery.simulator.histories.oracle_limits import (
    a_failed_wave_stops_the_next,
    approval_is_for_this_plan,
    engines_never_break,
    everybody_has_an_outcome,
    limits_hold,
    patience_is_kept,
    the_deadline_is_kept,
    waves_hold,
)
from kafka_recovery.simulator.histories.scenario import Scenario

INVARIANTS: tuple[Invariant, ...] = (
    loss_stays_in_its_class,
    class_is_proven,
    nobody_from_silence,
    recovered_means_verified,
    best_first,
    nothing_without_its_record,
    nothing_that_was_not_asked,
    only_own_orders_are_replaced,
    no_order_is_left_behind,
    restored_is_restored,
    approval_is_for_this_plan,
    limits_hold,
    waves_hold,
    a_failed_wave_stops_the_next,
    patience_is_kept,
    the_deadline_is_kept,
    everybody_has_an_outcome,
    engines_never_break,
)


def judge(story: Chronicle, scenario: Scenario) -> tuple[Finding, ...]:
    """Every finding of every invariant, in the order of time."""
    found = [finding for invariant in INVARIANTS for finding in invariant(story, scenario)]
    return tuple(sorted(found, key=lambda finding: finding.at))
