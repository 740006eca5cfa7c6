"""Tasks that write to the same partitions under one lease, each in its turn, against a broker."""

import asyncio
import random
from collections.abc import Callable

import pytest

from spark_connector.errors import BatchIncomplete
from spark_connector.sink.places import Places
from spark_connector.sink.turn_sender import TurnSender
from spark_connector.sink.turn_server import TurnServer, TurnsOfTask
from spark_connector.sink.turns import Turns
from tallystick.client.client import Client
from tallystick.client.errors import Fenced
from tallystick.client.lease import Lease
from tallystick.process import BrokerProcess
from tests.clients.test_lease import PATIENCE_S, PROTOCOLS, batch, commit, leased, run, settled

TASKS, BATCHES, PARTITIONS = 4, 40, 3


class Task:
    """One task, with a connection of its own."""

    def __init__(self, client: Client, server: TurnServer, turns: Turns, lease: Lease, topic: str, number: int) -> None:
        self.topic, self.number = topic, number
        self.turns = TurnsOfTask.of(server.address, turns.token, number, 10 + number)
        places = Places([(topic, PARTITIONS)])
        self.sender = TurnSender(client, lease, places.place_of, self.turns, patience_s=PATIENCE_S, room_bytes=1000)

    async def write(self, begin: int = 0, end: int = BATCHES) -> None:
        chosen = random.Random(self.number)
        for number in range(begin, end):
            where = (self.topic, chosen.randrange(PARTITIONS))
            values = [b"%d-%03d-%d" % (self.number, number, part) for part in range(chosen.randint(1, 3))]
            await self.sender.offer([(where, batch(*values))])
        await self.sender.flush()

    async def end(self) -> None:
        await self.turns.done()
        await self.sender.close()
        await self.turns.close()

    @property
    def records(self) -> int:
        return sum(totals.records for totals in self.sender.totals.values())


async def tasks_of(bootstrap: str, server: TurnServer, turns: Turns, lease: Lease, topic: str) -> list[Task]:
    return [Task(await Client.connect(bootstrap), server, turns, lease, topic, number) for number in range(TASKS)]


def values_in_order(found: list[list[bytes | None]]) -> None:
    """All batches of all tasks, each record once, and those of a task in their order in each partition."""
    every = [value or b"" for values in found for value in values]
    assert len(every) == len(set(every))
    assert {value[:5] for value in every} == {b"%d-%03d" % (t, n) for t in range(TASKS) for n in range(BATCHES)}
    for values in found:
        for task in range(TASKS):
            its = [value for value in values if value and value.startswith(b"%d-" % task)]
            assert its == sorted(its)


@pytest.mark.parametrize("implicit", PROTOCOLS)
def test_all_tasks_write_to_all_partitions(bootstrap: str, name: str, implicit: bool) -> None:
    server = TurnServer("127.0.0.1", "127.0.0.1")

    async def story(client: Client) -> None:
        await client.create_topic(name, PARTITIONS)
        lease = await leased(client, name, implicit=implicit)
        with server.opened(PATIENCE_S) as turns:
            tasks = await tasks_of(bootstrap, server, turns, lease, name)
            await asyncio.gather(*(task.write() for task in tasks))
            for task in tasks:
                await task.end()
            counts = turns.complete({task.number: (10 + task.number, task.records) for task in tasks})
        await commit(client, lease)
        found = await settled(client, name, PARTITIONS)
        values_in_order(found)
        assert counts == {number: len(values) for number, values in enumerate(found)}

    run(bootstrap, story)
    server.close()


@pytest.mark.parametrize("implicit", PROTOCOLS)
def test_a_broker_that_is_killed_costs_nothing_but_time(
    own_broker: Callable[..., BrokerProcess], implicit: bool
) -> None:
    """In the middle of the turns of all tasks: what was not acknowledged is sent again with its number."""
    broker, server = own_broker().start(), TurnServer("127.0.0.1", "127.0.0.1")

    async def story(client: Client) -> None:
        await client.create_topic("t", PARTITIONS)
        lease = await leased(client, "turns", implicit=implicit)
        with server.opened(PATIENCE_S) as turns:
            tasks = await tasks_of(broker.bootstrap, server, turns, lease, "t")
            await asyncio.gather(*(task.write(0, BATCHES // 2) for task in tasks))
            broker.kill()
            writing = asyncio.gather(*(task.write(BATCHES // 2) for task in tasks))
            await asyncio.to_thread(broker.start)
            await writing
            for task in tasks:
                await task.end()
            turns.complete({task.number: (10 + task.number, task.records) for task in tasks})
        await commit(client, lease)
        values_in_order(await settled(client, "t", PARTITIONS))

    run(broker.bootstrap, story)
    server.close()


@pytest.mark.parametrize("lost", ["request.Produce=drop@9x4", "answer.Produce=drop@9x4"])
def test_requests_and_answers_that_are_lost(own_broker: Callable[..., BrokerProcess], lost: str) -> None:
    """A batch that is sent twice is there once, whoever has had the partition before."""
    broker, server = own_broker(), TurnServer("127.0.0.1", "127.0.0.1")
    broker.environment = {"TALLYSTICK_FAULTS": lost}
    broker.start()

    async def story(client: Client) -> None:
        await client.create_topic("t", PARTITIONS)
        lease = await leased(client, "lost")
        with server.opened(PATIENCE_S) as turns:
            tasks = await tasks_of(broker.bootstrap, server, turns, lease, "t")
            await asyncio.gather(*(task.write() for task in tasks))
            for task in tasks:
                await task.end()
            turns.complete({task.number: (10 + task.number, task.records) for task in tasks})
        await commit(client, lease)
        values_in_order(await settled(client, "t", PARTITIONS))

    run(broker.bootstrap, story)
    server.close()
    assert "a fault strikes" in broker.log_end(1 << 20)


def test_a_task_that_is_lost_fails_the_batch_and_the_next_lease_fences_the_others(bootstrap: str, name: str) -> None:
    server = TurnServer("127.0.0.1", "127.0.0.1")

    async def story(client: Client) -> None:
        await client.create_topic(name, PARTITIONS)
        lease = await leased(client, name)
        with server.opened(PATIENCE_S) as turns:
            first, zombie = (await tasks_of(bootstrap, server, turns, lease, name))[:2]
            await first.write(0, 10)
            await zombie.write(0, 10)
            await first.turns.close()  # Its process is gone.
            with pytest.raises(BatchIncomplete):
                while True:
                    await zombie.write(10, 11)
        lease_after = await leased(client, name)
        with server.opened(PATIENCE_S) as turns:
            late = Task(client, server, turns, lease, name, 0)
            with pytest.raises(Fenced):
                await late.write(0, 1)
            await late.turns.close()
        with server.opened(PATIENCE_S) as turns:
            tasks = await tasks_of(bootstrap, server, turns, lease_after, name)
            await asyncio.gather(*(task.write() for task in tasks))
        await commit(client, lease_after)
        values_in_order(await settled(client, name, PARTITIONS))

    run(bootstrap, story)
    server.close()
