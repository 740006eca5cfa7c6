"""Limits of connections over real sockets: who is turned away, and that nobody can shut themselves out."""

import select
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    QuotaAlterationEntry,
    QuotaOperation,
)
from protocol.messages.metadata import ApiVersionsRequest
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tallystick import Broker
from tallystick.process import BrokerProcess
from tests.attacks.measures import descriptors
from tests.harness.confluent import wait_until
from tests.server.test_listeners import set_to
from tests.server.wire import Wire

LISTENERS = (
    *("--listeners", "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"),
    *("--set", "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"),
    *("--set", "inter.broker.listener.name=INSIDE"),
    # A minute is one window: what comes in a test comes at once.
    *("--set", "quota.window.num=2", "--set", "quota.window.size.seconds=60"),
    "--in-memory",
)
INVALID_REQUEST = 42


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[tuple[Broker, Broker]]:
    process = BrokerProcess(tmp_path, options=LISTENERS).start()
    try:
        inside, outside = (cast(Broker, SimpleNamespace(bootstrap=address)) for address in process.bootstrap.split(","))
        yield inside, outside
    finally:
        process.close()


def is_served(wire: Wire) -> bool:
    answer: Any = wire.ask(ApiVersionsRequest(), 0)
    return bool(answer.error_code == 0)


def change(wire: Wire, name: str, value: str) -> int:
    answer: Any = wire.ask(set_to(name, value), 0)
    return int(answer.responses[0].error_code)


def test_an_operator_comes_in_where_clients_have_taken_all_places(listeners: tuple[Broker, Broker]) -> None:
    inside, outside = listeners
    operator = Wire(inside)
    clients = [Wire(outside) for _ in range(3)]
    assert all(is_served(wire) for wire in (*clients, operator))
    assert change(operator, "max.connections", "4") == 0
    assert Wire(outside).closed()
    assert is_served(Wire(inside))
    assert sum(is_open(wire) for wire in clients) == 2


def is_open(wire: Wire) -> bool:
    try:
        return is_served(wire)
    except (AssertionError, OSError):
        return False


def test_an_address_that_connects_too_often_is_not_answered(listeners: tuple[Broker, Broker]) -> None:
    inside, outside = listeners
    operator = Wire(inside)
    entity = [AlteredQuotaEntity(entity_type="ip", entity_name="127.0.0.1")]
    ops = [QuotaOperation(key="connection_creation_rate", value=1)]
    request = AlterClientQuotasRequest(entries=[QuotaAlterationEntry(entity=entity, ops=ops)], validate_only=False)
    assert cast(Any, operator.ask(request, 1)).entries[0].error_code == 0
    wires = [Wire(outside) for _ in range(60)]
    assert all(is_served(wire) for wire in wires)
    late = [Wire(outside) for _ in range(10)]
    assert not all(is_open(wire) for wire in late)
    assert all(is_served(wire) for wire in (*wires, operator))
    for wire in (*wires, *late):
        wire.socket.close()


@pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="this system does not tell")
def test_a_muted_connection_whose_client_has_gone_is_closed(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path, options=("--in-memory",)).start()
    try:
        broker = cast(Broker, SimpleNamespace(bootstrap=process.bootstrap))
        operator = Wire(broker)
        entity = [AlteredQuotaEntity(entity_type="client-id", entity_name="greedy")]
        ops = [QuotaOperation(key="controller_mutation_rate", value=0.001)]
        request = AlterClientQuotasRequest(entries=[QuotaAlterationEntry(entity=entity, ops=ops)], validate_only=False)
        assert cast(Any, operator.ask(request, 1)).entries[0].error_code == 0
        before = descriptors(process.pid)[1]
        wire = Wire(broker)
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        made: Any = wire.ask(
            CreateTopicsRequest(topics=[topic], timeout_ms=1, validate_only=False), 5, client_id="greedy"
        )
        assert made.throttle_time_ms > 100_000
        assert descriptors(process.pid)[1] == before + 1
        wire.socket.close()
        wait_until(lambda: descriptors(process.pid)[1] == before, "the connection closed")
    finally:
        process.close()


def test_nobody_shuts_out_the_address_that_they_ask_from(listeners: tuple[Broker, Broker]) -> None:
    inside, _ = listeners
    operator = Wire(inside)
    name = "max.connections.per.ip.overrides"
    assert change(operator, name, "127.0.0.1:0") == INVALID_REQUEST
    assert change(operator, name, "::ffff:127.0.0.1:0,10.9.8.7:1") == INVALID_REQUEST
    assert change(operator, "max.connection.creation.rate", "0") == INVALID_REQUEST
    assert change(operator, name, "10.9.8.7:0,127.0.0.1:2") == 0
    assert is_served(Wire(inside))


def test_one_that_waits_for_its_turn_is_served_then(listeners: tuple[Broker, Broker]) -> None:
    inside, outside = listeners
    operator = Wire(inside)
    assert change(operator, "listener.name.outside.max.connection.creation.rate", "1") == 0
    wires = [Wire(outside) for _ in range(62)]
    assert all(is_served(wire) for wire in wires)
    for wire in wires:
        wire.socket.close()
