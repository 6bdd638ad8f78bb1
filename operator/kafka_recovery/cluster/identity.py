"""Who answers: a broker describes its own configs (DescribeConfigs), and refuses to describe another broker's.

So the answer proves that the connection ends at that broker. It takes DESCRIBE_CONFIGS on the cluster.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest

from kafka_recovery.cluster.connection import Connection
from kafka_recovery.cluster.errors import AnotherBroker, InvalidAnswer, UnsupportedRequest
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.cluster.versions import ApiVersions, choose_version
from kafka_recovery.domain.ids import BrokerId

VERSIONS = (1, 4)

_BROKER_RESOURCE = 4
_NONE, _INVALID_REQUEST = 0, 42
_MAY_NOT_ASK = frozenset({29, 31})


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is at the other end of a connection; asked once for each broker that is expected there."""

    connection: Connection
    versions: ApiVersions
    _proofs: dict[BrokerId, asyncio.Future[Any]] = field(default_factory=dict)

    def proof(self, broker: BrokerId) -> asyncio.Future[Any] | None:
        """The answer that only this broker gives; None if it can't be asked for. What is sent next is not held up."""
        if broker not in self._proofs:
            request, at = identity_request(broker), self.connection.address
            try:
                version = choose_version(at, request, VERSIONS, self.versions)
            except UnsupportedRequest:
                return None
            self._proofs[broker] = self.connection.send(request, version)
        return self._proofs[broker]

    async def check(self, broker: BrokerId) -> None:
        """Wait for the proof. Raises AnotherBroker, and ends the connection, if another one is at its end."""
        while (proof := self.proof(broker)) is not None:
            try:
                await asyncio.wait([proof])
            except asyncio.CancelledError:
                proof.cancel()  # a connection whose every answer is overdue is to be known as one
                raise
            if not proof.cancelled():
                break
            if self._proofs.get(broker) is proof:
                del self._proofs[broker]
        else:
            return
        try:
            check_identity(self.connection.address, broker, proof.result())
        except AnotherBroker:
            await self.connection.close()
            raise


def identity_request(broker: BrokerId) -> Any:
    """What only this broker answers."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(broker), configuration_keys=["node.id"]
    )
    return DescribeConfigsRequest(resources=[resource])


def check_identity(at: Address, broker: BrokerId, answer: Any) -> None:
    """Raises AnotherBroker if the answer proves that another one gave it, InvalidAnswer if it proves nothing.

    Without the right to ask nothing is known.
    """
    codes = {result.error_code: result for result in answer.results}
    if _INVALID_REQUEST in codes:
        raise AnotherBroker(at, broker, codes[_INVALID_REQUEST].error_message)
    described = codes.get(_NONE) is not None and codes[_NONE].resource_name == str(broker)
    if not described and _MAY_NOT_ASK.isdisjoint(codes):
        raise InvalidAnswer(at, f"DescribeConfigs of broker {broker} was answered with {sorted(codes) or 'nothing'}")
