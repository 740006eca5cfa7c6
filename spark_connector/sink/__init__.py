"""The exactly-once sink: format `kafka-eos`, streaming and batch, and `eos_writer` for `foreachBatch`.

`kafka_eos` the data source and its writers, as Spark calls them
`shared_batch` a batch of the format that all tasks write: who takes the lease, when it begins anew; `batch_server` the
    same over a socket, in the driver's process
`identity` under which sink id a writer of a query writes: pure; `lease_notes` what the driver knows of tasks' leases
`batch_transaction` the steps of a micro-batch's transaction (marker in the same transaction)
`foreach_batch` mode An for users: `eos_writer`, many tasks in one transaction, tried again as a whole
`many_writers` mode An in the tasks: each writes its own rows; `turns` one task at a time in a partition, from which
    sequence number on; `turn_server` turns over a socket; `turn_sender` batches in their turns
`record_batches` a task's rows as record batches; `places` the partitions of several topics, numbered through
`settings` the options as one frozen value
`columns` Arrow columns as bytes and offsets; `partitioner` Java's murmur2, over whole columns; `encode` record batches
"""
