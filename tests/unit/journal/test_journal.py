"""The journal by itself: what it merges, what it forgets, and that it never holds more than it may."""

import gc
import json
import tracemalloc
from dataclasses import dataclass
from typing import Any

from broker.journal.events import MOST_PLACES
from broker.journal.fences import MOST_OF_EACH
from broker.journal.groups import GroupHabits
from broker.journal.journal import MOST_EVENTS, Journal
from broker.journal.peers import LONGEST_NAME, MOST_CLIENTS, Peer
from broker.journal.reading import fences, holder, timeline, written
from protocol.records.batch import BatchHeader


@dataclass
class Clock:
    now_ms: int = 1000

    def __call__(self) -> int:
        self.now_ms += 1
        return self.now_ms


def journal(budget_bytes: int = 1 << 20) -> Journal:
    return Journal(Clock(), budget_bytes)


def peer(of: Journal, name: str = "copier", port: int = 1, software: str = "librdkafka") -> Peer:
    return of.clients.met(
        client_id=name,
        host="10.0.0.1",
        port=port,
        software_name=software,
        software_version="2.5",
        principal="User:ANONYMOUS",
        listener="PLAINTEXT",
        connection_id=port,
    )


def change(
    of: Journal, name: str, state: str, producer_id: int = 1, epoch: int = 0, because: str = "partitions"
) -> None:
    of.changed(
        name,
        of.now_ms(),
        state=state,
        producer_id=producer_id,
        epoch=epoch,
        partitions=1,
        timeout_ms=60_000,
        because=because,
        is_open=state in ("Ongoing", "PrepareCommit", "PrepareAbort"),
    )


def write(of: Journal, name: str, by: Peer, partition: int = 0, offset: int = 0, error: str = "NONE") -> None:
    header = BatchHeader(0, 500, 0, 2, 0, 16, 9, 0, 0, 1, 0, 0, 10)
    of.wrote(name, by, 12, ("t", partition), offset, header, error, of.now_ms())


def kinds(said: dict[str, Any]) -> list[str]:
    return [event["is"] for event in said["events"]]


def test_batches_of_one_partition_are_one_event_until_something_else_happens() -> None:
    notes = journal()
    by = peer(notes)
    for number in range(6):
        write(notes, "tx", by, number % 2, 10 * number)
    change(notes, "tx", "PrepareCommit")
    write(notes, "tx", by, 0, 60)
    said = timeline(notes, "tx")
    assert kinds(said) == ["records", "records", "state", "records"]
    first, second, _, last = said["events"]
    assert [(one["batches"], one["records"], one["bytes"]) for one in (first, second, last)] == [
        (3, 30, 1500),
        (3, 30, 1500),
        (1, 10, 500),
    ]
    assert (first["baseOffset"], first["lastOffset"], second["baseOffset"]) == (0, 49, 10)
    assert first["until"] > first["at"]


def test_what_another_connection_or_a_refusal_writes_is_an_event_of_its_own() -> None:
    notes = journal()
    mine, other = peer(notes), peer(notes, port=2)
    write(notes, "tx", mine)
    write(notes, "tx", other)
    write(notes, "tx", other, error="INVALID_PRODUCER_EPOCH")
    said = timeline(notes, "tx")
    assert [(one["client"], one["error"]) for one in said["events"]] == [
        (0, "NONE"),
        (1, "NONE"),
        (1, "INVALID_PRODUCER_EPOCH"),
    ]
    assert [one["port"] for one in said["clients"]] == [1, 2]
    assert [(one["client"], one["claimed"]) for one in fences(notes, "tx")["refused"]] == [(0, [1, 0])]


def test_very_many_partitions_of_a_transaction_are_counted_together() -> None:
    notes = journal(8 << 20)
    by = peer(notes)
    for index in range(MOST_PLACES + 1000):
        write(notes, "tx", by, index)
    events = timeline(notes, "tx")["events"]
    assert len(events) == MOST_PLACES + 1
    assert (events[-1]["topic"], events[-1]["batches"]) == (None, 1000)
    change(notes, "tx", "PrepareCommit")
    for index in range(MOST_PLACES + 1000):
        notes.marked(1, 0, ("t", index, 5), commit=True, by_operator=False, error="NONE", now_ms=1)
    last = timeline(notes, "tx")["events"][-1]
    assert (last["is"], last["count"], len(last["places"])) == ("markers", MOST_PLACES + 1000, MOST_PLACES)


