"""The driver's side of a batch that all tasks of `kafka-eos` write: what tasks ask it over a connection each."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from spark_connector.errors import BadRows, BatchIncomplete, ConnectorError, DriverAway, TurnRefused
from spark_connector.progress import Marker
from spark_connector.sink.batch_server import BatchServer, Part, TurnsOfBatch
from spark_connector.sink.batch_transaction import Opened
from tallystick.client.lease import Lease

NEVER_S = 1e6


@pytest.fixture
def server() -> Iterator[BatchServer]:
    made = BatchServer("127.0.0.1", "127.0.0.1")
    yield made
    made.close()


def run(story: Callable[[], Any]) -> Any:
    return asyncio.run(asyncio.wait_for(story(), 60))


FOUND = Opened(Lease("s", 7, 3, True), None)
DONE = Opened(Lease("s", 7, 4, True), Marker(3, ["{}"], {"t": {"0": 4}}, 5, ["t"]))


def tasks(server: BatchServer, *attempts: tuple[int, int], batch: str = "b") -> list[TurnsOfBatch]:
    return [server.sharing.task(batch, task, attempt, NEVER_S) for task, attempt in attempts]


@pytest.mark.parametrize("found", [FOUND, DONE], ids=["a lease", "a marker"])
def test_what_was_found_reaches_the_other_tasks(server: BatchServer, found: Opened) -> None:
    async def story() -> None:
        first, second = tasks(server, (0, 10), (1, 11))
        assert await first.begin() is None
        waiting = asyncio.create_task(second.begin())
        await first.opened(found)
        assert await waiting == found
        assert second.part == Part(1, 11, 0)
        assert await server.sharing.over("b") == [found]
        assert await server.sharing.over("x") == []
        for task in (first, second):
            await task.close()

    run(story)


def test_tasks_of_two_batches_are_strangers(server: BatchServer) -> None:
    async def story() -> None:
        (one,), (other,) = tasks(server, (0, 10)), tasks(server, (0, 11), batch="c")
        assert await one.begin() is None
        assert await other.begin() is None
        for task in (one, other):
            await task.close()

    run(story)


def test_a_task_that_begins_when_its_batch_was_given_up_is_refused(server: BatchServer) -> None:
    """It must not take a lease: nobody would end what it writes."""

    async def story() -> None:
        slow, second, late = tasks(server, (0, 10), (1, 11), (2, 12), batch="query|3|run")
        assert await slow.begin() is None
        waiting = asyncio.create_task(second.begin())
        (other,) = tasks(server, (0, 10), batch="query|30|run")
        assert await other.begin() is None
        assert await server.sharing.over("query|3|") == []
        with pytest.raises(TurnRefused, match="over"):
            await slow.opened(FOUND)
        for begins in (waiting, late.begin()):
            with pytest.raises(TurnRefused, match="given up"):
                await begins
        await other.opened(FOUND)
        for task in (slow, second, late, other):
            await task.close()

    run(story)


def test_from_the_first_turn_to_the_commit(server: BatchServer) -> None:
    async def story() -> None:
        first, second = tasks(server, (0, 10), (1, 11))
        await first.begin()
        await first.opened(FOUND)
        await second.begin()
        assert await first.take({}, ["t/0"]) == {"t/0": 0}
        assert await first.take({"t/0": 4}, []) == {}
        assert await second.take({}, ["t/0"]) == {"t/0": 4}
        assert await second.take({"t/0": 1}, []) == {}
        for task in (first, second):
            await task.done()
            await task.close()
        with pytest.raises(BatchIncomplete):
            await server.sharing.complete("b", 0, {0: (10, 4)})
        for _ in range(2):
            await server.sharing.complete("b", 0, {0: (10, 4), 1: (11, 1)})
        (late,) = tasks(server, (1, 21))
        with pytest.raises(TurnRefused, match="complete"):
            await late.begin()
        with pytest.raises(TurnRefused, match="does not know"):
            await server.sharing.complete("c", 0, {})

    run(story)


def test_a_connection_that_ends_is_a_task_that_is_lost(server: BatchServer) -> None:
    async def story() -> None:
        first, second = tasks(server, (0, 10), (1, 11))
        await first.begin()
        await first.opened(FOUND)
        await second.begin()
        await first.take({}, ["t/0"])
        await first.close()
        with pytest.raises(BatchIncomplete, match="task 0 was lost"):
            await second.take({}, ["t/0"])
        await second.close()
        (again,) = tasks(server, (1, 21))
        assert await again.begin() is None
        assert again.part == Part(1, 21, 1)
        await second.failed(ConnectorError("of the life before"))
        await again.opened(FOUND)
        assert await again.take({}, ["t/0"]) == {"t/0": 0}
        await again.close()

    run(story)


def test_what_fails_before_its_first_turn_harms_nobody(server: BatchServer) -> None:
    async def story() -> None:
        first, second = tasks(server, (0, 10), (1, 11))
        await first.begin()
        await first.opened(FOUND)
        await second.begin()
        await second.failed(BadRows("no value"))
        await second.close()
        assert await first.take({}, ["t/0"]) == {"t/0": 0}
        await first.failed(BadRows("no key"))
        with pytest.raises(BadRows, match="no key"):
            await first.take({"t/0": 1}, ["t/1"])
        await first.close()

    run(story)


@pytest.mark.parametrize(
    "nonsense", [b"\n", b"{}\n", b'{"token": "x", "batch": "b"}\n{"over": true}\n', b"\xff\n", b'{"token": "x']
)
def test_strangers_are_not_answered(server: BatchServer, nonsense: bytes) -> None:
    with socket.create_connection(server.sharing.address) as stranger:
        stranger.sendall(nonsense)
        stranger.shutdown(socket.SHUT_WR)
        assert stranger.recv(100) == b""


def test_a_driver_that_cannot_be_reached_is_left_alone_for_a_while() -> None:
    """One refusal is enough: the next batches are not to wait for it again."""
    gone = BatchServer("127.0.0.1", "127.0.0.1")
    gone.close()

    async def story() -> None:
        for words in (r"does not answer", "a moment ago"):
            (task,) = tasks(gone, (0, 10))
            with pytest.raises(DriverAway, match=words):
                await task.begin()

    run(story)


def test_batches_that_nobody_ends_are_forgotten(server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_connector.sink.batch_server._MOST_BATCHES", 2)
    monkeypatch.setattr("spark_connector.sink.batch_server._MOST_ENDED", 1)

    async def story() -> None:
        for name in ("a", "b", "c"):
            (task,) = tasks(server, (0, 10), batch=name)
            await task.begin()
            await task.opened(FOUND)
            await task.close()
        assert list(server._batches) == ["b", "c"]
        for name in ("b", "c"):
            await server.sharing.complete(name, 0, {})
        assert list(server._batches) == ["c"]

    run(story)
