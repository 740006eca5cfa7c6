"""What a reader is given, and what the broker holds for it (broker/api/handlers/fetch.py, broker/network)."""

from tests.mutants.mutant import Change, Mutant

FETCH = "broker.api.handlers.fetch"
PARTITIONS = "broker.api.fetched_partitions"
FETCHES = "unit/broker/test_fetch.py"

MUTANTS = (
    Mutant(
        "each partition of a fetch has all the room",
        "KIP-74: an answer goes beyond max_bytes",
        (Change(f"{FETCH}:_Attempt.look_at", "room - reading.size_bytes", "room"),),
        (f"{FETCHES}",),
    ),
    Mutant(
        "an empty partition in front uses up the batch that every answer has",
        "KIP-74: a reader with a small limit starves",
        (Change(f"{FETCH}:_Attempt._read_one", "first = not reading.size_bytes", "first = not reading.responses"),),
        (f"{FETCHES}::test_an_empty_partition_in_front_starves_nobody",),
    ),
    Mutant(
        "a reader at the end of its epoch diverges",
        "KIP-320: whoever has read all there is is told to step back",
        (
            Change(
                f"{PARTITIONS}:diverging_from",
                "epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset",
                "epoch == wanted.last_fetched_epoch and end_offset > wanted.fetch_offset",
            ),
        ),
        (f"{FETCHES}::test_a_reader_at_its_epochs_end_is_not_diverging",),
    ),
    Mutant(
        "the budget for answers leaks",
        "what was meant for a client that is gone makes the answers of all others small, for good",
        (Change("broker.network.answer_sender:AnswerSender.drop", "self._budget.leave(self._owner)", "pass"),),
        ("unit/broker/test_connection.py::test_a_slow_reader_that_disconnects_releases_its_budget",),
        unseen="a client does not read what it is sent, and goes away",
    ),
)
