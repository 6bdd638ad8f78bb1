"""Where the controllers of a Kafka of Strimzi's listen, and whom to trust there. Pure.

Read from Strimzi's code of 0.46 to 1.2 (KafkaCluster, KafkaBrokerConfigurationBuilder, PemTrustSet): each node with
role controller listens on port 9090 of its Pod, by TLS with a certificate of the cluster CA, and lets nobody in who has
none of that CA. Users of a KafkaUser have certificates of another one, the clients CA.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.strimzi_objects import nodes_with
from kafka_recovery.kube.resources.ways_in import Certificates, ControllersSpec, TlsSpec

PORT = 9090


def ca_secret(kafka: str) -> str:
    """The name of the Secret with the certificates of the cluster CA; the keys are in another one."""
    return f"{kafka}-cluster-ca-cert"


def unasked(kafka: str) -> Reason:
    """Why Strimzi's controllers are not asked where nobody said as whom."""
    message = (
        "spec.controllers is not set: no election is proven to lose nothing. Strimzi's controllers let in certificates "
        "of the cluster CA alone, so name a Secret with one in spec.controllers.tls.certSecretRef (such as "
        f"{kafka}-cluster-operator-certs), and let the operator's Pods reach their port {PORT}; their addresses are "
        "found. See docs/how-to/strimzi.md"
    )
    return Reason(Decisive.NOT_CONFIGURED, message)


def advice(kafka: str) -> str:
    """What to see to where they do not answer."""
    return (
        f"Strimzi's NetworkPolicy {kafka}-network-policy-kafka lets only Strimzi's own Pods to port {PORT}: one of "
        "yours has to let the operator's Pods in. Whoever has no certificate of the cluster CA is hung up on "
        "(spec.controllers.tls.certSecretRef)"
    )


def found(
    spec: ControllersSpec, pools: Iterable[object], ca: Mapping[str, str], kafka: str, namespace: str
) -> ControllersSpec | Reason:
    """The same with the addresses and the authorities that it leaves out; or why there are none.

    `pools`: the KafkaNodePools of this Kafka. `ca`: what is in the Secret of its cluster CA. Raises InvalidDocument.
    """
    pods = [f"{kafka}-{pool}-{node}" for pool, node in nodes_with("controller", pools)]
    if not pods:
        message = (
            f"no KafkaNodePool of Kafka {kafka} has nodes with role controller yet, so its controllers are unknown"
        )
        return Reason("StrimziPending", message)
    addresses = tuple(Address(f"{pod}.{kafka}-kafka-brokers.{namespace}.svc", PORT) for pod in pods)
    tls = spec.tls or TlsSpec()
    return replace(spec, addresses=addresses, tls=tls if tls.ca else replace(tls, ca=_authorities(ca, kafka)))


def _authorities(data: Mapping[str, str], kafka: str) -> Certificates:
    """All of them: while the CA's key is replaced, some nodes have certificates of the old one."""
    named = sorted(key for key in data if key.endswith(".crt"))
    return Certificates("\n".join(_decoded(data[key]) for key in named), f"Secret {ca_secret(kafka)}")


def _decoded(value: str) -> str:
    """What is no text is no certificate, and is told as such when the certificates are looked at."""
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