def test_a_partition_more_is_no_event_more() -> None:
    notes = journal()
    by = peer(notes)
    for index in range(5):
        assert notes.goes_on("tx", 1, 0, index + 1) or not index
        if not index:
            change(notes, "tx", "Ongoing")
        write(notes, "tx", by, index)
    assert kinds(timeline(notes, "tx")) == ["state", *["records"] * 5]
    assert timeline(notes, "tx")["events"][0]["partitions"] == 5
    assert not notes.goes_on("tx", 1, 1, 9) and not notes.goes_on("tx", 2, 0, 9) and not notes.goes_on("ty", 1, 0, 9)
    assert written(notes, "tx") == {"batches": 5, "records": 50, "bytes": 2500}
    change(notes, "tx", "CompleteAbort")
    assert written(notes, "tx") == {"batches": 0, "records": 0, "bytes": 0}
    assert holder(notes, "tx") == by.as_json


def test_a_busy_id_pushes_out_nobody_else() -> None:
    notes = journal()
    by = peer(notes)
    notes.asked("quiet", by, "InitProducerId", 4, {})
    for _ in range(10 * MOST_EVENTS):
        notes.asked("busy", by, "EndTxn", 5, {})
    said = timeline(notes, "busy")
    assert (len(said["events"]), said["dropped"]) == (MOST_EVENTS, 9 * MOST_EVENTS)
    assert said["events"][-1]["number"] == 10 * MOST_EVENTS + 1
    assert timeline(notes, "quiet")["known"]


def test_a_million_ids_weigh_no_more_than_the_budget() -> None:
    """In a small form; who was quiet for longest goes, and its producer id is nobody's any more."""
    notes = journal(100_000)
    by = peer(notes)
    for number in range(3000):
        change(notes, f"id{number}", "Empty", producer_id=number, because="a new id")
        notes.asked(f"id{number}", by, "AddPartitionsToTxn", 3, {"places": [["t", 0]] * 8}, places=8)
        assert notes.weight <= notes.budget_bytes
    assert 10 < len(notes) < 60
    assert notes.id_of(2999) == "id2999" and notes.id_of(0) is None
    assert not timeline(notes, "id0")["known"] and timeline(notes, "id2999")["known"]
    for number in range(3000):
        notes.forgotten(f"id{number}")
    assert (len(notes), notes.weight) == (0, 0)


def test_one_id_may_take_all_there_is_and_no_more_than_its_ring() -> None:
    notes = journal(1000)
    by = peer(notes)
    for _ in range(5 * MOST_EVENTS):
        notes.asked("x" * 30_000, by, "EndTxn", 5, {})
    assert len(notes) == 1
    weight = notes.weight
    notes.asked("x" * 30_000, by, "EndTxn", 5, {})
    assert notes.weight == weight
    notes.asked("y", by, "EndTxn", 5, {})
    assert notes.find("x" * 30_000) is None and len(notes) == 1


def test_the_weight_is_no_less_than_what_is_held() -> None:
    """Of clients that do their worst: long names in wide letters, a new one each time, and partitions in plenty."""
    budget_bytes = 4 << 20
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    notes = journal(budget_bytes)
    for number in range(6000):
        by = peer(notes, f"{number}" + "\U0001f600" * 10_000, number)
        name = f"{number % 500}" + "\U0001f600" * 100
        places = [[f"topic{index}-{number}".ljust(249, "t"), number] for index in range(number % MOST_PLACES)]
        says = {"places": places, "group": str(number) + "\U0001f600" * 250}
        asked = notes.asked(name, by, "TxnOffsetCommit", 3, says, places=len(places))
        notes.answered(name, asked, "PRODUCER_FENCED", {"producerId": number, "epoch": 1}, (number, 0))
        write(notes, name, by, number)
        change(notes, name, "Empty", producer_id=number, because="InitProducerId, the next epoch")
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    of_clients = 2000 * (2 * 4 * LONGEST_NAME + 1000)
    assert budget_bytes * 0.9 < notes.weight <= budget_bytes
    assert held < budget_bytes + of_clients, f"{held} bytes"


def test_many_ids_of_which_little_is_known_weigh_what_they_take() -> None:
    budget_bytes = 4 << 20
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    notes = journal(budget_bytes)
    by = peer(notes)
    for number in range(4000):
        asked = notes.asked(f"id-{number}", by, "InitProducerId", 5, {"timeoutMs": number, "producerId": -1})
        change(notes, f"id-{number}", "Empty", producer_id=number + 1000)
        notes.answered(f"id-{number}", asked, "NONE", {"producerId": number, "epoch": 0}, (-1, -1))
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert held < budget_bytes, f"{held} bytes"


