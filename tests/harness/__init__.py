"""harness: what tests and benchmarks stand on: a server process, an Apache Kafka, a proxy that cuts, the jars."""
