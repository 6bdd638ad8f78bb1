"""The simulated Kafka: brokers, controller, replicas, network and clients, each safety rule behind a switch."""
