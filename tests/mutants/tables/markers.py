"""From PREPARE to COMPLETE: markers, their order on the disk, which coordinator may write them."""

from tests.mutants.mutant import Change, Mutant

DRIVER = "coordinator.transactions.markers:MarkerDriver"
WRITER = "broker.coordination.marker_writer:LocalMarkerWriter"
STATE = "storage.producers.producer_state:ProducerState"
STORIES = "unit/transactions/test_transaction_stories.py"
HELD = "unit/transactions/test_transactions_held.py"
MARKER_WRITER = "unit/transactions/test_marker_writer.py"
MADE_AGAIN = "unit/across_nodes/test_topics_made_again.py"
IN_A_PARTITION = "unit/partition/test_transactions_in_a_partition.py"

MUTANTS = (
    Mutant(
        "markers before PREPARE is durable",
        "I04: a crash leaves a marker of a decision that never was",
        (Change(f"{DRIVER}.drive", "undriven and undriven[0].offset < self._shard.log.durable_offset", "undriven"),),
        (f"{STORIES}::test_a_sync_that_began_before_the_decision_sends_no_markers",),
    ),
    Mutant(
        "COMPLETE before the markers are durable",
        "I04: a crash leaves a transaction that hangs for good",
        (
            Change(
                f"{WRITER}._write_to_partition",
                "self._uncommitted.wait(partition, offset + 1, done)",
                "done(ErrorCode.NONE)",
            ),
        ),
        (f"{MARKER_WRITER}::test_a_marker_counts_as_written_when_it_is_durable",),
    ),
    Mutant(
        "COMPLETE after the first of several markers",
        "KAFKA-9777: a torn transaction",
        (Change(f"{DRIVER}._written", "        if not completion.remaining:", "        if True:"),),
        (f"{STORIES}::test_a_commit_from_end_to_end", f"{STORIES}::test_any_refused_append_leaves_the_id_usable"),
    ),
    Mutant(
        "COMPLETE once for every acknowledgement",
        "KAFKA-10080",
        (
            Change(
                f"{DRIVER}._finish",
                "if not self._is_current(completion):",
                "if False:",
            ),
            Change(
                "coordinator.transactions.coordinator:TransactionCoordinator.complete",
                "if self.completions.get(completion.transactional_id) is not completion:",
                "if False:",
            ),
            Change(f"{DRIVER}._is_current", "is completion", "is not self"),
        ),
        (f"{STORIES}::test_complete_is_written_once_however_often_markers_are_acknowledged",),
    ),
    Mutant(
        "a coordinator that was unloaded goes on",
        "KAFKA-18137, KAFKA-16352",
        (Change(f"{DRIVER}._is_current", "active = self._shard.state is ShardState.ACTIVE", "active = True"),),
        (f"{STORIES}::test_a_coordinator_that_was_closed_writes_no_more_markers",),
    ),
    Mutant(
        "COMPLETE is not tried again",
        "KAFKA-5351: stuck in PREPARE after one refused append",
        (
            Change(
                f"{DRIVER}._refused",
                "self._later(retry_ms, lambda: self._finish(completion, min(2 * retry_ms, LONGEST_RETRY_MS)))",
                "pass",
            ),
        ),
        (f"{STORIES}::test_a_complete_that_the_log_refuses_stays_due",),
    ),
    Mutant(
        "a marker that was refused for a moment is lost",
        "KAFKA-5610, KAFKA-9749",
        (Change(f"{DRIVER}._written", "if error in WRITTEN or error in NOBODY_TO_TELL:", "if True:"),),
        (f"{STORIES}::test_a_marker_is_tried_until_it_is_written",),
    ),
    Mutant(
        "a marker that was there before keeps the id in PREPARE",
        "KAFKA-19999: endless CONCURRENT_TRANSACTIONS",
        (
            Change(
                f"{DRIVER}._written",
                "error in NOBODY_TO_TELL",
                "error in NOBODY_TO_TELL - {ErrorCode.INVALID_PRODUCER_EPOCH}",
            ),
        ),
        (f"{STORIES}::test_a_deleted_or_superseded_partition_is_skipped",),
    ),
    Mutant(
        "a marker goes to a topic made again under the same name",
        "I17: Kafka itself goes by the name",
        (
            Change(
                f"{WRITER}.write",
                "self._topics.by_name(topic) if topic_id is None else self._topics.by_id(topic_id)",
                "self._topics.by_name(topic)",
            ),
            Change(
                f"{WRITER}._write",
                "topics.by_name(topic) if topic_id is None else topics.by_id(topic_id)",
                "topics.by_name(topic)",
            ),
        ),
        (f"{HELD}::test_a_topic_deleted_and_made_again_gets_no_marker",),
    ),
    Mutant(
        "a marker from another node goes to a topic made again under the same name",
        "I17, ours: nodes hear of it at different times, and the request named the topic alone",
        (
            Change(
                "broker.api.handlers.transaction_markers:_write",
                "topic.topic_id not in (NO_TOPIC_ID, found.topic_id)",
                "False",
            ),
            Change(
                "broker.api.handlers.transaction_markers:_write",
                "found.topic_id if topic.topic_id != NO_TOPIC_ID else None",
                "None",
            ),
        ),
        (f"{MADE_AGAIN}::test_a_topic_made_again_gets_no_marker_from_a_coordinator_that_has_not_heard_of_it",),
        unseen="in a story all nodes hear of a topic before anybody goes on",
    ),
    Mutant(
        "nobody comes again for a marker when its leader does not know the topic yet",
        "ours: of two nodes the one that leads may hear of it later",
        (
            Change(
                "broker.api.handlers.transaction_markers:_told",
                "ErrorCode.UNKNOWN_TOPIC_OR_PARTITION",
                "ErrorCode.UNKNOWN_TOPIC_ID",
            ),
            Change(
                "broker.api.handlers.transaction_markers:_write",
                "        # It was made anew, as far as one of the two nodes knows. It may not be this one: not "
                "UNKNOWN_TOPIC_ID, after\n        # which nobody would come again.\n"
                "        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION",
                "        return ErrorCode.UNKNOWN_TOPIC_ID",
            ),
        ),
        (f"{MADE_AGAIN}::test_a_leader_that_has_not_heard_of_the_topic_writes_the_marker_when_it_has",),
        unseen="in a story all nodes hear of a topic before anybody goes on",
    ),
    Mutant(
        "a coordinator that has not heard yet answers out of memory",
        "ours: it was replaced, and refuses what is right; a marker of its successor is taken for one that has arrived",
        (Change("broker.shared.ownership:Ownership._is_ours", "return found is not None and (", "return True or ("),),
        ("unit/across_nodes/test_ownership.py",),
        unseen="one in some thousands of seeds of several nodes can",
    ),
    Mutant(
        "the marker of a group is answered before it is materialised",
        "KAFKA-17507: the next transaction's offsets are lost",
        (
            Change(
                f"{WRITER}._write_to_group_shard",
                "ticket = _MarkerTicket(self._releases, done)",
                "done(ErrorCode.NONE); ticket = _MarkerTicket(self._releases, lambda error: None)",
            ),
        ),
        (f"{MARKER_WRITER}::test_a_group_marker_counts_once_its_offsets_are_durable",),
    ),
    Mutant(
        "an operator commits half a transaction",
        "KoP PR #79: markers behind the coordinator's back",
        (
            Change(
                "broker.api.handlers.transaction_markers:write_txn_markers",
                "if owner is not None and contains(owner[1].partitions, topic.name, NO_TOPIC_ID, index):",
                "if False:",
            ),
        ),
        (f"{HELD}::test_an_operator_cannot_commit_what_the_coordinator_holds_open",),
    ),
    Mutant(
        "a late marker ends the next transaction",
        "KAFKA-19446, KIP-1228",
        (Change(f"{STATE}.check_marker", "if marker.transaction_version >= 2 and", "if False and"),),
        (f"{IN_A_PARTITION}::test_a_late_marker_does_not_end_the_next_transaction",),
    ),
    Mutant(
        "a repeated marker is refused",
        "KAFKA-19999",
        (
            Change(
                f"{STATE}.check_marker",
                "stale = transaction != NO_OFFSET and epoch != LAST_EPOCH",
                "stale = True",
            ),
        ),
        (f"{IN_A_PARTITION}::test_a_marker_may_be_written_again_and_again",),
    ),
    Mutant(
        "a marker of an older epoch is taken",
        "KAFKA-9144: a zombie's marker",
        (Change(f"{STATE}.check_marker", "stale = marker.producer_epoch < epoch", "stale = False"),),
        (f"{IN_A_PARTITION}::test_the_first_protocol_accepts_an_equal_epoch",),
    ),
    Mutant(
        "an older coordinator writes a marker",
        "I28",
        (Change(f"{STATE}.check_marker", "if marker.coordinator_epoch < coordinator_epoch:", "if False:"),),
        (f"{IN_A_PARTITION}::test_only_an_older_coordinator_is_fenced",),
    ),
    Mutant(
        "a marker of a producer that was forgotten is refused",
        "Redpanda #17921, PR #21340: the commit is retried for ever",
        (
            Change(
                f"{STATE}.check_marker",
                "    if packed is None:\n        return",
                "    if packed is None:\n"
                "        raise ProducerRefused(ErrorCode.UNKNOWN_PRODUCER_ID, 'nobody knows it')",
            ),
        ),
        (f"{IN_A_PARTITION}::test_a_transaction_without_data_leaves_no_entry",),
    ),
)
