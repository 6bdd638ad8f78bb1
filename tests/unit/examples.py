"""How many examples a property test draws whose number is its own: one of them may take long, or tell little."""

from __future__ import annotations

from hypothesis import settings


def examples(in_make_test: int) -> int:
    """So many in `make test`, and as many times that elsewhere as any other test draws there."""
    return in_make_test * settings().max_examples // settings.get_profile("same").max_examples
