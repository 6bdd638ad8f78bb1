"""What is known of a watched Kafka, and which of its offline partitions become an incident."""
