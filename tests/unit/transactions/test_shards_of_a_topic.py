"""The shards of one topic while it is opened and loaded: who is ready, and how much of a log is in memory."""

import asyncio
from typing import Any, cast

import pytest

from broker.coordination.coordinators import CoordinatorError, Shards
from coordinator.loading import Entry
from coordinator.machine import Outcome
from protocol.errors import ErrorCode
from protocol.records.record import NewRecord, build_batch
from tests.harness.owned import may_be_behind
from tests.unit.partition.rig import NOW_MS, Rig
from tests.unit.transactions.test_loading import Environment, Machine


class Replaying(Machine):
    """Notes what it has taken in."""

    seen: list[int]

    def replay(self, entry: Entry) -> None:
        Replaying.seen.append(entry.offset)


def partition(index: int, size: int = 1_000) -> Any:
    """Three records of one key, each in a batch of its own."""
    rig = Rig()
    for value in (b"1", b"2", b"3"):
        rig.partition.append_records(build_batch([NewRecord(key=b"k", value=value * size)]), now_ms=NOW_MS)
    rig.partition.index = index
    return rig.partition


def shards(*, load_bytes: int = 1 << 20, count: int = 1, exists: bool = True) -> Shards[Replaying]:
    return Shards(
        topic="t",
        partition_count=lambda: count,
        make=lambda index: Replaying(),
        environment=cast(Any, Environment()),
        load_bytes=lambda: load_bytes,
        exists=lambda: exists,
    )


@pytest.mark.parametrize(
    ("load_bytes", "most_bytes", "replayed"),
    [
        (1_500, 1 << 20, [1, 2]),
        (1 << 30, 1_500, [1, 2]),
        (1 << 30, 1 << 20, [2]),
        (1, 1 << 20, [0, 1, 2]),
    ],
)
def test_as_much_of_a_log_is_in_memory_as_is_set_but_not_more_than_is_good(
    load_bytes: int, most_bytes: int, replayed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record is passed over where a later one of its key is in memory with it."""
    monkeypatch.setattr("broker.coordination.coordinators.MOST_READ_BYTES", most_bytes)
    Replaying.seen = []

    async def story() -> None:
        made = shards(load_bytes=load_bytes)
        made.open([partition(0)])
        await made.wait_until_loaded()
        assert Replaying.seen == replayed

    asyncio.run(story())


def test_all_are_loaded_when_each_partition_of_the_topic_has_its_shard() -> None:
    Replaying.seen = []

    async def story() -> None:
        absent = shards(count=3, exists=False)
        assert absent.all_loaded and not absent.indexes(), "there is nothing to load"
        made = shards(count=3)
        assert not made.all_loaded
        made.open([partition(0), partition(2)])
        await made.wait_until_ready(0)
        await made.wait_until_ready(2)
        assert not made.all_loaded, "one has none yet"
        waiting = asyncio.ensure_future(made.wait_until_loaded())
        made.open([partition(0), partition(1)])
        assert not made.all_loaded, "it loads"
        await waiting
        assert made.all_loaded and len(made.all()) == 3
        other = shards(count=1, exists=False)
        other.open([partition(0), partition(1)])
        assert not other.all_loaded
        await other.wait_until_loaded()

    asyncio.run(story())


def test_a_shard_that_is_there_is_not_opened_again() -> None:
    Replaying.seen = []

    async def story() -> None:
        made = shards(count=2)
        first = partition(0)
        made.open([first])
        shard = made.shard(0)
        made.open([partition(0), partition(1)])
        assert made.shard(0) is shard and made.partition(0) is first
        assert [index for index, _ in made.indexed()] == [0, 1] == list(made.indexes())
        assert made.all() == [made.shard(0), made.shard(1)]
        await made.wait_until_loaded()

    asyncio.run(story())


def test_what_is_given_up_is_told() -> None:
    """What was counted for a shard is to be given back with it."""

    async def story() -> None:
        gone: list[int] = []
        made = Shards(
            topic="t",
            partition_count=lambda: 2,
            make=lambda index: Replaying(),
            environment=cast(Any, Environment()),
            exists=lambda: True,
            given_up=gone.append,
        )
        made.open([partition(0), partition(1)])
        await made.wait_until_loaded()
        made.give_up(1)
        made.give_up(1)
        assert gone == [1] and made.indexes() == [0, 1] and [index for index, _ in made.indexed()] == [0]

    Replaying.seen = []
    asyncio.run(story())


def test_nothing_is_answered_while_another_node_may_have_the_partition() -> None:
    async def story() -> None:
        made = shards()
        held: Any = Rig().partition
        made.open([held])
        await made.wait_until_loaded()
        assert await made.ask_partition(0, _answer) == "here"
        may_be_behind(held)
        for asked in (made.ask_partition(0, _answer), made.wait_until_ready(0)):
            with pytest.raises(CoordinatorError) as refused:
                await asked
            assert refused.value.error is ErrorCode.NOT_COORDINATOR
        may_be_behind(held, False)
        assert await made.ask_partition(0, _answer) == "here"

    Replaying.seen = []
    asyncio.run(story())


def _answer(machine: Replaying, ticket: Any, now_ms: int) -> Outcome[str]:
    return Outcome(answers=[(ticket, "here")])
