"""Which clients a seed has."""

from random import Random

from tests.simulation.shape import MIXED, ClientPlan

CHORES = ("trim", "topics", "configs", "abort", "features", "trim topics configs", "abort features", "abort trim")
COMPACTED = "c"
"""A topic with keys, of each of which the last record is enough."""
SCRATCH = "s"
"""A topic that is deleted and made again."""
CHURNED = "k"
"""The same, with keys and compacted, and one after the other: under the hands of transactions and of the cleaner."""


WIDE = "w"
"""The first letter of the topics with many partitions."""


class Clients:
    """Those drawn so far. Each has a seed of its own."""

    def __init__(self, random: Random, duration_s: float) -> None:
        self.random = random
        self.made: list[ClientPlan] = []
        self._duration_s = duration_s

    def add(self, kind: str, **options: object) -> None:
        name = f"{kind}{sum(one.kind == kind for one in self.made)}"
        start_s = self.random.random() * self._duration_s * 0.3
        self.made.append(ClientPlan(kind, name, self.random.getrandbits(32), start_s, tuple(options.items())))


def draw_clients(random: Random, duration_s: float, seed: int) -> tuple[ClientPlan, ...]:
    """Writers, workers, readers and an administrator, each with its own seed."""
    clients = Clients(random, duration_s)
    _writers(random, clients)
    _transactional(random, clients)
    if random.random() < 0.35:
        _workers(random, clients, Random(f"static {seed}"))
    if random.random() < 0.25:
        clients.add("committer", number=0)
    for _ in range(random.choice((1, 1, 2))):
        clients.add(
            "reader",
            committed=random.random() < 0.7,
            sessions=random.random() < 0.6,
            topic=random.choice(("a", "a", "b", "b", COMPACTED, SCRATCH)),
        )
    if random.random() < 0.45:
        clients.add("admin", chores=random.choice(CHORES))
    if (churn := Random(f"churn {seed}")).random() < 0.15:  # of its own, so that it changes no other draw
        _churn(churn, clients)
    if (consumers := Random(f"consumers {seed}")).random() < 0.2:
        _consumers(consumers, clients)
    if (streams := Random(f"streams {seed}")).random() < 0.2:
        _streams(streams, clients)
    if (shares := Random(f"shares {seed}")).random() < 0.2:
        _sharers(shares, clients)
    return tuple(clients.made)


def _churn(random: Random, clients: Clients) -> None:
    clients.random = random
    clients.add("admin", chores="churn")
    for number in range(random.choice((1, 2))):
        clients.add(
            "transactional",
            id=f"churn{number}",
            version=random.choice((0, 2, 2)),
            topics=random.choice((CHURNED, CHURNED + "a")),
            zombie=0.0,
            dies=random.choice((0.0, 0.1)),
            timeout_ms=random.choice((1000, 3000)),
        )
    clients.add("reader", committed=random.random() < 0.7, sessions=random.random() < 0.6, topic=CHURNED)


def _consumers(random: Random, clients: Clients) -> None:
    """Members of a group of the consumer protocol; some have a name in it, and now and then two have the same."""
    clients.random = random
    for number in range(random.choice((2, 2, 3))):
        instance = f"i{number if random.random() < 0.8 else 0}" if random.random() < 0.4 else ""
        clients.add("consumer", instance=instance, assignor=random.choice(("", "", "range", "uniform")))


def _streams(random: Random, clients: Clients) -> None:
    """Members of a streams group; some of them are of one process."""
    clients.random = random
    for number in range(random.choice((2, 3, 4))):
        clients.add("streams", process=random.choice((0, number)))


def _sharers(random: Random, clients: Clients) -> None:
    """Members of a share group, and somebody who writes for it."""
    clients.random = random
    committed = random.random() < 0.5
    for _ in range(random.choice((2, 2, 3))):
        clients.add("sharer", committed=committed)
    if not any(one.kind == "idempotent" and one.option("topic") == "a" for one in clients.made):
        clients.add("idempotent", topic="a", in_flight=5)


def _writers(random: Random, clients: Clients) -> None:
    for _ in range(random.choice((0, 1, 1, 2))):
        clients.add("idempotent", topic=random.choice(("a", "b", COMPACTED)), in_flight=random.choice((1, 5)))
    if random.random() < 0.2:
        # Without a producer id: what is not answered, or answered too early, may be lost, repeated and out of order.
        clients.add(
            "plain", topic=random.choice(("a", "b")), acks=random.choice((0, 1, 1, -1)), in_flight=random.choice((1, 5))
        )


def _transactional(random: Random, clients: Clients) -> None:
    for number in range(random.choice((0, 1, 1, 2))):
        instances = random.choice((1, 1, 2))
        # Zombies of TV0 and TV2 on one id may end up with one identity (docs/decisions): only one at a time mixes them.
        version = random.choice((0, 2, 2, MIXED)) if instances == 1 else random.choice((0, 2))
        for _ in range(instances):
            clients.add(
                "transactional",
                id=f"tx{number}",
                version=version,
                topics=random.choice(("a", "b", "ab", "abs", "ac", COMPACTED)),
                zombie=random.choice((0.0, 0.0, 0.1)),
                dies=random.choice((0.0, 0.0, 0.1)),
                timeout_ms=random.choice((1000, 3000)),
            )


def _workers(random: Random, clients: Clients, static: Random) -> None:
    """`static` draws which of them have a name in the group (KIP-345); now and then two have the same."""
    version = random.choice((0, 2, 2))
    zombie = random.choice((0.0, 0.0, 0.1))
    named = static.random() < 0.4
    for number in range(random.choice((1, 2, 3))):
        instance = f"i{number if static.random() < 0.9 else 0}" if named and static.random() < 0.8 else ""
        timeout_ms = random.choice((1000, 3000))
        clients.add("worker", version=version, zombie=zombie, timeout_ms=timeout_ms, instance=instance)
    if not any(one.kind == "idempotent" and one.option("topic") == "a" for one in clients.made):
        clients.add("idempotent", topic="a", in_flight=5)
