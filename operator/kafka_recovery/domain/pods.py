"""What Kubernetes says of the Pods that brokers run in: facts for a person, and whose process ran where.

Names, labels and statuses are written by whoever may edit the namespace: nothing here proves what is on a disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kafka_recovery.domain.ids import BrokerId


class NodeState(StrEnum):
    """What is known of a Pod's node. `UNKNOWN`: there is no right to read nodes, or no answer came."""

    READY = "Ready"
    NOT_READY = "NotReady"
    GONE = "Gone"
    UNKNOWN = "Unknown"


CLAIM_GOES = "Terminating"
"""The phase of a claim that was deleted. Kubernetes keeps it, and its volume, for as long as a Pod uses it (finalizer
`kubernetes.io/pvc-protection`)."""


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim of a broker. `phase`: Bound, Pending, Lost or Terminating; None: there is no such object.

    A claim that is Bound has a volume; what is on the volume is not known. `made`: when the claim was created.
    """

    name: str
    phase: str | None
    made: datetime | None = None
    uid: str | None = None


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """How the broker's container ended last: Kubernetes' word (OOMKilled, Error, ...), exit code, and when."""

    reason: str
    exit_code: int
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class BrokerPod:
    """The Pod of one broker, or that it has none (`name` None; its claims may be there all the same).

    `node` None: it is on no node. `reason`, `message`: why it does not run, in Kubernetes' words; empty: none given.
    `since`: when its readiness changed last, by the clocks of Kubernetes. `ended`: the last end of its container, and
    `restarts` how often that was started again in this Pod. `claims` None: they can't be read. `ephemeral`: it keeps
    its logs in an emptyDir, which ends with the Pod. `controller`: its node is one of the controller quorum, too.
    """

    broker: BrokerId
    name: str | None = None
    uid: str | None = None
    node: str | None = None
    node_state: NodeState = NodeState.UNKNOWN
    phase: str = ""
    ready: bool = False
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    ended: ContainerEnd | None = None
    restarts: int = 0
    claims: tuple[VolumeClaim, ...] | None = ()
    ephemeral: bool = False
    controller: bool = False
