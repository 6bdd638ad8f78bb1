"""The controller's answer to a leader that wants another ISR: AlterPartition (KIP-841, KIP-903), or KIP-343's."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.controller_state import ControllerState
from kafka_recovery.simulator.model.elections import Wish
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.messages import (
    NO_BROKER_EPOCH,
    IsrAnswer,
    IsrChangeRequest,
    IsrChangeResponse,
    IsrProposal,
)
from kafka_recovery.simulator.model.metadata import PartitionState
from kafka_recovery.simulator.model.settings import IsrRpc
from kafka_recovery.simulator.model.timeline import What


@dataclass(frozen=True, slots=True)
class IsrChanges:
    """Checks a proposal and carries it out."""

    state: ControllerState

    def propose(self, request: IsrProposal) -> IsrAnswer:
        """AlterPartition: accept with the partition's new state, or refuse with an error and change nothing."""
        if self._former(request.broker, request.broker_epoch):
            return IsrAnswer(Error.STALE_BROKER_EPOCH, Error.STALE_BROKER_EPOCH)
        return self._decide(request, self._refusal(request))

    def change(self, request: IsrChangeRequest) -> IsrChangeResponse:
        """KIP-343's: one result for each partition, in their order."""
        if self._former(request.broker, request.incarnation_id):
            return IsrChangeResponse(Error.INVALID_INCARNATION_ID)
        each = (proposal for _, partitions in request.topics for proposal in partitions)
        return IsrChangeResponse(Error.NONE, tuple(self._decide(one, self._old_rules(one)) for one in each))

    def _decide(self, request: IsrProposal, error: Error) -> IsrAnswer:
        if error is not Error.NONE:
            self.state.timeline.tell(
                self.state.actor(), What.REJECTED, request.partition, isr=tuple(request.isr), error=error,
                by=f"broker {request.broker}",
            )  # fmt: skip
            return IsrAnswer(Error.NONE, error)
        present = self.state.partitions[request.partition]
        in_order = tuple(broker for broker in present.replicas if broker in request.isr)
        changed = self.state.change(request.partition, Wish(isr=in_order), f"broker {request.broker}")
        after = changed.state if changed else present
        if after.leader != request.broker:
            return IsrAnswer(Error.NONE, Error.NEW_LEADER_ELECTED)
        return IsrAnswer(Error.NONE, Error.NONE, after)

    @property
    def _rpc(self) -> IsrRpc:
        return self.state.settings.isr_rpc

    def _former(self, broker: BrokerId, epoch: int) -> bool:
        """Whether an older incarnation asks: then it may no longer change any ISR (KIP-343, KRaft)."""
        known = self.state.brokers.get(broker)
        return self.state.switches.incarnations_checked and (known is None or known.epoch != epoch)

    def _old_rules(self, request: IsrProposal) -> Error:
        """KIP-343's IsrChangeRequest looks at the leader and at nothing that is in the ISR."""
        present = self.state.partitions.get(request.partition)
        if present is None or present.leader != request.broker or present.leader_epoch != request.leader_epoch:
            return Error.NOT_LEADER_OR_FOLLOWER
        if not request.isr or not set(request.isr) <= set(present.replicas):
            return Error.INVALID_REQUEST
        return Error.NONE

    def _refusal(self, request: IsrProposal) -> Error:
        """KRaft's checks, in KRaft's order."""
        present = self.state.partitions.get(request.partition)
        if present is None or present.topic_id != request.topic_id:
            return Error.UNKNOWN_TOPIC_ID
        if request.leader_epoch != present.leader_epoch:
            newer = request.leader_epoch > present.leader_epoch
            return Error.NEW_LEADER_ELECTED if newer else Error.FENCED_LEADER_EPOCH
        if request.broker != present.leader:
            return Error.INVALID_REQUEST
        if request.partition_epoch != present.partition_epoch:
            newer = request.partition_epoch > present.partition_epoch
            return Error.NEW_LEADER_ELECTED if newer else Error.INVALID_UPDATE_VERSION
        if not set(request.isr) <= set(present.replicas) or request.broker not in request.isr:
            return Error.INVALID_REQUEST
        if any(self._ineligible(broker, epoch, present) for broker, epoch in request.isr.items()):
            return Error.OPERATION_NOT_ATTEMPTED if self._rpc is IsrRpc.ALTER_PARTITION_V1 else Error.INELIGIBLE_REPLICA
        return Error.NONE

    def _ineligible(self, broker: BrokerId, epoch: int, present: PartitionState) -> bool:
        """KIP-841: fenced or stopping. KIP-903: another incarnation than the one that fetched."""
        known = self.state.brokers.get(broker)
        if known is None:
            return True
        switches = self.state.switches
        if switches.controller_rejects_ineligible and (known.fenced or known.stopping):
            return True
        compared = switches.controller_rejects_stale_epochs and self._rpc is IsrRpc.ALTER_PARTITION_V3
        return compared and epoch not in (NO_BROKER_EPOCH, known.epoch)
