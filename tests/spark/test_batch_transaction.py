"""The steps of a batch's transaction against a broker, without Spark: what is settled before, and what is given up."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from confluent_kafka.admin import NewPartitions

from spark_connector.checkpoint_files import Checkpoint, LocalFiles
from spark_connector.errors import CheckpointWentBack, SinkChanged, SinkTakenOver, TransactionAborted
from spark_connector.inspection import Inspector, Transaction
from spark_connector.progress import Marker
from spark_connector.sink.batch_transaction import BatchId, BatchTransaction
from spark_connector.sink.identity import id_by_path
from spark_connector.sink.settings import SinkSettings
from tallystick.client.client import Client
from tallystick.client.lease import Lease
from tests.harness.broker import Target
from tests.harness.confluent import admin, make_topic

RULES = [pytest.param(True, id="TV2"), pytest.param(False, id="old-rules")]


@pytest.fixture
def bootstrap(target: Target, name: str) -> str:
    """Without Spark: nothing here needs it."""
    make_topic(target.bootstrap, f"{name}-out", 2)
    return target.bootstrap


def batch_of(bootstrap: str, name: str, number: int = 0, **more: str) -> BatchTransaction:
    given = {"kafka.bootstrap.servers": bootstrap, "topic": f"{name}-out", "progressTopic": f"{name}-progress", **more}
    return BatchTransaction(SinkSettings.of(given, streaming=True), BatchId(f"query-of-{name}", number), None)


def written(transaction: BatchTransaction, lease: Lease) -> dict[str, Any]:
    return transaction.write(lease, [pa.RecordBatch.from_pydict({"value": [b"a", b"b"]})])


def committed(bootstrap: str, name: str, number: int, **more: str) -> BatchTransaction:
    transaction = batch_of(bootstrap, name, number, **more)
    transaction.identify(is_sole=True)
    opened = transaction.open()
    transaction.mark(opened.lease, written(transaction, opened.lease))
    transaction.end(opened.lease)
    return transaction


def test_topics_are_asked_for_once_a_batch(bootstrap: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By all its tasks in a process; and of one that has grown the next batch writes to all partitions."""
    forgotten: list[int] = []
    forget = Client.forget
    monkeypatch.setattr(Client, "forget", lambda client: (forgotten.append(1), forget(client))[1])
    first = committed(bootstrap, name, 0)
    assert len(forgotten) == 1
    lease = first.open().lease
    for _ in range(2):
        batch_of(bootstrap, name, 0).look_anew(lease)
        assert len(forgotten) == 2, "another lease is another try at the batch"
    asker = admin(bootstrap)
    asker.create_partitions([NewPartitions(f"{name}-out", 5)])[f"{name}-out"].result(30)
    for _ in range(2):
        task = batch_of(bootstrap, name, 1)
        written(task, lease)
        assert len(forgotten) == 3
        assert task.partitions_of(f"{name}-out") == 5


def state_of(transaction: BatchTransaction, sink_id: str) -> Transaction | None:
    client = transaction.connection.client
    return transaction.connection.ask(Inspector(client, transaction.settings.progress_topic, 30).transaction(sink_id))


def is_open(transaction: BatchTransaction, sink_id: str) -> bool:
    found = state_of(transaction, sink_id)
    return found is not None and found.state == "Ongoing"


@pytest.mark.parametrize("implicit", RULES)
def test_what_is_given_up_is_open_no_more(bootstrap: str, name: str, implicit: bool) -> None:
    """And whoever still writes under its lease is refused."""
    transaction = batch_of(bootstrap, name, sinkId=name)
    transaction.identify(is_sole=True)
    lease = replace(transaction.open().lease, implicit=implicit)
    written(transaction, lease)
    assert is_open(transaction, name)
    for _ in range(2):
        transaction.give_up(lease)
        assert not is_open(transaction, name)
    with pytest.raises((SinkTakenOver, TransactionAborted)):
        written(transaction, lease)


@pytest.mark.parametrize("implicit", RULES)
def test_giving_up_harms_neither_a_commit_nor_a_successor(bootstrap: str, name: str, implicit: bool) -> None:
    first = batch_of(bootstrap, name, sinkId=name)
    first.identify(is_sole=True)
    old = replace(first.open().lease, implicit=implicit)
    first.mark(old, written(first, old))
    first.end(old)
    first.give_up(old)
    second = batch_of(bootstrap, name, 1, sinkId=name)
    second.identify(is_sole=True)
    lease = second.open().lease
    counts = written(second, lease)
    first.give_up(old)
    assert is_open(second, name)
    second.mark(lease, counts)
    second.end(lease)
    assert second.open().done is not None and first.batch.number == 0


def test_an_older_build_s_open_transaction_is_settled_first(bootstrap: str, name: str) -> None:
    """It was named after the checkpoint's path. The new name must not leave readers waiting for it."""
    checkpoint = f"/data/{name}"
    older = batch_of(bootstrap, name, sinkId=id_by_path(checkpoint))
    older.identify(is_sole=True)
    left = older.open().lease
    written(older, left)
    newer = batch_of(bootstrap, name, checkpointLocation=checkpoint)
    newer.identify(is_sole=True)
    assert newer.sink_id == f"spark-query-of-{name}"
    assert not is_open(newer, left.transactional_id)


def test_a_query_keeps_the_name_under_which_it_has_markers(bootstrap: str, name: str) -> None:
    """Here that of an older build, wherever the checkpoint has gone."""
    by_path = id_by_path(f"/data/{name}")
    committed(bootstrap, name, 0, sinkId=by_path)
    moved = batch_of(bootstrap, name, 0, checkpointLocation=f"file:///elsewhere/{name}")
    moved.identify(is_sole=True)
    assert moved.sink_id == by_path
    assert moved.open().done is not None


@pytest.mark.parametrize(("planned_ms", "is_taken"), [(1000, True), (1001, False)])
def test_a_marker_without_offsets_is_for_what_was_planned_before_it(
    bootstrap: str, name: str, tmp_path: Path, planned_ms: int, is_taken: bool
) -> None:
    """Older builds left offsets out that they could not read."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text(f'{{"id":"query-of-{name}"}}')
    (tmp_path / "offsets" / "0").write_text(f'v1\n{{"batchTimestampMs":{planned_ms}}}\n{{"t":{{"0":5}}}}\n')
    transaction = batch_of(bootstrap, name)
    transaction.checkpoint = Checkpoint(LocalFiles(), str(tmp_path), f"query-of-{name}")
    with nullcontext() if is_taken else pytest.raises(CheckpointWentBack, match="an older copy"):
        transaction.compare(Marker(0, written_ms=1000))


def test_another_topic_or_name_for_a_batch_that_is_written(bootstrap: str, name: str) -> None:
    committed(bootstrap, name, 0)
    make_topic(bootstrap, f"{name}-other")
    changed = batch_of(bootstrap, name, 0, topic=f"{name}-other")
    changed.identify(is_sole=True)
    with pytest.raises(SinkChanged, match=f"to {name}-out, and is now to write it to {name}-other"):
        changed.open()
    with pytest.raises(SinkChanged, match="Was option topic or sinkId changed"):
        batch_of(bootstrap, name, 0, sinkId="another").identify(is_sole=True)
    following = batch_of(bootstrap, name, 1, topic=f"{name}-other")
    following.identify(is_sole=True)
    assert following.open().done is None
