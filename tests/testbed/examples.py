"""The project's `examples/`, made to fit one Kafka and one namespace, as a person's own overlay would."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
CLUSTER, POLICY = "WatchedCluster", "RecoveryPolicy"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
PLACEHOLDER = "<YOUR-CLUSTER-ID>"
"""What stands in its place, and is refused by the API server."""

Patch = dict[str, Any]


def replaced(path: str, value: Any) -> Patch:
    """A step of a JSON patch."""
    return {"op": "replace", "path": path, "value": value}


def overlay(
    folder: Path,
    name: str,
    namespace: str,
    *,
    cluster: Sequence[Patch] = (),
    policy: Sequence[Patch] = (),
    components: Sequence[str] = (),
) -> Path:
    """Write a kustomization on top of overlay `name` into `folder`, with JSON patches; returns the folder.

    The example's cluster id is a placeholder that the API server refuses; without a patch it is `CLUSTER_ID`.
    """
    named = any(step["path"] == "/spec/clusterId" for step in cluster)
    patches = [(CLUSTER, [*([] if named else [replaced("/spec/clusterId", CLUSTER_ID)]), *cluster]), (POLICY, policy)]
    wanted = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": namespace,
        "resources": [_from(folder, f"overlays/{name}")],
        "components": [_from(folder, f"components/{each}") for each in components],
        "patches": [
            {"target": {"kind": kind}, "patch": json.dumps(list(steps), indent=1)} for kind, steps in patches if steps
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kustomization.yaml").write_text(json.dumps(wanted, indent=1) + "\n")
    return folder


def _from(folder: Path, example: str) -> str:
    """Kustomize takes no absolute paths."""
    return os.path.relpath(EXAMPLES / example, folder.resolve())
