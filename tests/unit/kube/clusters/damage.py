"""Journals without an owner, of which something can't be believed."""

from __future__ import annotations

from kafka_recovery.kube.resources.labels import RECOVERY_UID_LABEL
from unit.kube.journal.journals import PLACE
from unit.kube.kubernetes_in_memory import KubernetesInMemory


def copy_a_record_of_nobody(api: KubernetesInMemory) -> str:
    """Where a copy of what had begun stands now, under a recovery that there never was."""
    begun = next(each for name, each in api.records().items() if name.endswith("begun"))
    labels = {**begun["metadata"]["labels"], RECOVERY_UID_LABEL: "of-nobody"}
    at = f"{PLACE}/a-copy"
    api.objects[at] = {**begun, "metadata": {**begun["metadata"], "name": "a-copy", "labels": labels}}
    return at
