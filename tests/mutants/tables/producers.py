"""Producer state, sequences and verification guards (storage/producers/producer_state.py, broker/partition)."""

from tests.mutants.mutant import Change, Mutant

STATE = "storage.producers.producer_state"
PARTITION = "broker.partitions.partition:Partition"
VERIFICATION = "broker.partitions.verification:Verifications"
RULES = "unit/partition/test_producer_rules.py"
IN_A_PARTITION = "unit/partition/test_transactions_in_a_partition.py"
CHECKS = "unit/partition/test_append_checks.py"
SILENCES = "simulation/test_silence.py::test_each_thing_is_forgotten_in_its_time_and_not_before"

MUTANTS = (
    Mutant(
        "duplicate cache of four",
        "KAFKA-5494: the retry of the fifth request in flight is refused",
        (
            Change(
                "storage.producers.producer_entry:with_batch",
                "len(batches) >= _FULL",
                "len(batches) >= _FULL - BATCH.size",
            ),
        ),
        (f"{RULES}::test_only_the_last_five_batches_are_remembered",),
    ),
    Mutant(
        "a duplicate is answered with the offsets of the newest batch",
        "I21: the client believes its records to be elsewhere",
        (
            Change(
                "storage.producers.producer_entry:find_batch",
                "return CachedBatch(*fields)",
                "return CachedBatch(*list(BATCH.iter_unpack(memoryview(packed)[HEAD.size :]))[-1])",
            ),
        ),
        (f"{RULES}::test_any_order_of_retries_appends_every_batch_once",),
    ),
    Mutant(
        "sequences do not wrap",
        "KAFKA-7692",
        (
            Change(
                f"{STATE}:_check_sequence",
                "(last_sequence_of(packed) + 1) & SEQUENCE_MASK",
                "last_sequence_of(packed) + 1",
            ),
        ),
        (f"{RULES}::test_sequences_wrap_behind_the_largest",),
    ),
    Mutant(
        "a batch that wraps keeps a sequence beyond the largest",
        "KAFKA-7692: its retry is written once more",
        (
            Change(
                f"{STATE}:ProducerState.apply_data",
                "(header.base_sequence + delta) & SEQUENCE_MASK",
                "min(header.base_sequence + delta, SEQUENCE_MASK)",
            ),
        ),
        (f"{RULES}::test_sequences_wrap_behind_the_largest",),
    ),
    Mutant(
        "a gap in the sequence is accepted",
        "I21: a batch that was lost is not missed",
        (Change(f"{STATE}:_check_sequence", "if sequence == expected:", "if sequence >= expected:"),),
        (f"{RULES}::test_any_order_of_retries_appends_every_batch_once",),
    ),
    Mutant(
        "a new epoch begins anywhere",
        "KIP-360",
        (Change(f"{STATE}:_check_sequence", "if sequence == 0 or epoch == NO_EPOCH:", "if True:"),),
        (f"{RULES}::test_a_new_epoch_starts_at_zero_without_old_batches",),
    ),
    Mutant(
        "producer state is changed before the append",
        "KAFKA-6683: a refused batch leaves its trace",
        (
            Change(
                f"{PARTITION}.append",
                "    self._check_data(header, guard, verification=verification, from_client=True)",
                "    try:\n"
                "        self._check_data(header, guard, verification=verification, from_client=True)\n"
                "    except AppendError:\n"
                "        producers.apply_data(header, self.log.end_offset, now_ms)\n"
                "        raise",
            ),
        ),
        (f"{RULES}::test_a_refused_append_leaves_no_trace",),
    ),
    Mutant(
        "guard before epoch",
        "KAFKA-19690: a fenced producer hears 48 and cannot abort",
        (
            Change(
                f"{PARTITION}._check_data",
                "if epoch >= current and verification and not",
                "if verification and not",
            ),
        ),
        (f"{IN_A_PARTITION}::test_a_fenced_producer_hears_of_its_epoch_first",),
    ),
    Mutant(
        "a guard outlives the marker",
        "KAFKA-14884",
        (Change(f"{VERIFICATION}.marker_appended", "del self._entries[marker.producer_id]", "pass"),),
        (f"{IN_A_PARTITION}::test_a_marker_before_the_append_voids_the_guard",),
    ),
    Mutant(
        "a marker takes the next transaction's guard along",
        "KAFKA-18654",
        (
            Change(
                f"{VERIFICATION}.marker_appended",
                "and not (marker.transaction_version >= 2 and entry.epoch == marker.producer_epoch)",
                "",
            ),
        ),
        (f"{IN_A_PARTITION}::test_a_verification_of_the_next_transaction_outlives_the_last_marker",),
    ),
    Mutant(
        "the lowest sequence of several questions is not remembered",
        "KAFKA-14920: out of order for good",
        (Change(f"{STATE}:_check_tentative", "if sequence > tentative.lowest_sequence:", "if False:"),),
        (f"{IN_A_PARTITION}::test_of_several_questions_the_lowest_sequence_comes_first",),
    ),
    Mutant(
        "an unknown producer begins with any sequence",
        "KAFKA-18202",
        (Change(f"{STATE}:_check_tentative", "nothing_cached and sequence != 0", "False"),),
        (f"{IN_A_PARTITION}::test_with_the_second_protocol_an_unknown_producer_begins_at_zero",),
    ),
    Mutant(
        "a plain write within a transaction",
        "I35",
        (
            Change(
                f"{STATE}:ProducerState.check_data",
                "if head[4] != NO_OFFSET and not header.is_transactional:",
                "if False:",
            ),
        ),
        (f"{CHECKS}::test_a_non_transactional_write_within_a_transaction_is_refused",),
    ),
    Mutant(
        "a producer with an open transaction is forgotten",
        "KAFKA-9144: nobody can end it any more",
        (Change(f"{STATE}:_is_expired", "head[4] == NO_OFFSET and ", ""),),
        (f"{RULES}::test_idle_producers_expire_and_those_with_a_transaction_never",),
    ),
    Mutant(
        "a producer is young again after every start",
        "I33: a broker that is started often remembers everybody for ever",
        (
            Change(
                f"{STATE}:ProducerState.restore",
                "producer_id: packed\n",
                "producer_id: ProducerEntry.unpack(packed)._replace(seen_ms=now_ms).pack()\n",
            ),
        ),
        (SILENCES,),
    ),
    Mutant(
        "an orderly end writes no ages down",
        "I33: who is read from the log counts as seen just now",
        (
            Change(
                "broker.partitions.derived:DerivedState._is_worth_a_snapshot",
                "return self.producers.offset > self._log.start_offset or len(self.producers) > 0",
                "return False",
            ),
        ),
        (SILENCES,),
    ),
    Mutant(
        "a snapshot forgets producers at half their time",
        "I33: a repeated batch is written once more after a restart",
        (
            Change(
                f"{STATE}:ProducerState.restore",
                "_is_expired(packed, now_ms, expiration_ms)",
                "_is_expired(packed, now_ms, expiration_ms // 2)",
            ),
        ),
        (SILENCES,),
    ),
    Mutant(
        "the bound on producers takes one with an open transaction",
        "KAFKA-9144, under pressure of memory",
        (
            Change("broker.upkeep.producer_cap:_longest_silent", "if transaction != NO_OFFSET:", "if False:"),
            Change(
                f"{STATE}:ProducerState.forget",
                "self._entries.get(producer_id) is not packed or HEAD.unpack_from(packed)[4] != NO_OFFSET",
                "self._entries.get(producer_id) is not packed",
            ),
        ),
        ("unit/partition/test_many_producers.py",),
    ),
    Mutant(
        "the bound on producers takes those who write most",
        "Redpanda #17921: a producer at work is forgotten, its retries are written twice",
        (
            Change(
                "broker.upkeep.producer_cap:_longest_silent",
                "heapq.heappush(oldest, (-seen_ms,",
                "heapq.heappush(oldest, (seen_ms,",
            ),
            Change(
                "broker.upkeep.producer_cap:_longest_silent",
                "elif seen_ms < -oldest[0][0]:",
                "elif seen_ms > oldest[0][0]:",
            ),
            Change(
                "broker.upkeep.producer_cap:_longest_silent",
                "heapq.heapreplace(oldest, (-seen_ms,",
                "heapq.heapreplace(oldest, (seen_ms,",
            ),
        ),
        ("unit/partition/test_many_producers.py",),
    ),
    Mutant(
        "historical timestamps age a producer",
        "I33, Kafka itself: duplicates of a producer that copies old records",
        (
            Change(
                f"{STATE}:ProducerState.apply_data",
                "timestamp_ms if timestamp_ms > now_ms else now_ms",
                "timestamp_ms",
            ),
        ),
        (f"{RULES}::test_historical_timestamps_do_not_shorten_a_producers_life",),
    ),
    Mutant(
        "a marker makes its producer no younger",
        "KIP-854: a producer is forgotten right after a long transaction",
        (
            Change(
                f"{STATE}:ProducerState.apply_marker",
                "seen_ms = max(marker.timestamp_ms, now_ms)",
                "seen_ms = HEAD.unpack_from(packed)[3] if packed else now_ms",
            ),
        ),
        (f"{IN_A_PARTITION}::test_a_producer_is_as_young_as_its_last_marker",),
    ),
    Mutant(
        "a new epoch keeps the batches of the old one",
        "KIP-360: the first batch of an epoch passes for a duplicate",
        (
            Change(
                f"{STATE}:ProducerState.find_duplicate",
                "if HEAD.unpack_from(packed)[0] != header.producer_epoch:",
                "if False:",
            ),
        ),
        (f"{RULES}::test_a_new_epoch_starts_at_zero_without_old_batches",),
    ),
    Mutant(
        "sequences of a transaction that has ended pass for a repetition",
        "a batch of librdkafka is acknowledged with the offset of aborted records, and lost",
        (
            Change(
                "broker.partitions.repetition:may_be_repeated",
                "return producers.is_of_open_transaction(header.producer_id, written.base_offset)",
                "return True",
            ),
        ),
        (f"{RULES}::test_sequences_of_a_transaction_that_has_ended_are_no_repetition",),
    ),
    Mutant(
        "a repetition is looked for in whatever transaction is open",
        "the same, in a partition to which the next transaction has written already",
        (Change(f"{STATE}:ProducerState.is_of_open_transaction", "!= first_offset <= offset", "!= first_offset"),),
        (f"{RULES}::test_sequences_of_a_transaction_that_has_ended_are_no_repetition",),
    ),
    Mutant(
        "a zombie's batch bounds its successor's first",
        "KAFKA-14884: a refused batch of an earlier epoch makes the next one OUT_OF_ORDER_SEQUENCE_NUMBER",
        (Change(f"{VERIFICATION}.begin", "elif epoch == entry.epoch and sequence", "elif sequence"),),
        ("unit/partition/test_verification.py::test_an_earlier_epoch_bounds_nobody",),
    ),
)
