"""Metrics of what a broker is and holds at the moment: looked at on its loop, a few at a time."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from broker.api.services import Services
from broker.http.metrics.metric import Family, Kind, Metric
from broker.http.seen_broker import SeenBroker
from coordinator.transactions.states import TransactionState

AGES_S = (0, 10, 60, 300, 900)
"""Of open transactions, which are told by how old they are at least."""

INFO = Metric(
    "tallystick_info", Kind.GAUGE, "1; what this broker is.", ("node_id", "cluster_id", "epoch", "durability")
)
CONTROLLER = Metric(
    "kafka_controller_kafkacontroller_activecontrollercount",
    Kind.GAUGE,
    "1 at the node that is the controller, 0 at others: the sum over all nodes is 1.",
)
BROKERS = Metric(
    "kafka_controller_kafkacontroller_activebrokercount", Kind.GAUGE, "Nodes that serve, as this one knows them."
)
FENCED = Metric(
    "kafka_controller_kafkacontroller_fencedbrokercount",
    Kind.GAUGE,
    "Nodes that have left and were not unregistered, as this one knows them.",
)
UNDER_REPLICATED = Metric(
    "kafka_server_replicamanager_underreplicatedpartitions", Kind.GAUGE, "0: a partition has one replica."
)
UNDER_MIN_ISR = Metric(
    "kafka_server_replicamanager_underminisrpartitioncount", Kind.GAUGE, "0: a partition has one replica."
)
CONNECTIONS = Metric(
    "kafka_server_socket_server_metrics_connection_count",
    Kind.GAUGE,
    "Connections of clients, by listener.",
    ("listener", "networkProcessor"),
)
ACCEPTED = Metric(
    "kafka_server_socket_server_metrics_connection_creation_total", Kind.COUNTER, "Connections that were accepted."
)
REFUSED = Metric(
    "tallystick_connections_without_descriptor_total", Kind.COUNTER, "Connections refused for want of descriptors."
)
WAITING = Metric(
    "kafka_server_delayedoperationpurgatory_purgatorysize",
    Kind.GAUGE,
    "Fetches that wait for records.",
    ("delayedOperation",),
)
GROUPS = Metric("tallystick_groups", Kind.GAUGE, "Groups of all protocols that this node coordinates.")
GROUP_COUNT = Metric("kafka_coordinator_group_groupmetadatamanager_numgroups", Kind.GAUGE, "The same.")
TRANSACTIONS = Metric(
    "tallystick_transactional_ids",
    Kind.GAUGE,
    "Transactional ids that this node coordinates, by their state.",
    ("state",),
)
OPEN = Metric(
    "tallystick_open_transactions",
    Kind.GAUGE,
    "Of those the open transactions that began at least so many seconds ago.",
    ("at_least_seconds",),
)
OLDEST = Metric("tallystick_oldest_transaction_seconds", Kind.GAUGE, "How long ago the oldest of those began.")
UNMARKED = Metric(
    "tallystick_decided_transactions",
    Kind.GAUGE,
    "Transactions that this node has decided and whose markers are being written.",
)
MEMORY = Metric("tallystick_memory_used_bytes", Kind.GAUGE, "Bytes that clients make it hold, by budget.", ("budget",))
MEMORY_LIMIT = Metric("tallystick_memory_limit_bytes", Kind.GAUGE, "What each budget has.", ("budget",))
STALLS = Metric(
    "tallystick_loop_stalls_total", Kind.COUNTER, "Turns of the loop longer than tallystick.stall.threshold.ms."
)
LONG_STALLS = Metric("tallystick_loop_long_stalls_total", Kind.COUNTER, "Turns of the loop of 100 ms or longer.")
WORST_STALL = Metric("tallystick_loop_worst_stall_seconds", Kind.GAUGE, "The longest turn of the loop since the start.")

METRICS = (
    *(INFO, CONTROLLER, BROKERS, FENCED, UNDER_REPLICATED, UNDER_MIN_ISR, CONNECTIONS, ACCEPTED, REFUSED, WAITING),
    *(
        GROUPS,
        GROUP_COUNT,
        TRANSACTIONS,
        OPEN,
        OLDEST,
        UNMARKED,
        MEMORY,
        MEMORY_LIMIT,
        STALLS,
        LONG_STALLS,
        WORST_STALL,
    ),
)


@dataclass(slots=True)
class Look:
    """What was found."""

    connections: dict[str, int] = field(default_factory=dict)
    waiting: int = 0
    groups: int = 0
    states: Counter[TransactionState] = field(default_factory=Counter)
    ages_s: list[float] = field(default_factory=list)
    """Of open transactions."""
    budgets: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Used, and the limit."""


