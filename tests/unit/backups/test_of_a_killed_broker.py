"""A backup of the folder of a broker that was killed has what only its write-ahead log has on the disk."""

from pathlib import Path

from broker.backups.copying import copy
from broker.backups.manifest import Head
from broker.backups.restoring import restore
from broker.backups.source import of_stopped
from broker.backups.target import Target
from broker.disk.local_files import LocalFiles
from storage.checkpoints import PARTITION_METADATA, MetaProperties, write_meta_properties
from storage.data_folder import DataFolder
from storage.write_ahead.files import WriteAheadFiles
from storage.write_ahead.write_ahead_log import WriteAheadLog
from tests.unit.backups.place import WHOSE, quiet

LOG = f"t-0/{0:020d}.log"


def test_what_only_the_write_ahead_log_has_is_restored(tmp_path: Path) -> None:
    root = tmp_path / "data"
    files = LocalFiles(str(root))
    write_meta_properties(files, MetaProperties(WHOSE.cluster_id, WHOSE.node_id, "directory"))
    folder = DataFolder(files, boot_id="boot")
    files.make_folder("t-0")
    files.write_whole(f"t-0/{PARTITION_METADATA}", b"version: 0")
    log = WriteAheadLog(files, 1 << 16, commits_before=1)
    log.mark = folder.mark_write_ahead
    log.prepare()
    file = WriteAheadFiles(files, log).open(LOG, create=True)
    file.append([b"acknowledged"])
    file.commit()
    files.close()
    (root / LOG).write_bytes(b"")  # what a power cut has left of it

    target = Target(str(tmp_path / "kept"))
    target.prepare(WHOSE)
    with target.writing():
        head = Head("b1", 1, WHOSE.cluster_id, WHOSE.node_id, "", running=False)
        made = copy(of_stopped(str(root)), target, head, quiet, whole=False)
    restore(target, made.manifest, str(tmp_path / "again"), quiet)
    again = LocalFiles(str(tmp_path / "again"))
    try:
        assert DataFolder(again, boot_id="boot").replayed == 1
    finally:
        again.close()
    assert (tmp_path / "again" / LOG).read_bytes() == b"acknowledged"
