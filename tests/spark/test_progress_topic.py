"""The control topic: what counts as the last marker of a sink, whatever else is written to the same partition."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from protocol.records.record import NewRecord, build_batch
from spark_connector.errors import UnsafeProgressTopic
from spark_connector.progress import PARTITIONS, Marker, ProgressTopic, progress_key
from tallystick.client.client import Client
from tallystick.client.lease import end_transaction, take_lease
from tallystick.client.sender import Sender
from tests.harness.broker import Target
from tests.harness.confluent import SECONDS, admin

PATIENCE_S = 120.0


@pytest.fixture
def bootstrap(target: Target) -> str:
    """Without Spark: nothing here needs it."""
    return target.bootstrap


def run(bootstrap: str, story: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    async def run_story() -> None:
        client = await Client.connect(bootstrap)
        try:
            await story(client)
        finally:
            await client.close()

    asyncio.run(run_story())


def neighbours(progress: ProgressTopic, count: int) -> list[str]:
    """Keys that share a partition."""
    first = progress_key("sink-0", "q")
    found = [first]
    for number in range(1, 10_000):
        key = progress_key(f"sink-{number}", "q")
        if len(found) < count and progress.partition_of(key) == progress.partition_of(first):
            found.append(key)
    return found


async def mark(progress: ProgressTopic, key: str, batch: int, *, commit: bool | None) -> None:
    """One marker in a transaction that is left open, or ended and settled, as the next lease finds it."""
    client = progress.client
    lease = await take_lease(client, f"{progress.topic}.{key}", timeout_ms=60_000, patience_s=PATIENCE_S)
    sender = Sender(client, lease, patience_s=PATIENCE_S)
    await sender.offer([progress.batch(key, Marker(batch, ['{"t":{"0":1}}'], {"out": {"0": 3}}, 5))])
    await sender.flush()
    if commit is not None:
        await end_transaction(client, lease, commit=commit, patience_s=PATIENCE_S)
        await take_lease(client, lease.transactional_id, timeout_ms=60_000, patience_s=PATIENCE_S)


def test_the_open_transaction_of_another_sink_hides_nothing(bootstrap: str, name: str) -> None:
    """A reader that stopped at the last stable offset would see batch 1 of ours, and batch 2 would be written twice."""

    async def story(client: Client) -> None:
        progress = ProgressTopic(client, name, PATIENCE_S)
        await progress.ensure()
        ours, theirs = neighbours(progress, 2)
        await mark(progress, ours, 1, commit=True)
        await mark(progress, theirs, 7, commit=None)
        await mark(progress, ours, 2, commit=True)
        found = await progress.last(ours)
        assert found == Marker(2, ['{"t":{"0":1}}'], {"out": {"0": 3}}, 5)
        with pytest.raises(UnsafeProgressTopic, match="neither committed nor aborted"):
            await progress.last(theirs)

    run(bootstrap, story)


def test_aborted_markers_do_not_count_for_any_reader(bootstrap: str, name: str) -> None:
    async def story(client: Client) -> None:
        progress = ProgressTopic(client, name, PATIENCE_S)
        await progress.ensure()
        key, other = neighbours(progress, 2)
        assert await progress.last(key) is None
        for batch, commit in enumerate((True, True, False, False)):
            await mark(progress, key, batch, commit=commit)
            await mark(progress, other, 100 + batch, commit=not commit)
            old, new = await progress.last(key), await ProgressTopic(client, name, PATIENCE_S).last(key)
            assert old == new and new is not None and new.batch == min(batch, 1)
        last = await progress.last(other)
        assert last is not None and last.batch == 103

    run(bootstrap, story)


@pytest.mark.parametrize(("partitions", "policy"), [(PARTITIONS, "delete"), (PARTITIONS - 1, "compact")])
def test_a_topic_that_would_forget_is_refused(bootstrap: str, name: str, partitions: int, policy: str) -> None:
    async def story(client: Client) -> None:
        await client.create_topic(name, partitions, {"cleanup.policy": policy})
        with pytest.raises(UnsafeProgressTopic, match="forgets markers"):
            await ProgressTopic(client, name, PATIENCE_S).last("k")

    run(bootstrap, story)


def test_a_topic_that_is_deleted_under_a_query_is_made_anew(bootstrap: str, name: str) -> None:
    """By the next batch of a process that knew it, and not only after a restart. What it knew is forgotten."""

    async def story(client: Client) -> None:
        progress, asker = ProgressTopic(client, name, PATIENCE_S), admin(bootstrap)
        key = progress_key("sink", "q")
        for batch in range(2):
            assert await progress.last(key) is None
            await mark(progress, key, batch, commit=True)
            found = await progress.last(key)
            assert found is not None and found.batch == batch
            asker.delete_topics([name])[name].result(SECONDS)
        assert await progress.last(key) is None

    run(bootstrap, story)


def test_other_records_are_not_taken_for_markers() -> None:
    for data in (b"", b"{}", b'{"v":1}', b"[]", b'{"v":2,"batch":1}'):
        with pytest.raises(UnsafeProgressTopic):
            Marker.from_bytes(data)


async def append(client: Client, topic: str, partition: int, key: bytes, value: bytes, *, transactional: bool) -> None:
    """What somebody else writes there."""
    record = NewRecord(key=key, value=value)
    if not transactional:
        await client.produce(topic, partition, build_batch([record]))
        return
    lease = await take_lease(client, f"{topic}.foreign", timeout_ms=60_000, patience_s=PATIENCE_S)
    sender = Sender(client, lease, patience_s=PATIENCE_S)
    await sender.offer([((topic, partition), bytearray(build_batch([record], transactional=True)))])
    await sender.flush()
    await end_transaction(client, lease, commit=True, patience_s=PATIENCE_S)
    await take_lease(client, lease.transactional_id, timeout_ms=60_000, patience_s=PATIENCE_S)


def test_records_of_others_are_passed_over(bootstrap: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """They do not stop every sink of the partition; a marker that cannot be read stops the one whose it is."""

    async def story(client: Client) -> None:
        progress = ProgressTopic(client, name, PATIENCE_S)
        await progress.ensure()
        ours, theirs = neighbours(progress, 2)
        partition = progress.partition_of(ours)
        await mark(progress, ours, 1, commit=True)
        await append(client, name, partition, b"somebody", b"hello", transactional=True)
        await append(client, name, partition, ours.encode(), b'{"v":1,"batch":9}', transactional=False)
        await append(client, name, partition, theirs.encode(), b'{"v":2,"batch":1}', transactional=True)
        found = await progress.last(ours)
        assert found is not None and found.batch == 1
        with pytest.raises(UnsafeProgressTopic, match="newer connector"):
            await progress.last(theirs)
        await mark(progress, theirs, 3, commit=True)
        assert (await progress.last(theirs) or Marker(-1)).batch == 3

    run(bootstrap, story)
    assert "no sink has written" in caplog.text and "of no transaction" in caplog.text


def test_all_sinks_of_a_query_are_found(bootstrap: str, name: str) -> None:
    """Whatever their names, which decide about the partition; also one whose transaction is open."""

    async def story(client: Client) -> None:
        progress = ProgressTopic(client, name, PATIENCE_S)
        await progress.ensure()
        for number, sink in enumerate(("spark-0123", "mine", "yours")):
            await mark(progress, progress_key(sink, "q"), number, commit=None if sink == "yours" else True)
        await mark(progress, progress_key("mine", "another"), 7, commit=True)
        found = await ProgressTopic(client, name, PATIENCE_S).of_query("q")
        assert {sink: marker and marker.batch for sink, marker in found.items()} == {
            "spark-0123": 0,
            "mine": 1,
            "yours": None,
        }

    run(bootstrap, story)
