"""One run in a hundred has ten thousand partitions, clients that use a few hundred of them, and ends of the broker."""

from dataclasses import replace
from random import Random

from tests.simulation.plan_clients import SCRATCH, WIDE, Clients
from tests.simulation.plan_faults import OPERATIONS
from tests.simulation.shape import ClientPlan, FaultPlan, Plan, WidePlan

CHANCE = 0.01
SHAPES = ((2, 5000), (10, 1000), (100, 100), (1000, 10))
"""Topics, and partitions of each."""


def draw_wide(random: Random, plan: Plan) -> Plan:
    """The same plan, or in one run of a hundred one of these. What happens every few milliseconds in others, to every
    partition, happens every few seconds."""
    if random.random() >= CHANCE:
        return plan
    topics, partitions = random.choice(SHAPES)
    return replace(
        plan,
        sync_s=random.choice((0.0001, 0.0005)),
        clients=_clients(random, plan),
        faults=_ends(random, plan),
        settings=(
            *((name, value) for name, value in plan.settings if not name.endswith("ms")),
            ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "1000"),
            ("log.retention.check.interval.ms", random.choice(("2000", "300000"))),
            ("producer.id.expiration.check.interval.ms", random.choice(("2000", "600000"))),
            ("log.flush.offset.checkpoint.interval.ms", random.choice(("1000", "60000"))),
            ("log.segment.delete.delay.ms", random.choice(("0", "60000"))),
            ("metadata.log.max.snapshot.interval.ms", random.choice(("300", "3600000"))),
        ),
        silence=None,
        wide=WidePlan(topics, partitions, 300),
    )


def _clients(random: Random, plan: Plan) -> tuple[ClientPlan, ...]:
    clients = Clients(random, plan.duration_s)
    for number in range(random.choice((1, 2))):
        clients.add(
            "transactional",
            id=f"wide{number}",
            version=random.choice((0, 2)),
            topics="a",
            spread=random.choice((10, 50, 200)),
            zombie=0.0,
            dies=random.choice((0.0, 0.2)),
            timeout_ms=random.choice((1000, 3000)),
        )
    version = random.choice((0, 2))
    clients.add("transactional", id="tx", version=version, topics="ab" + SCRATCH, zombie=0.0, dies=0.0, timeout_ms=1000)
    clients.add("idempotent", topic="a", in_flight=5)
    clients.add("reader", committed=random.random() < 0.7, sessions=random.random() < 0.8, topic=WIDE)
    clients.add("admin", chores=random.choice(("topics", "topics trim configs")))
    return tuple(clients.made)


def _ends(random: Random, plan: Plan) -> tuple[FaultPlan, ...]:
    kinds = ("stop", "kill") if plan.page_cache else ("stop", "kill", "power")
    ends = []
    for _ in range(random.choice((1, 1, 2))):
        kind, at_s = random.choice(kinds), random.random() * plan.duration_s
        operation = random.choice(OPERATIONS) if kind != "stop" and random.random() < 0.7 else ""
        ends.append(FaultPlan(kind, at_s, operation, random.choice((1, 30, 500))))
    return tuple(sorted(ends, key=lambda end: end.at_s))
