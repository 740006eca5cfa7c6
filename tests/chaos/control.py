"""The control: the same clients and checkers on one node of Apache Kafka, killed and started again.

It has no fault points. Its lives are longer, for it takes ten seconds to come back.
"""

from pathlib import Path

from tests.chaos.nemesis import Nemesis
from tests.chaos.run import SETTINGS, Chaos, Report
from tests.harness.apache_kafka import ApacheKafka

LIFE_S = (1.0, 12.0)
TAKEN = (
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    "transaction.state.log.num.partitions",
    "offsets.topic.num.partitions",
    "log.flush.offset.checkpoint.interval.ms",
    "group.min.session.timeout.ms",
)
"""Of our settings: it wants larger segments, and has no use for the rest."""


class Control(Chaos):
    """See the head of this file. Raises `JarsMissing`."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        super().__init__(folder, durability="page-cache", seed=seed)
        self.broker = ApacheKafka(folder, settings={name: SETTINGS[name] for name in TAKEN}, heap="512m")

    def pass_by(self, seconds: float, members: list[dict[str, str]]) -> Report:
        return self.run(seconds, members, Nemesis(self.broker, self.seed, has_faults=False, life_s=LIFE_S))
