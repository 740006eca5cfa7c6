"""After a kill the indexes of the segments that were looked through are opened for the first checkpoint: one that
cannot be opened costs nobody the broker, and is synced by a later one.
"""

import errno

from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import KILLED, SMALL_SEGMENTS, on_disk, plain


def test_an_index_that_cannot_be_opened_waits_for_the_next() -> None:
    files = SimulatedFiles()
    rig = on_disk(files, config=SMALL_SEGMENTS)
    for number in range(20):
        rig.produce(plain(b"%04d" % number * 20))
    rig.log.flush_now()
    seen = rig.consume(0)
    disk = files.kill()
    indexes = sorted(f"t-0/{name}" for name in disk.list("t-0") if name.endswith((".index", ".timeindex")))
    assert len(indexes) > 6
    bad = indexes[2]
    disk.fault = lambda operation, path: (
        OSError(errno.EIO, "bad sector", path) if (operation, path) == ("open", bad) else None
    )
    again = on_disk(disk, config=SMALL_SEGMENTS, recovery=KILLED)
    again.log.flush_now()
    assert bad not in disk.syncs and {*indexes} - {*disk.syncs} <= {*indexes[2:4]}
    disk.fault = None
    again.log.roll()
    again.produce(plain(b"v"))
    again.log.flush_now()
    assert bad in disk.syncs
    assert again.consume(0)[: len(seen)] == seen
