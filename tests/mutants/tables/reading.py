"""What a reader is given, and what the broker holds for it (broker/api/fetching/fetch_attempt.py, broker/network)."""

from tests.mutants.mutant import Change, Mutant

FETCH = "broker.api.fetching.fetch_attempt"
PARTITIONS = "broker.api.fetching.fetched_partitions"
FETCHES = "unit/broker/test_fetch.py"
SESSION = "broker.api.fetching.fetch_session:Session"
DUE = "unit/broker/test_due_partitions.py"

MUTANTS = (
    Mutant(
        "each partition of a fetch has all the room",
        "KIP-74: an answer goes beyond max_bytes",
        (Change(f"{FETCH}:FetchAttempt.look_at", "room - reading.size_bytes", "room"),),
        (f"{FETCHES}",),
    ),
    Mutant(
        "an empty partition in front uses up the batch that every answer has",
        "KIP-74: a reader with a small limit starves",
        (Change(f"{FETCH}:FetchAttempt._read_one", "first = not reading.size_bytes", "first = not reading.responses"),),
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
    Mutant(
        "what moves is not due",
        "KIP-227: a partition that has rested once is never read again",
        (Change(f"{SESSION}.moved", "self._due[wanted] = None", "pass"),),
        (f"{DUE}::test_what_has_nothing_new_is_not_looked_at",),
    ),
    Mutant(
        "who waits is not told that something moved",
        "KIP-227: records are there, and are handed out when the wait is over",
        (Change(f"{SESSION}.moved", "watcher()", "pass"),),
        (f"{DUE}::test_a_fetch_that_waits_sees_what_moves",),
        unseen="a fetch waits for half a second at most, and is answered then",
    ),
    Mutant(
        "a session that is read with another level keeps what is due",
        "KIP-227: what a reader of committed records may not see yet is not handed to one that may",
        (
            Change(
                f"{SESSION}.reads",
                "self._isolation_level, self._due = isolation_level, None",
                "self._isolation_level = isolation_level",
            ),
        ),
        (f"{DUE}::test_readers_of_committed_records_are_told_when_a_transaction_ends",),
        unseen="clients keep their level for as long as they have a session",
    ),
    Mutant(
        "a session does not look anew when ACLs come or go",
        "KIP-11: who may no longer read a topic is told, though nothing is written to it",
        (Change(f"{SESSION}.has_rights", "self._rights, self._due = rights, None", "self._rights = rights"),),
        ("unit/security/test_sessions_and_rights.py::test_a_right_that_is_gone_is_missed_though_nothing_moves",),
        unseen="the simulation has no authorizer",
    ),
    Mutant(
        "what is forgotten is followed",
        "each consumer that comes and goes leaves its watchers with the partitions",
        (Change("broker.api.fetching.fetch_session:Wanted.let_go", "self.followed.unwatch(self)", "pass"),),
        (f"{DUE}::test_nothing_watches_for_a_session_that_is_over",),
    ),
)
