"""Simulated brokers speak Kafka's protocol: bytes in, bytes out."""
