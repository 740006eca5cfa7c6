"""Who is measured: us in both durability modes, and a real Apache Kafka with and without a flush per message."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tallystick.process import BrokerProcess
from tests.harness.apache_kafka import ApacheKafka

OURS = {"log.segment.delete.delay.ms": "1000", "num.partitions": "4"}
"""Beside the defaults: what a pass has written goes soon, so that the disk of a long run stays bounded."""
THEIRS = {"log.segment.delete.delay.ms": "1000"}


@dataclass(frozen=True, slots=True)
class Rival:
    """One broker to be measured. `pair`: the one of ours it is held against."""

    name: str
    title: str
    make: Callable[[Path], BrokerProcess]
    ours: bool
    pair: str


def _tallystick(durability: str, more: tuple[str, ...] = ()) -> Callable[[Path], BrokerProcess]:
    options = [part for key, value in OURS.items() for part in ("--set", f"{key}={value}")]
    return lambda folder: BrokerProcess(
        folder, options=["--durability", durability, "--log-level", "warning", *options, *more]
    )


def _kafka(settings: dict[str, str]) -> Callable[[Path], BrokerProcess]:
    return lambda folder: ApacheKafka(folder, settings=THEIRS | settings)


RIVALS = (
    Rival("page-cache", "Tallystick, page cache", _tallystick("page-cache"), True, "page-cache"),
    Rival("kafka", "Kafka 4.3.1, default", _kafka({}), False, "page-cache"),
    Rival("durable", "Tallystick, durable", _tallystick("fsync"), True, "durable"),
    Rival("kafka-flush", "Kafka 4.3.1, flush each", _kafka({"log.flush.interval.messages": "1"}), False, "durable"),
)
"""In the order of their turns: whom one is held against comes right behind."""
