"""benchmarks: the same load on us and on Apache Kafka, in turns; `make bench`."""
