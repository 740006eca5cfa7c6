"""The transaction coordinator: adding, verifying, what is written down, timeouts, expiry, the shard that runs it."""

from tests.mutants.mutant import Change, Mutant

COORDINATOR = "coordinator.transactions.coordinator"
LEDGER = "coordinator.transactions.ledger:TransactionLedger"
STATES = "coordinator.transactions.states"
COORDINATION = "broker.coordination"
GATE = f"{COORDINATION}.transaction_gate"
RUNTIME = "coordinator.runtime"
TABLES = "unit/transactions/test_tables.py"
SILENCES = "simulation/test_silence.py::test_each_thing_is_forgotten_in_its_time_and_not_before"
AGES = "unit/transactions/test_transaction_ages.py"
STORIES = "unit/transactions/test_transaction_stories.py"
IN_A_NODE = "unit/transactions/test_transactions_in_a_node.py"
SHARD = "unit/transactions/test_shard_runtime.py"

MUTANTS = (
    Mutant(
        "a fenced producer adds partitions",
        "I11: the epoch of AddPartitionsToTxn is not compared",
        (
            Change(
                f"{COORDINATOR}:_identity_error",
                "if claimed.producer_epoch != transaction.producer_epoch:",
                "if False:",
            ),
        ),
        (f"{TABLES}::test_add_and_verify",),
    ),
    Mutant(
        "AddPartitions succeeds in part",
        "KAFKA-5322",
        (
            Change(
                "broker.api.handlers.transactions:_add_or_verify",
                "{key: error or ErrorCode.OPERATION_NOT_ATTEMPTED for key, error in results.items()}",
                "results",
            ),
        ),
        (f"{IN_A_NODE}::test_partitions_are_added_all_or_none",),
    ),
    Mutant(
        "a partition joins a transaction that is being ended",
        "KAFKA-18575, KAFKA-18654",
        (Change(f"{COORDINATOR}:TransactionCoordinator.add_partitions", "if before.state.preparing:", "if False:"),),
        (f"{TABLES}::test_add_and_verify",),
    ),
    Mutant(
        "every partition passes verification",
        "KAFKA-14402, KIP-890: a late Produce opens a transaction that nobody ends",
        (
            Change(
                f"{COORDINATOR}:TransactionCoordinator.verify_partitions",
                "missing = lookup.missing(entry) if error is ErrorCode.NONE else ()",
                "missing = ()",
            ),
        ),
        (f"{TABLES}::test_add_and_verify",),
    ),
    Mutant(
        "partitions are not verified at all",
        "KAFKA-14402",
        (Change(f"{GATE}:admit_produce", "not services.config.get_bool(VERIFICATION)", "True"),),
        (f"{IN_A_NODE}::test_a_write_outside_the_transaction_is_refused",),
    ),
    Mutant(
        "what is admitted at once is not looked up",
        "KAFKA-14402, on the short way of a transaction that is open here",
        (Change(f"{GATE}:admitted_at_once", "if not inside:", "if False:"),),
        ("unit/transactions/test_quick_admission.py",),
    ),
    Mutant(
        "offsets are staged behind the end of their transaction",
        "KAFKA-15449, KAFKA-15784: nobody looks again after the wait",
        (
            Change(
                f"{GATE}:admit_offset_commit",
                "if error is ErrorCode.NONE and not _still_open(services, transactional_id, producer, index):",
                "if False:",
            ),
        ),
        ("unit/transactions/test_offset_admission.py",),
    ),
    Mutant(
        "offsets are admitted before their group is loaded",
        "KAFKA-15784: the transaction ends while the group loads, and the offset is staged behind its end, for good",
        (
            Change(
                f"{GATE}:admit_offset_commit",
                "await services.groups.wait_until_ready(index)",
                "pass",
            ),
        ),
        ("unit/transactions/test_offset_admission.py::test_a_transaction_that_ends_while_its_group_loads",),
        unseen="a shard that loads is slowed down, turn by turn",
    ),
    Mutant(
        "the next producer id is not written down",
        "KAFKA-20310",
        (
            Change(
                f"{STATES}:value_bytes",
                "next_producer_id=transaction.next_producer_id",
                "next_producer_id=NO_PRODUCER_ID",
            ),
        ),
        (f"{AGES}::test_a_crash_in_the_middle_of_a_rotation",),
    ),
    Mutant(
        "the last epoch is forgotten by a restart",
        "Kafka itself: a retried InitProducerId is fenced after a restart (docs/decisions)",
        (
            Change(
                f"{STATES}:value_bytes",
                "last_producer_epoch=transaction.last_producer_epoch",
                "last_producer_epoch=NO_EPOCH",
            ),
        ),
        (f"{AGES}::test_a_retry_of_init_survives_a_restart",),
    ),
    Mutant(
        "a decided transaction is forgotten by a restart",
        "KAFKA-9777: PREPARE for ever",
        (Change(f"{LEDGER}.loaded", "deque(self.completions.values())", "deque()"),),
        (f"{STORIES}::test_a_crash_after_prepare_finishes_without_the_client",),
    ),
    Mutant(
        "a restart forgets that transactions time out",
        "KAFKA-12671: readers are stuck for good",
        (
            Change(
                f"{LEDGER}._follow",
                "self.timeouts.set(transactional_id, transaction.start_ms + transaction.timeout_ms + 1)",
                "pass",
            ),
        ),
        (f"{AGES}::test_a_timeout_survives_a_restart",),
    ),
    Mutant(
        "the timeout counts from the last activity",
        "I12: a transaction may stay open for ever",
        (
            Change(
                f"{COORDINATOR}:TransactionCoordinator.add_partitions",
                "min(before.start_ms, now_ms) if ongoing else now_ms",
                "now_ms",
            ),
        ),
        (f"{AGES}::test_a_transaction_times_out_counted_from_its_first_partition",),
    ),
    Mutant(
        "an id with an open transaction expires",
        "I18",
        (
            Change(
                "coordinator.transactions.expiry:_is_idle_since",
                "and transaction.state in IDLE ",
                "",
            ),
        ),
        (f"{AGES}::test_what_is_open_or_decided_is_never_forgotten",),
    ),
    Mutant(
        "an id that was only claimed stays for ever",
        "KAFKA-14880",
        (
            Change(
                "coordinator.transactions.expiry:_is_idle_since",
                "and transaction.state in IDLE ",
                'and transaction.state in IDLE and transaction.state.wire_name != "Empty" ',
            ),
        ),
        (SILENCES,),
    ),
    Mutant(
        "a coordinator answers before it is durable",
        "Redpanda #6018: PREPARE is answered, and lost",
        (Change(f"{RUNTIME}:Shard._decide", "self._waiting.append((self.log.end_offset,", "self._waiting.append((0,"),),
        (f"{SHARD}::test_an_answer_waits_until_its_records_are_durable",),
    ),
    Mutant(
        "what the log refused is remembered all the same",
        "KAFKA-5351, KAFKA-7519",
        (
            Change(
                f"{RUNTIME}:Shard._decide",
                "self._refuse(refusal.error, tickets, outcome)",
                "for entry in _replayed(outcome.records, self.log.end_offset, now_ms, outcome.stamp):\n"
                "            self.machine.replay(entry)\n"
                "        self._refuse(refusal.error, tickets, outcome)",
            ),
        ),
        (f"{SHARD}::test_a_refused_append_refuses_every_ticket_and_changes_nothing",),
    ),
    Mutant(
        "nobody is told that the log refused",
        "KAFKA-5416: the client waits for ever",
        (Change(f"{RUNTIME}:Shard._refuse", "ticket.refuse(code)", "pass"),),
        (f"{SHARD}::test_a_refused_append_refuses_every_ticket_and_changes_nothing",),
    ),
    Mutant(
        "loading skips control records",
        "Redpanda #6423: UNSTABLE_OFFSET_COMMIT for ever",
        (Change("coordinator.loading:entries_of", "if end is not None and stamp is not None:", "if False:"),),
        ("unit/groups/test_transactional_offsets.py::test_offsets_appear_with_their_transaction_or_not_at_all",),
    ),
    Mutant(
        "the epoch of the coordinator is not bumped at start",
        "I15: markers of two starts cannot be told apart",
        (
            Change(
                f"{COORDINATION}.cluster:Cluster.__init__",
                "max(log.latest_epoch(), known_epoch, begin.epoch) + 1",
                "max(0, log.latest_epoch(), begin.epoch)",
            ),
        ),
        ("unit/broker/test_restarts.py",),
    ),
    Mutant(
        "a block of producer ids is not written down",
        "KAFKA-20031: the same ids once more after a restart",
        (
            Change(
                "coordinator.cluster.coordinator:ClusterCoordinator.take_producer_ids",
                "_decided(ticket, [record],",
                "_decided(ticket, [],",
            ),
        ),
        ("unit/cluster/test_cluster_log.py",),
    ),
    Mutant(
        "a block of producer ids is used before it is durable",
        "I01, KAFKA-20031",
        (
            Change(
                "broker.coordination.producer_ids:ProducerIdSource.prefetch",
                "    except NotReady:",
                "        first = self._cluster.image.next_producer_id - 1000\n"
                "        self._next = self._next or ProducerIdBlock(first, 1000)\n"
                "    except NotReady:",
            ),
            Change(
                "broker.coordination.producer_ids:ProducerIdSource.release",
                "assert answer.first > self._last",
                "return\n        assert answer.first > self._last",
            ),
        ),
        ("unit/cluster/test_producer_ids.py",),
    ),
    Mutant(
        "start-up does not look for orphans",
        "I50: an open transaction that nobody answers for blocks its readers",
        (
            Change(
                f"{COORDINATION}.transactions:reconcile",
                "if entry is None or entry.transaction_first_offset == NO_OFFSET:",
                "if True:",
            ),
        ),
        (f"{IN_A_NODE}::test_only_orphans_are_aborted_at_start",),
    ),
)
