"""Spark against the broker: its own Kafka connector, and ours. Needs PySpark, Java and the jars of `make jars`."""
