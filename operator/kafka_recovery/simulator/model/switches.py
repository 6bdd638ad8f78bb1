"""The safety rules of the designs, each of which can be switched off: then its story loses data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Switches:
    """One rule each; on is how released Kafka behaves, except where `Off` says otherwise.

    truncate_by_epochs: KAFKA-1211, KIP-101. A follower cuts its log where its leader-epoch vector and the leader's
        part. Off: at its high watermark, so that records acknowledged moments ago are cut from an in-sync replica.
    truncate_to_common_epochs: KIP-279. A leader says to which epoch its answer belongs, and a follower that never had
        that epoch goes further back. Off: it takes the offset alone, and keeps records that the leader never had.
    refuse_forgotten_epochs: KAFKA-1211's second detail. Whoever keeps only the newest generations gives no answer about
        those before, and cuts nothing by them. Off: it answers as if they ended where the kept ones begin, so that
        different records count as the same.
    acks_wait_for_replicas_watermark: KAFKA-1211's title. acks=all is answered when the high watermarks of all in-sync
        replicas have passed the records, one round trip later. Off (as in Kafka): when the leader's has.
    fetches_name_leader_epochs: KIP-320. A leader answers a fetch only under its own leader epoch. Off: a fetch that was
        under way through two leader changes counts, and says that the replica has what it cut since.
    leader_proposes_eligible: KIP-841. A leader takes only unfenced replicas that are not stopping into the ISR. Off: it
        proposes any that caught up.
    controller_rejects_ineligible: KIP-841. The controller refuses an ISR with a fenced or stopping replica. Off: a dead
        replica gets into the ISR, and leads when it returns, whatever it lost.
    leader_matches_broker_epochs: KIP-903. A leader proposes a replica only if the broker epoch of its Fetch is that of
        the leader's metadata. Off: a replica is proposed on the word of an earlier incarnation.
    controller_rejects_stale_epochs: KIP-903. AlterPartition v3 names broker epochs and the controller compares. Off: a
        replica that restarted with an empty disk joins the ISR by a request about its former self (KAFKA-14139).
    brokers_fence_themselves: KIP-343. A broker that can't reach the controller stops serving, later than the controller
        declares it inactive. Off (as in KRaft): it serves old metadata and, as an old leader, accepts writes.
    incarnations_checked: KIP-343. The controller refuses an older incarnation's requests. Off: the former incarnation's
        late heartbeat or ISR change counts as the present one's.
    high_watermark_needs_min_isr: KIP-966. Below min.insync.replicas the high watermark stands still. Off: it goes on.
    cleared_members_are_forgotten: a bug of Kafka that real 4.0.2 and 4.4.0 show. Off (as there): whom an ELR named that
        min.insync.replicas has cleared, the controller goes on taking for a member. Once the topic is gone, it fails
        when such a broker registers after an unclean shutdown, and so does the next one.
    designated_elections: KIP-1275. ElectLeaders takes a designated leader and GetReplicaLogInfo tells log ends. Off: an
        unclean election takes the first live replica in assignment order, an empty one too.
    designation_offline_only: KIP-1275. A designated election never touches a partition that has a leader. Off: it
        overthrows an ELR member that came back in the meantime.
    designation_eligible_only: KIP-1275. Only an unfenced replica on a live log directory can be designated. Off: a
        fenced broker that answered GetReplicaLogInfo becomes leader without knowing it, and better copies follow it.
    """

    truncate_by_epochs: bool = True
    truncate_to_common_epochs: bool = True
    refuse_forgotten_epochs: bool = True
    acks_wait_for_replicas_watermark: bool = False
    fetches_name_leader_epochs: bool = True
    leader_proposes_eligible: bool = True
    controller_rejects_ineligible: bool = True
    leader_matches_broker_epochs: bool = True
    controller_rejects_stale_epochs: bool = True
    brokers_fence_themselves: bool = False
    incarnations_checked: bool = True
    high_watermark_needs_min_isr: bool = True
    cleared_members_are_forgotten: bool = True
    designated_elections: bool = False
    designation_offline_only: bool = True
    designation_eligible_only: bool = True


AS_RELEASED = Switches()
"""Kafka 4.x without its bugs: no KIP-1275 and no self-fencing."""

WITH_KIP_1275 = Switches(designated_elections=True)
