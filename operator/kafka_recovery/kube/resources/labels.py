"""Labels of our objects, and what may be a label's value."""

from __future__ import annotations

import hashlib
import re

from kafka_recovery.kube.resources.kinds import GROUP

CLUSTER_LABEL = f"{GROUP}/cluster-id"
"""Its value is `label_value(cluster id)`."""
WATCHED_LABEL = f"{GROUP}/cluster"
"""On recoveries that the operator opens. Its value is `label_value(name of the WatchedCluster)`."""
RECOVERY_LABEL = f"{GROUP}/recovery"
RECOVERY_UID_LABEL = f"{GROUP}/recovery-uid"
PLAN_LABEL = f"{GROUP}/plan"
"""Its value is the first 16 digits of the plan's digest."""


def label_value(text: str) -> str:
    """`text` as a label may hold it: itself, or a hash where it can't (a cluster id may begin with an underscore)."""
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", text):
        return text
    return f"sha256-{hashlib.sha256(text.encode()).hexdigest()[:40]}"
