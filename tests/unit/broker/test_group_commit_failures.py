"""A cycle of syncs that fails, by the disk or by a bug: nothing that waited for it is acknowledged."""

import asyncio

import pytest

from tests.unit.broker.doubles import FakeFlush, FakePartition
from tests.unit.broker.test_group_commit import Bench, run


def test_a_failed_sync_is_final_and_nothing_is_published(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        bench = Bench()
        data, other = bench.partition("data"), bench.partition("other")
        data.log.broken = True
        bench.write(data, other)
        await bench.commit.wait_until_idle()
        assert [type(error) for error in bench.failures] == [OSError]
        (record,) = caplog.records
        assert (record.getMessage(), record.exc_info) == ("sync failed, the broker stops", None)
        assert vars(record)["fields"] == {"error": bench.failures[0]}
        assert not [event for event in bench.events if event.startswith("committed")]
        bench.write(other)
        await bench.commit.wait_until_idle()
        assert bench.commit.failed and not [event for event in bench.events if event.startswith("committed")]

    run(story())


def test_what_was_written_during_a_sync_that_failed_is_not_published() -> None:
    async def story() -> None:
        bench = Bench()
        data, late = bench.partition("data"), bench.partition("late", durable=False)
        data.log.broken = True
        bench.environment.before_each = lambda: bench.write(late)
        bench.write(data)
        await bench.commit.wait_until_idle()
        for _ in range(5):
            await asyncio.sleep(0)
        assert [type(error) for error in bench.failures] == [OSError]
        assert not [event for event in bench.events if event.startswith("committed")]

    run(story())


@pytest.mark.parametrize("broken", [False, True])
def test_who_waited_and_was_cancelled_stands_in_nobody_s_way(broken: bool) -> None:
    async def story() -> None:
        bench = Bench()
        data = bench.partition("data")
        data.log.broken = broken
        bench.write(data)
        gone, stays = (asyncio.ensure_future(bench.commit.wait_until_idle()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await stays
        assert gone.cancelled()
        assert [type(error) for error in bench.failures] == [OSError] * broken

    run(story())


class Broken(FakePartition):
    """A partition with a bug where a cycle meets it; it comes once."""

    def __init__(self, events: list[str], where: str) -> None:
        super().__init__("broken", events, durable=where != "published at once")
        self.where = where
        if where in ("begin_flush", "finish_flush"):
            setattr(self.log, where, self.raising)

    def raising(self, *_: object) -> None:
        raise RuntimeError("a bug")

    def committed_moved(self) -> None:
        if self.where.startswith("published"):
            self.where = ""
            self.raising()
        super().committed_moved()


@pytest.mark.parametrize("where", ["begin_flush", "finish_flush", "published", "published at once", "threads"])
def test_a_bug_in_a_cycle_ends_the_node(where: str) -> None:
    async def story() -> None:
        bench = Bench()
        if where == "threads":
            bench.environment.run_blocking = Broken(bench.events, "begin_flush").raising
        bench.write(Broken(bench.events, where), bench.partition("data", durable=where != "published at once"))
        await bench.commit.wait_until_idle()
        for _ in range(5):
            await asyncio.sleep(0)
        assert [type(error) for error in bench.failures] == [RuntimeError]
        assert bench.commit.failed
        assert "committed data 1" not in bench.events, "nothing is acknowledged any more"

    run(story())


def test_a_bug_in_a_sync_ends_the_node(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        bench = Bench()
        broken = bench.partition("broken")
        flush = FakeFlush(broken.log)
        flush.run = Broken(bench.events, "begin_flush").raising  # type: ignore[method-assign]
        broken.log.begin_flush = lambda: flush
        bench.write(broken)
        await bench.commit.wait_until_idle()
        assert [type(error) for error in bench.failures] == [RuntimeError]
        (record,) = caplog.records
        assert record.getMessage() == "a cycle of syncs failed, the broker stops"
        assert record.exc_info is not None and record.exc_info[1] is bench.failures[0]
        assert not [event for event in bench.events if event.startswith("committed")]

    run(story())
