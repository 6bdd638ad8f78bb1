"""Each promise can be broken: lies of an engine, told of honest histories, and the invariant that finds each.

An engine lies where it tells of itself: what it saw, wrote, asked for or said is another thing than what was so. That
needs no engine that is spoilt, so whatever becomes of its insides, each invariant keeps its teeth.
"""

from __future__ import annotations

from collections import Counter

import pytest

from kafka_recovery.simulator.histories.oracle import INVARIANTS, judged
from simulation.lies import of_choices, of_limits, of_losses, of_orders, of_words
from simulation.lies.honest import SCENARIOS, honest
from simulation.lies.liars import Liar, Lie

LIES = (*of_losses.LIES, *of_choices.LIES, *of_words.LIES, *of_orders.LIES, *of_limits.LIES)
BY_NAME = {invariant.__name__: invariant for invariant in INVARIANTS}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_honest_history_breaks_no_promise(name: str) -> None:
    assert "\n".join(map(str, honest(name).verdict.findings)) == ""


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: f"{lie.breaks}: {lie.name}")
def test_a_lie_is_found(lie: Lie) -> None:
    liar = Liar.of(honest(lie.of))
    lie.tell(liar)

    verdict = judged(liar.story, liar.scenario, (BY_NAME[lie.breaks],))

    assert [finding for finding in verdict.findings if finding.named is None], "the oracle believes it"


def test_of_each_promise_there_are_three_lies() -> None:
    told = Counter(lie.breaks for lie in LIES)

    assert {name for name in BY_NAME if told[name] < 3} == set()
