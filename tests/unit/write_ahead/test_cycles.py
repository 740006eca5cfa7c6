"""Group commit over a write-ahead log: one part of a cycle where one sync serves all, two where it does not (I04)."""

import asyncio
import errno
from collections.abc import Coroutine
from typing import Any

from broker.disk.group_commit import GroupCommit
from protocol.internal_topics import TRANSACTION_STATE
from tests.unit.broker.doubles import FakePartition, InlineEnvironment
from tests.unit.write_ahead.rig import Rig


class Bench:
    """A group commit, and partitions whose logs share their commits."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.failures: list[BaseException] = []
        self.runs = 0
        environment: Any = InlineEnvironment()
        self.run_blocking, environment.run_blocking = environment.run_blocking, self.counted
        self.commit = GroupCommit(environment, on_failure=self.failures.append)

    def counted(self, work: Any) -> Any:
        self.runs += 1
        return self.run_blocking(work)

    def partition(self, topic: str, *, shares: bool = True) -> FakePartition:
        made = FakePartition(topic, self.events)
        made.log.shares_commits = shares
        return made

    def write(self, *partitions: FakePartition) -> None:
        for partition in partitions:
            partition.write()
            self.commit.wrote(partition)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_what_shares_a_commit_is_committed_together_and_data_is_published_first() -> None:
    async def story() -> None:
        bench = Bench()
        state, data, offsets = (bench.partition(t) for t in (TRANSACTION_STATE, "data", "__consumer_offsets"))
        bench.write(state, data, offsets)
        await bench.commit.wait_until_idle()
        assert bench.runs == 1
        assert [event for event in bench.events if event.startswith("committed")] == [
            "committed data 1",
            "committed __consumer_offsets 1",
            f"committed {TRANSACTION_STATE} 1",
        ]

    run(story())


def test_a_large_append_beside_promises_is_synced_before_them() -> None:
    """I04: COMPLETE must not outlive a marker whose log is synced by itself."""

    async def story() -> None:
        bench = Bench()
        state, data, large = bench.partition(TRANSACTION_STATE), bench.partition("data"), bench.partition("large")
        large.log.shares_commits = False
        bench.write(state, large, data)
        await bench.commit.wait_until_idle()
        assert bench.events.index("committed large 1") < bench.events.index(f"sync {TRANSACTION_STATE}")
        assert bench.events.index("committed data 1") < bench.events.index(f"sync {TRANSACTION_STATE}")

    run(story())


def test_what_the_log_needs_now_and_then_is_done_beside() -> None:
    async def story() -> None:
        bench, rig = Bench(), Rig(half_blocks=4)
        bench.commit.ahead = rig.log
        file = rig.open("0")
        while rig.log.work is None:
            file.append([b"x" * 1000])
            file.commit()
        bench.write(bench.partition("data"))
        await bench.commit.wait_until_idle()
        await bench.commit.end()
        assert rig.disk.syncs.count("a-0/0.log") and not bench.failures

    run(story())


def test_where_that_fails_the_broker_stops() -> None:
    async def story() -> None:
        bench, rig = Bench(), Rig(half_blocks=4)
        bench.commit.ahead = rig.log
        file = rig.open("0")
        while rig.log.work is None:
            file.append([b"x" * 1000])
            file.commit()
        rig.disk.fault = lambda operation, path: OSError(errno.EIO, "bad") if path == "a-0/0.log" else None
        data = bench.partition("data")
        bench.write(data)
        await bench.commit.wait_until_idle()
        while not bench.failures:
            await asyncio.sleep(0)
        assert "bad" in str(bench.failures[0]) and bench.commit.failed

    run(story())
