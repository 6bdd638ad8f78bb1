"""A real Kafka for tests, demo and benchmarks: started in seconds, broken on purpose, asked directly.

`testbed.cluster.RealKafka` is the way in. Nothing here imports the product: what it says about replicas is a second,
independent word.
"""
