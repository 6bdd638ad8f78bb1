"""The commands of `kafka-recovery` for many clusters: evidence files, rankings, reports and rehearsals."""
