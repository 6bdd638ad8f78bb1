"""PartitionRecoveries: the run of each one, its status, its approvals, and what its owners allow."""
