"""What a seed means for several nodes: the plan of one node over a store, longer, and with other faults."""

from dataclasses import replace
from random import Random

from tests.simulation.shape import ClientPlan, FaultPlan, Plan
from tests.simulation.stored import draw_stored

KILL, STOP, FREEZE, NO_STORE, NO_NODES = "power", "stop", "freeze", "no store", "no nodes"
"""A node ends at once, or in order; stands still; cannot reach the store; is cut off from others, one way or both."""
SESSION_MS = 1000
"""How long a node may be silent."""
FAILOVER, SLOW_STORE = "failover", "slow store"
"""The standby of the store takes its place, for all nodes at once: `amount` is for how long there is none, `down_s` for
how long it stood still before. The store answers slowly: to all, or to one (`operation`)."""
FAILING_OVER, SLOW = 0.35, 0.3
"""Parts of the seeds."""
LEFT_OUT = ("producer.id.expiration.ms",)
"""Settings. A question of one node to another may take longer than a producer is remembered, whose client is told to
come again then, as if it were ending a transaction."""
MORE_S = (1.0, 2.0, 4.0)
WAYS = ("both", "out", "in")


def draw_several(seed: int, nodes: int) -> Plan:
    """The plan of a seed. Of a fault `count` says which node it is about, from 0 on."""
    plan = draw_stored(seed)
    random = Random(f"nodes {seed}")
    duration_s = plan.duration_s + random.choice(MORE_S)
    faults = [replace(one, count=random.randrange(nodes)) for one in plan.faults if one.kind in ("clock", "drift")]
    faults += [one for one in plan.faults if one.kind == "cut"]
    faults += [FaultPlan("drift", 0.0, count=node, amount=random.choice((1.0, 0.99, 3.0))) for node in range(1, nodes)]
    for _ in range(random.choice((0, 1, 2, 3, 4, 6))):
        faults.append(_drawn(random, nodes, duration_s))
    faults += _of_the_store(seed, nodes, duration_s)
    return replace(
        plan,
        settings=tuple(one for one in plan.settings if not one[0].startswith(LEFT_OUT)),
        duration_s=duration_s,
        internal_partitions=random.choice((1, 2, 3, 5)),
        partitions=max(plan.partitions, random.choice((1, 2, 3))),
        clients=tuple(_later(random, _with_chores(one), duration_s) for one in plan.clients),
        faults=tuple(sorted(faults, key=lambda one: one.at_s)),
    )


def _with_chores(client: ClientPlan) -> ClientPlan:
    """Without the operator's aborts: of several nodes the one that writes a marker does not know whose transaction that
    ends, and does as Kafka."""
    chores = [one for one in str(client.option("chores", "")).split() if one != "abort"]
    if client.kind != "admin":
        return client
    return replace(client, options=(*client.options, ("chores", " ".join(chores) or "trim")))


def _later(random: Random, client: ClientPlan, duration_s: float) -> ClientPlan:
    return replace(client, start_s=client.start_s if random.random() < 0.5 else random.random() * duration_s * 0.7)


def _drawn(random: Random, nodes: int, duration_s: float) -> FaultPlan:
    kind = random.choice((KILL, KILL, STOP, FREEZE, FREEZE, NO_STORE, NO_NODES))
    seconds = SESSION_MS / 1000 * random.choice((0.3, 1.2, 2.5))
    return FaultPlan(
        kind,
        random.random() * duration_s,
        random.choice(WAYS) if kind == NO_NODES else "",
        random.randrange(nodes),
        amount=seconds,
        down_s=random.choice((0.01, 0.1, 0.5, 2.0)),
    )


def _of_the_store(seed: int, nodes: int, duration_s: float) -> list[FaultPlan]:
    """What happens to it as a whole, or to the way of one node."""
    random, session_s = Random(f"failover {seed}"), SESSION_MS / 1000
    faults: list[FaultPlan] = []
    if random.random() < FAILING_OVER:
        for _ in range(random.choice((1, 1, 1, 2))):
            away_s = session_s * random.choice((0.05, 0.3, 0.7, 1.2, 2.5))
            still_s = session_s * random.choice((0.01, 0.1, 0.4, 0.8, 1.5))
            at_s = random.random() * duration_s
            faults.append(FaultPlan(FAILOVER, at_s, amount=away_s, down_s=still_s))
            faults += _along_with_it(random, nodes, at_s, still_s)
    if random.random() < SLOW:
        for _ in range(random.choice((1, 1, 2))):
            for_s = session_s * random.choice((0.3, 1.2, 2.5))
            whose, node = random.choice(("all", "one")), random.randrange(nodes)
            faults.append(FaultPlan(SLOW_STORE, random.random() * duration_s, whose, node, amount=for_s))
    return faults


def _along_with_it(random: Random, nodes: int, at_s: float, still_s: float) -> list[FaultPlan]:
    """Who ends or stands still about that time. One does, so that something comes of it of which the standby hears
    nothing; or all do with the primary, which nobody then asks again for what was lost."""
    how_many, down_s = random.choice((0, 0, 1, 1, nodes)), random.choice((0.01, 0.1, 0.5))
    if how_many == nodes:
        return [FaultPlan(KILL, at_s + still_s, count=node, down_s=down_s) for node in range(nodes)]
    if not how_many:
        return []
    kind, strikes_s = random.choice((KILL, FREEZE)), max(0.0, at_s + (random.random() * 1.5 - 0.5) * still_s)
    return [FaultPlan(kind, strikes_s, count=random.randrange(nodes), amount=1.2 * SESSION_MS / 1000, down_s=down_s)]
