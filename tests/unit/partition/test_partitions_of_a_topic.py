"""What a topic has in the place of partitions whose log is not open."""

from typing import Any, NoReturn

import pytest

from broker.config.broker_config import BrokerConfig
from broker.config.internal_topics import internal_configs
from broker.config.topic_config import TopicConfig
from broker.partitions.errors import AppendError, PartitionError, storage_error, vital
from broker.partitions.log_opening import PartitionOpener
from broker.partitions.offline import PartitionWithoutLog
from broker.partitions.partition_store import FolderStore, MemoryStore
from broker.partitions.topic import Topic, largest_batch
from broker.partitions.visibility import Visibility
from broker.process.environment import RealEnvironment
from protocol.errors import ErrorCode
from storage.checkpoints import write_partition_metadata
from storage.files import GivenUp
from storage.log import LogConfig, LogDamaged, StorageFailed
from storage.recovery import Recovery
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import NOW_MS, Rig, plain


def without_log(index: int, damaged: LogDamaged | None = None) -> PartitionWithoutLog:
    return PartitionWithoutLog(
        topic="t",
        topic_id=bytes(16),
        index=index,
        leader_epoch=3,
        config=TopicConfig(),
        now_ms=lambda: NOW_MS,
        damaged=damaged,
    )


def topic_of(count: int) -> Topic:
    topic = Topic("t", bytes(16), TopicConfig(), without_log)
    topic.partitions.grow(count)
    return topic


def test_a_partition_that_is_not_open_refuses_and_is_not_gone() -> None:
    partitions = topic_of(3).partitions
    opened = Rig().partition
    partitions.put(0, opened)
    partitions.put(1, without_log(1, LogDamaged("t-1/", None, 0, "torn")))
    assert [(one.index, one.discarded, one.refusal) for one in partitions] == [
        (0, False, ErrorCode.NONE),
        (1, False, ErrorCode.KAFKA_STORAGE_ERROR),
        (2, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ]
    assert [partitions.is_closed(index) for index in (-1, 0, 1, 2, 3)] == [False, False, False, True, False]
    assert (partitions.opened(), [one.index for one in partitions.offline()]) == ([opened], [1])
    assert partitions[-1].index == 2 and [one.index for one in partitions[1:]] == [1, 2]
    assert partitions.first_closed() == 2


@pytest.mark.parametrize(("index", "code"), [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), (1, ErrorCode.KAFKA_STORAGE_ERROR)])
def test_without_a_log_nothing_is_taken_and_nothing_read(index: int, code: ErrorCode) -> None:
    partition: Any = without_log(index, LogDamaged("t-1/", None, 0, "torn") if index else None)
    for refused in (
        lambda: partition.append(memoryview(plain()), transactional_id=None, now_ms=NOW_MS),
        lambda: partition.append_records(plain(), now_ms=NOW_MS),
        lambda: partition.append_marker(None, NOW_MS),
        lambda: partition.needs_verification(memoryview(plain())),
        lambda: partition.begin_verification(1, 0, 0, True),
        lambda: partition.delete_records(0),
        lambda: partition.read(0, 1, read_committed=False),
        lambda: partition.offset_for_timestamp(0, read_committed=False),
        lambda: partition.max_timestamp(read_committed=False),
    ):
        with pytest.raises(AppendError) as caught:
            refused()
        assert caught.value.code is code
    assert (partition.end_offset, partition.high_watermark, partition.leader_epoch) == (0, 0, 3)


def test_the_partitions_of_a_deleted_topic_are_gone_one_by_one() -> None:
    partitions = topic_of(2).partitions
    for index in range(2):
        partitions.put(index, Rig().partition)
    assert partitions.first_closed() is None
    partitions.forget(1)
    assert [one.discarded for one in partitions] == [False, True]
    assert partitions.first_closed() == 1
    partitions.forget(0)
    assert partitions.first_closed() == 0 and partitions.opened() == []


def test_a_changed_configuration_reaches_what_is_open() -> None:
    topic = topic_of(2)
    opened = Rig().partition
    topic.partitions.put(0, opened)
    changed = TopicConfig(max_message_bytes=100)
    topic.configure(changed)
    assert (topic.config, opened.config) == (changed, changed)
    assert opened.log.config == changed.log  # type: ignore[attr-defined]


def test_a_configuration_that_is_the_same_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = topic_of(1)
    topic.partitions.put(0, Rig().partition)
    monkeypatch.setattr(topic.partitions[0], "configure", None)
    topic.configure(TopicConfig())
    assert largest_batch(topic) == TopicConfig().max_message_bytes == largest_batch(None)
    assert largest_batch(Topic("t", bytes(16), TopicConfig(max_message_bytes=7), without_log)) == 7


