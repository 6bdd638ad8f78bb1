"""No deadline: a busy machine is no defect. A failure prints the blob that repeats it."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("ours", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ours")
