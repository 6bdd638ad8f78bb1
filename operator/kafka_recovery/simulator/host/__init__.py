"""What an engine lives on in a history: virtual time, mortal processes, and its ports on the simulated Kafka."""
