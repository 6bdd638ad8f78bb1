"""What containerd, its network and the kubelet are told. Pure: each is a text or an object for a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from testbed.images import PAUSE
from testbed.real_node.machine import INSIDE, OWN_CGROUP, PODS

BRIDGE = "pods"


def containerd(folder: Path, network: Path) -> str:
    return f"""
version = 2
root = "{folder}/root"
state = "/run/containerd"
[grpc]
  address = "{socket()}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  disable_apparmor = true
  # A machine without CAP_SYS_RESOURCE can't lower anybody's score.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{network}"
"""


def socket() -> Path:
    """Within the machine."""
    return Path("/run/containerd/containerd.sock")


def network() -> dict[str, Any]:
    """A bridge for all Pods; the machine is their way out, and whoever they reach has a route back."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "hairpinMode": True, "ipam": addresses}
    return {"cniVersion": "0.4.0", "name": "testbed", "plugins": [bridge]}


def kubelet(folder: Path, authority: Path) -> dict[str, Any]:
    """Nothing is evicted, because this machine's disk is not the node's to judge."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": INSIDE,
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{OWN_CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "makeIPTablesUtilChains": False,
        "containerRuntimeEndpoint": f"unix://{socket()}",
        "resolvConf": str(folder / "resolv.conf"),
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
        "localStorageCapacityIsolation": False,
        "nodeStatusUpdateFrequency": "2s",
        "shutdownGracePeriod": "0s",
    }
