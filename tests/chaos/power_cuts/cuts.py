"""What is done to the broker in a round: one life after the other, each ended by a power cut.

A life ends at a moment drawn from the seed, in a start or under load, or where the broker stands still at a fault
point. Meanwhile a file here and there is written to the disk though nobody asks for it, as kernels do. After the cut
the broker may live on for a moment, with a disk that takes and gives nothing.
"""

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from broker.disk.local_files import LocalFiles
from broker.faults.points import POINTS
from storage.checkpoints import FORMAT_FILE
from tallystick.process import BrokerFailed, BrokerProcess
from tests.chaos.forked_broker import is_frozen
from tests.chaos.nemesis import COMMON, PASSES, struck_by
from tests.chaos.power_cuts.cut_disk import CutDisk

LOOK_S = 0.005
DAMAGE = ("damage", "repair=", "traceback")
"""What a broker's log says of damage, or of a bug."""


class PowerCuts:
    """See the head of this file. `Chaos` takes it for its nemesis."""

    def __init__(self, broker: BrokerProcess, disk: CutDisk, seed: int) -> None:
        self.broker = broker
        self.disk = disk
        self.random = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._log_read = 0

    def rage(self, until: float, healthy: Callable[[], None]) -> None:
        """One cut at least. The power is still off after the last one."""
        while True:
            self._live()
            if time.monotonic() > until:
                return
            healthy()
            self._power_on()

    def heal(self) -> None:
        self._power_on()
        self.broker.environment["TALLYSTICK_FAULTS"] = ""
        self._start()

    def _power_on(self) -> None:
        """The machine itself has not lost its power, and its boot is the same. The folder is told otherwise: the page
        cache is not what the last broker has left."""
        self.disk.come_back()
        known = self.broker.data / FORMAT_FILE
        if known.exists():
            text = json.dumps(json.loads(known.read_text()) | {"boot_id": "before the power cut"})
            files = LocalFiles(str(self.broker.data))
            files.write_whole(FORMAT_FILE, text.encode())
            files.close()

    def struck(self) -> Counter[str]:
        return struck_by(self.broker)

    def look_at_log(self) -> None:
        """At what the broker has said since the last look, while it has a disk."""
        said = self.broker.log.read_bytes()[self._log_read :]
        self._log_read += len(said)
        lines = said.decode(errors="replace").splitlines()
        self.wrong += [f"the broker says: {line}" for line in lines if any(word in line.lower() for word in DAMAGE)]

    def _live(self) -> None:
        starts = self.broker.starts - self.broker.running
        is_start = self.random.random() < 0.3
        life_s = self.random.uniform(0.2, 1.2) if is_start else self.random.uniform(0.3, 3.0)
        end = threading.Thread(target=self._end, args=(starts, life_s, is_start))  # for a start waits
        end.start()
        try:
            if not self.broker.running:
                self.broker.environment["TALLYSTICK_FAULTS"] = self._stand_still()
                self._start()
        except BrokerFailed:
            self.done["cuts in a start"] += 1
        end.join()
        self.done["power cuts"] += 1

    def _start(self) -> None:
        self._log_read = self.broker.log.stat().st_size  # before that it had no disk
        self.broker.start()

    def _stand_still(self) -> str:
        """Where this life is to stop for its cut; often nowhere."""
        point = self.random.choice(COMMON if self.random.random() < 0.7 else list(POINTS))
        passes = self.random.choice(PASSES[:6])
        return f"{point}=freeze@{passes}" if self.random.random() < 0.5 else ""

    def _end(self, starts: int, life_s: float, is_start: bool) -> None:
        """End the life that begins after so many starts. The time counts from when it serves, or from its start."""
        writes_back = self.random.choice((0.0, 0.0, 0.02, 0.2))
        lives_on_s = self.random.choice((0.0, 0.0, 0.05, 0.5))
        while self.broker.starts == starts:
            time.sleep(LOOK_S)
        deadline = time.monotonic() + life_s
        while self.broker.running and not is_frozen(self.broker.pid) and time.monotonic() < deadline:
            if not is_start and not (self.broker.folder / "ready").exists():
                deadline = time.monotonic() + life_s
            if self.random.random() < writes_back:
                self._write_something_back()
            time.sleep(LOOK_S)
        self.look_at_log()
        if not self.broker.running:
            self.wrong.append(f"the broker ended by itself: {self.broker.log_end()}")
        elif is_frozen(self.broker.pid):
            self.done["cuts at a fault point"] += 1
        self.disk.cut()
        time.sleep(lives_on_s)
        self.broker.kill()

    def _write_something_back(self) -> None:
        """A file of the data folder, with the names that happen to go along."""
        folders = [Path(folder) for folder, _, _ in os.walk(self.broker.data)]
        if not folders:
            return
        files = sorted(path for path in self.random.choice(folders).iterdir() if path.is_file())
        if not files:
            return
        try:
            descriptor = os.open(self.random.choice(files), os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
