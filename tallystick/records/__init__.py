"""records: reading and writing records for people and shells, on any Kafka 3.0 or newer.

`spots` where reading begins and ends: offsets, times, ends of the log
`reader` records of many partitions, as far as they are there or as they come
`fates` what became of the transaction of a record; `reading_ahead` looks for it further on in the log
`with_schemas` records whose keys and values a schema registry knows, as JSON
`condition` which records are wanted: a small language
`input_lines` records out of lines of text or JSON
`writer` records gathered into batches, by partition
`load` a small load, and what came of it
`copying` a topic into another, exactly once
`identity` who an idempotent producer is; `unnumbered` a sender without that, for acks 0 and 1
"""
