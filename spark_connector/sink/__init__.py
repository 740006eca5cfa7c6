"""The exactly-once sink: format `kafka-eos`, streaming and batch.

`kafka_eos` the data source and its writers, as Spark calls them
`batch_transaction` the steps of a micro-batch's transaction (mode A1: one writer, marker in the same transaction)
`settings` the options as one frozen value
`columns` Arrow columns as bytes and offsets; `partitioner` Java's murmur2, over whole columns; `encode` record batches
"""
