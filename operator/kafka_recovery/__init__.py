"""Safe recovery of offline Kafka partitions: look, decide, write down, act, look again."""
