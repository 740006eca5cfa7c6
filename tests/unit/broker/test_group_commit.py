"""Group commit: one cycle for all, in the one order that transactions need."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

import pytest

from broker.disk.group_commit import GroupCommit
from protocol.internal_topics import TRANSACTION_STATE
from tests.harness.turns import CallsPerTurn
from tests.unit.broker.doubles import FakePartition, InlineEnvironment


class Bench:
    """A group commit with everything around it faked."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.failures: list[BaseException] = []
        self.environment: Any = InlineEnvironment()
        self.commit = GroupCommit(self.environment, on_failure=self.failures.append)

    def partition(self, topic: str, *, durable: bool = True) -> FakePartition:
        return FakePartition(topic, self.events, durable=durable)

    def count_slices(self) -> list[object]:
        """Those of time that are begun from now on."""
        begun: list[object] = []
        time_slice = self.environment.time_slice

        def counted() -> object:
            begun.append(time_slice())
            return begun[-1]

        self.environment.time_slice = counted
        return begun

    def write(self, *partitions: FakePartition) -> None:
        for partition in partitions:
            partition.write()
            self.commit.wrote(partition)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_transactions_become_durable_after_what_they_promise() -> None:
    """I04, and 8.2: in one cycle `__transaction_state` is synced after everything else is."""

    async def story() -> None:
        bench = Bench()
        state, offsets, data = (bench.partition(t) for t in (TRANSACTION_STATE, "__consumer_offsets", "data"))
        bench.write(state, offsets, data)
        await bench.commit.wait_until_idle()
        assert bench.events == [
            "sync __consumer_offsets",
            "sync data",
            "committed __consumer_offsets 1",
            "committed data 1",
            f"sync {TRANSACTION_STATE}",
            f"committed {TRANSACTION_STATE} 1",
        ]

    run(story())


def test_a_promise_is_published_after_what_it_depends_on() -> None:
    """I04: data and PREPARE that come while the first syncs run are synced together, the data published first."""

    async def story() -> None:
        bench = Bench()
        state, first, second = (bench.partition(t) for t in (TRANSACTION_STATE, "first", "second"))
        bench.environment.before_each = lambda: bench.write(second, state)
        bench.write(first)
        await bench.commit.wait_until_idle()
        published = [event for event in bench.events if event.startswith("committed")]
        assert published == ["committed first 1", "committed second 1", f"committed {TRANSACTION_STATE} 1"]
        assert bench.events.index("sync second") < bench.events.index(f"committed {TRANSACTION_STATE} 1")

    run(story())


def test_writes_during_a_sync_wait_for_the_next() -> None:
    async def story() -> None:
        bench = Bench()
        data = bench.partition("data")
        bench.environment.before_each = lambda: bench.write(data)
        bench.write(data)
        await bench.commit.wait_until_idle()
        assert bench.events == ["sync data", "committed data 1", "sync data", "committed data 2"]

    run(story())


def test_a_burst_shares_one_cycle() -> None:
    async def story() -> None:
        bench = Bench()
        data = bench.partition("data")
        bench.write(*[data] * 100)
        await bench.commit.wait_until_idle()
        assert bench.events == ["sync data", "committed data 100"]

    run(story())


def test_page_cache_mode_syncs_only_on_request() -> None:
    async def story() -> None:
        bench = Bench()
        relaxed, strict = bench.partition("relaxed", durable=False), bench.partition("strict")
        bench.write(relaxed, strict)
        await bench.commit.wait_until_idle()
        assert bench.events == ["committed relaxed 1", "sync strict", "committed strict 1"]

    run(story())


def test_page_cache_mode_syncs_checkpoints_in_the_background() -> None:
    async def story() -> None:
        bench = Bench()
        relaxed = bench.partition("relaxed", durable=False)
        relaxed.log.checkpoint_wanted = True
        bench.write(relaxed)
        await bench.commit.wait_until_idle()
        assert bench.events[:2] == ["committed relaxed 1", "sync relaxed"]
        bench.write(relaxed)
        await bench.commit.wait_until_idle()
        assert bench.events.count("sync relaxed") == 1
        relaxed.log.checkpoint_wanted = True
        bench.write(relaxed)
        bench.commit.publish(relaxed)
        assert bench.events[-1] == "committed relaxed 3"
        await bench.commit.wait_until_idle()
        assert bench.events.count("sync relaxed") == 2, "who answers at once takes no checkpoint away"

    run(story())


def test_a_deleted_partition_is_left_alone() -> None:
    async def story() -> None:
        bench = Bench()
        gone, data = bench.partition("gone"), bench.partition("data")
        bench.write(gone, data)
        gone.discarded = True
        await bench.commit.wait_until_idle()
        assert bench.events == ["sync data", "committed data 1"]
        slices = bench.count_slices()
        bench.commit.wrote(gone)
        await bench.commit.wait_until_idle()
        assert len(slices) == 1, "no cycle is begun for nothing"

    run(story())


def test_a_synchronous_writer_publishes_only_what_needs_no_sync() -> None:
    async def story() -> None:
        bench = Bench()
        relaxed, strict = bench.partition("relaxed", durable=False), bench.partition("strict")
        bench.write(relaxed, strict)
        for partition in (relaxed, strict, relaxed):
            bench.commit.publish(partition)
        assert bench.events == ["committed relaxed 1"]
        await bench.commit.wait_until_idle()
        assert bench.events == ["committed relaxed 1", "sync strict", "committed strict 1"]

    run(story())


