"""What Kubernetes says of the Pods of brokers that are away, in words: why each does not run, and what of its disk.

Nothing is decided by it. A claim that is Bound has a volume; what is on that volume nobody has read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

from kafka_recovery.decision.kubectl import NOBODY_KNOWS, Kubectl
from kafka_recovery.decision.moments import moment
from kafka_recovery.domain.evidence import ClusterState
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.pods import CLAIM_GOES, BrokerPod, ContainerEnd, NodeState, VolumeClaim

_YOUNG = timedelta(days=1)
"""A claim that was made so shortly before an incident, or in it, may have been made for the broker that failed.

A member of the ELR may have failed before its partitions lost their leader.
"""

SILENT_BROKER = "docs/how-to/silent-broker.md"
"""How to look at a broker that does not answer, keep it off, save copies, and start it."""

_NODES = {
    NodeState.READY: "Ready",
    NodeState.NOT_READY: "NOT Ready",
    NodeState.GONE: "GONE",
    NodeState.UNKNOWN: "its state is not known",
}
_REMEDIES = {
    "OOMKilled": "give its container more memory (Strimzi: {edit}; it may roll others, too)",
    "Unschedulable": "make room on a node that can mount its volumes",
    "ImagePullBackOff": "see to its image and the Secret that it is pulled with",
    "ErrImagePull": "see to its image and the Secret that it is pulled with",
}
_RECOVERING = (
    "Its process runs and is not Ready. After an unclean stop a broker first recovers its logs, with its port closed. "
    "How far it is no client can ask: see {logs}, or by JMX "
    "kafka.log:type=LogManager,name=remainingLogsToRecover."
)
"""KIP-831 has the metric; no request of Kafka's tells it."""


def pods_of(cluster: ClusterState, broker: BrokerId) -> tuple[BrokerPod, ...]:
    """Those that say that they are this broker's, as they were seen with the cluster."""
    return tuple(pod for pod in cluster.pods if pod.broker == broker)


def place(pod: BrokerPod) -> str:
    """Which Pod and where, as the cell of a table."""
    if pod.name is None:
        return "no Pod"
    return f"{pod.name} on {node(pod)}" if pod.node else f"{pod.name} on no node"


def told(cluster: ClusterState, broker: BrokerId, at: datetime, kubectl: Kubectl = NOBODY_KNOWS) -> Iterator[str]:
    """All that was seen of a broker's Pod, each in a sentence; nothing where nobody looks at Pods.

    `at`, as everywhere here: when the incident had begun.
    """
    seen = pods_of(cluster, broker)
    if len(seen) > 1:
        yield f"Kubernetes has {len(seen)} Pods that say they are broker {broker}: only one can be."
    for pod in seen:
        yield in_a_sentence(pod)
        if is_likely_whole(seen, at):
            yield (
                f"Its disk is LIKELY WHOLE, if {pod.node} did not boot anew "
                f"({kubectl.of_all(f'describe node {pod.node}')}): a process that was killed has lost nothing."
            )
        yield from remedy(pod, at, kubectl)
        yield from recovering(pod, kubectl)
    if cluster.pods_problem:
        yield f"Of its Pod nothing is known: {cluster.pods_problem.message}."


def in_a_sentence(pod: BrokerPod) -> str:
    """Its Pod, node, state and claims."""
    which = f"Pod {pod.name}" if pod.name else f"There is no Pod of broker {pod.broker}"
    where = f" on node {node(pod)}" if pod.node else ""
    return f"{which}{where}{f': {state(pod)}' if pod.name else ''}; {claims(pod)}."


def node(pod: BrokerPod) -> str:
    """Its node, and whether that is Ready; empty: it is on none."""
    return f"{pod.node} ({_NODES[pod.node_state]})" if pod.node else ""


def state(pod: BrokerPod) -> str:
    """Whether it runs; if not, why, and how its container ended last."""
    since = f" since {moment(pod.since)}" if pod.since else ""
    if pod.reason:
        words = [f"{pod.reason} ({pod.message}){since}" if pod.message else f"{pod.reason}{since}"]
    else:
        words = [pod.phase or "in no phase", f"{'Ready' if pod.ready else 'not Ready'}{since}"]
    words += [_ended(pod.ended)] if pod.ended else []
    words += [f"{pod.restarts} restarts"] if pod.restarts else []
    return ", ".join(words)


def claims(pod: BrokerPod) -> str:
    """Its volume claims, and what each says of a disk."""
    if pod.claims is None:
        return "its volume claims can't be read"
    if pod.claims:
        return ", ".join(map(_claim, pod.claims))
    if pod.ephemeral:
        return "its logs are in an emptyDir, which ends with the Pod"
    return "it has no volume claim: its own disk may be gone, or kept as a released volume"


