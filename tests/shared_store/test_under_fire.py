"""Nodes that take over from one another, or take logs from one another, and commit, while connections are ended, the
server loses its power, or a standby takes its place: no gap, nothing acknowledged is lost, nobody writes after
another's claim, and whatever nobody knew is found out.
"""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable

import pytest

from broker.shared.postgresql import PostgresqlStore
from tests.shared_store.postgresql_server import PostgresqlServer, why_not
from tests.shared_store.striving_nodes import Books, Node, check

NODES = 4
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'tallystick' ORDER BY pid"

Trouble = Callable[[random.Random, Books], Awaitable[PostgresqlServer]]
"""Ends when there was enough of it; returns the server that is to be asked."""


async def strive(url: str, seed: int, trouble: Trouble) -> Books:
    """Nodes write as long as there is trouble, and some time after it."""
    store = PostgresqlStore(url)
    await store.open()
    await store.close()
    books = Books()
    stopped = asyncio.Event()
    nodes = [Node(number, url, f"{seed} {number}", books) for number in range(NODES)]
    tasks = [asyncio.create_task(node.run(stopped)) for node in nodes]
    for task in tasks:
        task.add_done_callback(lambda _: books.happened.update(["a node has ended"]))
    try:
        await trouble(random.Random(seed), books)
        await until(books, 30)
        stopped.set()
        await asyncio.wait(tasks)
    except NodeEnded:
        pass  # why is told below
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for one in ended:
        if isinstance(one, Exception):
            raise one
    await check(books, url)
    return books


class NodeEnded(Exception):
    """No node ends before it is stopped, but by a bug."""


async def until(books: Books, more: int) -> None:
    """Until so many more commits were acknowledged. Raises `NodeEnded`."""
    wanted = len(books.acknowledged) + more
    while len(books.acknowledged) < wanted:
        if books.happened["a node has ended"]:
            raise NodeEnded
        await asyncio.sleep(0.002)


@pytest.fixture
def own_server() -> PostgresqlServer:
    """For one test, which closes it."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    return PostgresqlServer()


@pytest.mark.parametrize("seed", range(3))
def test_connections_are_ended_at_any_moment(postgresql: PostgresqlServer, schema: str, seed: int) -> None:
    async def trouble(draw: random.Random, books: Books) -> PostgresqlServer:
        killer = await postgresql.connect()
        try:
            while min(books.happened["unknown"], books.happened["fenced"]) < 12:
                pids = [row["pid"] for row in await killer.fetch(BACKENDS)]
                for pid in draw.sample(pids, min(len(pids), draw.randrange(1, 3))):
                    await killer.fetch("SELECT pg_terminate_backend($1)", pid)
                await until(books, draw.randrange(1, 5))
        finally:
            await killer.close()
        return postgresql

    asyncio.run(strive(postgresql.url(schema), seed, trouble))


@pytest.mark.parametrize("seed", range(2))
def test_the_server_loses_its_power(own_server: PostgresqlServer, seed: int) -> None:
    async def trouble(draw: random.Random, books: Books) -> PostgresqlServer:
        for _ in range(3):
            await until(books, draw.randrange(20, 60))
            await own_server.restart()
        return own_server

    async def story() -> Books:
        await own_server.start()
        return await strive(own_server.url("under_fire"), seed, trouble)

    try:
        books = asyncio.run(story())
    finally:
        own_server.close()
    assert books.happened["unreachable"] + books.happened["unknown"] + books.happened["not sent"] > 0


@pytest.mark.parametrize("seed", range(2))
def test_a_standby_takes_the_place_of_a_primary_that_is_gone(own_server: PostgresqlServer, seed: int) -> None:
    standbys: list[PostgresqlServer] = []

    async def trouble(draw: random.Random, books: Books) -> PostgresqlServer:
        killer = await own_server.connect()
        for _ in range(10):
            await until(books, draw.randrange(1, 10))
            pids = [row["pid"] for row in await killer.fetch(BACKENDS)]
            await killer.fetch("SELECT pg_terminate_backend($1)", draw.choice(pids or [0]))
        killer.terminate()
        await until(books, draw.randrange(5, 40))
        own_server.stop(signal.SIGKILL)
        await standbys[0].promote()
        return standbys[0]

    async def story() -> Books:
        await own_server.start()
        standbys.append(await own_server.follow_with())
        return await strive(own_server.url("under_fire", standbys[0]), seed, trouble)

    try:
        books = asyncio.run(story())
    finally:
        for standby in standbys:
            standby.close()
        own_server.close()
    assert books.happened["unreachable"] + books.happened["unknown"] + books.happened["not sent"] > 0
