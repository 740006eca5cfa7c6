"""The responses to clients, and their order (broker/network/connection.py, broker/handlers)."""

from tests.mutants.mutant import Change, Mutant

CONNECTION = "broker.network.connection:Connection"
GATE = "broker.coordination.transaction_gate"
CONNECTIONS = "unit/broker/test_connection.py"
CHECKS = "unit/partition/test_append_checks.py"

MUTANTS = (
    Mutant(
        "answers leave out of order",
        "I46: the client takes one answer for another",
        (
            Change(
                "broker.network.pending_answer:AnswersInOrder.known",
                "    while waiting and waiting[0].parts is not None:\n        parts = waiting.popleft().parts or []",
                "    if True:\n        waiting.remove(answer)\n        parts = answer.parts or []",
            ),
        ),
        (f"{CONNECTIONS}::test_answers_leave_in_request_order_while_produces_overlap",),
    ),
    Mutant(
        "a refusal overtakes the answers before it",
        "I46",
        (Change(f"{CONNECTION}._answer_in_turn", "if not self._order.waiting:", "if True:"),),
        ("unit/broker/test_answer_order.py",),
    ),
    Mutant(
        "whatever follows a Produce overlaps it",
        "Kafka mutes a connection: an EndTxn overtakes the Produce before it",
        (
            Change(
                f"{CONNECTION}._work",
                "if answers and (frame[:2] != PRODUCE_KEY or not self._may_overlap):",
                "if answers and not self._may_overlap:",
            ),
        ),
        (f"{CONNECTIONS}::test_nothing_but_a_produce_overlaps_a_produce",),
    ),
    Mutant(
        "what waits for its turn is lost with the end of its connection",
        "ours: of producers with acks=0, flushed and closed at once, a third of the records was missing",
        (
            Change(
                f"{CONNECTION}.eof_received",
                "return not self._closing",
                "return False",
            ),
        ),
        ("unit/broker/test_ended_connections.py",),
    ),
    Mutant(
        "a client that goes away cancels the work",
        "I45: a transition stops half way",
        (
            Change(
                f"{CONNECTION}.connection_lost",
                "and not isinstance(self._serial_wait, asyncio.Task)",
                "",
            ),
        ),
        (f"{CONNECTIONS}::test_a_disconnect_cancels_the_wait_but_not_the_work",),
    ),
    Mutant(
        "acks=all is answered as acks=1",
        "Redpanda #6018: acknowledged and lost",
        (
            Change(
                "broker.api.handlers.produce_appends:append_and_publish",
                "request.acks == -1 or (request.acks == 1",
                "False and (request.acks == 1",
            ),
        ),
        ("unit/broker/test_produce.py", "simulation 60"),
    ),
    Mutant(
        "a repeat is answered before its original is durable",
        "I21, I24: acknowledged while it is being synced, and gone after a power cut",
        (
            Change(
                "broker.api.handlers.produce_appends:_append",
                "return appended.next_offset",
                "return 0 if appended.duplicate else appended.next_offset",
            ),
        ),
        ("unit/broker/test_produce.py::test_a_repeat_is_acknowledged_when_it_is_durable",),
    ),
    Mutant(
        "the aborted list is missing for parked fetches",
        "KAFKA-5376",
        (
            Change(
                "broker.api.fetching.fetch_attempt:FetchAttempt.again",
                "    return self.answer(reading) if last or self.enough(reading) else None",
                "    for _, response in reading.responses:\n"
                "        response.aborted_transactions = []\n"
                "    return self.answer(reading) if last or self.enough(reading) else None",
            ),
        ),
        ("unit/broker/test_parked_fetches.py", "simulation 60"),
    ),
    Mutant(
        "control batches from clients are accepted",
        "I35",
        (Change("broker.partitions.append:check_header", "if header.attributes & CONTROL:", "if False:"),),
        (f"{CHECKS}::test_an_unsound_batch_is_refused_as_kafka_does",),
    ),
    Mutant(
        "checksums are not looked at",
        "I35: damage on the way is kept",
        (Change("broker.partitions.append:_sound_batch", "if not check_crc(batch, 0, header):", "if False:"),),
        (f"{CHECKS}::test_an_unsound_batch_is_refused_as_kafka_does",),
    ),
    Mutant(
        "a producer is told PRODUCER_FENCED by Produce",
        "KIP-588: the client could not abort any more",
        (
            Change(
                f"{GATE}:_for_produce",
                "return ErrorCode.INVALID_PRODUCER_EPOCH",
                "return error",
            ),
        ),
        ("scenario Being fenced has two names", "scenarios"),
    ),
    Mutant(
        "old clients are told PRODUCER_FENCED",
        "I07, KIP-588",
        (
            Change(
                "broker.api.handlers.transactions:_known_to",
                "ErrorCode.INVALID_PRODUCER_EPOCH if fenced and version < FIRST_WITH_FENCED[request] else error",
                "error",
            ),
        ),
        ("scenario Being fenced has two names",),
    ),
    Mutant(
        "old clients are told COORDINATOR_LOAD_IN_PROGRESS",
        "KAFKA-7296",
        (Change("broker.api.handlers.group_offsets:_known_to", "loading and version < LOADING_KNOWN_SINCE", "False"),),
        ("unit/transactions/test_offset_admission.py",),
    ),
    Mutant(
        "anybody may write to our own topics",
        "forged offsets and transactions",
        (
            Change(
                "broker.api.handlers.produce:_find_topic",
                "if topic.internal:",
                "if False:",
            ),
        ),
        ("unit/broker/test_produce.py", "scenarios"),
    ),
    Mutant(
        "a producer id that two batches of a request disagree on",
        "KIP-890: one request, two producers, one verification",
        (
            Change(
                "broker.api.handlers.produce:_whole_request_error",
                "return ErrorCode.INVALID_PRODUCER_ID_MAPPING",
                "return ErrorCode.NONE",
            ),
        ),
        ("unit/broker/test_produce.py", "scenarios"),
    ),
)
