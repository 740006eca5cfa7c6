"""What a seed means. All of it is drawn before the run begins.

Swarm testing: each seed has only some of the faults and clients, so that one kind of trouble does not hide another.
Clients are drawn in `plan_clients`, faults in `plan_faults`.
"""

from dataclasses import replace
from random import Random

from tests.harness.environment import NO_THREAD, ONE_THREAD
from tests.harness.network import NetworkFaults
from tests.simulation.plan_clients import draw_clients
from tests.simulation.plan_faults import draw_faults, draw_outages, draw_starts, draw_threads
from tests.simulation.plan_silence import draw_silence
from tests.simulation.plan_wide import draw_wide
from tests.simulation.rot import draw_rot
from tests.simulation.shape import LONG_MS, ClientPlan, FaultPlan, Plan
from tests.simulation.sick import draw_index, draw_now_and_then, draw_sick, draw_two

__all__ = ["ClientPlan", "FaultPlan", "Plan", "draw"]


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    return draw_wide(Random(f"wide {seed}"), _usual(seed))


def _usual(seed: int) -> Plan:
    random = Random(seed)
    page_cache = random.random() < 0.25
    duration_s = random.choice((0.5, 1.0, 2.0))
    clients = draw_clients(random, duration_s, seed)
    return Plan(
        seed=seed,
        duration_s=duration_s,
        page_cache=page_cache,
        partitions=random.choice((1, 2, 2, 3)),
        internal_partitions=random.choice((1, 2, 3)),
        segment_bytes=random.choice((400, 1500, 6000, 1 << 20)),
        sync_s=random.choice((0.0005, 0.004, 0.02)),
        slow_disk=random.choice((0.0, 0.0, 0.05)),
        threads=int(_of_its_own("threads", seed, 0.06, (ONE_THREAD, NO_THREAD))),
        any_subset=random.random() < 0.4,
        network=replace(_network(random), joined=_of_its_own("joined", seed, 0.3, (0.3, 1.0))),
        record_bytes=int(_of_its_own("big", seed, 0.2, (3_000, 40_000, 150_000))),
        repeat=random.choice((0.0, 0.0, 0.1, 0.3)),
        twins=_of_its_own("twins", seed, 0.3, (0.1, 0.4)),
        final=random.choice(("", "stop", "kill", "power")) if not page_cache else random.choice(("", "stop", "kill")),
        clock_rate=random.choice((1.0, 1.0, 1.0, 0.5, 0.99, 1.01, 3.0)),
        clients=clients,
        faults=(
            *draw_faults(random, duration_s, page_cache, classic=_has_classic(clients)),
            *draw_rot(Random(f"rot {seed}"), duration_s),
            *draw_starts(Random(f"starts {seed}"), duration_s, page_cache),
            *draw_sick(Random(f"sick {seed}"), duration_s),
            *draw_now_and_then(Random(f"sectors {seed}"), duration_s),
            *draw_index(Random(f"aborted index {seed}"), duration_s),
            *draw_two(Random(f"two spoilt {seed}"), duration_s),
            *draw_threads(Random(f"failing threads {seed}"), duration_s),
            *(draw_outages(Random(f"outages {seed}"), duration_s) if page_cache else ()),
        ),
        settings=(*_settings(random), *_snapshots(Random(f"snapshots {seed}")), *_shared(clients, seed), *_ahead(seed)),
        silence=draw_silence(Random(f"silence {seed}"), page_cache),
    )


def _ahead(seed: int) -> tuple[tuple[str, str], ...]:
    """The size of the write-ahead log, which the usual one would fill in no run."""
    return (("tallystick.write.ahead.bytes", str(int(_of_its_own("ahead", seed, 0.6, (49_152, 131_072, 262_144))))),)


def _of_its_own(name: str, seed: int, chance: float, values: tuple[float, ...]) -> float:
    """One of the values in some seeds, else 0. By a draw of its own, so that it changes no other."""
    random = Random(f"{name} {seed}")
    return random.choice(values) if random.random() < chance else 0.0


def _has_classic(clients: tuple[ClientPlan, ...]) -> bool:
    """Whether a client speaks the protocol that cannot distinguish a late request from a new one (KAFKA-17754)."""
    return any(one.option("version", 2) != 2 for one in clients)


def _network(random: Random) -> NetworkFaults:
    return NetworkFaults(
        delay_s=random.choice((0.0002, 0.001, 0.005)),
        slow=random.choice((0.0, 0.0, 0.05)),
        split=random.choice((0.0, 0.0, 0.3)),
        cut=random.choice((0.0, 0.0, 0.3, 0.7)),
    )


def _settings(random: Random) -> tuple[tuple[str, str], ...]:
    drawn = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": random.choice(("100", "1000")),
        "log.retention.check.interval.ms": random.choice(("50", "200", "300000")),
        "log.cleaner.backoff.ms": random.choice(("30", "300", "15000")),
        "log.cleaner.min.cleanable.ratio": random.choice(("0", "0.5")),
        "log.cleaner.delete.retention.ms": random.choice(("0", "200", str(LONG_MS))),
        "log.flush.offset.checkpoint.interval.ms": random.choice(("150", "60000")),
        "producer.id.expiration.check.interval.ms": random.choice(("50", "500", "600000")),
        "log.segment.delete.delay.ms": random.choice(("0", "60000")),
    }
    if random.random() < 0.2:
        drawn["producer.id.expiration.ms"] = random.choice(("50", "400", "2000"))
    if random.random() < 0.1:
        drawn["tallystick.producer.ids.max"] = random.choice(("1", "3"))
    if random.random() < 0.25:
        drawn["transactional.id.expiration.ms"] = random.choice(("20", "200", "1000"))
        drawn["transaction.remove.expired.transaction.cleanup.interval.ms"] = random.choice(("20", "200"))
    if random.random() < 0.25:
        drawn["offsets.retention.minutes"] = "1"
        drawn["offsets.retention.check.interval.ms"] = random.choice(("50", "300"))
    return tuple(drawn.items())


def _shared(clients: tuple[ClientPlan, ...], seed: int) -> tuple[tuple[str, str], ...]:
    """Those of the share coordinator, where there is a share group."""
    random = Random(f"share state {seed}")
    if not any(one.kind == "sharer" for one in clients):
        return ()
    drawn = {
        "share.coordinator.snapshot.update.records.per.snapshot": random.choice(("0", "3", "500")),
        "share.coordinator.state.topic.prune.interval.ms": random.choice(("50", "300", "300000")),
        "share.coordinator.cold.partition.snapshot.interval.ms": random.choice(("100", "300000")),
    }
    return tuple(drawn.items())


def _snapshots(random: Random) -> tuple[tuple[str, str], ...]:
    """Those of the metadata, by a draw of its own, so that it changes no other."""
    if random.random() < 0.5:
        return ()
    drawn = {
        "metadata.log.max.snapshot.interval.ms": random.choice(("15", "60", "300")),
        "metadata.log.max.record.bytes.between.snapshots": random.choice(("1", "400", "20971520")),
        "metadata.max.retention.bytes": random.choice(("0", "0", "3000", "104857600")),
        "metadata.max.retention.ms": random.choice(("0", "200", "604800000")),
    }
    return tuple(drawn.items())
