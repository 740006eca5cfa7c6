"""What clients do that costs them exactly-once, or speed; with who does it, and what to change.

`advice(journal, facts, time_slice)`, as JSON can say it:

    {"began": …, "now": …, "clients": 3,
     "findings": [{"rule": "auto-commit-beside-transactions", "costs": "exactly-once", "client": {…}, "group": "g",
                   "transactionalId": "tx", "count": 12, "says": "…", "change": "…"}]}

`costs` is `exactly-once`, `waiting` (of readers, and of who takes over) or `speed`. Each rule says a client, a group or
a program once, however often it was seen.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeVar

from broker.journal.events import Json
from broker.journal.groups import DRAWN, GroupHabits, NameHabits
from broker.journal.journal import Journal
from broker.journal.peers import Habits, Peer

FEW_BATCHES = 100
"""Fewer say nothing about how a client makes them."""
TINY_RECORDS, TINY_BYTES = 2, 1024
MANY_NEW_IDS = 10
MOST_FINDINGS = 500

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Facts:
    """What the broker knows beside the journal."""

    transaction_version: int
    """The finalised level of `transaction.version`."""


class Turns(Protocol):
    """How others have their turn meanwhile."""

    async def all(self, elements: Iterable[T]) -> list[T]: ...


async def advice(journal: Journal, facts: Facts, turns: Turns) -> Json:
    """See the head of this file."""
    found = await turns.all(islice(_findings(journal, facts), MOST_FINDINGS))
    return {
        "began": journal.began_ms,
        "now": journal.now_ms(),
        "clients": len(journal.clients),
        "findings": found,
    }


def _findings(journal: Journal, facts: Facts) -> Iterator[Json]:
    for key, group in journal.groups.items():
        yield from _of_group(journal, key[0], group)
    for _, names in journal.names.items():
        yield from _of_names(names)
    for peer, habits in journal.clients.all():
        yield from _of_client(peer, habits, facts)


def _finding(
    rule: str, says: str, change: str, *, peer: Peer | None, count: int, costs: str = "exactly-once", **more: object
) -> Json:
    client = None if peer is None else peer.as_json
    return {"rule": rule, "costs": costs, "client": client, "count": count, "says": says, "change": change, **more}


def _of_group(journal: Journal, name: str, group: GroupHabits) -> Iterator[Json]:
    if not group.in_transactions:
        return
    of = {"group": name, "transactionalId": group.transactional_id}
    if group.plain_commits:
        yield _finding(
            "auto-commit-beside-transactions",
            f"group {name} sends its offsets in transactions, and a member commits them beside ({group.plain_commits} "
            "OffsetCommits): what is committed so is not undone with an aborted transaction, and its records are lost.",
            "set enable.auto.commit=false on the consumer, and do not call commit on it.",
            peer=group.commits_by,
            count=group.plain_commits,
            **of,
        )
    if group.without_member:
        yield _finding(
            "offsets-without-generation",
            f"group {name}: {group.without_member} TxnOffsetCommits name no generation and no member: a consumer that "
            "lost its partitions still commits for them.",
            "hand the consumer's group metadata to sendOffsetsToTransaction (KIP-447), and update the client if it "
            "knows none.",
            peer=group.by,
            count=group.without_member,
            **of,
        )
    of_id = journal.find(group.transactional_id)
    timeout_ms = None if of_id is None else of_id.timeout_ms
    if group.session_timeout_ms and timeout_ms is not None and timeout_ms > group.session_timeout_ms:
        yield _finding(
            "transaction-outlives-session",
            f"transactional id {group.transactional_id} may keep a transaction open for {timeout_ms} ms, and a member "
            f"of group {name} is given up after {group.session_timeout_ms} ms: whoever takes over its partitions may "
            "have to wait for the transaction of the one that is gone.",
            f"set transaction.timeout.ms to {group.session_timeout_ms} (the session.timeout.ms of the group) or less.",
            peer=group.by,
            count=1,
            costs="waiting",
            **of,
        )


def _of_names(names: NameHabits) -> Iterator[Json]:
    drawn = {found[0] for name in names.examples if (found := DRAWN.search(name))}
    # One drawn part in all of them is that of a process or a container, whose producers are numbered.
    if names.new < MANY_NEW_IDS or names.again * 2 > names.new or 2 * len(drawn) < len(names.examples):
        return
    yield _finding(
        "random-transactional-ids",
        f"{names.new} transactional ids were used for the first time, {names.again} once more; they look drawn, such "
        f"as {names.examples[0]}: an instance that comes back under another id does not fence the one before, whose "
        "open transaction holds up readers until its timeout.",
        "choose transactional.id from what stays: the name of the program and the number of the instance.",
        peer=names.peer,
        count=names.new,
        examples=list(names.examples),
    )


def _of_client(peer: Peer, habits: Habits, facts: Facts) -> Iterator[Json]:
    if habits.classic_ends and habits.classic_ends >= habits.modern_ends:
        yield _finding(
            "classic-transactions",
            f"{habits.classic_ends} transactions were ended by the protocol from before KIP-890: a late EndTxn cannot "
            "be told from one of the next transaction (KAFKA-17754).",
            "use a client that speaks EndTxn 5 and Produce 12 (Java 4.0)."
            if facts.transaction_version >= 2
            else "raise transaction.version of this cluster to 2, and use a client that speaks EndTxn 5 (Java 4.0).",
            peer=peer,
            count=habits.classic_ends,
        )
    if habits.plain_batches:
        yield _finding(
            "not-idempotent",
            f"{habits.plain_batches} of {habits.batches} batches carry no producer id: one that is sent again after a "
            "lost answer is there twice.",
            "set enable.idempotence=true (acks=all goes with it).",
            peer=peer,
            count=habits.plain_batches,
        )
    if habits.batches >= FEW_BATCHES:
        records, size = habits.records / habits.batches, habits.bytes / habits.batches
        if records < TINY_RECORDS and size < TINY_BYTES:
            yield _finding(
                "tiny-batches",
                f"{habits.batches} batches of {records:.1f} records and {size:.0f} bytes each: a request and its "
                "checks for next to nothing.",
                "raise linger.ms (5 and more), and do not wait for each record by itself (flush, get).",
                peer=peer,
                count=habits.batches,
                costs="speed",
            )