def test_partitions_are_found_by_their_place_from_either_end() -> None:
    partitions = topic_of(3).partitions
    opened = Rig().partition
    partitions.put(1, opened)
    partitions.grow(4)
    partitions.grow(4)
    assert len(partitions) == 4
    assert [partitions[index].index for index in (0, 2, 3, -1, -2, -4)] == [0, 2, 3, 3, 2, 0]
    assert partitions[1] is partitions[-3] is opened
    assert [one.index for one in partitions[::2]] == [0, 2] and partitions[1:2] == [opened]
    for index in (4, -5):
        with pytest.raises(IndexError):
            partitions[index]
    assert partitions.first_closed() == 0
    partitions.put(0, Rig().partition)
    assert partitions.first_closed() == 2
    partitions.put(2, without_log(2, LogDamaged("t-2/", None, 0, "torn")))
    assert partitions.first_closed() == 3
    partitions.forget(3)
    assert (partitions[3].discarded, partitions.first_closed()) == (True, 3)


def test_topics_and_partitions_are_named_in_lines_for_people() -> None:
    assert (repr(Rig().partition), repr(topic_of(0))) == ("<Partition t-0>", f"<Topic t {bytes(16).hex()}>")
    assert topic_of(0).internal is False
    assert Topic("__transaction_state", bytes(16), TopicConfig(), without_log).internal is True


