"""The write-ahead log: what one sync makes durable, and what a replay may do."""

from tests.mutants.mutant import Change, Mutant

LOG = "storage.write_ahead.write_ahead_log:WriteAheadLog"
FILE = "storage.write_ahead.file:WriteAheadFile"
FILES = "storage.write_ahead.files:WriteAheadFiles"
REPLAY = "storage.write_ahead.replay"
TESTS = "unit/write_ahead/test_write_ahead_log.py"
DAMAGED = "unit/write_ahead/test_damaged_log.py"
GIVEN_UP = "unit/write_ahead/test_given_up.py"
CYCLES = "unit/write_ahead/test_cycles.py"
UNSYNCED = "self._files.open(AHEAD_FILE).write_at("
DISK = (
    "a story has few syncs, and no power cut at the moment that it takes; the simulation has both, in one seed of many"
)

MUTANTS = (
    Mutant(
        "a commit is not synced",
        "a power cut takes what was acknowledged",
        (Change(f"{LOG}._write", "self._file.write(", UNSYNCED),),
        (f"{TESTS}::test_one_sync_makes_appends_to_many_files_durable",),
    ),
    Mutant(
        "a half is written over whose files are not synced",
        "what only the log had is gone",
        (Change(f"{LOG}.checkpoint", "self._sync(half, path, file)", "pass"),),
        (f"{TESTS}::test_it_goes_round_and_round",),
        unseen=DISK,
    ),
    Mutant(
        "a half is written over before where to begin is on the disk",
        "a commit that is torn takes those with it that were needed",
        (Change(f"{LOG}.checkpoint", "self._file.write(", UNSYNCED),),
        (f"{TESTS}::test_where_to_begin_is_on_the_disk_before_a_half_is_written_over",),
        unseen=DISK,
    ),
    Mutant(
        "a half is written over while its files are being synced",
        "the same",
        (Change(f"{LOG}._write", "self.checkpoint()", "pass"),),
        (f"{TESTS}::test_it_goes_round_and_round",),
        unseen=DISK,
    ),
    Mutant(
        "a file is renamed, and the log still has what was in it",
        "a replay writes into another topic of that name",
        (Change(f"{FILES}.rename", "self._log.settle(source, target)", "self._log.settle(target)"),),
        (f"{GIVEN_UP}::test_what_was_given_up_does_not_come_back",),
        unseen=DISK,
    ),
    Mutant(
        "a file is replaced, and the log still has what was in it",
        "a replay writes into what compaction has left",
        (Change(f"{FILES}.rename", "self._log.settle(source, target)", "self._log.settle(source)"),),
        (f"{GIVEN_UP}::test_what_was_given_up_does_not_come_back",),
        unseen=DISK,
    ),
    Mutant(
        "a file is cut that was not synced",
        "what stays of it is only in the log, which has just forgotten it",
        (Change(f"{LOG}.settle", "file.sync()", "pass"),),
        (f"{GIVEN_UP}::test_what_stays_when_a_file_is_cut_survives",),
        unseen=DISK,
    ),
    Mutant(
        "that a file was cut is not on the disk before it is",
        "a replay brings back what was cut off, over what came instead",
        (Change(f"{LOG}._settle_one", "self._added += 1", "pass"),),
        (f"{GIVEN_UP}::test_that_a_file_was_cut_is_on_the_disk_before_it_is",),
        unseen=DISK,
    ),
    Mutant(
        "commits behind one that cannot be read are passed over",
        "acknowledged records are lost without a word",
        (
            Change(f"{REPLAY}:_needed", "if sequence not in found:", "if False:"),
            Change(
                f"{REPLAY}:_needed",
                "[found[sequence] for sequence in range(first, last + 1)]",
                "[found[sequence] for sequence in sorted(found)]",
            ),
        ),
        (f"{DAMAGED}::test_damage_is_said_and_nothing_is_changed",),
        unseen="no story damages what is on the disk in the middle of that file",
    ),
    Mutant(
        "the log is deleted before the files have what it had",
        "a power cut in a start loses it",
        (Change(f"{REPLAY}:_put", "file.sync()", "pass"),),
        (f"{TESTS}::test_a_start_can_be_killed_in_the_middle_of_a_replay",),
        unseen=DISK,
    ),
    Mutant(
        "a replay believes the page cache",
        "decision 0010: after a sync that failed the disk has not what it has",
        (Change(f"{REPLAY}:_put", "if known:", "if False:"),),
        (f"{TESTS}::test_a_replay_writes_what_the_page_cache_has_already",),
        unseen=DISK,
    ),
    Mutant(
        "what was appended while a file was synced counts as synced",
        "it is lost with the power",
        (Change(f"{FILE}.sync", "self._covered_to = size", "self._covered_to = self._file.size()"),),
        (f"{TESTS}::test_a_small_append_beside_a_sync_that_is_under_way_takes_along_what_was_not_covered",),
        unseen=DISK,
    ),
    Mutant(
        "a small append behind a large one counts as covered",
        "the log has what stands behind a gap",
        (Change(f"{FILE}.append", "end - covered >= LARGE_BYTES", "end - position >= LARGE_BYTES"),),
        (f"{TESTS}::test_a_large_append_is_synced_where_it_is_and_small_ones_behind_it_too",),
        unseen=DISK,
    ),
    Mutant(
        "nobody misses a write-ahead log that is gone",
        "acknowledged records are lost without a word",
        (Change("storage.data_folder:read_format", 'bool(said.get("write_ahead", False))', "False"),),
        (f"{DAMAGED}::test_one_that_has_lost_its_commits_is_missed",),
        unseen="no story takes away that file",
    ),
    Mutant(
        "an orderly end deletes a log of files that could not be synced",
        "what only the log had is gone, and the next start finds a clean end",
        (Change(f"{LOG}.close", "if self._failed is not None:", "if False:"),),
        (f"{GIVEN_UP}::test_a_sync_that_fails_before_a_rename_is_final_and_said_first",),
        unseen=DISK,
    ),
    Mutant(
        "where to begin names a commit that is being written",
        "a power cut in that moment, and the start calls the log damaged",
        (
            Change(
                f"{LOG}._write",
                "self._half, self._position, is_full = 1 - self._half, 0, True",
                "self._full, self._half, self._position = self._half, 1 - self._half, 0",
            ),
        ),
        (f"{TESTS}::test_where_to_begin_never_names_a_commit_that_is_not_there_yet",),
        unseen="threads take turns in a story",
    ),
    Mutant(
        "COMPLETE is durable beside markers that are not",
        "I04: where a log of data is synced by itself, the cycle has two parts",
        (
            Change(
                "broker.disk.group_commit:GroupCommit._sync_in_order",
                "all(partition.log.shares_commits for partition in dirty)",
                "True",
            ),
        ),
        (f"{CYCLES}::test_a_large_append_beside_promises_is_synced_before_them",),
        unseen=DISK,
    ),
)
