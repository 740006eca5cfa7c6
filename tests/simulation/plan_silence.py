"""The silence of some runs: how long it is, what is forgotten in it and when, and how the broker ends meanwhile."""

from random import Random

from tests.simulation.shape import FaultPlan, SilencePlan

CHANCE = 0.06
RETENTION_S = 60.0
"""`offsets.retention.minutes` knows nothing shorter."""
AGES_MS = ("10000", "30000", "50000")
INTERVALS_MS = ("500", "500", "5000")
SPANS_S = (20.0, 75.0, 150.0)
REMOVAL = "transaction.remove.expired.transaction.cleanup.interval.ms"
DUE_S = 3.1
"""So long after the next round what is over must be gone."""
OPERATIONS = ("append", "after append", "sync", "after sync", "write_whole", "rename", "delete")
"""What may happen to the disk while everybody is silent."""


def draw_silence(random: Random, page_cache: bool) -> SilencePlan | None:
    """None in most runs."""
    if random.random() >= CHANCE:
        return None
    kinds = ("stop", "kill") if page_cache else ("stop", "kill", "power")
    settings = {
        "offsets.retention.minutes": f"{RETENTION_S / 60:.0f}",
        "offsets.retention.check.interval.ms": random.choice(INTERVALS_MS),
        "producer.id.expiration.ms": random.choice(AGES_MS),
        "producer.id.expiration.check.interval.ms": random.choice(INTERVALS_MS),
        "transactional.id.expiration.ms": random.choice(AGES_MS),
        REMOVAL: random.choice(INTERVALS_MS),
        "tallystick.producer.ids.max": "1000000",
        "log.retention.check.interval.ms": random.choice(("1000", "300000")),
        "log.cleaner.backoff.ms": random.choice(("1000", "15000")),
        "metadata.log.max.snapshot.interval.ms": "5000",
    }
    ages_s = {
        RETENTION_S: settings["offsets.retention.check.interval.ms"],
        int(settings["producer.id.expiration.ms"]) / 1000: settings["producer.id.expiration.check.interval.ms"],
        int(settings["transactional.id.expiration.ms"]) / 1000: settings[REMOVAL],
    }
    """→ what is looked for at which interval."""
    span_s = random.choice(SPANS_S)

    def moment() -> float:
        age_s = random.choice(list(ages_s))
        at_s = random.choice((0.0, span_s, age_s * random.random(), age_s * random.random(), age_s + random.random()))
        return min(at_s, span_s)

    ends = []
    for _ in range(random.choice((1, 1, 2, 3))):
        kind = random.choice(kinds)
        operation = random.choice(OPERATIONS) if kind != "stop" and random.random() < 0.4 else ""
        down_s = random.choice((0.01, 0.5, 15.0))
        ends.append(FaultPlan(kind, moment(), operation, random.choice((1, 1, 2, 5)), down_s=down_s))
    looks_s = [moment(), moment()]
    for age_s, interval_ms in ages_s.items():
        looks_s += [age_s - 0.2, age_s + int(interval_ms) / 1000 + DUE_S]
    return SilencePlan(
        random.getrandbits(32),
        span_s,
        random.choice(kinds),
        tuple(settings.items()),
        tuple(sorted(ends, key=lambda end: end.at_s)),
        tuple(sorted(at_s for at_s in looks_s if at_s < span_s)),
    )
