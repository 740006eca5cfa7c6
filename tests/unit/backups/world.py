"""A data folder with a log of each kind, on the real disk, and what pins its moments."""

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

from broker.config.topic_config import TopicConfig
from broker.disk.local_files import LocalFiles
from broker.process.environment import RealEnvironment
from broker.upkeep.pinned_moments import PinnedMoments
from storage.checkpoints import MetaProperties, write_meta_properties
from storage.log import LogConfig
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from tests.harness.read_committed_oracle import Seen
from tests.unit.partition.rig import NOW_MS, SMALL_SEGMENTS, Rig, in_transaction, plain
from tests.unit.partition.test_compaction import COMPACTED


class World:
    """A data folder with one log of each kind, on the real disk."""

    def __init__(self, root: Path) -> None:
        self.root = root / "data"
        self.files = LocalFiles(str(self.root))
        write_meta_properties(self.files, MetaProperties("cluster", 1, "directory"))
        self.rigs = {
            "t-0": self.rig("t-0", replace(SMALL_SEGMENTS, retention_bytes=2_000)),
            "c-0": self.rig("c-0", COMPACTED),
        }
        self.sequence = 0
        self.offline: list[str] = []
        """Logs that could not be opened."""

    def rig(self, folder: str, config: LogConfig, recovery: Recovery | None = None) -> Rig:
        log = SegmentLog.open(self.files, folder, config, now_ms=lambda: NOW_MS, recovery=recovery or Recovery())
        return Rig(log=log, config=TopicConfig(log=config))

    def transaction(self, *, commit: bool, count: int = 2) -> None:
        rig = self.rigs["t-0"]
        rig.transact(in_transaction(7, 0, self.sequence, count, value=b"%d" % self.sequence))
        self.sequence += count
        rig.end(7, 0, commit=commit, version=0)
        rig.flush()

    def keys(self, seed: int, count: int = 60) -> None:
        random, rig = Random(seed), self.rigs["c-0"]
        for _ in range(count):
            rig.produce(plain(b"%d" % random.randrange(1000), key=b"%d" % random.randrange(5)))
        rig.flush()

    def fill(self) -> None:
        for number in range(12):
            self.transaction(commit=number % 3 > 0)
        self.keys(1)
        for rig in self.rigs.values():
            rig.partition.derived.snapshot()
        self.transaction(commit=False)
        self.rigs["t-0"].transact(in_transaction(7, 0, self.sequence, 1, value=b"undecided"))
        self.sequence += 1
        self.rigs["t-0"].flush()

    @property
    def partitions(self) -> list[SimpleNamespace]:
        config = TopicConfig(log=COMPACTED)
        return [SimpleNamespace(name=name, log=rig.log, config=config) for name, rig in self.rigs.items()]

    def pins(self, environment: RealEnvironment) -> PinnedMoments:
        topics = SimpleNamespace(
            revision=1,
            to_open=SimpleNamespace(any_left=False),
            offline=lambda: [SimpleNamespace(name=name) for name in self.offline],
        )
        return PinnedMoments(
            self.files,
            environment,
            topics,  # type: ignore[arg-type]
            open_partitions=lambda: self.partitions,  # type: ignore[arg-type,return-value]
            own=asyncio.ensure_future,
        )

    def readers_see(self) -> dict[str, list[Seen]]:
        return {name: rig.consume(rig.log.start_offset) for name, rig in self.rigs.items()}