async def look(broker: SeenBroker) -> Look:
    """On the loop, with turns for the others."""
    services, server = broker.services, broker.server
    requests, strangers, answers = server.requests, server.strangers, services.answer_budget
    seen = Look(
        connections=server.connections_by_listener,
        waiting=len(services.waiting),
        budgets={
            "requests": (requests.used_bytes, requests.limit_bytes),
            "unauthenticated requests": (strangers.used_bytes, strangers.limit_bytes),
            "answers": (answers.held_bytes, answers.limit_bytes),
        },
    )
    await _groups(services, seen)
    await _transactions(services, seen)
    return seen


async def _groups(services: Services, seen: Look) -> None:
    slice_ = services.environment.time_slice()
    for shard in services.groups.all():
        seen.groups += shard.machine.ledger.group_count()
        await slice_.give_way()


async def _transactions(services: Services, seen: Look) -> None:
    slice_, now_ms = services.environment.time_slice(), services.environment.wall_ms()
    for shard in services.transactions.all():
        for transaction in list(shard.machine.transactions.values()):
            seen.states[transaction.state] += 1
            if transaction.state is TransactionState.ONGOING:
                seen.ages_s.append(max(0, now_ms - transaction.start_ms) / 1000)
            if slice_.spent():
                await slice_.wait_for_turn()


def families(broker: SeenBroker, seen: Look) -> Iterator[Family]:
    """See the head of this file."""
    services = broker.services
    config = services.config
    durability = "memory" if config.in_memory else "page-cache" if config.page_cache else "fsync"
    if config.store:
        durability = "store"
    info = Family(INFO)
    info.add(1, str(services.node_id), services.cluster_id, str(services.epoch), durability)
    yield info
    yield from _connections(broker, seen)
    yield from _of_transactions(seen)
    memory, limits = Family(MEMORY), Family(MEMORY_LIMIT)
    for name, (used, limit) in seen.budgets.items():
        memory.add(used, name)
        limits.add(limit, name)
    yield from (memory, limits)
    yield from _plain(
        *_of_the_cluster(services), (UNDER_REPLICATED, 0), (UNDER_MIN_ISR, 0),
        (GROUPS, seen.groups), (GROUP_COUNT, seen.groups),
    )  # fmt: skip
    if (monitor := broker.monitor) is not None:
        worst_s = monitor.worst_ms / 1000
        yield from _plain(
            (STALLS, monitor.turns_over), (LONG_STALLS, monitor.turns_over_100_ms), (WORST_STALL, worst_s)
        )


def _of_the_cluster(services: Services) -> Iterator[tuple[Metric, float]]:
    nodes = services.nodes
    yield CONTROLLER, nodes.controller_id == nodes.node_id
    fenced = [] if nodes.is_alone else [one.fenced for one in services.cluster.image.brokers.values()]
    yield BROKERS, 1 if nodes.is_alone else fenced.count(False)
    yield FENCED, fenced.count(True)


def _connections(broker: SeenBroker, seen: Look) -> Iterator[Family]:
    family = Family(CONNECTIONS)
    for listener, count in seen.connections.items():
        family.add(count, listener, "0")
    yield family
    family = Family(WAITING)
    family.add(seen.waiting, "Fetch")
    yield family
    yield from _plain((ACCEPTED, broker.server.accepted), (REFUSED, broker.server.refused_for_descriptors))


def _of_transactions(seen: Look) -> Iterator[Family]:
    states, ages = Family(TRANSACTIONS), Family(OPEN)
    for state in TransactionState:
        states.add(seen.states[state], state.wire_name)
    for age_s in AGES_S:
        ages.add(sum(1 for found in seen.ages_s if found >= age_s), str(age_s))
    yield from (states, ages)
    decided = sum(count for state, count in seen.states.items() if state.preparing)
    yield from _plain((OLDEST, max(seen.ages_s, default=0)), (UNMARKED, decided))


def _plain(*values: tuple[Metric, float]) -> Iterator[Family]:
    for metric, value in values:
        family = Family(metric)
        family.add(value)
        yield family
