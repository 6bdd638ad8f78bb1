"""Names of recoveries and clusters for whoever presses Tab."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import typer

from kafka_recovery.cli.kubectl.reach import Reach

Names = Callable[[typer.Context, str], list[tuple[str, str]]]
"""Told what is typed so far, and how the word begins; names, and beside each what tells it from the others."""


def recoveries(context: typer.Context, begun: str) -> list[tuple[str, str]]:
    """PartitionRecoveries of the namespace that is meant."""
    return _named(context, begun, "partitionrecoveries", "outcome")


def clusters(context: typer.Context, begun: str) -> list[tuple[str, str]]:
    """WatchedClusters of the namespace that is meant."""
    return _named(context, begun, "watchedclusters", "clusterId")


def _named(context: typer.Context, begun: str, plural: str, told: str) -> list[tuple[str, str]]:
    """Nothing where the API can't be asked: who presses Tab wants no error between what they type."""
    from kafka_recovery.cli.kubectl.access import opened
    from kafka_recovery.formats.documents import InvalidDocument
    from kafka_recovery.kube.machinery.api import ApiError
    from kafka_recovery.kube.resources.kinds import CLUSTERS, RECOVERIES

    kind = next(each for each in (CLUSTERS, RECOVERIES) if each.plural == plural)
    given = context.params
    reach = Reach(given.get("kubeconfig"), given.get("context"), given.get("namespace"))
    with suppress(ApiError, InvalidDocument), (context.obj or opened)(reach) as api:
        found = api.list_all(kind.path(reach.namespace or api.namespace))
        said = {each["metadata"]["name"]: str((each.get("status") or {}).get(told) or "") for each in found}
        return [(name, said[name]) for name in sorted(said) if name.startswith(begun)]
    return []
