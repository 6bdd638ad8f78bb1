"""What somebody can write who may create RecoveryRecords in the namespace, and nothing else."""

from __future__ import annotations

import base64
import gzip
import hashlib
import zlib
from dataclasses import replace
from functools import cache

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import canonical, digest_of_canonical
from kafka_recovery.kube.journal.facts import FACT_LABEL
from kafka_recovery.kube.journal.notes import WaveStart
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.resources.kinds import API_VERSION, RECORDS
from kafka_recovery.kube.resources.labels import CLUSTER_LABEL, PLAN_LABEL, RECOVERY_LABEL, RECOVERY_UID_LABEL
from unit.kube.journal.journals import NAME, NAMESPACE, UID
from unit.kube.kubernetes_in_memory import KubernetesInMemory
from unit.recovery.brokers import CLUSTER
from unit.recovery.world import ORDERS

APPROVED = b'{"by":"ann"}'
BEGUN = b"{}"


def forged_fact(
    digest: str, fact: str, raw: bytes, name: str = NAME, uid: str = UID, cluster_id: str = CLUSTER
) -> Object:
    """A RecoveryRecord as the operator would write it."""
    labels = {
        CLUSTER_LABEL: cluster_id,
        RECOVERY_LABEL: name,
        RECOVERY_UID_LABEL: uid,
        PLAN_LABEL: digest[:16],
        FACT_LABEL: fact,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": RECORDS.kind,
        "metadata": {"name": f"{name}-{digest[:16]}-{fact}", "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "clusterId": cluster_id,
            "recovery": {"name": name, "uid": uid},
            "plan": digest[:16],
            "fact": fact,
            "writtenAt": "2026-11-21T12:00:00.000000+00:00",
            "content": base64.b64encode(gzip.compress(raw)).decode(),
            "sha256": hashlib.sha256(raw).hexdigest(),
        },
    }


async def forge(api: KubernetesInMemory, digest: str, **facts: bytes) -> list[str]:
    """Create facts; `_` in a name stands for a dash. Returns their RecoveryRecords."""
    made = [forged_fact(digest, name.replace("_", "-"), raw) for name, raw in facts.items()]
    for each in made:
        await api.create(RECORDS.path(NAMESPACE), each)
    return [each["metadata"]["name"] for each in made]


def worse(plan: Plan, leader: int, id: TopicPartition = ORDERS) -> tuple[str, bytes]:
    """A plan that holds together, on the same evidence, by which another broker would lead; digest and bytes."""
    raw = canonical(decide(plan.evidence, plan.policy, designated={id: BrokerId(leader)}))
    return digest_of_canonical(raw), raw


def turned_round(plan: Plan) -> tuple[str, bytes]:
    """A plan that would have the present order "restored" to another one."""
    decision = plan.decisions[0]
    wanted = tuple(reversed(decision.assignment))
    lie = replace(decision, order=decision.assignment, assignment=wanted, leader=decision.assignment[0])
    raw = canonical(replace(plan, decisions=(lie,)))
    return digest_of_canonical(raw), raw


def first_wave(id: TopicPartition = ORDERS) -> bytes:
    """That requests for it may have been sent."""
    return canonical(WaveStart(1, (str(id),), "somebody"))


@cache
def _zeros() -> str:
    """200 MiB of them, packed; one MiB is packed and said again, for nobody may read as far as the sum at the end."""
    packing = zlib.compressobj(6, wbits=31)
    first, again = (packing.compress(bytes(1 << 20)) + packing.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return base64.b64encode(first + again * 199 + packing.flush()).decode()


def bomb(name: str, fact: str, plan: str, uid: str) -> Object:
    """A RecoveryRecord of less than 1 MiB that holds 200 MiB."""
    made = forged_fact(plan, fact, b"", name, uid)
    return made | {"spec": made["spec"] | {"content": _zeros()}}
