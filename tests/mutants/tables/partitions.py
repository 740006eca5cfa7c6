"""What readers see of a partition: bounds, the aborted index, compaction."""

from tests.mutants.mutant import Change, Mutant

PARTITION = "broker.partitions.partition:Partition"
STATE = "storage.producers.producer_state:ProducerState"
INDEX = "storage.producers.aborted"
DERIVED = "broker.partitions.derived:DerivedState"
CLEANING = "storage.cleaner.cleaning"
COMPACTION = "storage.cleaner.compaction"
IN_A_PARTITION = "unit/partition/test_transactions_in_a_partition.py"
RECOVERED = "unit/partition/test_recovered_state.py"
COMPACTING = "unit/partition/test_compaction.py"
RANDOM_BOUNDS = f"{IN_A_PARTITION}::test_the_bounds_only_grow_and_no_reader_sees_beyond_them"
RANDOM_PASSES = f"{COMPACTING}::test_passes_and_crashes_do_not_change_what_readers_get"

MUTANTS = (
    Mutant(
        "fetch beyond the last stable offset",
        "KoP #1283: aborted records are visible where the abort comes late",
        (
            Change(
                f"{PARTITION}.read", "bound = stable if read_committed else high_watermark", "bound = high_watermark"
            ),
        ),
        (RANDOM_BOUNDS, f"{IN_A_PARTITION}::test_a_transaction_hides_what_follows_until_its_marker_is_committed"),
    ),
    Mutant(
        "fetch beyond the high watermark",
        "Jepsen: readers see what a crash takes back",
        (
            Change(
                f"{PARTITION}.read",
                "stable if read_committed else high_watermark",
                "stable if read_committed else self.log.end_offset",
            ),
        ),
        (RANDOM_BOUNDS,),
    ),
    Mutant(
        "the high watermark is the end of the log",
        "I29, Redpanda #6018: acknowledged and shown before it is durable",
        (
            Change(
                f"{PARTITION}._committed_end",
                "self.log.durable_offset if self.is_durable else self.log.end_offset",
                "self.log.end_offset",
            ),
        ),
        (f"{IN_A_PARTITION}::test_page_cache_mode_publishes_the_end_unless_flush_is_set", RANDOM_BOUNDS),
    ),
    Mutant(
        "ListOffsets ends at the high watermark",
        "KAFKA-5522",
        (
            Change(
                f"{PARTITION}.visible_end",
                "self.last_stable_offset if read_committed else self._visibility.high_watermark",
                "self._visibility.high_watermark",
            ),
        ),
        (f"{IN_A_PARTITION}::test_lookups_end_where_the_reader_may_not_see",),
    ),
    Mutant(
        "ListOffsets by time goes beyond the last stable offset",
        "I32",
        (
            Change(
                f"{PARTITION}.offset_for_timestamp",
                "end = self.visible_end(read_committed=read_committed)",
                "end = self.high_watermark",
            ),
        ),
        (f"{IN_A_PARTITION}::test_lookups_end_where_the_reader_may_not_see",),
    ),
    Mutant(
        "the last stable offset moves with a marker that is not committed",
        "KAFKA-9807, rule 3 of the producer state",
        (
            Change(
                f"{STATE}.apply_marker",
                "self._unreplicated.append((offset, first_offset))",
                "self._find_first_unstable()",
            ),
        ),
        (f"{IN_A_PARTITION}::test_a_transaction_hides_what_follows_until_its_marker_is_committed",),
    ),
    Mutant(
        "the last stable offset stays where it is",
        "KAFKA-12671, KAFKA-5880: readers are stuck",
        (Change(f"{STATE}.high_watermark_moved", "self._find_first_unstable()", "pass"),),
        (f"{IN_A_PARTITION}::test_a_transaction_hides_what_follows_until_its_marker_is_committed",),
    ),
    Mutant(
        "the youngest transaction decides what is stable",
        "I29: an older one is still open",
        (
            Change(
                f"{STATE}._find_first_unstable",
                "next(iter(self._ongoing), None)",
                "next(reversed(self._ongoing), None)",
            ),
        ),
        (f"{IN_A_PARTITION}::test_the_oldest_transaction_decides_whichever_ends_first", RANDOM_BOUNDS),
    ),
    Mutant(
        "of markers that are not durable the first one decides what is stable",
        "I29, KAFKA-9807: transactions that end in another order than they began",
        (
            Change(
                f"{STATE}._find_first_unstable",
                "min(pair[1] for pair in self._unreplicated)",
                "self._unreplicated[0][1]",
            ),
        ),
        (f"{IN_A_PARTITION}::test_of_markers_not_yet_durable_the_earliest_transaction_decides",),
    ),
    Mutant(
        "a transaction counts as complete though it could not be indexed",
        "KAFKA-7866: the index fails, and aborted records are shown",
        (
            Change(
                "broker.partitions.derived:DerivedState.transaction_completed",
                'raise StorageFailed(f"the aborted-transaction index took no entry: {error}") from error',
                "pass",
            ),
        ),
        (f"{IN_A_PARTITION}::test_a_full_index_freezes_the_last_stable_offset",),
    ),
    Mutant(
        "aborted transactions that ended before the fetch are told",
        "I30, `lastOffset >= fetchOffset` left out: committed records of the same producer are dropped",
        (Change(f"{INDEX}:AbortedIndex.gather", "index = section.first_ending_at(fetch_offset)", "index = 0"),),
        (f"{RECOVERED}::test_index_entries_live_with_their_markers",),
    ),
    Mutant(
        "the search for aborted transactions stops too early",
        "I30: a long transaction behind a short one is missed",
        (
            Change(
                f"{INDEX}:_Section.collect",
                "if entry.last_stable_offset >= upper_bound:",
                "if entry.last_offset >= upper_bound:",
            ),
        ),
        ("unit/partition/test_aborted_index.py",),
    ),
    Mutant(
        "the search for aborted transactions ends with the first segment",
        "I30: a transaction whose marker is in a later segment",
        (
            Change(
                f"{INDEX}:AbortedIndex.gather",
                "if section.collect(index, upper_bound, found):",
                "if section.collect(index, upper_bound, found) or index + _AT_ONCE >= section.count:",
            ),
        ),
        (f"{RECOVERED}::test_index_entries_live_with_their_markers",),
    ),
    Mutant(
        "the index of what follows the snapshot is kept",
        "KAFKA-7866: entries that a power cut has left over",
        (
            Change(f"{DERIVED}._is_index_right", "self.aborted.truncate(end_offset)", "pass"),
            Change(f"{DERIVED}._rebuild", "self.aborted.clear()", "pass"),
        ),
        (f"{RECOVERED}::test_kills_and_power_cuts_change_nothing_known_or_seen",),
    ),
    Mutant(
        "compaction past the last stable offset",
        "KAFKA-13194",
        (
            Change(
                f"{COMPACTION}:plan",
                "if end_offset > last_stable_offset:",
                "if False:",
            ),
        ),
        (f"{COMPACTING}::test_the_active_segment_and_the_undecided_part_are_left_alone",),
    ),
    Mutant(
        "compaction drops markers before their data",
        "KAFKA-8335, KAFKA-8351: aborted records come back",
        (
            Change(
                "storage.cleaner.cleaned_transactions:CleanedTransactions.marker_seen",
                "return not has_batches",
                "return True",
            ),
        ),
        (f"{COMPACTING}::test_a_marker_goes_only_after_its_data_and_its_time",),
    ),
    Mutant(
        "compaction drops markers before their time",
        "KAFKA-8522, KIP-534: a reader in the middle of a transaction never learns its end",
        (
            Change(
                f"{CLEANING}:Cleaning._copy",
                "gone = unneeded and horizon_ms is not None and horizon_ms <= self._now_ms\n",
                "gone = unneeded\n",
            ),
        ),
        (f"{COMPACTING}::test_a_marker_goes_only_after_its_data_and_its_time",),
    ),
    Mutant(
        "compaction loses the last sequence of a producer",
        "KAFKA-13727: duplicates after a restart",
        (Change(f"{CLEANING}:Cleaning._must_stay", "header.last_offset == last.last_data_offset", "False"),),
        (f"{COMPACTING}::test_a_producers_last_batch_stays_at_least_as_a_header", RANDOM_PASSES),
    ),
    Mutant(
        "an aborted record supersedes a committed one",
        "I34: compaction loses the committed value of the key",
        (
            Change(
                "storage.cleaner.cleaned_transactions:CleanedTransactions.data_seen",
                "return header.producer_id in self._aborted",
                "return False",
            ),
        ),
        (RANDOM_PASSES,),
    ),
    Mutant(
        "a transaction that spans two segments loses its marker",
        "KAFKA-8351: a replay of the log opens it again, for good",
        (
            Change(
                f"{CLEANING}:Cleaning.clean",
                "    # The last batch is known",
                "    self._transactions._has_batches.clear()\n    # The last batch is known",
            ),
        ),
        ("unit/partition/test_compaction_across_segments.py",),
    ),
    Mutant(
        "tombstones go at once",
        "KIP-534: a slow reader keeps a value that was deleted",
        (
            Change(
                f"{CLEANING}:Cleaning._stays",
                "return value_bytes >= 0 or horizon_ms is None or self._now_ms < horizon_ms",
                "return value_bytes >= 0",
            ),
        ),
        (f"{COMPACTING}::test_a_tombstone_stays_for_its_time",),
    ),
)
