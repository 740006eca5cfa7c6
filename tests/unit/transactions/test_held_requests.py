"""Requests that wait until a transaction is complete in this node, and what is known of ids without asking."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.coordination.transactions import TransactionShards
from coordinator.runtime import ShardState
from coordinator.transactions.answers import Identity
from coordinator.transactions.states import Transaction, TransactionState
from protocol.errors import ErrorCode
from tests.unit.transactions.rig import in_state

BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
LONG_S = 20.0


class Asked(TransactionShards):
    """One or more partitions, with shards that a test describes."""

    def __init__(self, *shards: Any, answers: tuple[Any, ...] = ()) -> None:
        environment = SimpleNamespace(wall_ms=lambda: 1, monotonic_ms=lambda: 1)
        super().__init__(
            partition_count=lambda: max(1, len(shards)),
            make=cast(Any, None),
            environment=cast(Any, environment),
            load_bytes=lambda: 1,
            opened=lambda index, shard: None,
            exists=lambda: True,
            publish=lambda partition: None,
            led=lambda index: True,
        )
        self._shards = dict(enumerate(shards))
        self.answers = list(answers)

    async def ask(self, key: str, operation: Any) -> Any:
        assert (key, operation) == ("tx", "operation")
        return self.answers.pop(0)


def shard(
    *, completing: tuple[str, ...] = (), known: dict[str, Transaction] | None = None, owner: Any = None
) -> SimpleNamespace:
    machine = SimpleNamespace(
        completions=dict.fromkeys(completing),
        transactions=known or {},
        ledger=SimpleNamespace(owner_of=lambda producer_id: owner if producer_id == 7 else None),
    )
    return SimpleNamespace(machine=machine, state=ShardState.ACTIVE)


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_who_waits_for_a_completion() -> None:
    async def story() -> None:
        assert not await Asked().wait_until_completed("tx", LONG_S), "no shard"
        assert await Asked(shard()).wait_until_completed("tx", LONG_S), "nothing to wait for"
        shards = Asked(shard(completing=("tx", "other")))
        assert not await shards.wait_until_completed("tx", 0.001)
        order: list[str] = []

        async def wait(name: str, transactional_id: str = "tx") -> None:
            assert await shards.wait_until_completed(transactional_id, LONG_S)
            order.append(name)

        cancelled = asyncio.ensure_future(wait("cancelled"))
        tasks = [asyncio.ensure_future(wait(name)) for name in ("first", "second")]
        other = asyncio.ensure_future(wait("of another id", "other"))
        await turns()
        cancelled.cancel()
        await turns()
        shards.completed("nobody's")
        await turns()
        assert order == []
        shards.completed("tx")
        await asyncio.gather(*tasks)
        assert order == ["first", "second"]
        shards.completed("other")
        await other
        assert shards._held == {}

    asyncio.run(story())


def test_who_comes_for_the_next_completion_is_not_forgotten_with_the_last() -> None:
    async def story() -> None:
        shards = Asked(shard(completing=("tx",)))
        before = asyncio.ensure_future(shards.wait_until_completed("tx", LONG_S))
        await turns()
        behind = asyncio.ensure_future(shards.wait_until_completed("tx", LONG_S))
        shards.completed("tx")
        await turns()
        assert before.done() and not behind.done()
        shards.completed("tx")
        assert await asyncio.wait_for(behind, LONG_S)
        assert shards._held == {}

    asyncio.run(story())


@pytest.mark.parametrize("answer", [ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, Identity(ErrorCode.NONE, 7, 3)])
@pytest.mark.parametrize("busy", [BUSY, Identity(BUSY)])
def test_a_request_is_asked_again_when_the_one_before_is_complete(answer: Any, busy: Any) -> None:
    async def story() -> None:
        operation: Any = "operation"
        at_once = Asked(shard(completing=("tx",)), answers=(answer,))
        assert await at_once.ask_held("tx", operation) is answer
        complete = Asked(shard(), answers=(busy, busy, answer))
        assert await complete.ask_held("tx", operation) is answer
        waiting = Asked(shard(completing=("tx",)), answers=(busy, answer))
        task = asyncio.ensure_future(waiting.ask_held("tx", operation))
        await turns()
        assert waiting.answers == [answer]
        waiting.completed("tx")
        assert await task is answer

    asyncio.run(story())


def test_a_request_is_not_held_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        operation: Any = "operation"
        gone = Asked(answers=(BUSY, ErrorCode.NONE))
        assert await gone.ask_held("tx", operation) is BUSY, "nobody here will say when it is complete"
        late = Asked(shard(completing=("tx",)), answers=(BUSY, ErrorCode.NONE))
        assert await late.ask_held("tx", operation, 1) is BUSY
        at_once = Asked(shard(), answers=(BUSY, ErrorCode.NONE))
        assert await at_once.ask_held("tx", operation, 0) is BUSY
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "time", lambda: 1.0)
        last_instant = Asked(shard(), answers=(BUSY, ErrorCode.NONE))
        assert await last_instant.ask_held("tx", operation, 0) is BUSY
        times = iter([1.0, 1.09999])
        monkeypatch.setattr(loop, "time", lambda: next(times, 2.0))
        before_it = Asked(shard(), answers=(BUSY, ErrorCode.NONE))
        assert await before_it.ask_held("tx", operation) is ErrorCode.NONE

    asyncio.run(story())


def test_what_is_known_without_asking() -> None:
    async def story() -> None:
        known = in_state(TransactionState.ONGOING, previous_producer_id=5, next_producer_id=9)
        here = shard(known={"tx": known})
        assert Asked(here).transaction_of("tx") is known
        assert Asked(here).transaction_of("other") is None
        assert Asked().transaction_of("tx") is None
        assert Asked(here).whose("tx") == {7, 5, 9, -1}
        assert Asked(here).whose("other") == {-1}
        assert Asked().whose("tx") is None
        here.state = ShardState.LOADING
        assert Asked(here).whose("tx") is None
        found = ("tx", known)
        assert Asked(shard(), shard(owner=found)).owner_of(7) == found
        assert Asked(shard(owner=("first", known)), shard(owner=found)).owner_of(7) == ("first", known)
        assert Asked(shard(), shard(owner=found)).owner_of(8) is None

    asyncio.run(story())
