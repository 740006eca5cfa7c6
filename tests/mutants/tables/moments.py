"""Backups: what belongs to a moment, what is held on to, what is believed and what is deleted (broker/backups)."""

from tests.mutants.mutant import Change, Mutant

REAL = "stories have a disk in memory, and this is the real one"
MOMENTS = "unit/backups/test_moments.py"
COPIES = "unit/backups/test_copies.py"
OF_THE_MOMENT = f"{MOMENTS}::test_the_copy_is_of_the_moment"

MUTANTS = (
    Mutant(
        "a file is renamed before a backup has a link to it",
        "retention, compaction or a deleted topic takes away a part of the moment",
        (
            Change(
                "broker.disk.local_files:LocalFiles.rename",
                "with self.pinning.keeping(source, target), self.cache.lock:",
                "with self.cache.lock:",
            ),
        ),
        (OF_THE_MOMENT,),
        unseen=REAL,
    ),
    Mutant(
        "a backup links what compaction has put in the place of a segment",
        "records that were made superfluous after the moment are missing in it",
        (Change("broker.disk.pinning:Pin.link", "is_later = bool(given_up) and", "is_later = False and"),),
        (OF_THE_MOMENT,),
        unseen=REAL,
    ),
    Mutant(
        "a backup takes a topic for the one that was deleted",
        "of one name, with other records",
        (
            Change(
                "broker.disk.pinning:Pinning._link_folder",
                "if pin.failure is not None or pin.has_left(folder):",
                "if pin.failure is not None:",
            ),
        ),
        (OF_THE_MOMENT,),
        unseen=REAL,
    ),
    Mutant(
        "a backup believes what was noted ahead of its moment",
        "a decision of a transaction without its records, or the other way round",
        (Change("broker.upkeep.pinned_moments:_Ahead.moments_now", "self.renew(one)", "pass"),),
        (f"{MOMENTS}::test_what_was_noted_ahead_is_of_the_moment",),
        unseen=REAL,
    ),
    Mutant(
        "a backup has markers of later in its index of aborted transactions",
        "the index is made anew at its start, with a walk over the log",
        (
            Change(
                "storage.moment:cut_aborted",
                "entries_before(index, moment.end_offset)",
                "entries_before(index, 1 << 62)",
            ),
        ),
        (OF_THE_MOMENT,),
        unseen=REAL,
    ),
    Mutant(
        "a backup believes the size and time of a compacted segment",
        "compaction keeps both where it marks tombstones, and inodes come again",
        (
            Change(
                "broker.backups.copying:_Copier._unread",
                "or self._whole or file.compacted or before.compacted:",
                "or self._whole:",
            ),
        ),
        (f"{COPIES}::test_what_may_be_another_is_read",),
        unseen=REAL,
    ),
    Mutant(
        "a backup is there before its pieces are on the disk",
        "killed in between, it is one that cannot be restored",
        (
            Change("broker.backups.copying:copy", "        store.finish()\n", ""),
            Change("broker.backups.copying:copy", "target.add(made)\n", "target.add(made)\n        store.finish()\n"),
        ),
        (f"{COPIES}::test_one_that_is_killed_anywhere_leaves_the_others_whole",),
        unseen=REAL,
    ),
    Mutant(
        "a prune deletes what other backups need",
        "they share what is the same in them",
        (
            Change(
                "broker.backups.pruning:_sweep",
                "if os.path.relpath(path, root) not in needed:",
                "if True:",
            ),
        ),
        (f"{COPIES}::test_pruned_anywhere_the_others_are_whole",),
        unseen=REAL,
    ),
)
