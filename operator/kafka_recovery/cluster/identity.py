"""Who answers: a broker describes its own configs (DescribeConfigs), and refuses to describe another broker's.

So the answer proves that the connection ends at that broker. It takes DESCRIBE_CONFIGS on the cluster.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest

from kafka_recovery.cluster.errors import AnotherBroker
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.ids import BrokerId

VERSIONS = (1, 4)

_BROKER_RESOURCE = 4
_INVALID_REQUEST = 42


def identity_request(broker: BrokerId) -> Any:
    """What only this broker answers."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(broker), configuration_keys=["node.id"]
    )
    return DescribeConfigsRequest(resources=[resource])


def check_identity(at: Address, broker: BrokerId, answer: Any) -> None:
    """Raises AnotherBroker if the answer proves that another one gave it. Nothing is known without the right to ask."""
    for result in answer.results:
        if result.error_code == _INVALID_REQUEST:
            raise AnotherBroker(at, broker, result.error_message)
