"""What stands between a transactional write and the log: is the partition part of the writer's open transaction?

Produce calls, once per request, before it appends anything:

    admitted = await admit_produce(node, transactional_id, version, batches)
        batches:  list[ProduceBatch], one per partition that holds a *transactional* batch
        admitted: list[Admission], in the same order; `error` NONE or what to answer for this partition;
                  `guard` to be handed to `Partition.append(..., guard=admission.guard, verification=admission.verification)`

    There is no await between the return of `admit_produce` and the appends of the same handler, and the guard makes
    sure that nothing that slipped in before is missed (KAFKA-14884).

TxnOffsetCommit calls, before it asks the group shard (authorisation first, the group's own checks after it, KAFKA-15784):

    error = await admit_offset_commit(node, transactional_id, producer_id, producer_epoch, group_id, version)
        NONE, or the error of every partition of the request (2.6: 13 becomes 14, 90 becomes 47, 120 becomes 48 below v4)

Both verify (Produce below 12, TxnOffsetCommit below 5) or add (KIP-890 part 2) and hold the request for at most
`HOLD_MS` while the previous transaction of the same id completes in this node.
"""
