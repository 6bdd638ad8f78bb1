"""Kubernetes without Kafka: calls to the API, conditions, events, work queues, logs and metrics."""
