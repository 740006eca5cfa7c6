"""Another node is told from clients: by its name, by where it comes in, and by what it may do."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.api_families import load_handlers
from broker.api.charging import ChargingDispatcher
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.permissions.of_nodes import comes_as_a_node, is_a_node
from broker.config.broker_config import BrokerConfig
from broker.security.authorizer import Authorizer
from broker.security.quotas.client_quotas import ClientQuotas
from broker.security.quotas.rates import Windows
from protocol.framing import request_parts
from protocol.messages.transactions import AddPartitionsToTxnRequest

CONFIG = BrokerConfig(
    {
        "listeners": "CLIENTS://127.0.0.1:0,NODES://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,NODES:PLAINTEXT",
        "inter.broker.listener.name": "NODES",
    }
)


def asked(
    client_id: str | None = "node-2",
    listener: str = "NODES",
    *,
    authorizer: Authorizer | None = None,
    is_alone: bool = False,
    question: Any = is_a_node,
) -> bool:
    services = services_of(authorizer, is_alone=is_alone)
    connection = ConnectionInfo(1, listener, "127.0.0.1", 1, principal="User:nodes")
    answer: bool = question(services, RequestContext(connection, 24, 5, 1, client_id))
    return answer


def services_of(authorizer: Authorizer | None = None, *, is_alone: bool = False) -> Any:
    others = [SimpleNamespace(node_id=1), SimpleNamespace(node_id=2)]
    nodes = SimpleNamespace(is_alone=is_alone, reached=lambda _: others)
    windows = Windows(11, 1000)
    quotas = ClientQuotas(windows, windows, lambda: 0, lambda: 0.0)
    return SimpleNamespace(nodes=nodes, config=CONFIG, authorizer=authorizer, client_quotas=quotas)


def test_a_node_says_who_it_is() -> None:
    assert asked() and asked(authorizer=Authorizer(["User:nodes"]))
    assert asked(question=comes_as_a_node)


def test_a_node_that_was_not_heard_of_comes_as_one() -> None:
    """Its markers are those of a coordinator: read as an operator's, they are answered by what a coordinator here, that
    was replaced by it, knows of the transaction, and a partition never gets its own (I04)."""
    assert not asked("node-3") and asked("node-3", question=comes_as_a_node)


@pytest.mark.parametrize("question", [is_a_node, comes_as_a_node])
@pytest.mark.parametrize(
    "of_another",
    [
        {"client_id": "node-"},
        {"client_id": "node-js"},
        {"client_id": "3"},
        {"client_id": "app"},
        {"client_id": None},
        {"listener": "CLIENTS"},
        {"authorizer": Authorizer(["User:admin"])},
        {"is_alone": True},
    ],
)
def test_who_says_so_and_is_none_is_a_client(of_another: dict[str, Any], question: Any) -> None:
    assert not asked(**of_another, question=question)


@pytest.mark.parametrize(("client_id", "is_charged"), [("node-2", False), ("app", True)])
def test_another_node_is_not_charged(client_id: str, is_charged: bool) -> None:
    """All its clients would wait where it does, and what they ask for is charged where they do."""
    dispatcher = ChargingDispatcher(services_of(), load_handlers())
    parts = request_parts(AddPartitionsToTxnRequest(transactions=[]), 5, 1, client_id)
    frame = b"".join(parts)[4:]
    call = dispatcher.read(ConnectionInfo(1, "NODES", "127.0.0.1", 1), frame)
    assert (call.context.charge is not None) == is_charged
