"""What the transaction coordinator writes to `__transaction_state`.

Two fields are our own, tagged far above Kafka's, which every reader skips: the epoch before the last bump (Kafka
forgets it, and a KIP-360 retry across a restart is fenced), and the id of each topic (so that a topic made again under
the same name never gets the marker of the old one).
"""

from protocol.schema import Int8, Int16, Int32, Int64, Kind, String, Uuid, field, message, struct


@message(kind=Kind.DATA, api_key=0, versions=range(0, 1))
class TransactionLogKey:
    transactional_id: String


@struct
class PartitionsSchema:
    topic: String
    partition_ids: list[Int32]
    topic_id: Uuid = field(since=1, tag=10_000, default=bytes(16))


@message(kind=Kind.DATA, api_key=0, versions=range(0, 2), flexible=1)
class TransactionLogValue:
    producer_id: Int64
    previous_producer_id: Int64 = field(since=1, tag=0, default=-1)
    next_producer_id: Int64 = field(since=1, tag=1, default=-1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = field(since=1, tag=3, default=-1)
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None = field(nullable_since=0)
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = field(since=1, tag=2, default=0)
    last_producer_epoch: Int16 = field(since=1, tag=10_000, default=-1)
