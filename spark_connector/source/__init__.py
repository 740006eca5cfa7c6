"""source: format `kafka-arrow`, record batches decoded straight into Arrow.

`kafka_arrow` the data source
`batch_reader`, `stream_reader` what Spark asks of it: offsets, partitions, reading
`settings` its options; `bounds` what they mean as offsets
`lookups`, `probing` questions to the cluster; `fetch_connection` the connection that records come through
`ranges` offsets, and how work is cut into tasks; `filters` what Spark hands down
`reading` one task; `visible` what a reader is shown, and what the gaps are
`varints`, `records`, `arrow` from record batches to Arrow, without an object per record
"""
