"""The transaction coordinator: one machine per partition of `__transaction_state`.

Rule 1. An operation reads `transactions` and returns records; `replay` alone writes it.
Rule 2. In a PREPARE state nothing is taken on: CONCURRENT_TRANSACTIONS, before ids and epochs are compared wherever a
        TV2 client may ask (it may use the identity that only COMPLETE makes current, KAFKA-18660).
Rule 3. Which markers are still to be written follows from state (`completions`); `markers.MarkerDriver` writes them.

Soft state, lost on reload by design: `Completion.remaining`, where the expiry scan stands, a deadline that was put off,
and what the old record layout has no room for (`ledger.Written`).
"""

from collections.abc import Callable, Iterable

from coordinator.batch_room import STEP_BYTES, BatchRoom, fits_alone
from coordinator.machine import A, AnyOutcome, Marker, Outcome, ReplayedMarker, ReplayedRecord, Ticket
from coordinator.ports import ProducerIds
from coordinator.transactions.answers import Description, Identity, Verified
from coordinator.transactions.expiry import ExpiryScan
from coordinator.transactions.fencing import (
    Producer,
    Renewal,
    Verdict,
    completed,
    decided,
    end_verdict,
    fenced,
    is_known,
    needs_new_producer_id,
    renewal,
    renewed,
    unknown_id,
)
from coordinator.transactions.ledger import Completion, TransactionLedger
from coordinator.transactions.settings import TransactionSettings
from coordinator.transactions.states import (
    NO_PRODUCER_ID,
    PartitionLookup,
    TopicPartitions,
    Transaction,
    TransactionState,
    by_topic,
    growth_until_decided,
    united,
    value_version,
)
from protocol.codec import read_version
from protocol.errors import ErrorCode

TIMEOUTS_PER_STEP = 64
DRY_RETRY_MS = 50
"""When an abort needs a producer id and the block is dry."""


