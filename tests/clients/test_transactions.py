"""Transactions as the clients drive them: commit, abort, timeout, fencing, offsets, and what each isolation level
sees.
"""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from aiokafka.structs import TopicPartition as AiokafkaPartition
from confluent_kafka import KafkaException, TopicPartition
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.structs import OffsetAndMetadata

from tests.harness.confluent import SECONDS, consumer, make_topic, producer, read_all, values_of, wait_until, write


def both_views(bootstrap: str, topic: str) -> tuple[list[bytes], list[bytes]]:
    """(read_committed, read_uncommitted)"""
    committed = values_of(read_all(bootstrap, topic))
    return sorted(committed), sorted(values_of(read_all(bootstrap, topic, read_committed=False)))


def test_confluent_kafka_commits_and_aborts_over_several_partitions(bootstrap: str, name: str) -> None:
    """I01: a transaction's records become visible all or none, on every partition."""
    make_topic(bootstrap, name, 4)
    sender = producer(bootstrap, transactional__id=name)
    sender.init_transactions(SECONDS)
    for number in range(6):
        sender.begin_transaction()
        for partition in range(4):
            sender.produce(name, f"{number}-{partition}".encode(), partition=partition)
        if number % 3 == 1:
            sender.flush(SECONDS)
            sender.abort_transaction(SECONDS)
        else:
            sender.commit_transaction(SECONDS)
    committed, everything = both_views(bootstrap, name)
    assert everything == sorted(f"{n}-{p}".encode() for n in range(6) for p in range(4))
    assert committed == sorted(f"{n}-{p}".encode() for n in (0, 2, 3, 5) for p in range(4))


def test_an_open_transaction_holds_its_readers_back_and_nobody_else(bootstrap: str, name: str) -> None:
    """The last stable offset is the first offset of the earliest open transaction."""
    make_topic(bootstrap, name)
    sender = producer(bootstrap, transactional__id=name)
    sender.init_transactions(SECONDS)
    write(bootstrap, name, [b"before"])
    sender.begin_transaction()
    sender.produce(name, b"undecided")
    sender.flush(SECONDS)
    write(bootstrap, name, [b"after"])
    assert both_views(bootstrap, name) == ([b"before"], [b"after", b"before", b"undecided"])
    sender.commit_transaction(SECONDS)
    assert both_views(bootstrap, name)[0] == [b"after", b"before", b"undecided"]


def test_aborted_records_stay_hidden_from_every_start_offset(bootstrap: str, name: str) -> None:
    """A reader that begins inside an aborted range gets the transaction too."""
    make_topic(bootstrap, name)
    sender = producer(bootstrap, transactional__id=name)
    sender.init_transactions(SECONDS)
    for number in range(4):
        sender.begin_transaction()
        for part in range(3):
            sender.produce(name, f"{number}{part}".encode(), partition=0)
            sender.flush(SECONDS)
        (sender.abort_transaction if number % 2 else sender.commit_transaction)(SECONDS)
    end = 16
    whole = {message.offset(): message.value() for message in read_all(bootstrap, name)}
    assert sorted(whole) == [0, 1, 2, 8, 9, 10]
    for start in range(end):
        reader = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed", fetch_max_wait_ms=50)
        partition = PythonPartition(name, 0)
        reader.assign([partition])
        reader.seek(partition, start)
        found: dict[int, bytes] = {}
        while reader.position(partition) < end:
            for record in reader.poll(200).get(partition, []):
                found[record.offset] = record.value
        reader.close()
        assert found == {offset: value for offset, value in whole.items() if offset >= start}


def test_a_second_producer_with_the_same_id_fences_the_first(bootstrap: str, name: str) -> None:
    """The newer producer aborts what the older one left open, and the older one never writes again."""
    make_topic(bootstrap, name)
    old = producer(bootstrap, transactional__id=name)
    old.init_transactions(SECONDS)
    old.begin_transaction()
    old.produce(name, b"from the old one")
    old.flush(SECONDS)
    new = producer(bootstrap, transactional__id=name)
    new.init_transactions(SECONDS)
    new.begin_transaction()
    new.produce(name, b"from the new one")
    new.commit_transaction(SECONDS)
    with pytest.raises(KafkaException) as caught:
        old.commit_transaction(SECONDS)
    assert caught.value.args[0].fatal() and caught.value.args[0].name() == "_FENCED"
    assert both_views(bootstrap, name) == ([b"from the new one"], [b"from the new one", b"from the old one"])


