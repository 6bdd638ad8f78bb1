"""A simulated Kafka on this machine's loopback, for whoever wants to try a recovery without a cluster."""
