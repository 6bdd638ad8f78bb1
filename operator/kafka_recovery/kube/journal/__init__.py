"""The journal in the cluster: facts in RecoveryRecords, the finalizers that hold them, and journals left over."""
