"""The controllers' metadata log, `__cluster_metadata`: read, folded, and told as each partition's history."""
