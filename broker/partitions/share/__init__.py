"""Share partitions (KIP-932): records of a partition that the members of a share group take one by one.

| module | what it holds |
|---|---|
| `states` | the states of a record, and what an acknowledgement makes of it |
| `in_flight` | records that were handed out together, in runs of one state |
| `window` | all records in flight of a share partition, between its start offset and the next to hand out |
| `acquiring` | which records a member is handed |
| `acknowledging` | what a member says of its records, step by step until it is written |
| `fetched_batches` | batches as they were read, by their headers |
| `settings` | what is set for a group |
| `share_partition` | one share partition: its window, what is kept of it, its locks |
| `share_partitions` | all of them, by group |
"""
