"""For tests of what follows a metadata log where no history is kept."""

from __future__ import annotations

from kafka_recovery.cluster.metadata_log.kept import KeptHistory


class NothingKept:
    """No process before kept anything, and this one is to keep nothing."""

    async def load(self) -> None:
        return None

    async def save(self, kept: KeptHistory) -> None:
        assert not kept.partitions, f"there was nothing to keep, and yet: {kept}"


class NothingToKeep:
    """An open cluster of which everything is in sync."""

    def recall_history(self, kept: KeptHistory) -> None:
        raise AssertionError(f"nothing was kept, and yet: {kept}")

    def history_to_keep(self) -> KeptHistory:
        return KeptHistory(1, 1, 0, (), (), ())
