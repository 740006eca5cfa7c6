"""What is not a crash: refusals, lost answers, late syncs, a process that stands still. Nobody may stay stuck.

Invariants I03, I06, I10, I44.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from tallystick.client.client import Client
from tallystick.client.errors import ConnectionLost
from tallystick.client.reading import read_all
from tests.chaos.forked_broker import ForkedBroker
from tests.chaos.look import until_nothing_is_open
from tests.chaos.story import GROUP, TOPIC
from tests.chaos.test_fault_points import SETTINGS, prepare
from tests.harness.transactional import TransactionalProducer
from tests.simulation.history import History

Tale = Callable[[Client], Awaitable[None]]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ForkedBroker]:
    made = ForkedBroker(tmp_path, SETTINGS)
    made.start()
    asyncio.run(prepare(made))
    made.kill()
    try:
        yield made
    finally:
        made.kill()


def run_story(broker: ForkedBroker, faults: str, tale: Tale) -> None:
    """A tale on a broker with these faults; they all have struck at its end."""

    async def tell() -> None:
        client = await Client.connect(broker.bootstrap)
        try:
            await asyncio.wait_for(tale(client), 60)
        finally:
            await client.close()

    broker.start(faults)
    asyncio.run(tell())
    assert set(broker.struck) >= {fault.partition("=")[0] for fault in faults.split(",")} - {"on"}


async def begun(client: Client, version: int, *, value: bytes = b"1") -> TransactionalProducer:
    producer = TransactionalProducer(client, f"tv{version}", transaction_version=version)
    await producer.init()
    producer.begin()
    await producer.produce(TOPIC, 0, [value])
    await producer.send_offsets(GROUP, {(TOPIC, 0): 1})
    return producer


async def is_complete(client: Client, *, records: int) -> None:
    history = History()
    await until_nothing_is_open(client, history)
    assert history.violations == []
    assert len(await read_all(client, TOPIC, 0)) == records


@pytest.mark.parametrize("code", ["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR"])
def test_markers_that_are_refused_are_tried_again(broker: ForkedBroker, code: str) -> None:
    """KAFKA-9749: what time cures is never fatal to a decided transaction."""

    async def tale(client: Client) -> None:
        for version in (0, 2):
            await (await begun(client, version)).commit()
        await is_complete(client, records=2)

    run_story(broker, f"marker.before=fail:{code}@1x5", tale)


def test_a_complete_that_is_refused_stays_due(broker: ForkedBroker) -> None:
    """KAFKA-5351: the append is tried again, and the id is held meanwhile."""

    async def tale(client: Client) -> None:
        for version in (0, 2):
            await (await begun(client, version)).commit()
        await is_complete(client, records=2)

    run_story(broker, "complete.before-append=fail:NOT_ENOUGH_REPLICAS@1x4", tale)


def test_a_refused_decision_leaves_the_id_unchanged(broker: ForkedBroker) -> None:
    """I03: EndTxn is answered with a retriable error, and the client's next try goes through."""

    async def tale(client: Client) -> None:
        producer = await begun(client, 2)
        refused = await producer.commit(check=False)
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await producer.commit()
        await is_complete(client, records=1)

    run_story(broker, "prepare.before-append=fail:NOT_ENOUGH_REPLICAS", tale)


def test_a_refused_identity_costs_no_epoch(broker: ForkedBroker) -> None:
    """I10, KAFKA-9666."""

    async def tale(client: Client) -> None:
        producer = TransactionalProducer(client, "id")
        first = await producer.init()
        refused = await producer.init(check=False)
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        again = await producer.init()
        assert again.producer_epoch == first.producer_epoch + 1

    run_story(broker, "init.before-append=fail:NOT_ENOUGH_REPLICAS@2", tale)


@pytest.mark.parametrize("version", [0, 2])
def test_a_lost_answer_is_given_again(broker: ForkedBroker, version: int) -> None:
    """I06: the decision took effect; a repeated EndTxn gets the response that was lost."""

    async def tale(client: Client) -> None:
        producer = await begun(client, version)
        with pytest.raises(ConnectionLost):
            await producer.commit()
        epoch = producer.producer_epoch
        await producer.commit()
        assert producer.producer_epoch == epoch + (1 if version == 2 else 0)
        await is_complete(client, records=1)

    run_story(broker, "answer.EndTxn=drop", tale)


def test_a_lost_request_never_happened(broker: ForkedBroker) -> None:
    async def tale(client: Client) -> None:
        producer = await begun(client, 2)
        with pytest.raises(ConnectionLost):
            await producer.abort()
        await producer.commit()
        await is_complete(client, records=1)

    run_story(broker, "request.EndTxn=drop", tale)


def test_a_broker_that_says_no_on_request(broker: ForkedBroker) -> None:
    async def tale(client: Client) -> None:
        producer = await begun(client, 2)
        assert (await producer.commit(check=False)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        await producer.commit()
        await is_complete(client, records=1)

    run_story(broker, "request.EndTxn=fail:CONCURRENT_TRANSACTIONS@1x3", tale)


def test_late_syncs_and_late_answers_are_only_late(broker: ForkedBroker) -> None:
    async def tale(client: Client) -> None:
        for version in (0, 2):
            await (await begun(client, version)).commit()
        await is_complete(client, records=2)

    run_story(broker, "log.before-sync=delay:30@1x10,answer.EndTxn=delay:30@1x2,request.Produce=delay:30", tale)


def test_a_process_that_stood_still_goes_on(broker: ForkedBroker) -> None:
    async def tale(client: Client) -> None:
        producer = await begun(client, 2)
        commit = asyncio.ensure_future(producer.commit())
        while not broker.is_frozen:
            await asyncio.sleep(0.005)
        assert not commit.done()
        os.kill(broker.pid, signal.SIGCONT)
        await commit
        await is_complete(client, records=1)

    run_story(broker, "prepare.after-append=freeze", tale)


def test_a_failed_sync_ends_the_process_and_nothing_is_acknowledged(broker: ForkedBroker) -> None:
    """Whatever the disk did with it: there are no second tries of an fsync."""

    written: list[int] = []

    async def tale(client: Client) -> None:
        producer = await begun(client, 2)
        with contextlib.suppress(ConnectionLost):
            while not (answer := await producer.produce(TOPIC, 1, [b"1"], check=False)).error_code:
                written.append(answer.base_offset)
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR

    run_story(broker, "log.before-sync=fail:EIO@30", tale)
    assert broker.wait_until_dead() == 1
    assert broker.start()

    async def look() -> None:
        client = await Client.connect(broker.bootstrap)
        offsets = [record.offset for record in await read_all(client, TOPIC, 1, read_committed=False)]
        await client.close()
        assert offsets[: len(written)] == written

    asyncio.run(look())


def test_a_full_disk_during_a_resumed_decision_ends_the_process(broker: ForkedBroker) -> None:
    """A start goes on with a PREPARE_ABORT while it loads the coordinator. If the disk refuses that, nobody requested
    it and nobody waits: the process ends loudly all the same, and the next start aborts (I44)."""

    async def aborted(client: Client) -> None:
        with contextlib.suppress(ConnectionLost):
            await (await begun(client, 2)).abort()

    run_story(broker, "prepare.after-sync=crash", aborted)
    assert broker.wait_until_dead() == -9
    broker.start("aborted.before-append=fail:ENOSPC")
    assert broker.wait_until_dead() == 1
    run_story(broker, "on", lambda client: is_complete(client, records=0))
