"""Talking to a Kafka cluster: connections, what its brokers say, and elections."""
