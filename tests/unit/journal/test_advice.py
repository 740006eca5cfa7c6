"""What the journal says clients had better do otherwise."""

import asyncio
import time
from typing import Any

from broker.journal.advice import MOST_FINDINGS, Facts, advice
from broker.journal.groups import GroupHabits, NameHabits
from broker.journal.journal import Journal
from broker.process.time_slice import TimeSlice
from tests.unit.journal.test_journal import change, journal, peer


def rules(notes: Journal, level: int = 2) -> dict[str, dict[str, Any]]:
    said = asyncio.run(advice(notes, Facts(level), TimeSlice(time.monotonic)))
    return {one["rule"]: one for one in said["findings"]}


def test_good_clients_are_left_alone() -> None:
    notes = journal()
    habits = peer(notes).habits
    habits.batches, habits.records, habits.bytes, habits.modern_ends = 1000, 50_000, 9_000_000, 40
    notes.groups.put(GroupHabits(in_transactions=9, transactional_id="tx", session_timeout_ms=60_000), "g")
    notes.groups.put(GroupHabits(plain_commits=9), "another")
    change(notes, "tx", "Empty")
    assert rules(notes) == {}


def test_habits_that_cost_something_are_named_with_what_to_change() -> None:
    notes = journal()
    habits = peer(notes).habits
    habits.batches, habits.records, habits.bytes, habits.plain_batches, habits.classic_ends = 500, 500, 50_000, 7, 3
    change(notes, "tx", "Empty")
    bad = GroupHabits(4, peer(notes), 9, peer(notes), "tx", 2, 45_000)
    notes.groups.put(bad, "g")
    found = rules(notes)
    assert set(found) == {
        "auto-commit-beside-transactions",
        "offsets-without-generation",
        "transaction-outlives-session",
        "classic-transactions",
        "not-idempotent",
        "tiny-batches",
    }
    assert all(one["client"]["software"] == "librdkafka" and one["change"] for one in found.values())
    assert "60000 ms" in found["transaction-outlives-session"]["says"]
    assert "raise transaction.version" in rules(notes, 0)["classic-transactions"]["change"]
    assert "raise transaction.version" not in found["classic-transactions"]["change"]


def test_ids_that_are_drawn_each_time_are_named_and_numbered_ones_are_not() -> None:
    """A process of Kafka Streams draws a UUID once, and numbers its threads."""
    notes = journal()
    one = "0f8fad5b-d9cb-469f-a165-70867728950e"
    names = notes.names.put(NameHabits(peer(notes), new=10, examples=[f"app-{one}-{index}" for index in range(5)]), "p")
    assert rules(notes) == {}
    names.examples = [f"app-{index}{one[1:]}" for index in range(5)]
    assert set(rules(notes)) == {"random-transactional-ids"}


def test_others_have_their_turns_while_much_is_said() -> None:
    """Each glance at the clock takes a millisecond, so each finding is a slice."""
    notes, ms = journal(), iter(range(10**9))
    for number in range(MOST_FINDINGS + 100):
        peer(notes, f"client-{number}").habits.plain_batches = 1
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def said() -> dict[str, Any]:
        beside = asyncio.create_task(others())
        try:
            return await advice(notes, Facts(2), TimeSlice(lambda: next(ms) / 1000))
        finally:
            beside.cancel()

    told = asyncio.run(said())
    assert (len(told["findings"]), told["clients"]) == (MOST_FINDINGS, MOST_FINDINGS + 100)
    assert turns > MOST_FINDINGS // 2
