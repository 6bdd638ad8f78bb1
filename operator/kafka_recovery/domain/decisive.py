"""Codes of reasons by which something is decided. All others are only told to people, who may be told better words."""

from __future__ import annotations

from enum import StrEnum, unique


@unique
class Decisive(StrEnum):
    """What is decided stands beside each. A test holds who says it: a code that two say is no more than one cause.

    `Failure` of `kube.fleet.steps` is the same for the runs of a FleetRanking.
    """

    # A recovery as a whole

    ABORTED = "Aborted"
    """It ends: orders are restored, and that is all."""
    PLAN_NOT_SHOWN = "PlanNotShown"
    """Nobody is elected until a person has mended it; it is Stalled."""
    JOURNAL_DAMAGED = "JournalDamaged"
    """The same. Others of its cluster don't wait for it."""
    CLUSTER_ID_MISMATCH = "ClusterIdMismatch"
    """It can't be taken up until a person has mended it; it is Stalled."""
    WATCHED_ELSEWHERE = "WatchedElsewhere"
    """Nothing is done, and nothing is said in the object's status: that is the other operator's."""
    TOO_MANY_RECOVERIES = "TooManyRecoveries"
    """It waits until there is room, and takes up none itself."""
    RANKING_NOT_READY = "RankingNotReady"
    """It waits, and is not Stalled."""

    # What people are asked, and say

    OBSERVE_ONLY = "ObserveOnly"
    """A plan is shown, and no approval of it is honoured. Such a recovery is idle."""
    ADMISSION_POLICY_MISSING = "AdmissionPolicyMissing"
    """An approval is held against it again soon: no watch tells when it counts."""
    PLAN_OUTDATED = "PlanOutdated"
    """The plan is void at once, and so are its approvals."""
    REFUSED_BY_APPROVER = "RefusedByApprover"
    """Its plan became that, and was not merely left."""

    ATTESTED_BROKER_ANSWERS = "AttestedBrokerAnswers"
    """An attestation is void for good: that broker gave a sign of life."""

    # The outcome of a partition

    AWAITING_APPROVAL = "AwaitingApproval"
    """No rule refused it: a person may still say yes."""
    PARTITION_LIMIT_REACHED = "PartitionLimitReached"
    """This recovery comes back to it by itself, with its next plan."""
    MEMBER_LEADS = "MemberLeads"
    """Its leader was in sync before: nobody knows how each election in between was held."""
    PARTITION_GONE = "PartitionGone"
    """What it speaks of is not there: no waiting mends that. It says nothing about elections: others go on."""
    UNKNOWN_TOPIC_OR_PARTITION = "UnknownTopicOrPartition"
    """The same, in Kafka's word."""

    # The status of a WatchedCluster

    INVALID_REFERENCE = "InvalidReference"
    """An event tells it again where another reference leads nowhere."""
    NO_POLICY = "NoPolicy"
    """None is named: nothing is wrong with it."""
    INVALID_SPEC = "InvalidSpec"
    """Stalled: waiting mends nothing."""
    INVALID_CONFIGURATION = "InvalidConfiguration"
    """The same."""
    VIEW_UNAVAILABLE = "ViewUnavailable"
    """Unknown, neither well nor wrong."""
    SCAN_PENDING = "ScanPending"
    """The same."""
    CONNECTING = "Connecting"
    """The same."""
    NOT_CONFIGURED = "NotConfigured"
    """The same."""
    OBJECTS_UNREADABLE = "ObjectsUnreadable"
    """The same. An outage is held back for it, and told as waiting (`waitsFor`). A recovery with a ranking waits."""
    STRIMZI_AT_WORK = "StrimziAtWork"
    """Outages that are held back for it are told as waiting (`waitsFor`)."""
