"""The commands of `kafka-recovery` that open a Kafka cluster."""
