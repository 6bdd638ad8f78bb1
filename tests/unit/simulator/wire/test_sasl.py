"""SCRAM as RFC 5802 has it, said by hand: clients that check the broker would hide a broker that checks nothing."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.wire.session import BadFrame, Session
from unit.simulator.wire.asking import Client, address, frame_of

PASSWORD = "wonderland"
NONCE = "fyko+d2lbbFgONRv9qkxdawL"


@pytest.fixture
def client() -> Client:
    """Connected to a broker that lets in alice alone."""
    client = Client(SimulatedKafka(1))
    client.session = Session(client.kafka, BrokerId(1), "tester", address, passwords={"alice": PASSWORD})
    return client


def says(client: Client, text: str) -> tuple[int, str]:
    """One step: the error, and what the broker says."""
    answer = client.ask(SaslAuthenticateRequest(auth_bytes=text.encode()), 2)
    return answer.error_code, answer.auth_bytes.decode()


def final(challenge: str, password: str) -> str:
    """The client's proof that it knows the password."""
    given = dict(part.split("=", 1) for part in challenge.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(given["s"]), int(given["i"]))
    unproven = f"c=biws,r={given['r']}"
    key = hmac.digest(salted, b"Client Key", "sha256")
    signed = f"n=alice,r={NONCE},{challenge},{unproven}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    return f"{unproven},p={base64.b64encode(proof).decode()}"


@pytest.mark.parametrize(("password", "error"), [(PASSWORD, 0), ("looking-glass", 58)])
def test_the_broker_checks_the_proof(client: Client, password: str, error: int) -> None:
    client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    _, challenge = says(client, f"n,,n=alice,r={NONCE}")
    assert challenge.startswith(f"r={NONCE}")

    assert says(client, final(challenge, password))[0] == error


@pytest.mark.parametrize(
    "text", ["", "n,,n=bob,r=x", "y,,n=alice,r=x", "p=tls-unique,,n=alice,r=x", "n,,n=alice", "\0alice\0wonderland"]
)
def test_what_is_no_beginning_is_refused(client: Client, text: str) -> None:
    client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)

    assert says(client, text)[0] == 58


def test_after_a_refusal_the_connection_is_over(client: Client) -> None:
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert says(client, "\0alice\0wrong")[0] == 58

    with pytest.raises(BadFrame):
        says(client, f"\0alice\0{PASSWORD}")


def test_nothing_is_told_before(client: Client) -> None:
    frame = frame_of(DescribeClusterRequest(include_cluster_authorized_operations=False), 1)

    with pytest.raises(BadFrame, match="not authenticated"):
        client.session.received(frame, lambda answer: pytest.fail("was answered"))


def test_an_unknown_mechanism_is_answered_with_the_known_ones(client: Client) -> None:
    answer = client.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)

    assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