def test_fully_published_commits_leave_no_turn_to_wait_for() -> None:
    """One in every small Produce, for nothing; but requests already waiting for it are released."""

    async def story() -> None:
        bench = Bench()
        relaxed, other = bench.partition("relaxed", durable=False), bench.partition("other", durable=False)
        slices = bench.count_slices()
        bench.write(other)
        bench.commit.publish(other)
        with pytest.raises(StopIteration):
            bench.commit.wait_until_idle().send(None)
        await asyncio.sleep(0)
        assert not slices
        bench.events.clear()
        bench.write(relaxed, other)
        bench.commit.publish(relaxed)
        waiting = asyncio.ensure_future(bench.commit.wait_until_idle())
        await asyncio.sleep(0)
        await waiting
        bench.write(relaxed)
        bench.commit.publish(relaxed)
        with pytest.raises(StopIteration):
            bench.commit.wait_until_idle().send(None)
        bench.write(relaxed)
        waiting = asyncio.ensure_future(bench.commit.wait_until_idle())
        asyncio.get_running_loop().call_soon(bench.commit.publish, relaxed)
        await waiting
        assert bench.events == [f"committed {name}" for name in ("relaxed 1", "other 2", "relaxed 2", "relaxed 3")]

    run(story())


def test_publishing_in_a_commit_listener_starts_no_second_cycle() -> None:
    async def story() -> None:
        bench = Bench()
        relaxed, other = bench.partition("relaxed", durable=False), bench.partition("other", durable=False)
        strict, late = bench.partition("strict"), bench.partition("late")
        heard = relaxed.committed_moved

        def write_elsewhere() -> None:
            heard()
            bench.write(other)
            bench.commit.publish(other)
            bench.write(late)

        relaxed.committed_moved = write_elsewhere  # type: ignore[method-assign]
        bench.write(relaxed, strict)
        cycles = set()
        for _ in range(30):
            await asyncio.sleep(0)
            under_way = {task for task in asyncio.all_tasks() if "GroupCommit._run" in repr(task)}
            assert len(under_way) <= 1
            cycles |= under_way
        await bench.commit.wait_until_idle()
        assert len(cycles) == 2
        assert bench.events == [
            "committed relaxed 1", "committed other 1",
            "sync strict", "committed strict 1", "sync late", "committed late 1",
        ]  # fmt: skip

    run(story())


def test_writing_in_a_commit_listener_is_committed_again() -> None:
    async def story() -> None:
        bench = Bench()
        relaxed = bench.partition("relaxed", durable=False)
        heard = relaxed.committed_moved

        def write_once_more() -> None:
            relaxed.committed_moved = heard  # type: ignore[method-assign]
            heard()
            bench.write(relaxed)

        relaxed.committed_moved = write_once_more  # type: ignore[method-assign]
        bench.write(relaxed)
        bench.commit.publish(relaxed)
        await bench.commit.wait_until_idle()
        assert bench.events == ["committed relaxed 1", "committed relaxed 2"]

    run(story())


@pytest.mark.parametrize("durable", [True, False])
def test_thousands_of_partitions_are_published_some_in_a_turn(durable: bool) -> None:
    """A transaction over all partitions of a wide topic has a marker in each."""

    async def story() -> None:
        bench = Bench()
        partitions = [bench.partition(f"wide-{number}", durable=durable) for number in range(1_000)]
        moved = CallsPerTurn(bench.events.append)
        for partition in partitions:
            partition.committed_moved = lambda topic=partition.topic: moved(topic)  # type: ignore[method-assign, misc]
        bench.write(*partitions)
        late = bench.partition("late", durable=True)
        asyncio.get_running_loop().call_later(0, lambda: bench.write(late))
        await bench.commit.wait_until_idle()
        assert moved.most < 100
        assert [event for event in bench.events if event.startswith("wide")] == [one.topic for one in partitions]
        assert "committed late 1" in bench.events
        assert all(bench.events.count(f"sync wide-{number}") == int(durable) for number in range(1_000))

    run(story())


def test_a_topic_deleted_between_two_portions_is_passed_over() -> None:
    async def story() -> None:
        bench = Bench()
        partitions = [bench.partition(f"wide-{number}") for number in range(300)]

        def delete() -> None:
            partitions[299].discarded = True

        bench.environment.before_each = delete
        bench.write(*partitions)
        await bench.commit.wait_until_idle()
        assert "sync wide-298" in bench.events
        assert "sync wide-299" not in bench.events

    run(story())


def test_thousands_of_flushes_run_in_slices() -> None:
    """Each may have a snapshot and indexes to write down."""

    async def story() -> None:
        bench = Bench()
        partitions = [bench.partition(f"wide-{number}") for number in range(1_000)]
        begin, end = (CallsPerTurn(lambda work, *arguments: work(*arguments)) for _ in range(2))
        for partition in partitions:
            partition.log.begin_flush = partial(begin, partition.log.begin_flush)
            partition.log.finish_flush = partial(end, partition.log.finish_flush)
        bench.write(*partitions)
        await bench.commit.wait_until_idle()
        assert begin.total == end.total == 1_000
        assert begin.most < 100
        assert end.most < 100

    run(story())