class TransactionCoordinator:
    """See the head of this file. `producer_ids` is the only thing it asks from outside."""

    def __init__(
        self, producer_ids: ProducerIds, settings: TransactionSettings, coordinator_epoch: Callable[[], int]
    ) -> None:
        self.ledger = TransactionLedger()
        self.transactions = self.ledger.transactions
        self.completions = self.ledger.completions
        self._producer_ids = producer_ids
        self._settings = settings
        self._coordinator_epoch = coordinator_epoch
        self._scan = ExpiryScan()

    # -- InitProducerId --------------------------------------------------------------------------------------

    def init_producer_id(
        self,
        ticket: Ticket[Identity],
        now_ms: int,
        *,
        transactional_id: str,
        timeout_ms: int,
        expected: Producer | None,
    ) -> Outcome[Identity]:
        """A new instance of a transactional producer, or the same one after an error (KIP-360).

        Over an open transaction: fence and abort it and answer 51; a retry after that gets the next epoch.
        """
        before = self.ledger.find(transactional_id)
        if before is None:
            return self._first_identity(ticket, now_ms, transactional_id, timeout_ms)
        if before.state.preparing:
            return _refused(ticket, ErrorCode.CONCURRENT_TRANSACTIONS)
        if expected is not None and not is_known(before, expected):
            return _refused(ticket, ErrorCode.PRODUCER_FENCED)
        if before.state is TransactionState.ONGOING:
            outcome, error = self._fence(transactional_id, before, now_ms, "InitProducerId over an open transaction")
            answer = ErrorCode.CONCURRENT_TRANSACTIONS if error is ErrorCode.NONE else error
            outcome.answers.append((ticket, Identity(answer)))
            return outcome
        how = renewal(before, expected)
        if isinstance(how, ErrorCode):
            return _refused(ticket, how)
        next_producer_id = self._producer_ids.take() if how is Renewal.ROTATE else NO_PRODUCER_ID
        if next_producer_id is None:
            return _refused(ticket, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        after = renewed(
            before, how, expected=expected, timeout_ms=timeout_ms, next_producer_id=next_producer_id, now_ms=now_ms
        )
        return self._write(
            transactional_id,
            [after],
            [(ticket, Identity(ErrorCode.NONE, after.producer_id, after.producer_epoch))],
            f"{transactional_id}: InitProducerId, {how.value}",
        )

    def _first_identity(
        self, ticket: Ticket[Identity], now_ms: int, transactional_id: str, timeout_ms: int
    ) -> Outcome[Identity]:
        producer_id = self._producer_ids.take()
        if producer_id is None:
            return _refused(ticket, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        after = Transaction(
            producer_id=producer_id,
            producer_epoch=0,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            last_update_ms=now_ms,
            previous_producer_id=producer_id,
        )
        identity = Identity(ErrorCode.NONE, producer_id, 0)
        return self._write(transactional_id, [after], [(ticket, identity)], f"{transactional_id}: a new id")

    # -- adding and verifying partitions -----------------------------------------------------------------------

    def add_partitions(
        self,
        ticket: Ticket[ErrorCode],
        now_ms: int,
        *,
        transactional_id: str,
        claimed: Producer,
        partitions: Iterable[TopicPartitions],
        client_version: int,
    ) -> Outcome[ErrorCode]:
        """AddPartitionsToTxn, AddOffsetsToTxn (with the partition of `__consumer_offsets`) and the implicit add of TV2.
        Answers an `ErrorCode`."""
        before = self.ledger.find(transactional_id)
        if before is None:
            return Outcome(answers=[(ticket, unknown_id(transactional_id))])
        if before.state.preparing:
            return Outcome(answers=[(ticket, ErrorCode.CONCURRENT_TRANSACTIONS)])
        error = _identity_error(before, claimed)
        if error is not ErrorCode.NONE:
            return Outcome(answers=[(ticket, error)])
        union = united(before.partitions, partitions)
        ongoing = before.state is TransactionState.ONGOING
        if ongoing and union is before.partitions:
            return Outcome(answers=[(ticket, ErrorCode.NONE)])
        after = Transaction(
            producer_id=before.producer_id,
            producer_epoch=before.producer_epoch,
            timeout_ms=before.timeout_ms,
            state=TransactionState.ONGOING,
            last_update_ms=now_ms,
            start_ms=min(before.start_ms, now_ms) if ongoing else now_ms,
            previous_producer_id=before.producer_id,
            next_producer_id=before.next_producer_id,
            last_producer_epoch=before.last_producer_epoch,
            client_version=client_version,
            partitions=union,
        )
        outcome = self._write(transactional_id, [after], [(ticket, ErrorCode.NONE)], f"{transactional_id}: partitions")
        growth = growth_until_decided(after, value_version(after, self._settings.cluster_version))
        if not fits_alone(outcome.records[0], self._settings.max_batch_bytes, growth=growth):
            # Kafka's answer to MESSAGE_TOO_LARGE. The decision is a larger record: a transaction that only just fits
            # could never end.
            return Outcome(answers=[(ticket, ErrorCode.UNKNOWN_SERVER_ERROR)])
        return outcome

    def verify_partitions(
        self,
        ticket: Ticket[Verified],
        now_ms: int,
        *,
        transactional_id: str,
        claimed: Producer,
        partitions: Iterable[TopicPartitions],
    ) -> Outcome[Verified]:
        """Whether partitions are in the open transaction (KIP-890 part 1): TRANSACTION_ABORTABLE where not."""
        before = self.ledger.find(transactional_id)
        if before is None:
            error = unknown_id(transactional_id)
        else:
            error = _identity_error(before, claimed)
            if error is ErrorCode.NONE and before.state.preparing:
                error = ErrorCode.CONCURRENT_TRANSACTIONS
        results = {}
        lookup = PartitionLookup(() if before is None else before.partitions)
        for entry in partitions:
            missing = lookup.missing(entry) if error is ErrorCode.NONE else ()
            for partition in entry.partitions:
                result = ErrorCode.TRANSACTION_ABORTABLE if partition in missing else error
                results[entry.topic, entry.topic_id, partition] = result
        return Outcome(answers=[(ticket, results)])

    # -- ending ------------------------------------------------------------------------------------------------

    def end_transaction(
        self,
        ticket: Ticket[Identity],
        now_ms: int,
        *,
        transactional_id: str,
        claimed: Producer,
        commit: bool,
        client_version: int,
    ) -> Outcome[Identity]:
        """EndTxn by a client. The answer is due when the decision is durable, not when the markers are written.
        Answers an `Identity`; the one to use from now on under TV2, nothing under TV0."""
        before = self.ledger.find(transactional_id)
        if before is None:
            return _refused(ticket, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        verdict = end_verdict(before, claimed, commit=commit, client_version=client_version)
        if isinstance(verdict, ErrorCode):
            return _refused(ticket, verdict)
        if verdict is Verdict.ALREADY:
            same = Identity(ErrorCode.NONE)
            if client_version >= 2:
                same = Identity(ErrorCode.NONE, before.producer_id, before.producer_epoch)
            return Outcome(answers=[(ticket, same)])
        next_producer_id = self._next_producer_id(before, client_version)
        if next_producer_id is None:
            return _refused(ticket, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        after = decided(
            before, commit=commit, client_version=client_version, next_producer_id=next_producer_id, now_ms=now_ms
        )
        reason = f"{transactional_id}: EndTxn, {'commit' if commit else 'abort'}"
        steps = _with_completion(after, now_ms)
        return self._write(transactional_id, steps, [(ticket, _next_identity(after))], reason)

    def abort_by_operator(
        self, ticket: Ticket[ErrorCode], now_ms: int, *, transactional_id: str, claimed: Producer
    ) -> Outcome[ErrorCode]:
        """End an open transaction as a timeout would, if it is still that of `claimed`. Answers an `ErrorCode`."""
        before = self.ledger.find(transactional_id)
        if before is None or before.state is not TransactionState.ONGOING:
            return Outcome(answers=[(ticket, ErrorCode.INVALID_TXN_STATE)])
        error = _identity_error(before, claimed)
        if error is not ErrorCode.NONE:
            return Outcome(answers=[(ticket, error)])
        outcome, error = self._fence(transactional_id, before, now_ms, "aborted by an operator")
        outcome.answers.append((ticket, error))
        return outcome

    def complete(self, ticket: Ticket[ErrorCode], now_ms: int, *, completion: Completion) -> Outcome[ErrorCode]:
        """Every marker is durable: write COMPLETE. Nothing happens for a completion that is not current (I16)."""
        if self.completions.get(completion.transactional_id) is not completion:
            return Outcome(answers=[(ticket, ErrorCode.NONE)])
        after = completed(completion.transaction, now_ms)
        reason = f"{completion.transactional_id}: all markers are written"
        return self._write(completion.transactional_id, [after], [(ticket, ErrorCode.NONE)], reason)

    def marker_of(self, completion: Completion) -> Marker:
        """The marker that the partitions of a completion get."""
        transaction = completion.transaction
        return Marker(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            commit=transaction.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=self._coordinator_epoch(),
            transaction_version=transaction.client_version,
        )

    def _fence(
        self, transactional_id: str, before: Transaction, now_ms: int, reason: str
    ) -> tuple[AnyOutcome, ErrorCode]:
        version = self._settings.cluster_version
        next_producer_id = self._next_producer_id(before, version)
        if next_producer_id is None:
            return Outcome(), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        after = fenced(before, cluster_version=version, next_producer_id=next_producer_id, now_ms=now_ms)
        steps = _with_completion(after, now_ms)
        return self._write(transactional_id, steps, [], f"{transactional_id}: {reason}"), ErrorCode.NONE

    def _next_producer_id(self, before: Transaction, version: int) -> int | None:
        return self._producer_ids.take() if needs_new_producer_id(before, version) else NO_PRODUCER_ID

    # -- looking -----------------------------------------------------------------------------------------------

    def describe(self, ticket: Ticket[Description], now_ms: int, *, transactional_id: str) -> Outcome[Description]:
        """One id for DescribeTransactions. Answers a `Description`."""
        transaction = self.ledger.find(transactional_id)
        if transaction is None:
            return Outcome(answers=[(ticket, Description(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))])
        completion = self.completions.get(transactional_id)
        partitions = transaction.partitions if completion is None else united((), by_topic(completion.remaining))
        return Outcome(answers=[(ticket, Description(ErrorCode.NONE, transaction, partitions))])

    def list_transactions(
        self, ticket: Ticket[list[tuple[str, Transaction]]], now_ms: int, *, wanted: Callable[[str, Transaction], bool]
    ) -> Outcome[list[tuple[str, Transaction]]]:
        """All ids that `wanted` lets through, sorted. Answers a list of (id, `Transaction`)."""
        found = [(name, self.transactions[name]) for name in sorted(self.transactions)]
        return Outcome(answers=[(ticket, [pair for pair in found if wanted(*pair)])])

    # -- replay ------------------------------------------------------------------------------------------------

    def replay(self, entry: ReplayedRecord | ReplayedMarker) -> None:
        """See `TransactionLedger.replay`."""
        self.ledger.replay(entry)

    def knows(self, key: bytes) -> bool:
        """Transactional ids."""
        return read_version(key) == 0

    def loaded(self, now_ms: int) -> None:
        """Everything was replayed."""
        self.ledger.loaded(now_ms)
        self._scan.next_ms = now_ms + self._settings.expiry_scan_ms

    # -- deadlines ---------------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """The next transaction that times out, or the next look for unused ids."""
        timeout_ms = self.ledger.timeouts.next_ms()
        return self._scan.next_ms if timeout_ms is None else min(timeout_ms, self._scan.next_ms)

    def expire(self, now_ms: int) -> AnyOutcome:
        """Abort what timed out, else look for expired ids; a bounded step of either."""
        aborts = self.abort_timed_out(now_ms)
        if aborts is not None:
            return aborts
        return self.expire_ids(now_ms) if self._scan.next_ms <= now_ms else Outcome()

    def abort_timed_out(self, now_ms: int) -> AnyOutcome | None:
        """Fence and abort transactions that are open for too long, counted from their first partition.

        As many as fit into one batch: one above `max.message.bytes` would be refused, and so would its repetition. A
        transaction whose record fits into none (the limit was lowered) waits for that to change, and holds up no other.
        """
        max_batch_bytes = self._settings.max_batch_bytes
        room = BatchRoom(min(STEP_BYTES, max_batch_bytes))
        aborted: list[str] = []
        retries: list[tuple[str, int]] = []
        for transactional_id in self.ledger.timeouts.due(now_ms):
            outcome, error = self._fence(transactional_id, self.transactions[transactional_id], now_ms, "timed out")
            # Replay clears the deadline; where the append is refused, this one is left.
            delay_ms = self._settings.abort_retry_ms if error is ErrorCode.NONE else DRY_RETRY_MS
            if all(fits_alone(record, max_batch_bytes) for record in outcome.records):
                if not room.add(*outcome.records):
                    # The next step begins with it.
                    retries.append((transactional_id, now_ms))
                    break
                aborted.append(transactional_id)
            retries.append((transactional_id, now_ms + delay_ms))
            if len(retries) == TIMEOUTS_PER_STEP or room.is_full:
                break
        for transactional_id, at_ms in retries:
            self.ledger.timeouts.set(transactional_id, at_ms)
        return Outcome(records=room.records, reason=f"timed out: {', '.join(aborted)}") if retries else None

    def expire_ids(self, now_ms: int) -> AnyOutcome:
        """One step of the scan for unused ids."""
        return self._scan.step(
            self.ledger,
            now_ms,
            expiration_ms=self._settings.expiration_ms,
            interval_ms=self._settings.expiry_scan_ms,
            max_batch_bytes=self._settings.max_batch_bytes,
        )

    def _write(
        self, transactional_id: str, steps: list[Transaction], answers: list[tuple[Ticket[A], A]], reason: str
    ) -> Outcome[A]:
        version = self._settings.cluster_version
        return self.ledger.write(transactional_id, steps, answers, cluster_version=version, reason=reason)


def _identity_error(transaction: Transaction, claimed: Producer) -> ErrorCode:
    if claimed.producer_id != transaction.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if claimed.producer_epoch != transaction.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def _next_identity(after: Transaction) -> Identity:
    if after.client_version < 2:
        return Identity(ErrorCode.NONE)
    if after.next_producer_id != NO_PRODUCER_ID:
        return Identity(ErrorCode.NONE, after.next_producer_id, 0)
    return Identity(ErrorCode.NONE, after.producer_id, after.producer_epoch)


def _with_completion(prepared: Transaction, now_ms: int) -> list[Transaction]:
    """Where no partition waits for a marker, PREPARE and COMPLETE are one batch: there is nothing to do in between."""
    return [prepared] if prepared.partitions else [prepared, completed(prepared, now_ms)]


def _refused(ticket: Ticket[Identity], error: ErrorCode) -> Outcome[Identity]:
    return Outcome(answers=[(ticket, Identity(error))])
