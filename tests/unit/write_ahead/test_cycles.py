"""Group commit over a write-ahead log: one part of a cycle where one sync serves all, two where it does not (I04)."""

import asyncio
import errno
from typing import Any

import pytest

from protocol.internal_topics import TRANSACTION_STATE
from storage.write_ahead.replay import AHEAD_FILE
from tests.unit.broker.doubles import FakePartition
from tests.unit.broker.test_group_commit import Bench, run
from tests.unit.write_ahead.rig import Rig

FILE = "a-0/0.log"


class SharingBench(Bench):
    """Partitions whose logs share their commits; counts what goes to a thread."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0
        self.run_blocking, self.environment.run_blocking = self.environment.run_blocking, self.counted

    def counted(self, work: Any) -> Any:
        self.runs += 1
        return self.run_blocking(work)

    def partition(self, topic: str, *, durable: bool = True) -> FakePartition:
        made = super().partition(topic, durable=durable)
        made.log.shares_commits = True
        return made


def with_work(bench: SharingBench) -> Rig:
    """A write-ahead log of which a half is full."""
    rig = Rig(half_blocks=4)
    bench.commit.ahead = rig.log
    file = rig.open("0")
    while rig.log.work is None:
        file.append([b"x" * 1000])
        file.commit()
    return rig


def test_what_shares_a_commit_is_committed_together_and_data_is_published_first() -> None:
    async def story() -> None:
        bench = SharingBench()
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
        bench = SharingBench()
        state, data, large = bench.partition(TRANSACTION_STATE), bench.partition("data"), bench.partition("large")
        large.log.shares_commits = False
        bench.write(state, large, data)
        await bench.commit.wait_until_idle()
        assert bench.events.index("committed large 1") < bench.events.index(f"sync {TRANSACTION_STATE}")
        assert bench.events.index("committed data 1") < bench.events.index(f"sync {TRANSACTION_STATE}")

    run(story())


def test_what_the_log_needs_now_and_then_is_done_beside() -> None:
    async def story() -> None:
        bench = SharingBench()
        rig = with_work(bench)
        bench.write(bench.partition("data"))
        await bench.commit.wait_until_idle()
        await bench.commit.end()
        assert rig.disk.syncs.count(FILE) and not bench.failures and not rig.disk.exists(AHEAD_FILE)

    run(story())


def test_where_that_fails_the_broker_stops_and_the_log_stays() -> None:
    async def story() -> None:
        bench = SharingBench()
        rig = with_work(bench)
        rig.disk.fault = lambda operation, path: OSError(errno.EIO, "bad") if path == FILE else None
        bench.write(bench.partition("data"))
        await bench.commit.wait_until_idle()
        while not bench.failures:
            await asyncio.sleep(0)
        assert "bad" in str(bench.failures[0]) and bench.commit.failed
        rig.disk.fault = None
        with pytest.raises(OSError, match="bad"):
            await bench.commit.end()
        assert rig.disk.exists(AHEAD_FILE)

    run(story())
