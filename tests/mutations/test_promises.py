"""Every promise of the oracle stands in the table of its teeth, and the table says what the lists hold."""

from __future__ import annotations

from mutations.catalogue import Tier, listed
from mutations.promises import PAGE, PROMISES, page, wanting


def test_who_names_a_promise_names_one_of_the_oracle() -> None:
    said = {each.id: each.reported_by for each in listed() if each.reported_by}

    assert [name for name, promise in said.items() if promise not in PROMISES] == []


def test_other_mutations_are_reported_by_their_tests_alone() -> None:
    assert [each.id for each in listed() if each.reported_by and each.tier is not Tier.SIMULATION] == []


def test_of_each_promise_there_are_three_mutations_that_it_reports() -> None:
    assert list(wanting()) == []


def test_the_page_shows_every_promise_with_its_mutations() -> None:
    told = PAGE.read_text()

    assert told == page(told), "write it anew: python -m mutations.promises"
    assert [promise for promise in PROMISES if f"| `{promise}` |" not in told] == []
