"""What the share coordinator writes to `__share_group_state`."""

from protocol.schema import Int8, Int16, Int32, Int64, Kind, String, Uuid, field, message, struct


@message(kind=Kind.DATA, api_key=0, versions=range(0, 1))
class ShareSnapshotKey:
    group_id: String
    topic_id: Uuid
    partition: Int32


@struct
class KeptBatch:
    """`StateBatch` in Kafka's schema."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@message(kind=Kind.DATA, api_key=0, versions=range(0, 1), flexible=0)
class ShareSnapshotValue:
    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(tag=0, default=-1)
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: list[KeptBatch]


@message(kind=Kind.DATA, api_key=1, versions=range(0, 1))
class ShareUpdateKey:
    group_id: String
    topic_id: Uuid
    partition: Int32


@message(kind=Kind.DATA, api_key=1, versions=range(0, 1), flexible=0)
class ShareUpdateValue:
    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(tag=0, default=-1)
    state_batches: list[KeptBatch]
