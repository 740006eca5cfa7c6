"""What may be asked of the journal, for whatever carries the answers: the control channel, the HTTP side.

`broker.journal.reading` and `broker.journal.advice` say the shapes of `timeline`, `fences` and `lint`; a timeline also
has `transactionVersion`, the level of that feature in this cluster. Of
`open_transactions`:

    {"now": …, "began": …, "more": 0,    so many others are open beside the oldest `MOST_OPEN`
     "transactions": [{"transactionalId": "tx", "state": "Ongoing", "producerId": 1, "epoch": 0, "startedAt": …,
                       "timeoutMs": 60000, "leftMs": 1200, "partitions": 2,
                       "client": {…},                                    null where the journal does not know
                       "written": {"batches": 2, "records": 5, "bytes": 512}}]}

The state is the coordinator's, so it is known without the journal; whose it is, is not.
"""

from collections.abc import Iterator
from typing import Any, Protocol

from broker.api.services import WithCluster, WithEnvironment, WithTransactions
from broker.journal import reading
from broker.journal.advice import Facts, advice
from broker.journal.journal import Journal
from coordinator.cluster.features import TRANSACTION_VERSION
from coordinator.transactions.states import NEVER_TIMES_OUT, Transaction

MOST_OPEN = 1000


class JournalOff(Exception):
    """There is none; in a sentence."""

    def __init__(self) -> None:
        super().__init__("the journal of this broker is switched off (tallystick.journal.bytes=0)")


class JournalServices(WithTransactions, WithEnvironment, WithCluster, Protocol):
    """What these answers are made of."""

    @property
    def journal(self) -> Journal | None: ...


def _journal(services: JournalServices) -> Journal:
    if services.journal is None:
        raise JournalOff
    return services.journal


def timeline(services: JournalServices, transactional_id: str, *, at_ms: int | None = None) -> dict[str, Any]:
    """Raises `JournalOff`, as all of these do."""
    said = reading.timeline(_journal(services), transactional_id, at_ms=at_ms)
    return {**said, "transactionVersion": _level(services)}


def _level(services: JournalServices) -> int:
    return services.cluster.finalized_features.get(TRANSACTION_VERSION, 0)


def fences(services: JournalServices, transactional_id: str) -> dict[str, Any]:
    return reading.fences(_journal(services), transactional_id)


async def lint(services: JournalServices) -> dict[str, Any]:
    facts = Facts(transaction_version=_level(services))
    return await advice(_journal(services), facts, services.environment.time_slice())


async def open_transactions(services: JournalServices) -> dict[str, Any]:
    """What is open or on its way to its end, oldest first."""
    journal, time_slice = _journal(services), services.environment.time_slice()
    found: list[tuple[int, str, Transaction]] = []
    for shard in services.transactions.all():
        for transactional_id in list(shard.machine.ledger.undecided()):
            transaction = shard.machine.transactions.get(transactional_id)
            if transaction is not None:
                found.append((transaction.start_ms, transactional_id, transaction))
            if time_slice.spent():
                await time_slice.wait_for_turn()
    found.sort(key=lambda one: one[:2])
    said = await time_slice.all(_said(journal, found[:MOST_OPEN]))
    more = max(0, len(found) - MOST_OPEN)
    return {"now": journal.now_ms(), "began": journal.began_ms, "more": more, "transactions": said}


def _said(journal: Journal, found: list[tuple[int, str, Transaction]]) -> Iterator[dict[str, Any]]:
    now_ms = journal.now_ms()
    for start_ms, transactional_id, transaction in found:
        forever = transaction.timeout_ms == NEVER_TIMES_OUT
        yield {
            "transactionalId": transactional_id,
            "state": transaction.state.wire_name,
            "producerId": transaction.producer_id,
            "epoch": transaction.producer_epoch,
            "startedAt": start_ms,
            "timeoutMs": transaction.timeout_ms,
            "leftMs": None if forever else start_ms + transaction.timeout_ms - now_ms,
            "partitions": sum(len(topic.partitions) for topic in transaction.partitions),
            "client": reading.holder(journal, transactional_id),
            "written": reading.written(journal, transactional_id),
        }
