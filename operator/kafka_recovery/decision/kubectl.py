"""The command lines of `kubectl` that a card tells whoever reads it to type."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_recovery.domain.ids import BrokerId


@dataclass(frozen=True, slots=True)
class Kubectl:
    """How whoever reads reaches the Kubernetes that a Kafka runs in. `options`: which one, as they end a command.

    `namespace`: the Kafka's; empty: nobody knows how it is reached, so that what can do harm is not to be typed.
    `held`: brokers whose Pods the operator holds back at this moment, so that nobody has to keep them off.
    """

    namespace: str = ""
    options: str = ""
    held: frozenset[BrokerId] = frozenset()

    def line(self, words: str, namespace: str = "") -> str:
        """About what is in a namespace: the Kafka's, or another one. It can be pasted into a shell."""
        where = namespace or self.namespace
        return f"kubectl {words}{f' --namespace {where}' if where else ''}{self.options}"

    def of_all(self, words: str) -> str:
        """About what is in no namespace."""
        return f"kubectl {words}{self.options}"


NOBODY_KNOWS = Kubectl()
