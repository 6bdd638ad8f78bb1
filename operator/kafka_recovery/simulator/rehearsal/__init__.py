"""Rehearsing a policy on many histories, beside what Kafka would have done."""
