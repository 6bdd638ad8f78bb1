"""Who may do what on a cluster with security: SCRAM users and ACLs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import NamedTuple

from kafka.admin import ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourceType
from kafka.protocol.admin import AlterUserScramCredentialsRequest, CreateAclsRequest, DeleteAclsRequest

from testbed.wire import ADMIN_DEADLINE, Connection, accept

ITERATIONS = 4096
SCRAM_SHA_512 = 2
CLUSTER = "kafka-cluster"
ANYWHERE = "*"


class Acl(NamedTuple):
    """One that allows: `Acl("User:ann", "topic", "orders", "read")`; the cluster's own name is `kafka-cluster`."""

    principal: str
    resource_type: str
    name: str
    operation: str


def add_scram_user(address: str, name: str, password: str) -> None:
    """A user for SCRAM-SHA-512; Refused if it is."""
    salt = os.urandom(16)
    credential = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=name,
        mechanism=SCRAM_SHA_512,
        iterations=ITERATIONS,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ITERATIONS),
    )
    with Connection(address, ADMIN_DEADLINE) as broker:
        answer = broker.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[credential]), 0)
    accept(f"AlterUserScramCredentials of {name}", answer.results[0].error_code)


def grant(address: str, acls: Sequence[Acl]) -> None:
    """From anywhere; KeyError for a word Kafka does not have, Refused for the first that is."""
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=ResourceType[acl.resource_type.upper()].value,
            resource_name=acl.name,
            resource_pattern_type=ACLResourcePatternType.LITERAL.value,
            principal=acl.principal,
            host=ANYWHERE,
            operation=ACLOperation[acl.operation.upper()].value,
            permission_type=ACLPermissionType.ALLOW.value,
        )
        for acl in acls
    ]
    with Connection(address, ADMIN_DEADLINE) as broker:
        answer = broker.ask(CreateAclsRequest(creations=creations), 2)
    for result in answer.results:
        accept("CreateAcls", result.error_code)


def revoke(address: str, acls: Sequence[Acl]) -> None:
    """Takes these back; Refused for the first that is, LookupError if nobody had it."""
    filters = [
        DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=ResourceType[acl.resource_type.upper()].value,
            resource_name_filter=acl.name,
            pattern_type_filter=ACLResourcePatternType.LITERAL.value,
            principal_filter=acl.principal,
            host_filter=ANYWHERE,
            operation=ACLOperation[acl.operation.upper()].value,
            permission_type=ACLPermissionType.ALLOW.value,
        )
        for acl in acls
    ]
    with Connection(address, ADMIN_DEADLINE) as broker:
        answer = broker.ask(DeleteAclsRequest(filters=filters), 2)
    for acl, result in zip(acls, answer.filter_results, strict=True):
        accept("DeleteAcls", result.error_code)
        if not result.matching_acls:
            raise LookupError(f"nobody had {acl}")
