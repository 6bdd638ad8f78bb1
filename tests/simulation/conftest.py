"""What simulated tests share."""

from __future__ import annotations

import gc

# A history makes values by the hundred thousand, and most are gone when it ends. To look for cycles ten times less
# often than other tests do takes 8 % off its time, and 13 MB more.
gc.set_threshold(200_000, 20, 50)
