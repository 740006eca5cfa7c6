"""A second opinion: what a client may see from a Kafka broker, judged from requests and responses alone.

Written from the specification and apart from the broker: it imports `protocol` and nothing else of the project. No I/O.

| file | owns |
|---|---|
| `trace` | what was sent and answered, in order; what is known of the circumstances |
| `batches`, `partition_log` | a partition as the sequence of its batches: producers, transactions, last stable offset |
| `evidence` | the partitions of a trace, and what must and can have been in them at any moment |
| `producing`, `fetching` | the rules for Produce and Fetch |
| `positions` | the rules for ListOffsets and DeleteRecords |
| `outcomes` | the rules for the ends of transactions |
| `identity`, `transitions` | a transactional id: its states, and what requests do to them |
| `operation`, `operations`, `writing` | from requests to transitions |
| `possible` | all states that may be the case |
| `group_offsets`, `generations` | the rules for offsets and members of classic groups |
| `judge` | all rules |

How concurrency is dealt with. A partition's log is its own witness: its batches stand in the order in which requests
took place. What is asked of a request is that its answer is right at some length of the log between what was certainly
there when it was sent and what could be there when it was answered. A transactional id has a set of possible states;
requests without an answer may take place at any time, or never, or twice.

Not judged: topics that are deleted or compacted; what lies in front of the first batch a trace shows; errors that only
time cures (`trace.PASSING`); members that time out; groups of the new protocol; authorisation; what is over once a
client sends WriteTxnMarkers for a producer, of that producer; how long anything takes.
"""
