"""Who may do what on a cluster with security: SCRAM users and ACLs."""

from __future__ import annotations

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without saying so
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from testbed.topics import ADMIN_DEADLINE, client

ITERATIONS = 4096
# librdkafka calls the cluster a broker.
RESOURCES = {"cluster": ResourceType.BROKER, "topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
CLUSTER = "kafka-cluster"


def add_scram_user(bootstrap: str, name: str, password: str) -> None:
    """A user for SCRAM-SHA-512; KafkaException if refused."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    wanted = UserScramCredentialUpsertion(name, info, password.encode())
    admin = AdminClient(client(bootstrap))
    admin.alter_user_scram_credentials([wanted], request_timeout=ADMIN_DEADLINE)[name].result()


def grant(bootstrap: str, principal: str, resource_type: str, name: str, operation: str) -> None:
    """One ACL that allows from anywhere; KeyError for a word Kafka does not have, KafkaException if refused."""
    rule = AclBinding(
        RESOURCES[resource_type.lower()],
        name,
        ResourcePatternType.LITERAL,
        principal,
        "*",
        AclOperation[operation.upper()],
        AclPermissionType.ALLOW,
    )
    admin = AdminClient(client(bootstrap))
    admin.create_acls([rule], request_timeout=ADMIN_DEADLINE)[rule].result()
