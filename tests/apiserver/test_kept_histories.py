"""ISR histories on a real API server: the operator keeps them, its next process reads them, nobody else writes any."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.incidents import awaiting, condition, only_recovery, policy
from apiserver.test_proofs import watched
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.kubernetes.objects import ApiRefused
from testbed.kubernetes.rights import bound, hold, role
from testbed.operator_process import OperatorProcess
from testbed.waiting import wait_until
from unit.simulator.play.playing import played_incident

pytestmark = pytest.mark.apiserver

HISTORIES = "clusterhistories.kafka-recovery.dev"


def kept(kubectl: Kubectl) -> list[dict[str, Any]]:
    """All of the namespace."""
    return list(kubectl.api.listed("clusterhistories"))


def _is_another(found: list[dict[str, Any]], first: dict[str, Any]) -> bool:
    return len(found) == 1 and found[0]["metadata"]["uid"] != first["metadata"]["uid"]


def test_what_is_out_of_sync_is_kept_and_the_next_process_begins_with_it(
    kubectl: Kubectl, operator: OperatorProcess
) -> None:
    with played_incident("lossless") as cluster:
        kubectl.apply(policy(approval="ManualApprove"), watched(cluster, cluster.server.controllers))
        awaiting(kubectl, only_recovery(kubectl)["metadata"]["name"])
        (first,) = wait_until("it is kept", lambda: kept(kubectl), bool)
        of = kubectl.api.get("watchedcluster", "prod")
        assert first["spec"]["cluster"] == {"name": "prod", "uid": of["metadata"]["uid"]}
        assert (first["spec"]["clusterId"], first["spec"]["partitions"]) == (cluster.cluster_id, 1)
        assert condition(of, "HistoryKnown")["message"].endswith(
            "ISR histories are kept for the operator's next process"
        )

        operator.stop()
        operator.start()

        operator.says(f"histories are known up to offset {first['spec']['offset']} of the metadata log")
        (second,) = wait_until("it is kept anew", lambda: kept(kubectl), lambda found: _is_another(found, first))
        assert second["spec"]["offset"] > first["spec"]["offset"]

        kubectl.api.delete("watchedcluster", "prod")
        wait_until("it goes with its WatchedCluster", lambda: kept(kubectl), lambda found: not found)


def test_who_may_write_every_kind_of_ours_but_no_status_writes_no_history_and_nobody_changes_one(
    kubectl: Kubectl, control_plane: ControlPlane, namespace: str, operator: OperatorProcess
) -> None:
    with played_incident("lossless") as cluster:
        kubectl.apply(policy(approval="ManualApprove"), watched(cluster, cluster.server.controllers))
        (mine,) = wait_until("it is kept", lambda: kept(kubectl), bool)
    kubectl.apply(role("histories", ["*"], HISTORIES), bound("eve", "histories", own=True))
    eve = control_plane.kubectl(control_plane.user("eve", namespace=namespace)).api
    hold(eve, ("create", HISTORIES))
    forged = {
        "apiVersion": mine["apiVersion"],
        "kind": mine["kind"],
        "metadata": {"name": "forged", "namespace": namespace, "labels": mine["metadata"]["labels"]},
        "spec": mine["spec"],
    }

    with pytest.raises(ApiRefused, match="RecoveryRecords and ClusterHistories are the operator's"):
        eve.create(forged)
    with pytest.raises(ApiRefused, match="a ClusterHistory can't be changed"):
        kubectl.api.patch(HISTORIES, mine["metadata"]["name"], {"spec": {"offset": 1}})
