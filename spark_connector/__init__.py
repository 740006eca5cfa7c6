"""spark_connector: what Spark users need of Kafka and Spark does not have. It speaks plain Kafka, to any broker.

`register` all data sources of ours into a session: `register(spark)`
`pyspark_versions` which PySpark is needed for what: `check_pyspark`
`options` the tables of options, with the names of Spark's own connector: `Option`, `read_options`;
    `stock_settings` what becomes of those of Java's clients that have no counterpart here
`access` where a cluster is and how it is spoken to, as a value that can be pickled: `Access.security()`
`errors` typed errors that say what to do: everything raised here is a `ConnectorError`; `explained` makes them
`connections` one connection pool per process and cluster: `cluster(access)` gives a `Cluster`;
    `Cluster.run(coroutine)` runs work with `Cluster.client` (`tallystick.client`) and waits
`checkpoint` what Spark's checkpoint says, as text: `planned`, `query_id`, `kafka_offsets`; `checkpoint_files` reads it,
    through Hadoop in the driver's JVM, from other processes by `lines` to the driver: `Checkpoint.planned(batch)`
`progress` the control topic: `Marker`, `progress_key`, `ProgressTopic.last` (after the fence), `ProgressTopic.batch`
`lines` one question to the driver's process, `conversations` many on one connection
`sink` format `kafka-eos`: Arrow in, one Kafka transaction per micro-batch
    `sink.columns` Arrow columns as `Cells`; `sink.partitioner` murmur2; `sink.encode` record batches of them
    `sink.batch_transaction` the steps of a micro-batch's transaction, by name; other modes use the same steps
    `sink.kafka_eos` the data source with its writers
    `sink.foreach_batch` `eos_writer(options, tasks=...)`: the same for `foreachBatch`, with many writers
`source` format `kafka-arrow`: record batches decoded straight into Arrow
`formats` keys and values that a Schema Registry knows, as typed columns of `kafka-arrow`
`metrics` what the sink's batches came to: `sink_metrics(query.id)`, `with_sink_metrics(progress)`
`workers` what a Python worker is spared between tasks: `keep_what_is_loaded(part)`

The rule of all sinks here: the marker of a batch and its records are in one Kafka transaction. So the marker is seen
if and only if all of the batch is, whatever crashes; and a replay of a batch takes the lease on the sink's
transactional id first, which settles earlier tries, and looks at the marker only then.
"""
