"""What may be asked of a broker that is under control.

Each command takes the broker, and the fields of its request by name; it returns what JSON can say.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from broker.api.context import ConnectionInfo, RequestContext
from broker.api.handlers.group_administration import delete_groups, list_groups
from broker.api.noted import answers
from broker.api.services import Services
from broker.control import several
from broker.control.moved_clock import MovedClock
from broker.control.several import Refused, Several, settle
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


@dataclass(frozen=True, slots=True)
class Controlled:
    """The broker, as commands see it."""

    faults: Faults
    clock: MovedClock
    living: Callable[[], Sequence[Services]]
    """Of the nodes that run."""
    several: Several | None = None
    """Where there may be more than one."""

    @property
    def any_node(self) -> Services:
        """Raises `Refused` where none runs."""
        living = self.living()
        if not living:
            raise Refused("no node runs")
        return living[0]


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
    living = broker.living()
    for services in living:
        await _loaded(services.transactions)
        await _loaded(services.groups)
    for services in living:
        await _end_all(services.transactions)
    directory = broker.any_node.topics
    names = [topic.name for topic in directory.all() if topic.name not in INTERNAL_TOPICS]
    for result in await directory.delete([DeleteTopicState(name=name) for name in names]):
        _only(result.error_code, of=str(result.name))
    left = [group_id for services in living for group_id in await _wipe_groups(services)]
    if broker.several is not None:
        await settle(living)  # The next client may ask any of them.
    return left


async def _wipe_groups(services: Services) -> list[str]:
    """Delete the groups that a node coordinates; those that have members."""
    listed = await list_groups(services, _asking(ListGroupsRequest), ListGroupsRequest())
    _only(listed.error_code)
    groups = [one.group_id for one in listed.groups]
    request = DeleteGroupsRequest(groups_names=groups)
    deleted = await delete_groups(services, _asking(DeleteGroupsRequest), request)
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
    return answers.timeline(broker.any_node, transactional_id)


def fences(broker: Controlled, *, transactional_id: str) -> dict[str, Any]:
    """Who raised its epoch, and who was turned away for it."""
    return answers.fences(broker.any_node, transactional_id)


async def lint(broker: Controlled) -> dict[str, Any]:
    """What clients had better do otherwise, see `broker.journal.advice`."""
    return await answers.lint(broker.any_node)


async def open_transactions(broker: Controlled) -> dict[str, Any]:
    """Those that are open, and who holds them, see `broker.api.noted.answers`."""
    living = broker.living()
    for services in living:
        await _loaded(services.transactions)
    said = await answers.open_transactions(broker.any_node)
    for services in living[1:]:
        more = await answers.open_transactions(services)
        said["transactions"] += more["transactions"]
        said["more"] += more["more"]
    said["transactions"].sort(key=lambda one: one["startedAt"])
    return said


# -- several nodes ---------------------------------------------------------------------------------------------


def _several(broker: Controlled) -> Several:
    if broker.several is None:
        raise Refused("it is one node; start it with several (nodes=3, tallystick.nodes)")
    return broker.several


def nodes(broker: Controlled) -> list[dict[str, Any]]:
    """All that the process is, killed or not."""
    seen = _several(broker).seen()
    return [{"node": one.node_id, "runs": one.runs, "address": one.address} for one in seen]


async def kill_node(broker: Controlled, *, node: int) -> None:
    """What `kill -9` does to a node; the others go on."""
    await _several(broker).kill(node)


async def start_node(broker: Controlled, *, node: int) -> None:
    """Start one that was killed, with its id and address; answered when it serves."""
    await _several(broker).start_again(node)


async def controller(broker: Controlled) -> int:
    """The node that takes changes of the metadata."""
    return await several.controller(_several(broker))


async def leader(broker: Controlled, *, topic: str, partition: int) -> int:
    """The node that leads a partition."""
    return await several.leader(_several(broker), topic, partition)


async def move_leader(broker: Controlled, *, topic: str, partition: int, to: int) -> None:
    """Have another node lead a partition; answered when it does."""
    await several.move_leader(_several(broker), topic, partition, to)


async def coordinator(broker: Controlled, *, kind: str, key: str) -> int:
    """The node that coordinates a group (`group`) or a transactional id (`transaction`)."""
    return await several.leader(_several(broker), *several.place(_several(broker), kind, key))


async def move_coordinator(broker: Controlled, *, kind: str, key: str, to: int) -> None:
    """Have another node coordinate it, and whatever shares its partition; answered when it does."""
    await several.move_leader(_several(broker), *several.place(_several(broker), kind, key), to)


def _only(code: int, *passing: ErrorCode, of: str = "groups") -> None:
    """Who is told that all is gone may rely on it. Raises `Refused` for any other error."""
    if code not in (ErrorCode.NONE, *passing):
        raise Refused(f"{of}: {ErrorCode(code).name}")


def _asking(request: type) -> RequestContext:
    """As a client that may do everything would."""
    schema = schema_of(request)
    connection = ConnectionInfo(connection_id=0, listener="control", peer_host="", peer_port=0)
    return RequestContext(connection, schema.api_key, schema.versions[-1], 0, None)


_OF_SEVERAL = (nodes, kill_node, start_node, controller, leader, move_leader, coordinator, move_coordinator)
COMMANDS: dict[str, Callable[..., Any | Awaitable[Any]]] = {
    command.__name__: command
    for command in (arm, disarm, hits, advance, wipe, timeline, fences, lint, open_transactions, *_OF_SEVERAL)
}
