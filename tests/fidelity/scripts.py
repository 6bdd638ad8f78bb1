"""Everything that is played on both."""

from __future__ import annotations

from fidelity.daily_life import DAILY_LIFE
from fidelity.elections import ELECTIONS
from fidelity.reassignments import REASSIGNMENTS
from fidelity.with_elr import LAST, WITH_ELR

# Those without ELR first: real clusters are slow to start, and either kind needs its own.
SCRIPTS = (*sorted((*DAILY_LIFE, *ELECTIONS, *REASSIGNMENTS, *WITH_ELR), key=lambda script: script.elr), *LAST)