def test_a_transaction_past_its_timeout_is_aborted(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    sender = producer(bootstrap, transactional__id=name, transaction__timeout__ms=1000)
    sender.init_transactions(SECONDS)
    sender.begin_transaction()
    sender.produce(name, b"late")
    sender.flush(SECONDS)
    write(bootstrap, name, [b"behind it"])
    wait_until(lambda: both_views(bootstrap, name)[0] == [b"behind it"], "the abort of the timed-out transaction")
    with pytest.raises(KafkaException) as caught:
        sender.commit_transaction(SECONDS)
    assert caught.value.args[0].name() in ("_FENCED", "INVALID_PRODUCER_EPOCH")
    assert both_views(bootstrap, name) == ([b"behind it"], [b"behind it", b"late"])


def test_a_timeout_beyond_the_brokers_maximum_is_refused(bootstrap: str, name: str) -> None:
    sender = producer(bootstrap, transactional__id=name, transaction__timeout__ms=3_600_000)
    with pytest.raises(KafkaException) as caught:
        sender.init_transactions(SECONDS)
    assert caught.value.args[0].name() == "INVALID_TRANSACTION_TIMEOUT"


def test_an_empty_transaction_and_empty_offsets_are_fine(bootstrap: str, name: str) -> None:
    sender = producer(bootstrap, transactional__id=name)
    sender.init_transactions(SECONDS)
    for end in (sender.commit_transaction, sender.abort_transaction):
        sender.begin_transaction()
        end(SECONDS)
    reader = consumer(bootstrap, group__id=name)
    sender.begin_transaction()
    sender.send_offsets_to_transaction([], reader.consumer_group_metadata(), SECONDS)
    sender.commit_transaction(SECONDS)
    reader.close()


def committed_offset(bootstrap: str, group: str, topic: str) -> int:
    reader = consumer(bootstrap, group__id=group)
    found = reader.committed([TopicPartition(topic, 0)], SECONDS)[0].offset
    reader.close()
    return int(found)


def test_transactional_offsets_appear_with_their_transaction_or_not_at_all(bootstrap: str, name: str) -> None:
    """Consume, transform, produce: once aborted, once committed."""
    source, target = make_topic(bootstrap, f"{name}-in"), make_topic(bootstrap, f"{name}-out")
    write(bootstrap, source, [f"{number}".encode() for number in range(10)])
    reader = consumer(bootstrap, group__id=name, isolation__level="read_committed")
    reader.subscribe([source])
    sender = producer(bootstrap, transactional__id=name)
    sender.init_transactions(SECONDS)
    taken = [wait_until(lambda: reader.poll(0.2), "a record to work on") for _ in range(5)]
    next_offset = [TopicPartition(source, 0, taken[-1].offset() + 1)]
    for end, expected in ((sender.abort_transaction, -1001), (sender.commit_transaction, 5)):
        sender.begin_transaction()
        for message in taken:
            sender.produce(target, b"done " + message.value())
        sender.send_offsets_to_transaction(next_offset, reader.consumer_group_metadata(), SECONDS)
        end(SECONDS)
        wait_until(lambda want=expected: committed_offset(bootstrap, name, source) == want, f"offset {expected}")
    assert sorted(values_of(read_all(bootstrap, target))) == [f"done {number}".encode() for number in range(5)]
    reader.close()


def test_a_member_of_an_old_generation_cannot_commit_offsets(bootstrap: str, name: str) -> None:
    """KIP-447: the group's generation fences, and the same producer goes on after the abort."""
    make_topic(bootstrap, name)
    write(bootstrap, name, [b"x"])
    first = consumer(bootstrap, group__id=name, session__timeout__ms=6000)
    first.subscribe([name])
    wait_until(lambda: first.poll(0.2), "the first member's record")
    outdated = first.consumer_group_metadata()
    first.close()
    second = consumer(bootstrap, group__id=name, session__timeout__ms=6000)
    second.subscribe([name])
    wait_until(lambda: second.poll(0.2), "the second member's record")
    sender = producer(bootstrap, transactional__id=name)
    sender.init_transactions(SECONDS)
    sender.begin_transaction()
    with pytest.raises(KafkaException) as caught:
        sender.send_offsets_to_transaction([TopicPartition(name, 0, 1)], outdated, SECONDS)
    assert caught.value.args[0].txn_requires_abort()
    assert caught.value.args[0].name() in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
    sender.abort_transaction(SECONDS)
    sender.begin_transaction()
    sender.send_offsets_to_transaction([TopicPartition(name, 0, 1)], second.consumer_group_metadata(), SECONDS)
    sender.commit_transaction(SECONDS)
    second.close()
    assert committed_offset(bootstrap, name, name) == 1


def test_kafka_python_commits_aborts_and_sends_offsets(bootstrap: str, name: str) -> None:
    """kafka-python 3 speaks the newest versions, transaction.version 2 among them where the broker offers it."""
    make_topic(bootstrap, name, 2)
    sender = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    sender.init_transactions()
    for number in range(4):
        sender.begin_transaction()
        for partition in range(2):
            sender.send(name, f"{number}-{partition}".encode(), partition=partition)
        if number == 1:
            sender.flush(60)
            sender.abort_transaction()
            continue
        offsets = {PythonPartition(name, 0): OffsetAndMetadata(number, "", -1)}
        sender.send_offsets_to_transaction(offsets, name)
        sender.commit_transaction()
    sender.close()
    committed, everything = both_views(bootstrap, name)
    assert committed == sorted(f"{n}-{p}".encode() for n in (0, 2, 3) for p in range(2))
    assert len(everything) == 8
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    offsets = wait_until(lambda: admin.list_group_offsets({name: None})[name], "the group's offsets")
    assert offsets[PythonPartition(name, 0)].offset == 3
    admin.close()


def test_kafka_python_is_fenced_by_its_successor(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    old = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    old.init_transactions()
    old.begin_transaction()
    old.send(name, b"old").get(60)
    new = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    new.init_transactions()
    new.begin_transaction()
    new.send(name, b"new")
    new.commit_transaction()
    with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
        old.send(name, b"old again").get(60)
        old.commit_transaction()
    new.close()
    old.close(timeout=1)
    assert both_views(bootstrap, name)[0] == [b"new"]


def test_aiokafka_commits_aborts_and_sends_offsets(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    partition = AiokafkaPartition(name, 0)

    async def story() -> tuple[list[bytes], int | None]:
        sender = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        async with sender:
            for number in range(3):
                await sender.begin_transaction()
                await sender.send_and_wait(name, f"{number}".encode())
                if number == 1:
                    await sender.abort_transaction()
                    continue
                await sender.send_offsets_to_transaction({partition: number + 1}, name)
                await sender.commit_transaction()
        reader = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=name, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        async with reader:
            reader.assign([partition])
            await reader.seek_to_beginning(partition)
            return [(await reader.getone()).value for _ in range(2)], await reader.committed(partition)

    found, offset = asyncio.run(asyncio.wait_for(story(), 60))
    assert found == [b"0", b"2"]
    assert offset == 3


def test_aiokafka_is_fenced_by_its_successor(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)

    async def story() -> None:
        old = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        new = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await old.start()
        await old.begin_transaction()
        await old.send_and_wait(name, b"old")
        await new.start()
        async with new.transaction():
            await new.send_and_wait(name, b"new")
        with pytest.raises(AiokafkaError):
            await old.send_and_wait(name, b"old again")
            await old.commit_transaction()
        await new.stop()
        await old.stop()

    asyncio.run(asyncio.wait_for(story(), 60))
    assert both_views(bootstrap, name)[0] == [b"new"]
