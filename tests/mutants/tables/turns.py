"""Work on much of everything that gives nobody a turn: only who counts what is done in a turn of the loop notices."""

from tests.mutants.mutant import Change, Mutant

UNSEEN = "it has thousands of something, and counts what is done in a turn"
TOPICS, GROUPS, TRANSACTIONS = (f"much/test_{of}.py" for of in ("topics", "groups", "transactions"))
MANY_TOPICS = f"{TOPICS}::test_thousands_of_topics"
WIDE = f"{TOPICS}::test_a_topic_of_thousands_of_partitions"
CHORES = f"{TOPICS}::test_what_is_done_to_thousands_of_partitions_every_so_often"
OFFSETS = f"{GROUPS}::test_the_offsets_of_thousands_of_partitions"
MANY_GROUPS = f"{GROUPS}::test_thousands_of_groups"
UNUSED = f"{GROUPS}::test_thousands_of_groups_that_nobody_uses_any_more"
WIDE_TRANSACTION = f"{TRANSACTIONS}::test_a_transaction_over_thousands_of_partitions"
MANY_SEGMENTS = "much/test_compaction.py::test_a_log_of_thousands_of_segments_becomes_one_of_few"
MANY_TRANSACTIONS = f"{TRANSACTIONS}::test_thousands_of_transactions_that_nobody_ends"


def _hogs(
    name: str, test: str, *changes: Change, imitates: str = "who asks for much keeps all others waiting"
) -> Mutant:
    return Mutant(name, imitates, changes, (test,), unseen=UNSEEN)


def _never(place: str, asked: str) -> Change:
    return Change(place, asked, "if False:")


