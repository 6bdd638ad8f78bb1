"""What is told to a person where a RecoveryRecord is not what was written, or can't be written."""

from __future__ import annotations

from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.resources.kinds import FINALIZER
from kafka_recovery.recovery.ports import JournalClosed, JournalUnwritable


def damaged(record: str, how: str) -> str:
    """What to tell a person about a RecoveryRecord that is not what was written."""
    return (
        f"RecoveryRecord {record}: {how}. Restore it from a backup of the namespace. If there is none: "
        "compare its partitions' assignment orders with those you want, and mend them with kafka-reassign-partitions. "
        f"Then delete the RecoveryRecords of this plan, and the finalizer {FINALIZER} of theirs and of the recovery"
    )


def unwritable(what: str, error: ApiError) -> JournalUnwritable:
    """Why a record can't be kept, and what would help."""
    kind = JournalClosed if _is_terminating(error) else JournalUnwritable
    return kind(f"{what} can't be written: {error.message} ({_hint(error)})")


def _is_terminating(error: ApiError) -> bool:
    """Whether the namespace is being deleted: no object can be created there, those that are there can be patched."""
    return error.status == 403 and "being terminated" in error.message


def _hint(error: ApiError) -> str:
    if _is_terminating(error):
        return (
            "the namespace is being deleted: nothing is begun in it any more. Orders that a run altered are put back "
            "by an operator that still has the Kafka open, otherwise by kafka-recovery undo --records"
        )
    if error.status == 403 and "quota" in error.message:
        return "raise the namespace's ResourceQuota"
    if error.status == 403 and "ValidatingAdmissionPolicy" in error.message:
        return "the operator's account needs patch on partitionrecoveries/status: by that the policy knows it"
    if error.status == 403:
        rights = "get, list, create, patch, delete on recoveryrecords, patch on partitionrecoveries"
        return f"the operator's Role needs {rights}"
    if error.status == 404:
        return "the namespace is gone, or the definition of RecoveryRecords is not installed"
    if error.may_pass:
        return "it may have been written all the same; the next try looks first"
    return "an admission webhook or policy refuses it, or it is a defect of the operator"
