"""Messages of Kafka that the codec lacks."""
