"""What may be asked of a broker that is under control.

Each command takes the broker, and the fields of its request by name; it returns what JSON can say.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from broker.api.context import ConnectionInfo, RequestContext
from broker.api.handlers.group_administration import delete_groups, list_groups
from broker.api.noted import answers
from broker.api.services import Services
from broker.control.moved_clock import MovedClock
from broker.coordination.coordinators import Shards
from broker.coordination.transactions import TransactionShards
from broker.faults.control import BadFault, Faults
from coordinator.transactions.coordinator import TransactionCoordinator
from coordinator.transactions.fencing import Producer
from coordinator.transactions.states import TransactionState
from protocol.errors import ErrorCode
from protocol.internal_topics import INTERNAL_TOPICS
from protocol.messages.groups import DeleteGroupsRequest, ListGroupsRequest
from protocol.messages.topics import DeleteTopicState
from protocol.schema import schema_of

LOADING_S = 10.0
ENDING_S = 10.0
TURNS = 4
"""Of the loop: a timer rings in one, who slept until then wakes in the next, and does a few steps."""


class Refused(Exception):
    """In a sentence."""


@dataclass(frozen=True, slots=True)
class Controlled:
    """The broker, as commands see it."""

    faults: Faults
    clock: MovedClock
    services: Services


def arm(broker: Controlled, *, text: str) -> list[str]:
    """Arm fault points, beside those that are armed; the points that can strike then. The words are those of
    docs/faults.md."""
    try:
        broker.faults.arm(text)
    except BadFault as problem:
        raise Refused(str(problem)) from None
    return [fault.point.name for fault in broker.faults.armed]


def disarm(broker: Controlled) -> None:
    """Nothing strikes any more."""
    broker.faults.disarm()


def hits(broker: Controlled) -> dict[str, int]:
    """How often each point was passed since the start, armed or not."""
    return dict(broker.faults.hits)


async def advance(broker: Controlled, *, milliseconds: int) -> int:
    """Move the clock forward; the milliseconds that it is ahead. Answered when each timer that is due has rung, and who
    waited for one has gone on: a request that is sent with the answer finds a transaction aborted that timed out."""
    broker.clock.advance(milliseconds)
    loop = asyncio.get_running_loop()
    for _ in range(TURNS):
        rung = loop.create_future()
        loop.call_later(0, _ring, rung)  # behind all that are due already
        await rung
    return broker.clock.ahead_ms


def _ring(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


async def wipe(broker: Controlled) -> list[str]:
    """End all transactions, delete all topics that are not internal, and all groups without members; the groups that
    have some. The next test begins with none of this one's records and positions, and waits for nobody's decision."""
    await _loaded(broker.services.transactions)
    await _loaded(broker.services.groups)
    await _end_all(broker.services.transactions)
    directory = broker.services.topics
    names = [topic.name for topic in directory.all() if topic.name not in INTERNAL_TOPICS]
    for result in await directory.delete([DeleteTopicState(name=name) for name in names]):
        _only(result.error_code, of=str(result.name))
    listed = await list_groups(broker.services, _asking(ListGroupsRequest), ListGroupsRequest())
    _only(listed.error_code)
    groups = [one.group_id for one in listed.groups]
    request = DeleteGroupsRequest(groups_names=groups)
    deleted = await delete_groups(broker.services, _asking(DeleteGroupsRequest), request)
    for one in deleted.results:
        _only(one.error_code, ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND, of=one.group_id)
    return [one.group_id for one in deleted.results if one.error_code == ErrorCode.NON_EMPTY_GROUP]


async def _loaded(shards: Shards[Any]) -> None:
    """After a start it takes a while to read the logs; one that is damaged is never read."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(shards.wait_until_loaded(), LOADING_S)


async def _end_all(transactions: TransactionShards) -> None:
    """What is open is aborted, and its producer fenced, as a timeout would do it; what is decided ends so."""
    for shard in transactions.all():
        for transactional_id in list(shard.machine.ledger.undecided()):
            transaction = transactions.transaction_of(transactional_id)
            if transaction is not None and transaction.state is TransactionState.ONGOING:
                claimed = Producer(transaction.producer_id, transaction.producer_epoch)
                abort = partial(
                    TransactionCoordinator.abort_by_operator, transactional_id=transactional_id, claimed=claimed
                )
                error: ErrorCode = await transactions.ask(transactional_id, abort)
                _only(error, ErrorCode.INVALID_TXN_STATE, of=transactional_id)  # Its producer may end it meanwhile.
            if not await transactions.wait_until_completed(transactional_id, ENDING_S):
                raise Refused(f"{transactional_id}: its markers are not written")


def timeline(broker: Controlled, *, transactional_id: str) -> dict[str, Any]:
    """What happened to a transactional id, see `broker.journal.reading`."""
    return answers.timeline(broker.services, transactional_id)


def fences(broker: Controlled, *, transactional_id: str) -> dict[str, Any]:
    """Who raised its epoch, and who was turned away for it."""
    return answers.fences(broker.services, transactional_id)


async def lint(broker: Controlled) -> dict[str, Any]:
    """What clients had better do otherwise, see `broker.journal.advice`."""
    return await answers.lint(broker.services)


async def open_transactions(broker: Controlled) -> dict[str, Any]:
    """Those that are open, and who holds them, see `broker.api.noted.answers`."""
    await _loaded(broker.services.transactions)
    return await answers.open_transactions(broker.services)


def _only(code: int, *passing: ErrorCode, of: str = "groups") -> None:
    """Who is told that all is gone may rely on it. Raises `Refused` for any other error."""
    if code not in (ErrorCode.NONE, *passing):
        raise Refused(f"{of}: {ErrorCode(code).name}")


def _asking(request: type) -> RequestContext:
    """As a client that may do everything would."""
    schema = schema_of(request)
    connection = ConnectionInfo(connection_id=0, listener="control", peer_host="", peer_port=0)
    return RequestContext(connection, schema.api_key, schema.versions[-1], 0, None)


COMMANDS: dict[str, Callable[..., Any | Awaitable[Any]]] = {
    command.__name__: command
    for command in (arm, disarm, hits, advance, wipe, timeline, fences, lint, open_transactions)
}
