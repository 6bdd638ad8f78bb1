"""Taking a broker's registration away, as kafka-cluster.sh unregister does."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage

from testbed import schemas
from testbed.wire import ADMIN_DEADLINE, Connection, accept


class UnregisterBrokerRequest(ApiMessage, load_json=schemas):  # type: ignore[misc, call-arg]  # untyped
    """The codec has none."""


class UnregisterBrokerResponse(ApiMessage, load_json=schemas):  # type: ignore[misc, call-arg]  # untyped
    """Its answer."""


def unregister(address: str, broker: int) -> None:
    """Refused if it is; one that runs registers itself again only when it is started anew."""
    with Connection(address, ADMIN_DEADLINE) as node:
        answer = node.ask(UnregisterBrokerRequest(broker_id=broker), 0)
    accept(f"UnregisterBroker of {broker}", answer.error_code)
