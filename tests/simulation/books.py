"""Sums that the broker keeps beside what they are sums of. Between two callbacks of its loop they are equal."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from broker.api.fetching.fetch_sessions import FetchSessions
from broker.api.share_sessions import ShareSessions
from broker.network.connection import Connection
from broker.network.server import Server
from broker.node import Node
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.held import LOGGED_GROUP_BYTES, MEMBERSHIP_BYTES, PENDING_BYTES, text_bytes
from coordinator.groups.membership import Membership
from coordinator.groups.share.group import SHARED_PARTITION_BYTES, ShareGroup
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.member import TaskRole
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
    yield from _compared("bytes of buffers with views", free._viewed_bytes, sum(map(len, free._viewed)))
    yield from _of_fetch_sessions(node.services.fetch_sessions)
    yield from _of_share_sessions(node.services.share_sessions)
    total, whole = 0, None
    for shard in node.services.groups.all():
        machine = shard.machine
        yield from _compared(f"bytes held by {shard.name}", machine.ledger.held.bytes, held_bytes(machine))
        for group in machine.ledger.consumers.by_id.values():
            yield from _of_consumer_group(group)
        for application in machine.ledger.streams.by_id.values():
            yield from _of_streams_group(application)
        total += machine.ledger.held.bytes
        whole = machine.ledger.held.total
    if whole is not None:
        yield from _compared("bytes held by all groups", whole.bytes, total)


def _of_share_sessions(sessions: ShareSessions) -> Iterator[str]:
    known = sessions._sessions.values()
    yield from _compared("partitions in share sessions", sessions.partitions, sum(len(one.wanted) for one in known))
    of_groups = Counter(one.group_id for one in known)
    if of_groups != Counter(sessions._of_group):
        yield f"share sessions by group: {sessions._of_group} are kept, {of_groups} counted"
    of_connections = {one for some in sessions._of_connection.values() for one in some}
    yield from _compared("share sessions of connections", len(of_connections), len(sessions))


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
    consumers = sum(map(_held_by_consumers, machine.ledger.consumers.by_id.values()))
    streams = sum(map(_held_by_streams, machine.ledger.streams.by_id.values()))
    shares = sum(map(_held_by_shares, machine.ledger.shares.by_id.values()))
    return (
        logged
        + soft
        + consumers
        + streams
        + shares
        + sum(one.held_bytes for of_group in stored for one in of_group.values())
    )


def _held_by_consumers(group: ConsumerGroup) -> int:
    targets = sum(250 + 50 * len(of) for target in group.targets.values() for of in target.values())
    resolved = sum(text_bytes(regex) + one.held_bytes for regex, one in group.resolved.items())
    members = sum(member.held_bytes for member in group.members.values())
    return LOGGED_GROUP_BYTES + 2 * text_bytes(group.group_id) + targets + resolved + members


def _held_by_streams(group: StreamsGroup) -> int:
    targets = sum(target.held_bytes for target in group.targets.values())
    members = sum(member.held_bytes for member in group.members.values())
    topology = 0 if group.topology is None else group.topology.held_bytes
    return LOGGED_GROUP_BYTES + 2 * text_bytes(group.group_id) + targets + members + topology


def _held_by_shares(group: ShareGroup) -> int:
    targets = sum(250 + 50 * len(of) for target in group.targets.values() for of in target.values())
    members = sum(member.held_bytes for member in group.members.values())
    shared = sum(
        250 + SHARED_PARTITION_BYTES * len(topic.partitions) + text_bytes(topic.name)
        for part in (group.initializing, group.initialized)
        for topic in part.values()
    )
    forgotten = sum(150 + text_bytes(name) for name in group.deleting.values())
    return LOGGED_GROUP_BYTES + 2 * text_bytes(group.group_id) + targets + members + shared + forgotten


def _of_streams_group(group: StreamsGroup) -> Iterator[str]:
    """What its members run, and of what their processes keep copies."""
    held = [(member, tasks) for member in group.members.values() for tasks in (member.assigned, member.revoking)]
    active = [task for _, tasks in held for task in tasks.each(TaskRole.ACTIVE)]
    what = f"of the streams group {group.group_id}"
    yield from _compared(f"tasks {what}", len(group._active), len(active))
    yield from _compared(f"tasks that run once {what}", len(set(active)), len(active))
    copies = Counter(
        (task, member.process_id)
        for member, tasks in held
        for role in (TaskRole.STANDBY, TaskRole.WARMUP)
        for task in tasks.each(role)
    )
    kept = {(task, process): count for task, of in group._copies.items() for process, count in of.items()}
    yield from _compared(f"copies {what}", sum(kept.values()), copies.total())
    if any(count > 1 for count in copies.values()):
        yield f"copies {what}: one process keeps several of a task"
    for member, tasks in held:
        for task in tasks.each(TaskRole.ACTIVE):
            if (task, member.process_id) in copies:
                yield f"copies {what}: {member.process_id} runs {task}, and keeps a copy"


def _of_consumer_group(group: ConsumerGroup) -> Iterator[str]:
    members = list(group.members.values())
    owned = [
        (topic_id, index)
        for member in members
        for partitions in (member.assigned, member.revoking)
        for topic_id, indexes in partitions.items()
        for index in indexes
    ]
    what = f"of the consumer group {group.group_id}"
    yield from _compared(f"partitions {what}", sum(map(len, group._owners.values())), len(owned))
    yield from _compared(f"owners {what}", len(set(owned)), len(owned))
    named = Counter(topic for member in members for topic in member.topics)
    yield from _compared(f"names {what}", sum(group._topic_members.values()), named.total())
    asked = Counter(member.regex for member in members if member.regex)
    yield from _compared(f"expressions {what}", sum(group.regex_members.values()), asked.total())
    yield from _compared(
        f"classic members {what}", group.classic_count, sum(one.classic is not None for one in members)
    )


def _held_by(group: Membership) -> int:
    pending = sum(PENDING_BYTES + text_bytes(member_id) for member_id in group.pending)
    return MEMBERSHIP_BYTES + pending + sum(member.held_bytes for member in group.members.values())