MUTANTS = (
    _hogs(
        "Metadata describes all topics in one turn",
        MANY_TOPICS,
        Change(
            "broker.api.handlers.metadata:metadata",
            "request, reached, time_slice))\n            await time_slice.give_way()",
            "request, reached, time_slice))",
        ),
    ),
    _hogs(
        "Metadata looks all named topics up in one turn",
        MANY_TOPICS,
        _never("broker.api.handlers.metadata:metadata", "if time_slice.spent():"),
    ),
    _hogs(
        "all that was decided of one request is taken over in one turn",
        MANY_TOPICS,
        Change(
            "broker.coordination.cluster:Cluster.ask_in_slices",
            "min(end, len(results) + DECIDED_AT_ONCE)",
            "end",
        ),
        imitates="ours, found by counting: the deletion of thousands of topics",
    ),
    _hogs(
        "all topics take over new settings of the broker in one turn",
        MANY_TOPICS,
        _never("broker.coordination.known_topics:KnownTopics._configure_on", "if turns.spent():"),
    ),
    _hogs(
        "responses are encoded in one turn",
        MANY_TOPICS,
        Change(
            "broker.api.dispatch:Dispatcher.encode",
            "context.correlation_id, response, slice_.spent",
            "context.correlation_id, response, lambda: False",
        ),
    ),
    _hogs(
        "ListOffsets looks into all partitions in one turn",
        WIDE,
        _never("broker.api.handlers.offsets:list_offsets", "if slice_.spent():"),
    ),
    _hogs(
        "a Produce to many partitions is laid out in one turn",
        WIDE,
        _never("broker.api.handlers.produce:_resolve_in_slices", "if time_slice.spent():"),
    ),
    _hogs(
        "a Fetch reads all partitions in one turn",
        WIDE,
        Change(
            "broker.api.handlers.fetch:_read_large",
            "room, movements.add)\n                if slice_.spent():",
            "room, movements.add)\n                if False:",
        ),
    ),
    _hogs(
        "retention looks into all partitions in one turn",
        CHORES,
        _never("broker.upkeep.housekeeping:Housekeeping.enforce_retention", "if number % AT_ONCE == 0:"),
    ),
    _hogs(
        "the producers of all partitions expire in one turn",
        CHORES,
        _never("broker.upkeep.housekeeping:Housekeeping.expire_producers", "if number % AT_ONCE == 0:"),
    ),
    _hogs(
        "the logs of a deleted topic are closed in one turn",
        CHORES,
        Change(
            "broker.coordination.leaving_topics:LeavingTopics._remove_logs",
            "self._store.release(partition.log):\n"
            "                await asyncio.sleep(RELEASE_RETRY_S)\n"
            "            if time_slice.spent():",
            "self._store.release(partition.log):\n"
            "                await asyncio.sleep(RELEASE_RETRY_S)\n"
            "            if False:",
        ),
    ),
    _hogs(
        "a commit of many offsets is one step of the coordinator",
        OFFSETS,
        Change(
            "broker.api.handlers.group_offsets:_Sorted.steps",
            "yield begin, self.offsets[begin : begin + OFFSETS_PER_STEP]",
            "yield begin, self.offsets[begin:]\n        break",
        ),
    ),
    _hogs(
        "a shard is loaded in one turn",
        OFFSETS,
        Change(
            "broker.coordination.coordinators:Shards._load",
            "shard.load_slice(self._read_bytes(), self._spent(shard, time_slice))",
            "shard.load_slice(self._read_bytes(), lambda: False)",
        ),
    ),
    _hogs(
        "the coordinators of all keys are found in one turn",
        MANY_GROUPS,
        _never("broker.api.handlers.find_coordinator:find_coordinator", "if time_slice.spent():"),
    ),
    _hogs(
        "unused offsets expire in one step",
        UNUSED,
        Change(
            "coordinator.groups.retention:RetentionRound.step",
            "for _ in range(VISITS_PER_STEP):",
            "while True:",
        ),
        Change(
            "coordinator.groups.retention:RetentionRound.step",
            "min(STEP_BYTES, self._settings.max_batch_bytes)",
            "self._settings.max_batch_bytes",
        ),
    ),
    _hogs(
        "the markers of a decision are begun in one turn",
        WIDE_TRANSACTION,
        _never("coordinator.transactions.markers:MarkerDriver._write_on", "if turns is not None and turns.spent():"),
    ),
    _hogs(
        "the COMPLETEs of all markers of a sync are written in one turn",
        MANY_TRANSACTIONS,
        Change(
            "broker.coordination.marker_writer:UncommittedMarkers._moved",
            "self._releases.put(done, ErrorCode.NONE if committed else _of_gone(partition))",
            "done(ErrorCode.NONE if committed else _of_gone(partition))",
        ),
        imitates="ours, found by counting: thousands of transactions that time out at once",
    ),
    _hogs(
        "all transactions time out in one step",
        MANY_TRANSACTIONS,
        Change(
            "coordinator.transactions.coordinator:TransactionCoordinator.abort_timed_out",
            "if len(retries) == TIMEOUTS_PER_STEP or room.is_full:",
            "if False:",
        ),
        Change(
            "coordinator.transactions.coordinator:TransactionCoordinator.abort_timed_out",
            "min(STEP_BYTES, max_batch_bytes)",
            "max_batch_bytes",
        ),
    ),
    _hogs(
        "all unused transactional ids expire in one step",
        MANY_TRANSACTIONS,
        Change(
            "coordinator.transactions.expiry:ExpiryScan.step",
            "min(TOMBSTONE_BYTES, max_batch_bytes)",
            "max_batch_bytes",
        ),
    ),
    _hogs(
        "the aborted transactions of a log are gathered in one turn",
        MANY_SEGMENTS,
        _never("storage.producers.aborted:AbortedIndex.gather", "if spent():"),
    ),
    _hogs(
        "each replacement by compaction opens the whole index of aborted transactions again",
        MANY_SEGMENTS,
        Change(
            "broker.partitions.derived:DerivedState.segments_compacted",
            "self.aborted.merged(bases, index)",
            "self.aborted.reload(self._log.segment_bases())",
        ),
    ),
)
