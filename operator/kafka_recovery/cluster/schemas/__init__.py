"""Schemas of messages that kafka-python lacks, as Kafka writes them."""
