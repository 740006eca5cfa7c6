"""Offsets of groups, committed and staged (coordinator/groups/offsets.py)."""

from tests.mutants.mutant import Change, Mutant

STORE = "coordinator.groups.offsets:OffsetStore"
LEDGER = "coordinator.groups.logged:GroupLedger"
COORDINATOR = "coordinator.groups.coordinator:GroupCoordinator"
STAGED = "unit/groups/test_transactional_offsets.py"
RETENTION = "unit/groups/test_retention.py"

MUTANTS = (
    Mutant(
        "pending offsets are dropped on reload",
        "a committed transaction without its offsets after a restart",
        (
            Change(
                f"{COORDINATOR}.loaded",
                "    for logged in",
                "    self.ledger.offsets.staged.clear()\n    self.ledger.offsets._producers.clear()\n    for logged in",
            ),
        ),
        (f"{STAGED}::test_offsets_appear_with_their_transaction_or_not_at_all",),
    ),
    Mutant(
        "the transaction that ends last wins, whatever the log says",
        "CORE-17000: plain and transactional commits in another order live than on reload",
        (
            Change(
                f"{STORE}._commit_if_newer",
                "if present is None or stored.record_offset > present.record_offset:",
                "if True:",
            ),
        ),
        (f"{STAGED}::test_the_latest_record_among_the_committed_wins",),
    ),
    Mutant(
        "plain and transactional order differ on reload",
        "CORE-17000: staged offsets lose to every plain commit, but only after a restart",
        (
            Change(
                f"{LEDGER}._replay_offset",
                "entry.value), entry.offset)",
                "entry.value), entry.offset if entry.stamp is None else -entry.offset)",
            ),
        ),
        (f"{STAGED}::test_the_latest_record_among_the_committed_wins", "unit/groups/test_group_machine.py"),
    ),
    Mutant(
        "a tombstone leaves what is staged",
        "I40: deleted offsets come back with the marker",
        (
            Change(
                f"{STORE}._forget",
                "for producer_id in list(self._producers.get(group_id, {}).get(key, ())):",
                "for producer_id in []:",
            ),
        ),
        (f"{STAGED}::test_deleting_offsets_deletes_staged_ones_and_no_later_commit",),
    ),
    Mutant(
        "a marker with nothing staged fails",
        "I42: a repeated marker brings the coordinator down",
        (Change(f"{STORE}.end_transaction", "self.staged.pop(producer_id, {})", "self.staged.pop(producer_id)"),),
        (f"{STAGED}::test_markers_that_find_nothing_are_harmless",),
    ),
    Mutant(
        "an offset expires while a transaction is open on it",
        "CORE-16998",
        (
            Change(
                "coordinator.groups.retention:RetentionRound._has_expired",
                "or self._store.is_unstable(group_id, topic, partition)",
                "",
            ),
        ),
        (f"{RETENTION}::test_an_open_transaction_protects_its_offsets_and_its_group",),
    ),
    Mutant(
        "a group with nothing but pending offsets is deleted",
        "KAFKA-19163",
        (
            Change(
                "coordinator.groups.retention:RetentionRound._is_unused",
                "and not self._store.has_open_transaction(group_id)",
                "",
            ),
        ),
        (f"{RETENTION}::test_a_group_with_nothing_but_an_open_transaction_stays",),
    ),
    Mutant(
        "every partition of a group is unstable",
        "I38: one open transaction holds up all of it",
        (
            Change(
                f"{STORE}.is_unstable",
                "return (topic, partition) in self._producers.get(group_id, ())",
                "return group_id in self._producers",
            ),
        ),
        (f"{STAGED}::test_only_the_partitions_of_the_transaction_are_unstable",),
    ),
    Mutant(
        "offsets of an earlier topic of that name are told",
        "I17 for offsets: a reader of the new topic begins in the middle",
        (Change("coordinator.groups.commits:_fetch_one", "or not stored.is_of(topic.topic_id)", ""),),
        ("unit/groups/test_commit_rules.py::test_offsets_of_an_earlier_namesake_topic_are_not_found",),
    ),
    Mutant(
        "a staged offset is told as -1 when it is stable",
        "Jepsen Bufstream: spurious zero offsets",
        (
            Change(
                "coordinator.groups.commits:_fetch_one",
                "return FetchedOffset(partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)",
                "return FetchedOffset(partition)",
            ),
        ),
        (f"{STAGED}::test_only_the_partitions_of_the_transaction_are_unstable",),
    ),
    Mutant(
        "a restart forgets since when a group is empty",
        "KIP-211: its offsets expire by the time of their commit",
        (Change(f"{LEDGER.split(':')[0]}:LoggedGroup.of", "state_timestamp_ms=value.current_state_timestamp,", ""),),
        (f"{RETENTION}::test_the_clock_starts_when_the_group_became_empty",),
    ),
)
