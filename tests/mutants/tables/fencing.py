"""Epochs, and the tables of EndTxn and InitProducerId (coordinator/transactions/fencing.py)."""

from tests.mutants.mutant import Change, Mutant

FENCING = "coordinator.transactions.fencing"
TABLES = "unit/transactions/test_tables.py"
AGES = "unit/transactions/test_transaction_ages.py"

MUTANTS = (
    Mutant(
        "EndTxn accepts a higher epoch",
        "KAFKA-9600",
        (
            Change(
                f"{FENCING}:end_verdict",
                "if claimed.producer_epoch != transaction.producer_epoch:",
                "if claimed.producer_epoch < transaction.producer_epoch:",
            ),
        ),
        (f"{TABLES}::test_end_of_the_classic_protocol_by_somebody_else",),
    ),
    Mutant(
        "a zombie may end the transaction of its successor",
        "I11: the epoch of EndTxn is not compared",
        (Change(f"{FENCING}:end_verdict", "if claimed.producer_epoch != transaction.producer_epoch:", "if False:"),),
        (f"{TABLES}::test_end_of_the_classic_protocol_by_somebody_else",),
    ),
    Mutant(
        "a retried EndTxn bumps twice",
        "I06, KIP-890: the retry of an abort is taken for an abort of nothing",
        (
            Change(
                f"{FENCING}:_end_verdict_tv2",
                "current = claimed.producer_epoch == transaction.producer_epoch",
                "current, retried = retried or claimed.producer_epoch == transaction.producer_epoch, False",
            ),
        ),
        (f"{TABLES}::test_end_with_an_epoch_per_transaction",),
    ),
    Mutant(
        "a retried EndTxn is refused",
        "Redpanda #3501",
        (
            Change(
                f"{FENCING}:_end_verdict_tv2",
                "if not current and not retried:",
                "if not current:",
            ),
        ),
        (f"{TABLES}::test_end_with_an_epoch_per_transaction",),
    ),
    Mutant(
        "a retried EndTxn may change its mind",
        "I06: the opposite decision of a retry is answered as if it had been taken",
        (
            Change(
                f"{FENCING}:_end_verdict_tv2",
                "verdict = END_TV2[transaction.state][(2 if commit else 0) + (0 if retried else 1)]",
                "verdict = ALREADY if retried else END_TV2[transaction.state][2 * commit + 1]",
            ),
        ),
        (f"{TABLES}::test_end_with_an_epoch_per_transaction",),
    ),
    Mutant(
        "a zombie is told the identity of a classic successor",
        "Kafka itself, where protocols are mixed on one id (docs/decisions/0008)",
        (
            Change(
                f"{FENCING}:_end_verdict_tv2", "if verdict is ALREADY and transaction.client_version < 2:", "if False:"
            ),
        ),
        (
            "unit/transactions/test_levels_of_the_protocol.py::test_a_new_protocol_zombie_does_not_get_its_successors_identity",
        ),
    ),
    Mutant(
        "a retry across a rotation is fenced",
        "KAFKA-20310",
        (Change(f"{FENCING}:_end_verdict_tv2", "and transaction.producer_epoch == 0", "and False"),),
        (f"{TABLES}::test_end_with_an_epoch_per_transaction", f"{AGES}::test_the_walk_to_the_last_epoch_and_over_it"),
    ),
    Mutant(
        "ids and epochs are compared before the pending state",
        "KAFKA-18464, KAFKA-18660: who asks while markers are out is fenced by itself",
        (
            Change(
                f"{FENCING}:_end_verdict_tv2",
                "if transaction.state.preparing:",
                "if transaction.state.preparing and claimed.producer_epoch == transaction.producer_epoch:",
            ),
        ),
        (f"{TABLES}::test_end_with_an_epoch_per_transaction",),
    ),
    Mutant(
        "a decision does not bump the epoch",
        "KAFKA-17754: a late EndTxn ends the next transaction",
        (Change(f"{FENCING}:decided", "min(epoch + 1, LAST_EPOCH), epoch", "epoch, epoch"),),
        (f"{TABLES}::test_end_with_an_epoch_per_transaction",),
    ),
    Mutant(
        "timeout abort without epoch bump",
        "KAFKA-6119: the timed-out producer goes on in the next transaction",
        (
            Change(
                f"{FENCING}:fenced",
                "producer_epoch=min(transaction.producer_epoch + 1, LAST_EPOCH)",
                "producer_epoch=transaction.producer_epoch",
            ),
        ),
        (f"{AGES}::test_a_timed_out_classic_producer_is_fenced",),
    ),
    Mutant(
        "a fence bumps twice",
        "KAFKA-19367",
        (
            Change(
                f"{FENCING}:fenced",
                "    if cluster_version >= 2:\n        return after",
                "    if cluster_version >= 2:\n        return replace(after, producer_epoch=after.producer_epoch + 1)",
            ),
        ),
        (f"{AGES}::test_a_timed_out_producer_of_the_new_protocol_can_recover",),
    ),
    Mutant(
        "no rotation by a fence at the last epoch",
        "KAFKA-20090: the epoch is stuck at 32767",
        (
            Change(
                f"{FENCING}:needs_new_producer_id",
                "return client_version >= 2 and exhausted(transaction.producer_epoch)",
                "return False",
            ),
        ),
        (f"{AGES}::test_a_fence_at_the_last_epoch_rotates",),
    ),
    Mutant(
        "epoch 32767 is given to a client",
        "I09, KAFKA-19367",
        (Change(f"{FENCING}:exhausted", "epoch >= EXHAUSTED_EPOCH", "epoch > EXHAUSTED_EPOCH"),),
        (f"{TABLES}::test_init_producer_id", f"{AGES}::test_the_walk_to_the_last_epoch_and_over_it"),
    ),
    Mutant(
        "InitProducerId takes an old epoch",
        "KIP-360: a zombie fences its successor",
        (
            Change(
                f"{FENCING}:renewal",
                "    return ErrorCode.PRODUCER_FENCED",
                "    return Renewal.BUMP",
            ),
        ),
        (f"{TABLES}::test_init_producer_id",),
    ),
    Mutant(
        "InitProducerId does not bump",
        "I01: two instances with one identity",
        (Change(f"{FENCING}:renewed", "epoch += 1", "epoch += 0"),),
        (f"{TABLES}::test_init_producer_id",),
    ),
    Mutant(
        "a retried InitProducerId bumps again",
        "KAFKA-9666: retries use epochs up",
        (
            Change(
                f"{FENCING}:renewal",
                "Renewal.REPEAT if epoch < LAST_EPOCH else Renewal.ROTATE",
                "Renewal.BUMP",
            ),
        ),
        (f"{TABLES}::test_init_producer_id",),
    ),
    Mutant(
        "the rotated producer id never takes effect",
        "KAFKA-18660: the wrong producer id after the last epoch",
        (
            Change(
                f"{FENCING}:completed",
                "rotated = transaction.client_version >= 2 and transaction.next_producer_id != NO_PRODUCER_ID",
                "rotated = False",
            ),
        ),
        (f"{AGES}::test_the_walk_to_the_last_epoch_and_over_it",),
    ),
    Mutant(
        "a fence leaves the epoch before the last to be repeated",
        "KIP-360: two instances of a classic producer are given the epoch of the fence",
        (Change(f"{FENCING}:fenced", ", last_producer_epoch=NO_EPOCH", ""),),
        (f"{AGES}::test_no_retry_is_answered_with_the_epoch_of_a_fence",),
    ),
    Mutant(
        "every epoch of the producer id before the last is known",
        "KIP-360: after a rotation a zombie takes the first epoch of the new producer id",
        (Change(f"{FENCING}:is_known", " and exhausted(expected.producer_epoch)", ""),),
        (f"{AGES}::test_the_first_epoch_of_a_used_up_id_is_fenced",),
    ),
    Mutant(
        "a decision in the old layout forgets the next producer id",
        "a downgrade and a power cut: a repeated commit is answered INVALID_PRODUCER_ID_MAPPING",
        (
            Change(
                "coordinator.transactions.states:value_version",
                "if cluster_version >= 1 or modern else",
                "if cluster_version >= 1 else",
            ),
        ),
        (f"{AGES}::test_a_rotation_outlives_a_downgrade_and_a_restart",),
    ),
)
