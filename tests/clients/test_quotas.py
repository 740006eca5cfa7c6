"""Unmodified clients over their quotas: they are told so, slow down, and lose nothing; others notice nothing."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import NewTopic
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic as PythonTopic

from protocol.errors import ErrorCode
from protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    QuotaAlterationEntry,
    QuotaOperation,
)
from tallystick.client.connection import Connection
from tests.harness.broker import EXTERNAL, server
from tests.harness.confluent import SECONDS, Deliveries, admin, make_topic, producer, wait_until

RATE = 100_000
VALUE = b"v" * 10_000
COUNT = 30
"""Three times what is free in the one window that is looked at."""


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that looks at no more than two seconds, and lets clients go on sooner."""
    if EXTERNAL:
        pytest.skip("needs a broker of its own, TALLYSTICK_TEST_BOOTSTRAP names another")
    process = server(
        tmp_path_factory.mktemp("quotas"), more={"quota.window.num": "2", "controller.quota.window.num": "2"}
    )
    try:
        yield process.start().bootstrap
    finally:
        process.close()


def set_quota(bootstrap: str, client_id: str, **quotas: float) -> None:
    entity = [AlteredQuotaEntity(entity_type="client-id", entity_name=client_id)]
    ops = [QuotaOperation(key=key, value=value) for key, value in quotas.items()]
    request = AlterClientQuotasRequest(entries=[QuotaAlterationEntry(entity=entity, ops=ops)], validate_only=False)

    async def ask() -> Any:
        host, _, port = bootstrap.partition(":")
        connection = await Connection.connect(host, int(port))
        try:
            return await connection.ask(request)
        finally:
            await connection.close()

    assert [one.error_code for one in asyncio.run(ask()).entries] == [0]


def fill(bootstrap: str, topic: str, client_id: str) -> tuple[int, list[float]]:
    """Write everything; returns how much was acknowledged, and the waits that the client was told of."""
    throttled: list[float] = []
    deliveries = Deliveries()
    sender = producer(
        bootstrap,
        client__id=client_id,
        batch__size=100_000,
        throttle_cb=lambda event: throttled.append(event.throttle_time),
    )
    for _ in range(COUNT):
        sender.produce(topic, VALUE, on_delivery=deliveries)
    assert sender.flush(SECONDS) == 0
    sender.poll(0)
    assert not deliveries.failed
    return len(deliveries.acknowledged), [one for one in throttled if one > 0]


def test_a_producer_is_throttled_and_loses_nothing(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    set_quota(bootstrap, name, producer_byte_rate=RATE)
    acknowledged, throttled = fill(bootstrap, name, name)
    assert acknowledged == COUNT and throttled
    acknowledged, throttled = fill(bootstrap, name, f"{name}-other")
    assert acknowledged == COUNT and not throttled


def test_a_consumer_is_throttled_and_reads_everything(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    fill(bootstrap, name, f"{name}-writer")
    set_quota(bootstrap, name, consumer_byte_rate=RATE)
    throttled: list[float] = []
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "log_level": 2,
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    offsets: list[int] = []
    try:
        reader.subscribe([name])

        def everything() -> bool:
            message = reader.poll(0.1)
            if message is not None and not message.error():
                offset = message.offset()
                assert offset is not None and message.value() == VALUE
                offsets.append(offset)
            return len(offsets) >= COUNT

        wait_until(everything, "everything read")
    finally:
        reader.close()
    assert offsets == list(range(COUNT))
    assert any(one > 0 for one in throttled)


def test_kafka_python_is_told_of_its_quota(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    set_quota(bootstrap, name, producer_byte_rate=RATE)
    sender = KafkaProducer(bootstrap_servers=bootstrap, client_id=name, acks=1)
    try:
        sent = [sender.send(name, VALUE) for _ in range(COUNT)]
        assert [one.get(SECONDS).offset for one in sent] == list(range(COUNT))
        measured = [value for group in sender.metrics().values() for name, value in group.items() if "throttle" in name]
        assert max(measured) > 0
    finally:
        sender.close()


def test_topics_beyond_a_quota_are_made_all_the_same(bootstrap: str, name: str) -> None:
    """By a client that does not know the error, and is silenced (KIP-599)."""
    names = [f"{name}-{number}" for number in range(3)]
    set_quota(bootstrap, name, controller_mutation_rate=20)
    asker = admin(bootstrap, client__id=name)
    for one, future in asker.create_topics([NewTopic(one, 20, 1) for one in names]).items():
        assert future.result(SECONDS) is None, one
    wait_until(lambda: set(names) <= set(asker.list_topics(timeout=SECONDS).topics), "all topics")


def test_topics_beyond_a_quota_are_refused_to_those_who_know_why(bootstrap: str, name: str) -> None:
    asker = KafkaAdminClient(bootstrap_servers=bootstrap, client_id=name)
    set_quota(bootstrap, name, controller_mutation_rate=20)
    try:
        made = asker.create_topics([PythonTopic(f"{name}-{number}", 25, 1) for number in range(3)], raise_errors=False)
        errors = sorted(one["error_code"] for one in made["topics"])
        assert errors == [0, 0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    finally:
        asker.close()