@pytest.mark.parametrize(
    ("error", "raised", "is_a_bug"),
    [
        (StorageFailed("full"), "^full$", False),
        (GivenUp("no longer"), "^no longer$", False),
        (OSError("broken"), "^it could not be done: broken$", False),
        (ValueError("odd"), "^it could not be done: odd$", True),
    ],
)
def test_what_others_wait_for_ends_the_process_when_it_fails(
    error: Exception, raised: str, is_a_bug: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """But for work that nobody wants any more. A bug is in the log with its traceback."""
    expected = GivenUp if isinstance(error, GivenUp) else StorageFailed
    with pytest.raises(expected, match=raised) as caught, vital("it could not be done"):
        raise error
    assert caught.value is error or caught.value.__cause__ is error
    assert [record.exc_info is not None for record in caplog.records] == [True] * is_a_bug
    with vital("it could not be done"):
        pass


def test_a_damage_is_named_once_with_its_repair(caplog: pytest.LogCaptureFixture) -> None:
    damaged = LogDamaged("t-1/", None, 0, "torn")
    assert [storage_error(damaged) for _ in range(3)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("ERROR", str(damaged))
    assert vars(record)["fields"] == {"repair": "tallystick serve --repair t-1"}


def test_a_refusal_has_a_reason_for_people_and_a_message_for_clients() -> None:
    silent = PartitionError(ErrorCode.POLICY_VIOLATION, "no")
    assert (str(silent), silent.code, silent.message) == ("POLICY_VIOLATION: no", ErrorCode.POLICY_VIOLATION, None)
    spoken = AppendError(ErrorCode.INVALID_RECORD, "no", message="as Kafka says")
    assert (spoken.message, spoken.record_errors, spoken.log_start_offset) == ("as Kafka says", (), -1)


@pytest.mark.parametrize(("asked", "made"), [(14, 1 << 20), (1 << 20, 1 << 20), ((1 << 20) + 1, (1 << 20) + 1)])
def test_segments_of_internal_topics_are_no_smaller_than_kafka_allows(asked: int, made: int) -> None:
    keys = {"offsets.topic.segment.bytes": str(asked), "transaction.state.log.segment.bytes": str(asked + 7)}
    configs = internal_configs(BrokerConfig(keys))
    assert configs["__consumer_offsets"]["segment.bytes"] == str(made)
    assert configs["__transaction_state"]["segment.bytes"] == str(max(asked + 7, 1 << 20))


def test_logs_in_memory_leave_nothing() -> None:
    store = MemoryStore()
    log = store.open("t", bytes(16), 0, LogConfig(segment_bytes=600))
    assert (store.beside(), store.sweep(), store.metadata_snapshots("t", 0)) == (None, None, None)
    assert (store.epoch_before_repair("t", 0), store.longest_topic_name()) == (None, 249)
    assert log.end_offset == 0 and store.release(log)


@pytest.mark.parametrize("repair", [False, True])
def test_a_folder_of_another_topic_is_no_log_of_this_one(repair: bool) -> None:
    """Unless an operator says that it is."""
    files, found = SimulatedFiles(), Recovery(repair=repair)
    store = FolderStore(files, now_ms=lambda: 0, recovery=lambda *_: found, delete_delay_ms=lambda: 0)
    assert store.release(store.open("t", b"x" * 16, 1, LogConfig()))
    if repair:
        assert store.release(store.open("t", b"y" * 16, 1, LogConfig()))
        found = Recovery()
        assert store.release(store.open("t", b"y" * 16, 1, LogConfig()))
        return
    with pytest.raises(LogDamaged) as caught:
        store.open("t", b"y" * 16, 1, LogConfig())
    reason = f"partition.metadata has the id of another topic, {(b'x' * 16).hex()}"
    expected = LogDamaged("t-1/", None, 0, reason)
    assert (str(caught.value), vars(caught.value)) == (str(expected), vars(expected))


@pytest.mark.parametrize("metadata", [None, b"torn", b"known"])
def test_a_start_puts_aside_what_is_of_no_topic_and_deletes_what_is_of_a_deleted_one(metadata: bytes | None) -> None:
    """Whatever `partition.metadata` says, or where there is none."""
    files = SimulatedFiles()
    store = FolderStore(files, now_ms=lambda: 0, recovery=lambda *_: Recovery(), delete_delay_ms=lambda: 0)
    for name in ("gone-0", "kept-1", "nobodys-2"):
        files.make_folder(name)
        files.write_whole(f"{name}/{0:020d}.log", b"")
        if metadata == b"known":
            write_partition_metadata(files, name, b"x" * 16, synced=True)
        elif metadata is not None:
            files.write_whole(f"{name}/partition.metadata", metadata)
    files.make_folder("other-0")
    asked: list[tuple[str, int, bytes | None]] = []

    def owner(topic: str, index: int, topic_id: bytes | None) -> bool | None:
        asked.append((topic, index, topic_id))
        return {"gone": False, "kept": True, "nobodys": None}[topic]

    known = b"x" * 16 if metadata == b"known" else None
    named = (known or bytes(16)).hex()
    assert list(store.tidy(owner)) == [f"nobodys-2.{named}-stray"]
    assert asked == [("gone", 0, known), ("kept", 1, known), ("nobodys", 2, known)]
    assert files.list("") == [f"gone-0.{named}-delete", "kept-1", f"nobodys-2.{named}-stray", "other-0"]
    delete = store.sweep()
    assert delete is not None
    delete()
    assert store.sweep() is None
    assert files.list("") == ["kept-1", f"nobodys-2.{named}-stray", "other-0"]


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("opened", [False, True])
def test_a_log_that_cannot_be_opened_is_offline_and_holds_no_file(
    damaged: bool, opened: bool, caplog: pytest.LogCaptureFixture
) -> None:
    error = LogDamaged("t-0/", None, 7, "torn") if damaged else OSError("broken")
    files, made = SimulatedFiles(), list[Any]()
    store = FolderStore(files, now_ms=lambda: 0, recovery=lambda *_: Recovery(), delete_delay_ms=lambda: 0)

    def fail(*args: object, **fields: object) -> NoReturn:
        made.append(fields)
        raise error

    if not opened:
        setattr(store, "open", fail)  # noqa: B010  it is a method
    opener = PartitionOpener(
        lambda topic_id, index: 3,
        BrokerConfig(),
        RealEnvironment(None),
        store,
        on_written=made.append,
        make_partition=fail,
    )
    config = TopicConfig(max_message_bytes=77)
    partition = opener(topic_of(1), 0, 3, config, None)
    assert partition.offline is not None and len(made) == 1
    reason = "it could not be opened: broken"
    expected = error if isinstance(error, LogDamaged) else LogDamaged("t-0/", None, 0, reason)
    assert vars(partition.offline) == vars(expected)
    assert (partition.topic, partition.topic_id, partition.index) == ("t", bytes(16), 0)
    assert (partition.leader_epoch, partition.config) == (3, config)
    assert not +files.held
    (record,) = caplog.records
    repair: dict[str, object] = {"repair": "tallystick serve --repair t-0"}
    fields = repair if damaged else {"topic": "t", "partition": 0, "reason": error}
    assert (record.levelname, vars(record)["fields"]) == ("ERROR", fields)


def test_waiters_are_told_in_the_order_of_their_offsets() -> None:
    """Each once, and those that came first first; a watcher that left meanwhile is not called."""
    visible = Visibility(0)
    told: list[tuple[str, Exception | None]] = []
    for name, offset in (("c", 3), ("a", 1), ("b", 2), ("a again", 1)):
        visible.when_committed(offset, lambda error, name=name: told.append((name, error)))  # type: ignore[misc]

    def leave() -> None:
        visible.unwatch(leave)
        visible.unwatch(other)
        visible.unwatch(other)

    def other() -> None:
        told.append(("other", None))

    visible.watch(leave)
    visible.watch(other)
    visible.advance(2)
    assert told == []
    visible.wake()
    visible.wake()
    assert told == [("a", None), ("a again", None), ("b", None)]
    gone = ValueError("gone")
    visible.fail(gone)
    visible.fail(gone)
    assert told[3:] == [("c", gone)]
    assert visible.committed(2) is None
