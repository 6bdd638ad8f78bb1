"""How a broker was seen, in words: by the controllers' metadata, and by its own answers."""

from __future__ import annotations

from kafka_recovery.domain.evidence import Broker


def troubles(broker: Broker | None) -> tuple[str, ...]:
    """What keeps it from leading; empty: nothing that was seen."""
    if broker is None:
        return ("not in the cluster",)
    found = {
        "not registered": broker.registered is False,
        "fenced": broker.fenced,
        "stopping": bool(broker.stopping),
        "silent": not broker.reachable,
        "cut off from the controllers": broker.metadata_advances is False,
    }
    return tuple(word for word, holds in found.items() if holds)


def state(broker: Broker | None) -> str:
    """The same as one cell of a table."""
    return ", ".join(troubles(broker)) or "up"
