"""`tx has epoch 32764`: an id that has seen many instances. No story counts them one by one.

In process the record that they would have left is written. A real server gets the request as often as needed.
"""

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

from broker.node import Node
from coordinator.machine import Outcome, Record, Ticket
from coordinator.transactions.states import key_bytes, value_bytes, value_version
from protocol.errors import ErrorCode
from protocol.messages.transactions import InitProducerIdRequest

if TYPE_CHECKING:
    from tests.scenarios.engine import Engine

IN_FLIGHT = 500


async def age_by_asking(engine: "Engine", transactional_id: str, epoch: int) -> None:
    """InitProducerId until the epoch is reached."""
    connection = await engine.connection("console")
    reached = -1
    while reached < epoch:
        count = min(IN_FLIGHT, epoch - reached)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        answers = await asyncio.gather(*[connection.ask(request, 4) for _ in range(count)])
        reached = max(answer.producer_epoch for answer in answers if answer.error_code == ErrorCode.NONE)
    assert reached == epoch


async def age_in_the_log(node: Node, transactional_id: str, epoch: int) -> None:
    """Write the record that the last of these instances would have left. Runs on the broker's loop."""

    def operation(machine: Any, ticket: Ticket, now_ms: int) -> Outcome:
        aged = dataclasses.replace(machine.transactions[transactional_id], producer_epoch=epoch, last_producer_epoch=-1)
        version = value_version(aged, machine._settings.cluster_version)
        record = Record(key=key_bytes(transactional_id), value=value_bytes(aged, version))
        return Outcome(records=[record], answers=[(ticket, None)], reason="the stage is set")

    await node.services.transactions.ask(transactional_id, operation)
