"""What TLS costs: producing and reading over it beside doing the same without, on us and on Apache Kafka."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.benchmarks import loads
from tests.benchmarks.footprint import Note
from tests.benchmarks.loads import Figures
from tests.benchmarks.rows import CONSUME_TLS, PRODUCE_TLS
from tests.benchmarks.targets import KAFKA, PAGE_CACHE, Target
from tests.harness.certificates import Certificates
from tests.harness.secure_broker import SecureBroker, secure_broker

RECORD_BYTES, RECORDS, TIMES_READ = 1000, 400_000, 3
CPU, SHARE = "broker CPU-s per GB", "of what it is without"
TARGETS = (PAGE_CACHE, KAFKA)


def over_tls(targets: list[str], rounds: int, scale: float, folder: Path, note: Note) -> None:
    """In turns on the guarded listener of a broker and on its open one; both brokers in turns, too."""
    certificates = Certificates(folder / "certificates")
    settings = certificates.settings(prefix="listener.name.secure.")
    trust = {"security.protocol": "SSL", "ssl.ca.location": str(certificates.path("ca"))}
    brokers: dict[str, SecureBroker] = {}
    try:
        for name in targets:
            if name in TARGETS:
                ours = {} if name == KAFKA else {"tallystick.durability": name}
                brokers[name] = secure_broker(folder / f"tls-{name}", settings | ours, "SSL", kafka=name == KAFKA)
        for number in range(-2, rounds):
            for name, broker in brokers.items():
                without, encrypted = _round(name, broker, trust, scale)
                for title, figures in encrypted.items():
                    if number >= 0:
                        share = {SHARE: figures["MB/s"] / without[title]["MB/s"]}
                        note(title, name, share | {key: figures[key] for key in ("MB/s", CPU)})
    finally:
        for broker in brokers.values():
            broker.process.close()


def _round(
    name: str, broker: SecureBroker, trust: Mapping[str, str], scale: float
) -> tuple[dict[str, Figures], dict[str, Figures]]:
    target, count = Target(name, broker.process), max(1000, int(RECORDS * scale))
    found: list[dict[str, Figures]] = []
    for bootstrap, settings in ((broker.open_bootstrap, {}), (broker.bootstrap, trust)):
        with loads.reached_with(settings):
            made: list[str] = []
            produced = _with_cpu(target, count, lambda: _produce(bootstrap, count, made))  # noqa: B023
            os.sync()
            read = _with_cpu(
                target,
                count * TIMES_READ,
                lambda: loads.consume(bootstrap, made[0], RECORD_BYTES, count, TIMES_READ),  # noqa: B023
            )
            loads.drop(bootstrap, made[0])
        found.append({PRODUCE_TLS: produced, CONSUME_TLS: read})
    return found[0], found[1]


def _produce(bootstrap: str, count: int, made: list[str]) -> Figures:
    topic, figures = loads.produce(bootstrap, RECORD_BYTES, count)
    made.append(topic)
    return figures


def _with_cpu(target: Target, records: int, load: Callable[[], Figures]) -> Figures:
    before = target.cpu_seconds()
    figures = load()
    return figures | {CPU: (target.cpu_seconds() - before) / (records * RECORD_BYTES / 1e9)}