def is_down(seen: Iterable[BrokerPod]) -> bool:
    """Whether the process of the only Pod there is does not run, as a node that is Ready says.

    Of a container that crashes again and again the kubelet says CrashLoopBackOff, and from 1.36 on how it ended. A Pod
    that is on no node says nothing: the one before it, deleted by force, may run on at a node that is cut off.
    """
    pods = tuple(seen)
    if len(pods) != 1 or pods[0].node_state is not NodeState.READY:
        return False
    why, ended = pods[0].reason, pods[0].ended
    return why == "CrashLoopBackOff" or (ended is not None and why == ended.reason)


def is_likely_whole(seen: Iterable[BrokerPod], at: datetime) -> bool:
    """Whether its process is killed for want of memory, on a node that lives, above claims older than the incident."""
    pods = tuple(seen)
    if not is_down(pods) or pods[0].node is None or pods[0].ended is None or pods[0].ended.reason != "OOMKilled":
        return False
    claims = pods[0].claims or ()
    return bool(claims) and all(each.phase == "Bound" and each.made for each in claims) and not any(dangers(pods, at))


def remedy(pod: BrokerPod, at: datetime, kubectl: Kubectl = NOBODY_KNOWS) -> Iterator[str]:
    """What has its process run again, where Kubernetes says what stops it, and nothing speaks against its disk."""
    if any(dangers([pod], at)) or any(claim.phase != "Bound" for claim in pod.claims or ()):
        return
    words = (pod.ended.reason if pod.ended else "", pod.reason)
    found = next((_REMEDIES[word] for word in words if word in _REMEDIES), None)
    if not pod.ready and found:
        how = found.format(edit=kubectl.line("edit kafkanodepool"))
        yield f"To have it run, once you know that its disk is its own: {how}."
    elif not pod.ready and pod.name and pod.ended:
        yield f"Why it ends: {kubectl.line(f'logs {pod.name} -c kafka --previous')}."


def recovering(pod: BrokerPod, kubectl: Kubectl = NOBODY_KNOWS) -> Iterator[str]:
    """That it may be busy with its logs, if its container runs and nothing says why it is not Ready."""
    if pod.name and pod.phase == "Running" and not pod.ready and not pod.reason:
        yield _RECOVERING.format(logs=kubectl.line(f"logs {pod.name} -c kafka"))


def dangers(
    pods: Iterable[BrokerPod],
    at: datetime,
    kubectl: Kubectl = NOBODY_KNOWS,
    how: Callable[[BrokerPod], str] = lambda _: SILENT_BROKER,
) -> Iterator[str]:
    """Disks that may be empty, of which Kafka would elect the broker all the same. `how`: what keeps the broker off."""
    for pod in pods:
        off = (
            ". The operator keeps it off meanwhile (holdBack: pods)."
            if pod.broker in kubectl.held
            else ", and a Pod that is Pending starts on it as soon as it can. Keep it off NOW, until another "
            f"leads: {how(pod)}."
        )
        for claim in pod.claims or ():
            if claim.made is not None and claim.made > at - _YOUNG:
                yield (
                    f"DANGER: claim {claim.name} of broker {pod.broker} was made only at {moment(claim.made)}: its "
                    f"disk may be EMPTY{off} The old volume: {kubectl.of_all('get pv')}."
                )
        if pod.ephemeral:
            yield (
                f"DANGER: broker {pod.broker} keeps its logs in an emptyDir, which ends with its Pod: a new Pod starts "
                "with an EMPTY disk. While its partitions have no leader, do not let a new Pod of it start."
            )


def _claim(claim: VolumeClaim) -> str:
    if claim.phase is None:
        return f"claim {claim.name} is MISSING"
    if claim.phase == "Lost":
        return f"claim {claim.name} is LOST: its own disk does not come back by it"
    if claim.phase == CLAIM_GOES:
        return f"claim {claim.name} is BEING DELETED: its disk goes with it once no Pod uses it, so keep its Pod"
    bound = f"{_made(claim)} (what is on it is not known)" if claim.phase == "Bound" else ""
    return f"claim {claim.name} is {claim.phase}{bound}"


def _made(claim: VolumeClaim) -> str:
    return f", made {claim.made.astimezone(UTC):%Y-%m-%d}" if claim.made else ""


def _ended(ended: ContainerEnd) -> str:
    at = f" at {moment(ended.at)}" if ended.at else ""
    return f"last end {ended.reason} (exit code {ended.exit_code}){at}"
