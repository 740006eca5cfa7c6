"""What a seed means: the shape of the cluster, the clients, the faults. All of it is drawn before the run begins.

Swarm testing: each seed has only some of the faults and clients, so that one kind of trouble does not hide another.
Everything that can be left out is an element of a list, for `shrink` leaves elements out.
"""

from dataclasses import dataclass, field, replace
from random import Random

from tests.simulation.network import NetworkFaults


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """One client: its kind, its own seed, and what it has to know."""

    kind: str
    name: str
    seed: int
    start_s: float = 0.0
    options: tuple[tuple[str, object], ...] = ()

    def option(self, name: str, default: object = None) -> object:
        return dict(self.options).get(name, default)


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """One fault. `operation` is the disk operation at whose `count`th occurrence after `at_s` it strikes, "" is at
    once."""

    kind: str
    at_s: float
    operation: str = ""
    count: int = 0
    amount: float = 0.0
    down_s: float = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """See the head of this file."""

    seed: int
    duration_s: float
    page_cache: bool
    partitions: int
    internal_partitions: int
    segment_bytes: int
    sync_s: float
    slow_disk: float
    any_subset: bool
    network: NetworkFaults
    repeat: float
    final: str
    """How the broker ends before the last look: "", "stop", "kill" or "power"."""
    transaction_version: int = 2
    clients: tuple[ClientPlan, ...] = ()
    faults: tuple[FaultPlan, ...] = ()
    settings: tuple[tuple[str, str], ...] = field(default=())

    def without_client(self, index: int) -> "Plan":
        return replace(self, clients=self.clients[:index] + self.clients[index + 1 :])

    def without_fault(self, index: int) -> "Plan":
        return replace(self, faults=self.faults[:index] + self.faults[index + 1 :])


MIXED = -1
"""A transactional version that is drawn anew whenever the client starts."""
OPERATIONS = (
    "append",
    "after append",
    "sync",
    "after sync",
    "sync_folder",
    "create",
    "rename",
    "after rename",
    "delete",
    "truncate",
    "write_whole",
    "after write_whole",
    "write_whole rename",
    "make_folder",
)


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(seed)
    page_cache = random.random() < 0.25
    duration_s = random.choice((0.5, 1.0, 2.0))
    return Plan(
        seed=seed,
        duration_s=duration_s,
        page_cache=page_cache,
        partitions=random.choice((1, 2, 2, 3)),
        internal_partitions=random.choice((1, 2, 3)),
        segment_bytes=random.choice((400, 1500, 6000, 1 << 20)),
        sync_s=random.choice((0.0005, 0.004, 0.02)),
        slow_disk=random.choice((0.0, 0.0, 0.05)),
        any_subset=random.random() < 0.4,
        network=_network(random),
        repeat=random.choice((0.0, 0.0, 0.1, 0.3)),
        final=random.choice(("", "stop", "kill", "power")) if not page_cache else random.choice(("", "stop", "kill")),
        clients=_clients(random, duration_s),
        faults=_faults(random, duration_s, page_cache),
        settings=_settings(random),
    )


def _network(random: Random) -> NetworkFaults:
    return NetworkFaults(
        delay_s=random.choice((0.0002, 0.001, 0.005)),
        slow=random.choice((0.0, 0.0, 0.05)),
        split=random.choice((0.0, 0.0, 0.3)),
        cut=random.choice((0.0, 0.0, 0.3, 0.7)),
    )


def _clients(random: Random, duration_s: float) -> tuple[ClientPlan, ...]:
    made: list[ClientPlan] = []

    def add(kind: str, **options: object) -> None:
        name = f"{kind}{sum(one.kind == kind for one in made)}"
        start_s = random.random() * duration_s * 0.3
        made.append(ClientPlan(kind, name, random.getrandbits(32), start_s, tuple(options.items())))

    for _ in range(random.choice((0, 1, 1, 2))):
        add("idempotent", topic=random.choice(("a", "b")), in_flight=random.choice((1, 5)))
    ids = random.choice((0, 1, 1, 2))
    for number in range(ids):
        instances = random.choice((1, 1, 2))
        # Zombies of TV0 and TV2 on one id may end up with one identity (docs/decisions): only one at a time mixes them.
        version = random.choice((0, 2, 2, MIXED)) if instances == 1 else random.choice((0, 2))
        for _ in range(instances):
            add(
                "transactional",
                id=f"tx{number}",
                version=version,
                topics=random.choice(("a", "b", "ab", "abs")),
                zombie=random.choice((0.0, 0.0, 0.1)),
                dies=random.choice((0.0, 0.0, 0.1)),
                timeout_ms=random.choice((1000, 3000)),
            )
    if random.random() < 0.4:
        version = random.choice((0, 2, 2))
        zombie = random.choice((0.0, 0.0, 0.1))
        for _ in range(random.choice((1, 2, 3))):
            add("worker", version=version, zombie=zombie, timeout_ms=random.choice((1000, 3000)))
        if not any(one.kind in ("idempotent",) and one.option("topic") == "a" for one in made):
            add("idempotent", topic="a", in_flight=5)
    for _ in range(random.choice((1, 1, 2))):
        add("reader", committed=random.random() < 0.7, sessions=random.random() < 0.6, topic=random.choice(("a", "b")))
    if random.random() < 0.3:
        add("admin", chores=random.choice(("trim", "topics", "configs", "trim topics configs")))
    return tuple(made)


def _faults(random: Random, duration_s: float, page_cache: bool) -> tuple[FaultPlan, ...]:
    made: list[FaultPlan] = []
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        kind = "kill" if page_cache or random.random() < 0.4 else "power"
        operation = random.choice(("", *OPERATIONS)) if random.random() < 0.8 else ""
        made.append(
            FaultPlan(
                kind,
                random.random() * duration_s,
                operation,
                random.choice((1, 1, 2, 3, 5, 10)),
                down_s=random.choice((0.01, 0.1, 0.5)),
            )
        )
    for kind, chance in (("stop", 0.15), ("full", 0.08), ("failed sync", 0.08), ("cut", 0.2), ("clock", 0.2)):
        if random.random() < chance:
            amount = random.choice((-3600.0, -2.0, 2.0, 3600.0)) if kind == "clock" else random.random() * 3000
            made.append(FaultPlan(kind, random.random() * duration_s, amount=amount, count=random.choice((1, 2, 5))))
    return tuple(sorted(made, key=lambda fault: fault.at_s))


def _settings(random: Random) -> tuple[tuple[str, str], ...]:
    drawn = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": random.choice(("100", "1000")),
        "log.retention.check.interval.ms": random.choice(("200", "300000")),
        "log.cleaner.backoff.ms": random.choice(("300", "15000")),
        "log.flush.offset.checkpoint.interval.ms": random.choice(("150", "60000")),
        "producer.id.expiration.check.interval.ms": random.choice(("500", "600000")),
        "log.segment.delete.delay.ms": random.choice(("0", "60000")),
    }
    return tuple(drawn.items())
