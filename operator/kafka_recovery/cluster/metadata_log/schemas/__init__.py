"""Schemas of the metadata log's records, and of the messages for its snapshots, as Kafka writes schemas."""
