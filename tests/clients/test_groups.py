"""Groups of three members coming and going, with each assignor and each client; offsets; static members."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Protocol

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer

from tests.harness.confluent import SECONDS, consumer, make_topic, wait_until, write

ASSIGNORS = ["range", "roundrobin", "cooperative-sticky"]


class Member:
    """A consumer polled by a thread of its own, as a real one is."""

    TIMES: Mapping[str, int] = MappingProxyType({"session__timeout__ms": 6000, "heartbeat__interval__ms": 200})

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: object) -> None:
        self.reader: Consumer = consumer(bootstrap, group__id=group, **self.TIMES, **settings)
        self.owned: set[int] = set()
        self.assigned_times = 0
        self.values: list[bytes] = []
        self._cooperative = (
            settings.get("partition__assignment__strategy") == "cooperative-sticky" or "group__protocol" in settings
        )
        self._leaving = threading.Event()
        self.reader.subscribe([topic], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._revoke)
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _assign(self, reader: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned_times += 1
        numbers = {partition.partition for partition in partitions}
        self.owned = self.owned | numbers if self._cooperative else numbers

    def _revoke(self, reader: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned = self.owned - {partition.partition for partition in partitions}

    def _poll(self) -> None:
        while not self._leaving.is_set():
            message = self.reader.poll(0.05)
            if message is not None and message.error() is None:
                self.values.append(message.value())
        self.reader.close()

    def leave(self) -> None:
        self._leaving.set()
        self._thread.join(SECONDS)


class Owner(Protocol):
    """A member, whichever client it is of."""

    @property
    def owned(self) -> Set[int]: ...


def shared_out(members: Sequence[Owner], partitions: int, each: int | None = None) -> Callable[[], bool]:
    """Every partition has exactly one owner, every member has something, or so many.

    A group that shares out in steps has an owner for every partition in the middle of its way, too: 3, 2 and 1 of 6.
    """

    def check() -> bool:
        owned = [set(member.owned) for member in members]
        whole = sum(map(len, owned)) == partitions and set().union(*owned) == set(range(partitions))
        return all(owned) and whole and (each is None or {each} == set(map(len, owned)))

    return check


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_three_members_come_and_go(bootstrap: str, name: str, assignor: str) -> None:
    """Partitions follow the members, and no record is lost on the way."""
    make_topic(bootstrap, name, 6)
    members = [Member(bootstrap, name, name, partition__assignment__strategy=assignor)]
    wait_until(shared_out(members, 6), "one member owns all")
    for _ in range(2):
        members.append(Member(bootstrap, name, name, partition__assignment__strategy=assignor))
    wait_until(shared_out(members, 6, each=2), "three members share")
    sent = [f"{number}".encode() for number in range(120)]
    write(bootstrap, name, sent)
    wait_until(
        lambda: sorted(value for member in members for value in member.values) == sorted(sent), "every record, once"
    )
    members.pop(0).leave()
    wait_until(shared_out(members, 6), "two members share")
    members.pop().leave()
    wait_until(shared_out(members, 6), "the last member owns all")
    members.pop().leave()


def test_a_static_member_comes_back_to_what_it_had(bootstrap: str, name: str) -> None:
    """KIP-345: within its session a static member may be away, and nobody is rebalanced."""
    make_topic(bootstrap, name, 4)
    stays = Member(bootstrap, name, name, group__instance__id=f"{name}-a")
    leaves = Member(bootstrap, name, name, group__instance__id=f"{name}-b")
    wait_until(shared_out([stays, leaves], 4), "two static members share")
    had, rebalances = set(leaves.owned), stays.assigned_times
    leaves.leave()
    back = Member(bootstrap, name, name, group__instance__id=f"{name}-b")
    wait_until(lambda: back.owned == had, "the same partitions as before")
    assert stays.assigned_times == rebalances
    stays.leave()
    back.leave()


def test_two_members_with_one_instance_id_fence_each_other(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name, 1)
    settings = {"group__id": name, "group__instance__id": name, "heartbeat__interval__ms": 200}
    first = consumer(bootstrap, session__timeout__ms=6000, **settings)
    first.subscribe([name])
    wait_until(lambda: first.poll(0.1) or first.assignment(), "the first member's assignment")
    second = consumer(bootstrap, session__timeout__ms=6000, **settings)
    second.subscribe([name])

    def fenced() -> bool:
        second.poll(0.05)
        message = first.poll(0.05)
        return message is not None and message.error() is not None and message.error().name() == "_FATAL"

    wait_until(fenced, "the first member being fenced")
    first.close()
    second.close()


A_REBALANCE_MS = 500
"""For one poll. kafka-python begins a rebalance anew when the poll in which it began ends before it does."""


def test_a_member_that_died_is_replaced_after_its_session(bootstrap: str, name: str) -> None:
    """kafka-python without a heartbeat thread stands for a process that is gone."""
    make_topic(bootstrap, name, 2)
    died = KafkaConsumer(
        name, bootstrap_servers=bootstrap, group_id=name, session_timeout_ms=3000, heartbeat_interval_ms=500
    )
    wait_until(lambda: died.poll(4 * A_REBALANCE_MS) or died.assignment(), "the first member's assignment")
    died._client.close()
    alive = Member(bootstrap, name, name)
    wait_until(shared_out([alive], 2), "the survivor owns all")
    alive.leave()


def test_a_committed_offset_is_where_the_next_reader_goes_on(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    write(bootstrap, name, [f"{number}".encode() for number in range(10)])
    first = consumer(bootstrap, group__id=name)
    first.subscribe([name])
    for _ in range(4):
        message = wait_until(lambda: first.poll(0.2), "a record")
    first.commit(offsets=[TopicPartition(name, 0, message.offset() + 1, "so far")], asynchronous=False)
    found = first.committed([TopicPartition(name, 0)], SECONDS)[0]
    assert (found.offset, found.metadata) == (4, "so far")
    first.close()
    second = consumer(bootstrap, group__id=name)
    second.subscribe([name])
    assert wait_until(lambda: second.poll(0.2), "the next record").value() == b"4"
    second.close()


def test_offsets_survive_a_group_without_members(bootstrap: str, name: str) -> None:
    """Commits of a consumer that assigns by hand: generation −1, no member."""
    make_topic(bootstrap, name, 2)
    reader = consumer(bootstrap, group__id=name)
    wanted = [TopicPartition(name, 0, 7), TopicPartition(name, 1, 9)]
    reader.commit(offsets=wanted, asynchronous=False)
    found = reader.committed([TopicPartition(name, 0), TopicPartition(name, 1)], SECONDS)
    assert [partition.offset for partition in found] == [7, 9]
    reader.close()


def test_kafka_python_members_share_and_hand_over(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name, 4)
    settings = {"bootstrap_servers": bootstrap, "group_id": name, "heartbeat_interval_ms": 200}
    first, second = (KafkaConsumer(session_timeout_ms=6000, **settings) for _ in range(2))
    for member in (first, second):
        wait_until(lambda asking=member: asking.partitions_for_topic(name), "the topic in the member's metadata")
        member.subscribe([name])
    wait_until(lambda: (first.poll(A_REBALANCE_MS), len(first.assignment()) == 4)[1], "one member owns all")

    def share() -> bool:
        first.poll(A_REBALANCE_MS)
        second.poll(A_REBALANCE_MS)
        return len(first.assignment()) == 2 and len(second.assignment()) == 2

    wait_until(share, "two members share")
    first.close()
    wait_until(lambda: (second.poll(A_REBALANCE_MS), len(second.assignment()) == 4)[1], "the other takes over")
    second.close()


def test_aiokafka_members_share_and_hand_over(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name, 4)

    async def until(condition: Callable[[], bool], members: list[AIOKafkaConsumer]) -> None:
        while not condition():
            for member in members:
                await member.getmany(timeout_ms=50)

    async def story() -> None:
        settings = {"bootstrap_servers": bootstrap, "group_id": name, "heartbeat_interval_ms": 200}
        first, second = AIOKafkaConsumer(name, **settings), AIOKafkaConsumer(name, **settings)
        await first.start()
        await until(lambda: len(first.assignment()) == 4, [first])
        await second.start()
        await until(lambda: len(first.assignment()) == len(second.assignment()) == 2, [first, second])
        await first.stop()
        await until(lambda: len(second.assignment()) == 4, [second])
        await second.stop()

    asyncio.run(asyncio.wait_for(story(), 60))