def test_long_ids_in_wide_letters_weigh_what_they_take() -> None:
    budget_bytes = 4 << 20
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    notes = journal(budget_bytes)
    by = peer(notes)
    for number in range(300):
        notes.asked(f"{number}" + "\U0001f600" * 8000, by, "InitProducerId", 5, {})
        change(notes, f"{number}" + "\U0001f600" * 8000, "Empty", producer_id=number)
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert budget_bytes * 0.9 < notes.weight <= budget_bytes
    in_hand = 3 * 4 * 8000
    assert held < budget_bytes + in_hand, f"{held} bytes"


def test_clients_and_their_names_are_bounded() -> None:
    notes = journal()
    for number in range(MOST_CLIENTS + 500):
        peer(notes, f"{number}-" + "n" * 40_000)
    assert len(notes.clients) == MOST_CLIENTS
    assert max(len(one.client_id) for one, _ in notes.clients.all()) == LONGEST_NAME
    for number in range(5000):
        notes.groups.put(GroupHabits(), f"g{number}" + "n" * 40_000)
    assert len(notes.groups) == 2000
    assert all(len(key[0]) <= LONGEST_NAME for key, _ in notes.groups.items())


def test_connections_of_one_client_have_the_same_habits() -> None:
    notes = journal()
    first, again, other = peer(notes), peer(notes, port=2), peer(notes, software="other")
    assert first.habits is again.habits and first.habits is not other.habits
    assert [one.port for one, _ in notes.clients.all()] == [2, 1]


def test_who_raised_an_epoch_outlives_the_timeline() -> None:
    notes = journal()
    old, new = peer(notes), peer(notes, "usurper", 2)
    change(notes, "tx", "Empty", because="a new id")
    request = notes.asked("tx", new, "InitProducerId", 4, {})
    notes.current = request
    change(notes, "tx", "Empty", epoch=1, because="InitProducerId, the next epoch")
    notes.current = None
    for number in range(3 * MOST_EVENTS):
        change(notes, "tx", "CompleteCommit", epoch=2 + number, because="EndTxn, commit")
    late = notes.asked("tx", old, "EndTxn", 4, {})
    for _ in range(3):
        notes.answered("tx", late, "PRODUCER_FENCED", {}, (1, 0))
    said = json.loads(json.dumps(fences(notes, "tx")))
    birth, taken, own = said["raised"]
    assert birth["from"] is None
    assert (taken["from"], taken["to"], taken["api"]) == ([1, 0], [1, 1], "InitProducerId")
    assert said["clients"][taken["client"]]["clientId"] == "usurper"
    assert (own["own"], own["times"], own["to"]) == (True, 3 * MOST_EVENTS, [1, 1 + 3 * MOST_EVENTS])
    (refused,) = said["refused"]
    assert (refused["error"], refused["times"], said["clients"][refused["client"]]["clientId"]) == (
        "PRODUCER_FENCED",
        3,
        "copier",
    )


def test_fences_are_bounded_too() -> None:
    notes = journal()
    for epoch in range(1000):
        change(notes, "tx", "Empty", epoch=epoch, because="InitProducerId, the next epoch")
        late = notes.asked("tx", peer(notes, port=epoch), "EndTxn", 4, {})
        notes.answered("tx", late, "PRODUCER_FENCED", {}, (1, epoch - 1))
    said = fences(notes, "tx")
    assert (len(said["raised"]), len(said["refused"])) == (MOST_OF_EACH, MOST_OF_EACH)
    assert said["raised"][-1]["to"] == [1, 999]
    weight = notes.weight
    notes.forgotten("tx")
    assert weight > 0 and notes.weight == 0


def test_the_transaction_that_was_under_way_at_a_time() -> None:
    notes = journal()
    by = peer(notes)
    begins = []
    for number in range(3):
        begins.append(notes.now_ms())
        write(notes, "tx", by, 0, number)
        change(notes, "tx", "Ongoing", epoch=number)
        change(notes, "tx", "PrepareCommit", epoch=number)
        notes.marked(1, number, ("t", 0, 5), commit=True, by_operator=False, error="NONE", now_ms=notes.now_ms())
        change(notes, "tx", "CompleteCommit", epoch=number)
    found = timeline(notes, "tx", at_ms=begins[1] + 2)
    assert kinds(found) == ["records", "state", "state", "markers", "state"]
    assert found["events"][1]["epoch"] == 1
    assert timeline(notes, "tx", at_ms=begins[0] - 1)["events"] == []
    assert timeline(notes, "tx", at_ms=begins[2] + 10_000)["events"][0]["baseOffset"] == 2
