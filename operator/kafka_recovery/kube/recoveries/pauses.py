"""How long a recovery waits that nobody tells of a change."""

from __future__ import annotations

import random
from datetime import timedelta

LOOK = timedelta(seconds=5)
"""How often what is known without asking the API server is judged again."""

SHORTEST_BACKSTOP = timedelta(minutes=10)
LONGEST_BACKSTOP = timedelta(minutes=15)
"""How long what was read of a waiting recovery is taken to hold while no watch tells of a change: one may be missed."""


def backstop() -> timedelta:
    """A pause between the two, drawn: recoveries that began together do not all ask together."""
    shortest, longest = SHORTEST_BACKSTOP.total_seconds(), LONGEST_BACKSTOP.total_seconds()
    return timedelta(seconds=random.uniform(shortest, longest))
