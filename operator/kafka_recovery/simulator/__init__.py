"""A model of Kafka that obeys, and can break, its own safety rules; and the engine rehearsed on it."""
