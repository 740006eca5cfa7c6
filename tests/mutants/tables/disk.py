"""The last hop: what is synced, in which order, and what may be deleted meanwhile (broker/disk, broker/upkeep)."""

from tests.mutants.mutant import Change, Mutant

LOCAL_FILES = "broker.disk.local_files"
SYNCED = "unit/disk/test_what_is_synced.py"
UNREAD = "unit/partition/test_an_index_that_cannot_be_read.py"
REAL = "stories have a disk in memory, and this is the real one"

MUTANTS = (
    Mutant(
        "damage is taken for a torn tail",
        "ours: one byte that the disk has spoilt below the recovery point, and a start cuts off what lies behind it",
        (
            Change(
                "storage.recovery:Recovery.whole_before",
                "BEYOND_ALL_OFFSETS if self.clean and not self.distrusted else self.recovery_point",
                "0",
            ),
            Change(
                "storage.recovery:_check_each",
                "if loaded.end_offset < recovery.recovery_point and not recovery.repair:",
                "if False:",
            ),
        ),
        ("seed 24", "unit/storage/test_damage.py"),
    ),
    Mutant(
        "a partition that cannot be read fails the whole Fetch",
        "ours: one bad sector, and readers of healthy partitions get nothing",
        (
            Change(
                "broker.api.fetching.fetch_attempt:FetchAttempt._read_one",
                "        reading.refuse(wanted, refusal_of(wanted, ErrorCode.KAFKA_STORAGE_ERROR))\n",
                "        raise\n",
            ),
        ),
        ("seed 95", "unit/broker/test_fetch.py"),
    ),
    Mutant(
        "a read that fails ends compaction and the broker with it",
        "ours, found by simulation: one bad sector in a compacted log, and no start lasts",
        (
            Change(
                "storage.cleaner.cleaning:whole_batches",
                "    except OSError as error:\n        raise segment.unreadable(error) from error",
                "    finally:\n        pass",
            ),
        ),
        ("seed 9", "unit/partition/test_compaction_that_cannot_read.py"),
    ),
    Mutant(
        "what is read of an index of aborted transactions is not compared",
        "Kafka itself: one bit on the disk, and readers are shown aborted records",
        (
            Change(
                "storage.producers.checked_blocks:CheckedBlocks.are_in",
                "return found == self._blocks[first : first + len(found)]",
                "return True",
            ),
        ),
        ("seed 19", f"{UNREAD}::test_damage_under_way_shows_nobody_what_is_aborted"),
    ),
    Mutant(
        "what cannot be read while an index is made anew hides the rest of its segment",
        "ours, found by an automatic defect: readers passed over records, without a word",
        (
            Change(
                "storage.segments.segment:Segment.rebuild_indexes",
                "self.size_bytes = max(self.size_bytes, size)",
                "pass",
            ),
        ),
        ("unit/storage/test_errors_that_pass.py",),
        unseen="an index is wrong, and the disk fails once, in the moment in which that is noticed",
    ),
    Mutant(
        "a log that a bug keeps closed stops nobody",
        "its clients come back for ever, and what waits for the rest of the start does, too",
        (
            Change(
                "broker.coordination.opening_logs:LogsToOpen._open_beside",
                'with vital(f"{topic.name}-{index} could not be opened"):',
                "if True:",
            ),
        ),
        ("seed 62",),
    ),
    Mutant(
        "fdatasync is left out",
        "acknowledged before durable, at the last hop",
        (Change("broker.disk.descriptor_cache:sync_contents", "os.fdatasync(descriptor)", "pass"),),
        (f"{SYNCED}::test_a_sync_is_a_sync_of_contents",),
        unseen=REAL,
    ),
    Mutant(
        "the sync of a folder is left out",
        "a file that was synced, under a name that a power cut takes away",
        (Change(f"{LOCAL_FILES}:LocalFiles._sync_folder", "os.fsync(descriptor)", "pass"),),
        (f"{SYNCED}::test_a_file_written_whole_has_its_contents_before_its_name",),
        unseen=REAL,
    ),
    Mutant(
        "a file is renamed before its contents are on the disk",
        "ext4 with delayed allocation: an empty file in the place of the old one",
        (Change(f"{LOCAL_FILES}:LocalFiles.write_whole", "sync_contents(descriptor)", "pass"),),
        (f"{SYNCED}::test_a_file_written_whole_has_its_contents_before_its_name",),
        unseen=REAL,
    ),
    Mutant(
        "DeleteRecords is answered by the writing that was under way",
        "a power cut brings back what was deleted",
        (
            Change("broker.upkeep.checkpoints:Checkpoints._write", "        self._next = None\n", ""),
            Change(
                "broker.upkeep.checkpoints:Checkpoints._write",
                "folder.checkpoint(recovery_points, start_offsets))",
                "folder.checkpoint(recovery_points, start_offsets))\n        self._next = None",
            ),
        ),
        ("unit/broker/test_restarts.py::test_a_start_offset_moved_during_writing_is_written_next",),
    ),
    Mutant(
        "a topic is shown before all that makes it is durable",
        "Redpanda #6018 for topics: found by an automatic defect",
        (
            Change(
                "broker.coordination.known_topics:KnownTopics._follow",
                "if change.offset < durable]",
                "if change.offset <= durable]",
            ),
        ),
        ("scenario A topic is there when all that makes it is on the disk",),
    ),
    Mutant(
        "files that are due are deleted in the middle of a flush",
        "the sync finds no file, and the broker ends",
        (Change("storage.retention:free_space", "not log.is_flushing and ", ""),),
        ("unit/storage/test_retention.py::test_due_files_are_not_unlinked_during_a_flush",),
        unseen="files are unlinked by a thread, which comes to it after the sync that was begun before",
    ),
)
