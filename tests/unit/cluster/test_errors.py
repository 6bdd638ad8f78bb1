"""Errors that a person can act on."""

from __future__ import annotations

import pytest

from kafka_recovery.cluster.errors import (
    BrokerUnreachable,
    ClusterIdMismatch,
    ClusterUnavailable,
    error_name,
    reason_for,
)
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.reason import Reason


def test_a_code_is_told_by_kafkas_name_for_it() -> None:
    reason = reason_for(41, "ElectLeaders at broker 3")

    assert reason == Reason("NotController", "ElectLeaders at broker 3: Kafka answered NOT_CONTROLLER (41)")


def test_the_brokers_own_words_are_shown_on_one_line_and_not_without_end() -> None:
    reason = reason_for(42, "AlterPartitionReassignments of orders-1", detail="first\nsecond " + "x" * 1000)

    assert "(42): first second xxx" in reason.message
    assert len(reason.message) < 350


@pytest.mark.parametrize(
    ("code", "machine_code"),
    [
        (29, "TopicAuthorizationFailed"),
        (30, "GroupAuthorizationFailed"),
        (31, "ClusterAuthorizationFailed"),
        (53, "TransactionalIdAuthorizationFailed"),
    ],
)
def test_a_missing_permission_is_named_and_the_brokers_text_is_not_shown(code: int, machine_code: str) -> None:
    """The text of error 31 is a dump of the broker's internal request."""
    dump = "Request Request(processor=1, connectionId=..., session=Session(User:ann))"
    reason = reason_for(code, "ElectLeaders", needs="ALTER on the cluster", detail=dump)

    assert reason == Reason(
        machine_code, f"ElectLeaders: not authorized ({code}); the principal lacks ALTER on the cluster"
    )


@pytest.mark.parametrize(
    ("code", "resource"), [(29, "topic"), (30, "group"), (31, "cluster"), (53, "transactional id")]
)
def test_a_missing_permission_is_named_even_if_nobody_said_which(code: int, resource: str) -> None:
    assert resource in reason_for(code, "a request").message


def test_a_code_newer_than_our_table_keeps_its_number() -> None:
    assert error_name(9999) == "UNKNOWN_ERROR_9999"
    assert reason_for(9999, "a request").code == "UnknownError9999"


def test_a_cluster_without_an_answer_says_why_for_each_broker() -> None:
    addresses = [Address("a", 1), Address("b", 2)]
    error = ClusterUnavailable(
        {address: BrokerUnreachable(address, "connection refused").reason for address in addresses}
    )

    assert str(error) == "none of 2 brokers answered:\n  a:1: connection refused\n  b:2: connection refused"


def test_another_cluster_is_told_by_both_ids() -> None:
    assert str(ClusterIdMismatch(Address("a", 1), "prod", "test")).startswith(
        "a:1 belongs to cluster test, expected prod"
    )
