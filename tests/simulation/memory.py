"""What a broker still holds when no more requests come: nothing that requests, waits and transactions
brought."""

from collections.abc import Iterator
from typing import Any

from broker.network.server import Server
from broker.node import Node
from coordinator.runtime import Shard
from tests.harness.network import Network

DATA = ("a", "b", "out", "c")
"""Topics whose partitions nobody watches for good."""


def left_over(node: Node, server: Server, network: Network) -> Iterator[str]:
    """Sentences about what did not come back."""
    if len(node.services.waiting):
        yield f"{len(node.services.waiting)} fetches wait though nobody asks any more"
    if server.requests.used_bytes or server.answers.held_bytes:
        yield f"{server.requests.used_bytes} + {server.answers.held_bytes} bytes were not given back"
    open_ones = sum(not end.is_client for end in network.ends)
    if len(server._connections) > open_ones:
        yield f"{len(server._connections)} connections are remembered, and {open_ones} are open"
    tasks = sorted(str(task.get_coro()) for task in node._tasks)
    if tasks:
        yield f"work of nobody goes on: {tasks}"
    yield from _of_coordinators(node)
    yield from _of_partitions(node)


def _of_coordinators(node: Node) -> Iterator[str]:
    if node.services.transactions._held:
        yield f"requests are held for {sorted(node.services.transactions._held)}"
    for transactions in node.services.transactions.all():
        if transactions.machine.completions:
            yield f"{transactions.name} waits for the end of {sorted(transactions.machine.completions)}"
    shards: list[Shard[Any]] = [*node.services.transactions.all(), *node.services.groups.all()]
    for shard in shards:
        if shard._unanswered or shard._waiting:
            yield f"{shard.name} owes {len(shard._unanswered)} and {len(shard._waiting)} answers"


def _of_partitions(node: Node) -> Iterator[str]:
    for partition in node.open_partitions():
        visibility = partition._visibility
        watchers = len(visibility._watchers) if partition.topic in DATA else 0
        if watchers or visibility._waiting:
            yield f"{watchers} watch and {len(visibility._waiting)} wait for {partition.topic}-{partition.index}"
