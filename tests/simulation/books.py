"""Sums that the broker keeps beside what they are sums of. Between two callbacks of its loop they are equal."""

from collections.abc import Iterator
from dataclasses import replace

from broker.api.fetch_sessions import FetchSessions
from broker.network.connection import Connection
from broker.network.server import Server
from broker.node import Node
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.held import MEMBERSHIP_BYTES, PENDING_BYTES, text_bytes
from coordinator.groups.membership import Membership
from tests.simulation.broker_process import BrokerProcess
from tests.simulation.world import World


def wrong_books(node: Node, server: Server) -> Iterator[str]:
    """Sentences about sums that are not what they should be."""
    answers = server.answers
    for requests in (server.requests, server.strangers):
        yield from _compared("bytes of requests", requests.used_bytes, sum(requests._held.values()))
    yield from _compared("bytes of answers", answers.held_bytes, sum(answers._held.values()))
    let_in = server._admission
    yield from _compared("connections by address", sum(let_in._per_address.values()), len(let_in._counted))
    yield from _compared("connections by listener", sum(let_in._per_listener.values()), len(let_in._counted))
    yield from _compared("connections", len(let_in._counted), len(server._connections))
    for connection in server._connections:
        yield from _of_connection(connection, connection.requests._held.get(connection, 0))
    free = server.frame_buffers
    yield from _compared("bytes of free buffers", free.free_bytes, sum(map(len, free._free)))
    yield from _of_fetch_sessions(node.services.fetch_sessions)
    total, whole = 0, None
    for shard in node.services.groups.all():
        machine = shard.machine
        yield from _compared(f"bytes held by {shard.name}", machine.ledger.held.bytes, held_bytes(machine))
        total += machine.ledger.held.bytes
        whole = machine.ledger.held.total
    if whole is not None:
        yield from _compared("bytes held by all groups", whole.bytes, total)


def check_books(world: World, broker: BrokerProcess) -> None:
    """At the end and, as a fault is about to strike, in mid-run."""
    node, server = broker.node, broker.server
    if not broker.alive or node is None or not node.has_started or server is None:
        return
    if server._services is node.services:  # else this process does not serve yet
        world.history.violations += [f"books: {sentence}" for sentence in wrong_books(node, server)]


def _compared(what: str, kept: int, counted: int) -> Iterator[str]:
    if kept != counted:
        yield f"{what}: {kept} are kept, {counted} counted"


def _of_connection(connection: Connection, held: int) -> Iterator[str]:
    reader, order = connection._reader, connection._order
    views = sum(type(frame) is memoryview for frame in reader.frames)
    yield from _compared("leases of frames", len(reader._leases), views)
    if connection._closing:
        return
    yield from _compared("bytes that a connection holds", connection._held_bytes, held)
    yield from _compared("bytes in a queue", connection._queued_bytes, sum(map(len, reader.frames)))
    known = sum(len(part) for answer in order.waiting for part in answer.parts or ())
    yield from _compared("bytes of answers in order", order.known_bytes, known)


def _of_fetch_sessions(sessions: FetchSessions) -> Iterator[str]:
    every = sessions._sessions.values()
    yield from _compared("partitions of sessions", sessions.partitions, sum(one.counted for one in every))
    placed = {(one.connection_id, one.session_id) for one in every}
    known = {(owner, session) for owner, ids in sessions._of_connection.items() for session in ids}
    if placed != known:
        yield f"sessions of connections: {sorted(known)} are kept, {sorted(placed)} there"


def held_bytes(machine: GroupCoordinator) -> int:
    """What the groups of a shard hold, counted anew."""
    offsets = machine._offsets
    stored = [*offsets.committed.values(), *(one for by_group in offsets.staged.values() for one in by_group.values())]
    logged = sum(replace(group).held_bytes for group in machine.ledger.groups.values())
    soft = sum(_held_by(group) for group in machine._classic.memberships.values())
    return logged + soft + sum(one.held_bytes for of_group in stored for one in of_group.values())


def _held_by(group: Membership) -> int:
    pending = sum(PENDING_BYTES + text_bytes(member_id) for member_id in group.pending)
    return MEMBERSHIP_BYTES + pending + sum(member.held_bytes for member in group.members.values())
