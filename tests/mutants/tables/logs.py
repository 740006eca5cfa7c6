"""What is on the disk when: snapshots, recovery, syncs and their order."""

from tests.mutants.mutant import Change, Mutant

SNAPSHOTS = "storage.producers.producer_snapshot"
DERIVED = "broker.partitions.derived:DerivedState"
GROUP_COMMIT = "broker.disk.group_commit:GroupCommit"
UNHELD = Change("broker.coordination.promises:when_promises_are_durable", "if not waits:", "if True:")
"""A commit does not wait for what it promises: without this, the order of syncs is never what it rests on."""
UNCOMPARED = Change(
    "storage.producers.aborted:AbortedIndex.is_what_was_written", "known = self._checkpoint.known", "return True"
)
"""A start does not compare the index of aborted transactions with what was written: else whatever is wrong with it is
made good."""
RECOVERED = "unit/partition/test_recovered_state.py"
RANDOM_ENDS = f"{RECOVERED}::test_kills_and_power_cuts_change_nothing_known_or_seen"
CYCLES = "unit/broker/test_group_commit.py"
SEGMENTS = "unit/storage/test_segment_log.py"
RECOVERY = "unit/storage/test_recovery.py"

MUTANTS = (
    Mutant(
        "a snapshot is not synced",
        "KAFKA-9892",
        (
            Change(
                f"{SNAPSHOTS}:SnapshotFiles.write",
                "    self._files.write_whole(self._path(offset, SNAPSHOT_SUFFIX), *snapshot)",
                "    file = self._files.open(self._path(offset, SNAPSHOT_SUFFIX), create=True)\n"
                "    file.truncate(0)\n"
                "    file.append(snapshot)\n"
                "    file.close()",
            ),
        ),
        ("unit/partition/test_snapshots_on_disk.py", RANDOM_ENDS),
    ),
    Mutant(
        "a damaged snapshot is believed",
        "KAFKA-9892",
        (Change(f"{SNAPSHOTS}:_checked_body", "if crc != crc32c(body):", "if False:"),),
        (f"{RECOVERED}::test_any_changed_byte_of_a_snapshot_is_noticed",),
    ),
    Mutant(
        "a snapshot from beyond the end of the log is believed",
        "KAFKA-12964: producers that are not in the log any more",
        (Change(f"{SNAPSHOTS}:SnapshotFiles.load", "start_offset <= offset <= end_offset", "start_offset <= offset"),),
        ("unit/partition/test_snapshots_on_disk.py",),
    ),
    Mutant(
        "a snapshot is older than the aborted index",
        "KAFKA-7866: the index is not synced before the snapshot that vouches for it",
        (Change("broker.partitions.derived:SnapshotUnderWay.write", "index.sync()", "pass"), UNCOMPARED),
        (RANDOM_ENDS,),
    ),
    Mutant(
        "a snapshot keeps one batch of each producer",
        "Kafka itself: the retry of an older batch is refused after a restart (docs/decisions)",
        (Change(f"{SNAPSHOTS}:SnapshotFiles._read", "if not self._files.exists(path):", "if True:"),),
        (f"{RECOVERED}::test_deduplication_is_as_deep_after_a_restart",),
    ),
    Mutant(
        "a snapshot is written before its sidecar",
        "killed between the two, all but the last batch of each producer are forgotten",
        (
            Change(
                f"{SNAPSHOTS}:SnapshotFiles.write",
                "    snapshot = encode_snapshot(entries)\n",
                "    snapshot = encode_snapshot(entries)\n"
                "    self._files.write_whole(self._path(offset, '.snapshot'), *snapshot)\n",
            ),
            Change(
                f"{SNAPSHOTS}:SnapshotFiles.write",
                "    self._files.write_whole(self._path(offset, SNAPSHOT_SUFFIX), *snapshot)\n",
                "",
            ),
        ),
        ("unit/partition/test_snapshots_on_disk.py::test_a_snapshot_never_stands_without_its_sidecar",),
    ),
    Mutant(
        "what is cut from the aborted index is not synced",
        "KAFKA-7866: a power cut brings the entry back, and committed records are hidden",
        (Change("storage.producers.aborted:AbortedIndex.truncate", "self._changed(base)", "pass"), UNCOMPARED),
        ("unit/partition/test_aborted_index.py::test_a_truncation_of_a_killed_process_is_synced_later",),
    ),
    Mutant(
        "an index of aborted transactions that is gone is not missed",
        "Kafka itself: no file says that nothing was aborted, and readers are shown aborted records",
        (UNCOMPARED,),
        (RECOVERED,),
    ),
    Mutant(
        "open transactions are not restored from a snapshot",
        "Redpanda PR #7544: the last stable offset is ahead after a restart",
        (
            Change(
                "storage.producers.producer_state:ProducerState.restore",
                "OrderedDict(sorted(pair for pair in opened if pair[0] != NO_OFFSET))",
                "OrderedDict()",
            ),
        ),
        ("unit/partition/test_snapshots_on_disk.py",),
    ),
    Mutant(
        "recovery believes a torn batch",
        "I24: bytes that were never written whole are served",
        (
            Change(
                "storage.segments.segment:Segment.recover",
                "for _, header, _ in self.batches(self.size_bytes, check=True):",
                "for _, header, _ in self.batches(self.size_bytes):",
            ),
        ),
        (f"{RECOVERY}::test_a_changed_byte_in_the_tail_ends_the_log_there",),
    ),
    Mutant(
        "segments behind a tear are kept",
        "I24: records behind a gap",
        (Change("storage.recovery:_check_each", "_drop_from(files, folder, loaded, index + 1, recovery)", "pass"),),
        (f"{RECOVERY}::test_after_a_reboot_segments_behind_a_tear_are_dropped",),
    ),
    Mutant(
        "what a start finds counts as durable",
        "page cache: a kill, and then a power cut, leave a log with a hole, or one that does not open",
        (
            Change(
                "storage.recovery:load",
                "min(loaded.end_offset, recovery.recovery_point) if loaded.unsynced else loaded.end_offset",
                "loaded.end_offset",
            ),
        ),
        (f"{RECOVERY}::test_unsynced_bytes_after_a_kill_become_durable_by_sync",),
    ),
    Mutant(
        "gaps in a compacted log are taken for compaction",
        "acknowledged and lost: a segment that a power cut emptied",
        (
            Change(
                "storage.recovery:load",
                "not (recovery.foreign and config.cleanup_compact)",
                "not config.cleanup_compact",
            ),
        ),
        (f"{RECOVERY}::test_an_emptied_segment_also_ends_a_compacted_log",),
    ),
    Mutant(
        "a failed sync is taken for a success",
        "fsyncgate (PostgreSQL and others): acknowledged and lost",
        (
            Change(
                "storage.flushing:SegmentFlush.run",
                "        if not self.abandoned:\n            self.failed = True\n"
                "            if self.on_failed is not None:\n                self.on_failed()\n            raise",
                "        pass",
            ),
        ),
        (f"{SEGMENTS}::test_a_failed_sync_is_final",),
    ),
    Mutant(
        "what was written during a sync counts as synced",
        "acknowledged before durable",
        (
            Change(
                "storage.segment_log:SegmentLog.finish_flush",
                "self.durable_offset = max(self.durable_offset, flush.end_offset)",
                "self.durable_offset = max(self.durable_offset, self.end_offset)",
            ),
        ),
        (f"{SEGMENTS}::test_only_a_flush_makes_earlier_writes_durable",),
    ),
    Mutant(
        "the order of one cycle is reversed",
        "transactions first, what they promise later: a committed transaction without its records",
        (
            Change(
                f"{GROUP_COMMIT}._sync_in_order",
                "[partition for partition in dirty if partition.topic != TRANSACTION_STATE]",
                "[partition for partition in dirty if partition.topic == TRANSACTION_STATE]",
            ),
            Change(
                f"{GROUP_COMMIT}._sync_in_order",
                "promises = [partition for partition in dirty if partition.topic == TRANSACTION_STATE]",
                "promises = [partition for partition in dirty if partition.topic != TRANSACTION_STATE]",
            ),
            Change(f"{GROUP_COMMIT}._sync_in_order", "self._with_what_came_meanwhile(promises)", "promises"),
            UNHELD,
        ),
        (f"{CYCLES}::test_transactions_become_durable_after_what_they_promise",),
    ),
    Mutant(
        "a promise made during a cycle is published before what it rests on",
        "transactions.md, order of durability",
        (
            Change(
                f"{GROUP_COMMIT}._with_what_came_meanwhile",
                "    return [*data, *promises, *more]",
                "    self._dirty = dict.fromkeys(data)\n    return [*promises, *more]",
            ),
            UNHELD,
        ),
        (f"{CYCLES}::test_a_promise_is_published_after_what_it_depends_on",),
    ),
    Mutant(
        "a replacement by compaction is not synced",
        "a power cut after compaction empties a segment",
        (
            Change(
                "storage.cleaner.cleaned_segment:CleanedSegment.sync",
                "file.sync()",
                "pass",
            ),
        ),
        ("unit/partition/test_compaction.py::test_passes_and_crashes_do_not_change_what_readers_get",),
    ),
    Mutant(
        "old snapshots outlive compaction",
        "KAFKA-12964: replayed over a marker that is gone, a transaction opens that nobody ends",
        (Change(f"{DERIVED}.compaction_begins", "lambda: snapshots.forget_before(end_offset)", "lambda: None"),),
        ("unit/partition/test_compaction_across_segments.py",),
    ),
)
