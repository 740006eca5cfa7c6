"""What a broker still holds when no more requests come: nothing that requests, waits and transactions
brought."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

from broker.disk.group_commit import GroupCommit
from broker.network.connection import Connection
from broker.network.server import Server
from broker.node import Node
from broker.shared.commits import SharedCommits
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.runtime import Shard
from tests.harness.loop import ProcessLoop
from tests.simulation.broker_process import BrokerProcess
from tests.simulation.world import World

WATCHED = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
"""Topics whose partitions are watched for good, by the one coordinator over each."""


def left_over(world: World, broker: BrokerProcess) -> Iterator[str]:
    """Sentences about what did not come back."""
    node, server = broker.node, broker.server
    if node is None or server is None or node._running is None:
        yield "it starts anew"  # Over a bad line one of several may be taken for dead though nothing else is wrong.
        return
    if len(node.services.waiting):
        yield f"{len(node.services.waiting)} fetches wait though nobody asks any more"
    yield from _of_connections(world, broker.loop, node, server)
    yield from _of_work(world, broker, node)
    yield from _of_transactions(node)
    for shard in node.services.groups.all():
        yield from _of_group_shard(shard)
    yield from _of_partitions(node)
    if not node.services.nodes.is_alone:
        yield from _of_several(node)


def _of_several(node: Node) -> Iterator[str]:
    services, led = node.services, node.services.topics.led
    if gone := services.cluster.image.removed:
        yield f"names of {len(gone)} topics that are gone, though a store has no folders"
    if strange := {topic_id for topic_id, _ in led._lost} - services.cluster.image.by_id.keys():
        yield f"what was lost of {len(strange)} topics that are gone"
    if led._to_come or led._openers:
        yield f"{len(led._to_come)} partitions wait to be opened, by {led._openers}"
    if services.peer_gate is not None and services.peer_gate._waiting:
        yield f"coordinators are still asked: {sorted(services.peer_gate._waiting)}"


def _of_connections(world: World, loop: ProcessLoop | None, node: Node, server: Server) -> Iterator[str]:
    answers = server.answers
    for requests in (server.requests, server.strangers):
        if requests.used_bytes or answers.held_bytes:
            yield f"{requests.used_bytes} + {answers.held_bytes} bytes were not given back"
        if requests._held or requests._waiting or requests._overdraft or answers._held:
            yield "connections hold memory, or wait for it"
    open_ones = sum(end.loop is loop for end in world.network.ends)
    if len(server._connections) > open_ones:
        yield f"{len(server._connections)} connections are remembered, and {open_ones} are open"
    if server.turns._waiting:
        yield f"{len(server.turns._waiting)} connections wait for a turn"
    for connection in server._connections:
        if held := _held_by(connection):
            yield f"a connection without a request holds {held}"
    known = {connection.info.connection_id for connection in server._connections}
    if lost := node.services.fetch_sessions._of_connection.keys() - known:
        yield f"fetch sessions of {len(lost)} connections that are gone"
    if lost := node.services.share_sessions._of_connection.keys() - known:
        yield f"share sessions of {len(lost)} connections that are gone"
    idle = [
        group for group in node.services.share_partitions._groups if not node.services.share_sessions.has_any_of(group)
    ]
    if idle:
        yield f"share partitions of {len(idle)} groups without a session"


def _held_by(connection: Connection) -> list[str]:
    reader = connection._reader
    held = {
        "a request": connection._serial or connection._serial_wait or reader.frames or reader.begun,
        "a lease": connection._serial_lease or reader._lease or reader._leases,
        "an answer": connection._order.waiting or connection._sender.waiting,
        "bytes": connection._queued_bytes or connection._serial_bytes or connection._order.known_bytes,
        "its place": connection._due,
    }
    return [name for name, what in held.items() if what]


def _of_work(world: World, broker: BrokerProcess, node: Node) -> Iterator[str]:
    """Tasks and timers: those of housekeeping, one look a second at the connections, one alarm of each coordinator; and
    who follows what a session has looked at."""
    assert broker.loop is not None and broker.environment is not None and node._running is not None
    upkeep = list(node._running.housekeeping._tasks)
    if node._others is not None:
        upkeep += node._others.life._tasks
    if node.services.followed is not None:  # As long as sessions of connections that are open may go on.
        upkeep += [one.task for one in node.services.followed._followed.values() if one.is_watched and one.task]
    tasks = sorted(str(task.get_coro()) for task in asyncio.all_tasks(broker.loop).difference(upkeep))
    if tasks:
        yield f"work of nobody goes on: {tasks}"
    services = node.services
    shards = sum(len(some.all()) for some in (services.groups, services.transactions, services.share_state.shards))
    timers = world.scheduler.timers_of(broker.loop)
    ahead = min(1, timers.count("ReadingAhead._look"))  # of what was read ahead for somebody who has just gone
    if len(timers) > len(upkeep) + 1 + shards + ahead:
        yield f"{len(timers)} timers are set: {sorted(set(timers))}"
    if broker.environment.slices_waiting:
        yield f"{broker.environment.slices_waiting} wait for a turn"
    commit = node.group_commit
    turns: tuple[object, ...]
    if isinstance(commit, GroupCommit):
        turns = (commit._turn, commit._beginning, commit._dirty, commit._cycle)
    else:
        assert isinstance(commit, SharedCommits)
        turns = tuple(part for lane in commit._lanes for part in (lane.dirty, lane.cycles))
    if commit._idle or any(turns):
        yield f"partitions wait for a sync, or somebody for that: {turns}"
    topics = node.services.topics
    if topics.to_open._topics or topics.to_open._under_way or topics.to_open._files:
        yield "logs are being opened"
    if topics._leaving._tasks or topics._leaving.with_folders:
        yield f"deleted topics are remembered: {sorted(topics._leaving._tasks)}"


def _of_transactions(node: Node) -> Iterator[str]:
    services = node.services
    if services.transactions._held:
        yield f"requests are held for {sorted(services.transactions._held)}"
    for writer in (services.coordinator_markers, services.operator_markers):
        if writer._uncommitted._waiting or writer._uncommitted._watchers:
            yield "markers wait to be committed"
    for shard in services.transactions.all():
        ledger = shard.machine.ledger
        if ledger.completions or ledger.undriven:
            yield f"{shard.name} waits for the end of {sorted(ledger.completions)}"
        if len(ledger.timeouts):
            yield f"{shard.name} waits for {sorted(ledger.timeouts.keys())}, of which no transaction is open"
        yield from _of_shard(shard)
        yield from _releases(services.transactions, shard)
    for group_shard in services.groups.all():
        yield from _releases(services.groups, group_shard)


def _releases(shards: Any, shard: Shard[Any]) -> Iterator[str]:
    releases = shards._releases[next(index for index, one in shards.indexed() if one is shard)]
    if releases._waiting or releases._delivering:
        yield f"{shard.name} has {len(releases._waiting)} answers yet to deliver"


def _of_shard(shard: Shard[Any]) -> Iterator[str]:
    if shard._unanswered or shard._waiting:
        yield f"{shard.name} owes {len(shard._unanswered)} and {len(shard._waiting)} answers"


def _of_group_shard(shard: Shard[GroupCoordinator]) -> Iterator[str]:
    """No client is a member any more, and sessions are short."""
    yield from _of_shard(shard)
    machine = shard.machine
    if machine._rebalance._assigning:
        yield f"{shard.name} is writing down {sorted(machine._rebalance._assigning)}"
    if machine._offsets.staged or machine._offsets._producers:
        yield f"{shard.name} has offsets of transactions that are over: {sorted(machine._offsets.staged)}"
    for group in machine._classic.memberships.values():
        if group.members or group.pending or group.static_ids or group.unsynced or group.supporters:
            members = [*group.members, *group.pending, *group.static_ids, *group.unsynced, *group.supporters]
            yield f"{shard.name} remembers {members} of {group.group_id}, where nobody is"
    if len(machine._deadlines) > 1:  # the next round of retention
        yield f"{shard.name} has {len(machine._deadlines)} deadlines"


def _of_partitions(node: Node) -> Iterator[str]:
    sessions = node.services.fetch_sessions._sessions.values()
    followed = Counter(wanted.followed for session in sessions for wanted in session.wanted.values())
    for partition in node.open_partitions():
        visibility = partition._visibility
        watchers = len(visibility._watchers) - (partition.topic in WATCHED) - followed[partition]
        if watchers > 0 or visibility._waiting:
            yield f"{watchers} watch and {len(visibility._waiting)} wait for {partition.topic}-{partition.index}"
