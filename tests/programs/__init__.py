"""Whole programs of Kafka's world at work on the broker: Kafka Connect, MirrorMaker 2, Flink, and Kafka's own tools."""
