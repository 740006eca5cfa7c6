"""How soon a large consumer group has settled (KIP-848): many members come at once, one more comes, one goes.

    python -m tests.benchmarks.converging [--members 100] [--partitions 1000] [--rounds 3]

A member is a connection that sends the heartbeats of a client: as often as it is told, which is set to 100 ms, and at
once when it has something to give back. Settled means that every partition has one owner by what members were told, and
that all members are at one epoch. It is printed, and not asserted. With TALLYSTICK_TEST_BROKER=apache-kafka it is a
Kafka that is measured.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, HeartbeatTopicPartitions
from protocol.messages.groups import FindCoordinatorRequest
from tallystick.client.connection import Connection
from tests.harness.broker import server
from tests.harness.confluent import make_topic
from tests.harness.retriable import PASSES_BY_ITSELF

INTERVAL_S, TOPIC, VERSION = 0.1, "t", 1
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}
Part = tuple[bytes, int]


class Member:
    """One member, and what it was told last."""

    def __init__(self, group: "Group", number: int) -> None:
        self._group = group
        self._id = f"member-{number}"
        self._left = asyncio.Event()
        self.epoch = 0
        self.owned: frozenset[Part] = frozenset()

    async def run(self) -> None:
        connection = await Connection.connect("127.0.0.1", self._group.port)
        says_all = True
        while not self._left.is_set():
            says_all = await self._beat(connection, says_all=says_all)
            if not says_all:
                await self._pause()
        leaves = ConsumerGroupHeartbeatRequest(group_id=self._group.id, member_id=self._id, member_epoch=-1)
        await connection.ask(leaves, VERSION)
        await connection.close()

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._left.wait(), INTERVAL_S)
        except TimeoutError:
            return

    async def _beat(self, connection: Connection, *, says_all: bool) -> bool:
        """Whether it is to be heard of again at once."""
        joins = self.epoch == 0
        answer = await connection.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=self._group.id,
                member_id=self._id,
                member_epoch=self.epoch,
                rebalance_timeout_ms=60_000 if joins else -1,
                subscribed_topic_names=[TOPIC] if joins else None,
                topic_partitions=_by_topic(self.owned) if says_all else None,
            ),
            VERSION,
        )
        code = ErrorCode(answer.error_code)
        if code in PASSES_BY_ITSELF:
            await asyncio.sleep(INTERVAL_S)
            return True
        assert code is ErrorCode.NONE, answer.error_message
        self.epoch = answer.member_epoch
        changed = answer.assignment is not None
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self.owned = frozenset((bytes(topic.topic_id), index) for topic in topics for index in topic.partitions)
        self._group.look()
        return changed

    def leave(self) -> None:
        self._left.set()


def _by_topic(owned: frozenset[Part]) -> list[HeartbeatTopicPartitions]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(owned):
        topics.setdefault(topic_id, []).append(index)
    return [HeartbeatTopicPartitions(topic_id=one, partitions=of) for one, of in topics.items()]


class Group:
    """All members, and whether they have settled."""

    def __init__(self, port: int, group_id: str, partitions: int) -> None:
        self.port = port
        self.id = group_id
        self._partitions = partitions
        self._members: list[Member] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._settled = asyncio.Event()

    async def come(self, count: int) -> float:
        """Seconds until these, too, have their share."""
        return await self._after(lambda: self._add(count))

    def _add(self, count: int) -> None:
        fresh = [Member(self, len(self._tasks) + number) for number in range(count)]
        self._members += fresh
        self._tasks += [asyncio.create_task(member.run()) for member in fresh]

    async def go(self) -> float:
        """Seconds until the others have what one of them had."""
        return await self._after(lambda: self._members.pop().leave())

    async def _after(self, change: Callable[[], None]) -> float:
        self._settled.clear()
        begin = time.monotonic()
        change()
        await self._settled.wait()
        return time.monotonic() - begin

    def look(self) -> None:
        """A member was told something."""
        if len({member.epoch for member in self._members}) > 1 or self._members[0].epoch == 0:
            return
        if sum(len(member.owned) for member in self._members) == self._partitions:
            everything = frozenset[Part]().union(*(member.owned for member in self._members))
            if len(everything) == self._partitions:
                self._settled.set()

    async def end(self) -> None:
        for member in self._members:
            member.leave()
        await asyncio.gather(*self._tasks)


async def measure(port: int, group_id: str, members: int, partitions: int) -> list[float]:
    """Seconds of each of the three."""
    await _wait_for_coordinator(port, group_id)
    group = Group(port, group_id, partitions)
    found = [await group.come(members), await group.come(1), await group.go()]
    await group.end()
    return found


async def _wait_for_coordinator(port: int, group_id: str) -> None:
    connection = await Connection.connect("127.0.0.1", port)
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
    while (await connection.ask(request, 4)).coordinators[0].error_code != ErrorCode.NONE:
        await asyncio.sleep(INTERVAL_S)
    await connection.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.converging", description=__doc__)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        broker = server(Path(folder) / "broker", more=SETTINGS)
        try:
            make_topic(broker.start().bootstrap, TOPIC, options.partitions)
            rounds = [
                asyncio.run(measure(broker.port, f"g-{number}", options.members, options.partitions))
                for number in range(options.rounds)
            ]
        finally:
            broker.close()
    for what, seconds in zip(("all come", "one more comes", "one goes"), zip(*rounds, strict=True), strict=True):
        print(f"{what}: {statistics.median(seconds):.2f} s ({', '.join(f'{one:.2f}' for one in seconds)})")


if __name__ == "__main__":
    main()
