"""What must hold in every history, whatever goes wrong: one named function an invariant, each with its reason.

The oracle knows what the engine can't see: the true logs, what was acknowledged, what the controller did for whom. It
finds; it never raises because a history is strange. It shares no code with what it judges: no rule of `decision`, no
step of `recovery` is asked what would be right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.findings import Broken, Finding, Invariant, Verdict
from kafka_recovery.simulator.histories.judging.choices import (
    best_first,
    nobody_from_silence,
    nothing_forbids_it,
    the_rest_in_order,
    the_rule_is_its_topics_own,
)
from kafka_recovery.simulator.histories.judging.ends import (
    engines_never_break,
    everybody_has_an_outcome,
    the_quiet_end_is_explained,
)
from kafka_recovery.simulator.histories.judging.journals import (
    facts_in_their_order,
    finished_is_finished,
    outcomes_fit_the_plan,
    waves_are_of_their_plan,
)
from kafka_recovery.simulator.histories.judging.limits import (
    a_failed_wave_stops_the_next,
    approval_is_for_this_plan,
    limits_hold,
    nobody_acts_when_told_not_to,
    patience_is_kept,
    the_deadline_is_kept,
    waves_hold,
)
from kafka_recovery.simulator.histories.judging.losses import (
    at_least_is_lost,
    class_has_its_number,
    class_is_proven,
    lacks_are_true,
    loss_stays_in_its_class,
)
from kafka_recovery.simulator.histories.judging.marks import marks
from kafka_recovery.simulator.histories.judging.named import named
from kafka_recovery.simulator.histories.judging.on_disk import disks_are_as_told
from kafka_recovery.simulator.histories.judging.orders import (
    no_order_is_left_behind,
    nothing_that_was_not_asked,
    nothing_without_its_record,
    only_own_orders_are_replaced,
    plans_know_the_owners_order,
    restored_is_restored,
)
from kafka_recovery.simulator.histories.judging.quarantine import (
    an_earlier_wave_is_waited_out,
    doubt_is_what_the_wire_shows,
    requests_in_doubt_are_waited_out,
)
from kafka_recovery.simulator.histories.judging.readings import nobody_else_is_named, who_contradicts_itself_is_named
from kafka_recovery.simulator.histories.judging.refusals import (
    failed_is_so,
    refused_is_untouched,
    what_is_refused_is_so,
)
from kafka_recovery.simulator.histories.judging.told_orders import the_order_is_as_told
from kafka_recovery.simulator.histories.judging.words import (
    cleanly_is_clean,
    min_isr_is_told,
    nothing_older_than_was_shown,
    recovered_is_so,
    recovered_means_verified,
    who_came_back_was_in_sync,
)
from kafka_recovery.simulator.histories.scenario import Scenario

INVARIANTS: tuple[Invariant, ...] = (
    loss_stays_in_its_class,
    class_has_its_number,
    class_is_proven,
    at_least_is_lost,
    lacks_are_true,
    who_contradicts_itself_is_named,
    nobody_else_is_named,
    disks_are_as_told,
    nobody_from_silence,
    nothing_forbids_it,
    best_first,
    the_rest_in_order,
    the_rule_is_its_topics_own,
    recovered_means_verified,
    recovered_is_so,
    nothing_older_than_was_shown,
    min_isr_is_told,
    cleanly_is_clean,
    who_came_back_was_in_sync,
    what_is_refused_is_so,
    refused_is_untouched,
    failed_is_so,
    nothing_without_its_record,
    nothing_that_was_not_asked,
    plans_know_the_owners_order,
    only_own_orders_are_replaced,
    no_order_is_left_behind,
    restored_is_restored,
    the_order_is_as_told,
    doubt_is_what_the_wire_shows,
    requests_in_doubt_are_waited_out,
    an_earlier_wave_is_waited_out,
    approval_is_for_this_plan,
    nobody_acts_when_told_not_to,
    limits_hold,
    waves_hold,
    a_failed_wave_stops_the_next,
    patience_is_kept,
    the_deadline_is_kept,
    everybody_has_an_outcome,
    engines_never_break,
    the_quiet_end_is_explained,
    facts_in_their_order,
    waves_are_of_their_plan,
    finished_is_finished,
    outcomes_fit_the_plan,
)


def judge(story: Chronicle, scenario: Scenario) -> Verdict:
    """Every finding of every invariant, in the order of time, how much each had to examine, and the marks reached."""
    return replace(judged(story, scenario, INVARIANTS), marks=marks(story, scenario))


def judged(story: Chronicle, scenario: Scenario, invariants: Sequence[Invariant]) -> Verdict:
    """The same by these invariants, without marks."""
    told = {invariant.__name__: tuple(invariant(story, scenario)) for invariant in invariants}
    found = [finding for name, examined in told.items() for finding in _broken(name, examined)]
    findings = tuple(sorted(found, key=lambda finding: finding.at))
    return Verdict(findings, {name: len(examined) for name, examined in told.items()})


def _broken(invariant: str, examined: Iterable[Broken | None]) -> Iterable[Finding]:
    return (named(Finding(invariant, one.at, one.message)) for one in examined if one is not None)
