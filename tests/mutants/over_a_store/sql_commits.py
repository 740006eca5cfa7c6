"""Defects of SQL: what a commit compares, changes and answers, and how it is found out what became of it."""

from tests.mutants.mutant import Mutant
from tests.mutants.over_a_store.changed_sql import ChangedSql
from tests.mutants.over_a_store.lines import Line

COMMIT = "broker.shared.schema_commits:HEADS"
SETTLE = "broker.shared.schema:_COMMITS"
LOGS = "broker.shared.schema:_LOGS"
STORIES = "shared_store/test_conformance.py::"
OF_OBJECTS = "shared_store/test_conformance_of_objects.py::"
UNDER_WAY = "shared_store/test_commits_under_way.py::"
OF_OTHERS = f"{STORIES}test_logs_of_others_are_named_and_are_as_they_were[postgresql]"
FIRE = "shared_store/test_under_fire.py::test_connections_are_ended_at_any_moment[0]"
AT_RANDOM = "shared_store/test_random_operations.py::test_every_answer_is_that_of_the_model[0-postgresql]"
COMPARED = "log.owner = me AND log.owner_epoch = change.epoch AND log.next_offset = change.base"
OBJECT = "VALUES (new_object, made, others, CASE WHEN made = 0 THEN clock_timestamp() END, new_bytes)\n"


def _mutant(name: str, line: Line, place: str, old: str, new: str, *caught_by: str) -> tuple[Line, Mutant]:
    return line, Mutant(name, line.happens, caught_by=caught_by, plant=ChangedSql(place, old, new))


MUTANTS = (
    _mutant(
        "a commit does not compare the epoch",
        Line.TWO_OWNERS,
        COMMIT,
        COMPARED,
        COMPARED.replace("log.owner_epoch = change.epoch AND ", ""),
        OF_OTHERS,
        AT_RANDOM,
    ),
    _mutant(
        "a commit does not compare the owner",
        Line.TWO_OWNERS,
        COMMIT,
        COMPARED,
        COMPARED.replace("log.owner = me AND ", ""),
        f"{STORIES}test_a_new_life_of_a_node_owns_nothing_until_it_claims[postgresql]",
        AT_RANDOM,
    ),
    _mutant(
        "a commit does not compare where the log ends",
        Line.TWO_OWNERS,
        COMMIT,
        COMPARED,
        COMPARED.replace(" AND log.next_offset = change.base", ""),
        OF_OTHERS,
        AT_RANDOM,
    ),
    _mutant(
        "a commit goes on behind a gap",
        Line.TWO_OWNERS,
        COMMIT,
        COMPARED,
        COMPARED.replace("next_offset = change.base", "next_offset <= change.base"),
        OF_OTHERS,
    ),
    _mutant(
        "a claim under the epoch of another is good",
        Line.TWO_OWNERS,
        LOGS,
        "(new_epoch = held.owner_epoch AND held.owner = me)",
        "new_epoch = held.owner_epoch",
        f"{STORIES}test_epochs_only_grow_and_an_owner_may_claim_again[postgresql]",
        AT_RANDOM,
    ),
    _mutant(
        "a claim under an epoch that is over is good",
        Line.TWO_OWNERS,
        LOGS,
        "owned := new_epoch > held.owner_epoch OR",
        "owned := new_epoch <> held.owner_epoch OR",
        f"{STORIES}test_epochs_only_grow_and_an_owner_may_claim_again[postgresql]",
        AT_RANDOM,
    ),
    _mutant(
        "a claim does not lock the log",
        Line.TWO_OWNERS,
        LOGS,
        "WHERE topic_id = topic AND partition = index FOR UPDATE;",
        "WHERE topic_id = topic AND partition = index;",
        f"{UNDER_WAY}test_claims_at_once_have_an_epoch_each",
    ),
    _mutant(
        "runs of a log that refused are there",
        Line.TWO_OWNERS,
        COMMIT,
        "        AS added (log_id, base, last, position, size, stamp, heads)\n"
        "    JOIN unnest(taken) AS mine (log_id) ON mine.log_id = added.log_id;",
        "        AS added (log_id, base, last, position, size, stamp, heads);",
        f"{STORIES}test_each_commits_to_its_own_logs_while_others_live[postgresql]",
        AT_RANDOM,
        FIRE,
    ),
    _mutant(
        "a change that is refused forgets runs",
        Line.TWO_OWNERS,
        COMMIT,
        "            JOIN unnest(taken) AS mine (log_id) ON mine.log_id = change.log_id\n",
        "",
        f"{OF_OBJECTS}test_a_refused_change_forgets_nothing[postgresql]",
    ),
    _mutant(
        "a change that is refused takes runs to be replaced",
        Line.TWO_OWNERS,
        COMMIT,
        "            JOIN unnest(taken) AS mine (log_id) ON mine.log_id = cut.log_id\n",
        "",
        AT_RANDOM,
        f"{OF_OBJECTS}test_a_refused_change_replaces_nothing[postgresql]",
    ),
    _mutant(
        "nobody is told that a log refused",
        Line.TWO_OWNERS,
        COMMIT,
        "others := ARRAY(SELECT unnest(logs) EXCEPT SELECT unnest(taken));",
        "others := '{}';",
        OF_OTHERS,
        AT_RANDOM,
        FIRE,
    ),
    _mutant(
        "a commit is made again under its id",
        Line.IN_THE_COMMIT,
        COMMIT,
        OBJECT,
        f"{OBJECT}    ON CONFLICT (object_id) DO UPDATE SET live_runs = object.live_runs + excluded.live_runs,"
        " refused = excluded.refused, bytes = excluded.bytes\n",
        f"{OF_OBJECTS}test_an_object_is_made_once[postgresql]",
        AT_RANDOM,
    ),
    _mutant(
        "a commit that was given up is made later",
        Line.IN_THE_COMMIT,
        COMMIT,
        OBJECT,
        f"{OBJECT}    ON CONFLICT (object_id) DO UPDATE SET live_runs = excluded.live_runs,"
        " refused = coalesce(object.refused, excluded.refused), bytes = excluded.bytes\n",
        f"{OF_OBJECTS}test_a_commit_that_was_given_up_is_never_made[postgresql]",
    ),
    _mutant(
        "who settles does not wait for the commit",
        Line.IN_THE_COMMIT,
        SETTLE,
        "    INSERT INTO object (object_id, live_runs) VALUES (lost_object, 0)\n"
        "    ON CONFLICT (object_id) DO UPDATE SET live_runs = object.live_runs\n"
        "    RETURNING refused, written_at INTO others, at_lsn;\n",
        "    SELECT refused, written_at INTO others, at_lsn FROM object WHERE object_id = lost_object;\n",
        f"{UNDER_WAY}test_settle_waits_for_the_commit_and_says_what_it_said",
    ),
    _mutant(
        "what was made is settled as given up",
        Line.IN_THE_COMMIT,
        SETTLE,
        "DO UPDATE SET live_runs = object.live_runs\n",
        "DO NOTHING\n",
        f"{OF_OBJECTS}test_a_settled_commit_says_again_what_it_said[postgresql]",
        AT_RANDOM,
    ),
    _mutant(
        "what refused is forgotten when a commit is settled",
        Line.IN_THE_COMMIT,
        COMMIT,
        "VALUES (new_object, made, others, CASE",
        "VALUES (new_object, made, '{}', CASE",
        f"{OF_OBJECTS}test_a_settled_commit_says_again_what_it_said[postgresql]",
    ),
    _mutant(
        "a commit does not lock its logs",
        Line.AT_ONCE,
        COMMIT,
        "    PERFORM 1 FROM log WHERE log_id = ANY (logs) ORDER BY log_id FOR UPDATE;\n",
        "",
        f"{UNDER_WAY}test_rows_are_locked_in_the_order_of_their_ids[log-row_by_row]",
    ),
    _mutant(
        "logs are locked from the last to the first",
        Line.AT_ONCE,
        COMMIT,
        "ORDER BY log_id FOR UPDATE;",
        "ORDER BY log_id DESC FOR UPDATE;",
        f"{UNDER_WAY}test_rows_are_locked_in_the_order_of_their_ids[log-row_by_row]",
    ),
    _mutant(
        "objects are locked as they come",
        Line.AT_ONCE,
        LOGS,
        "    PERFORM 1 FROM object WHERE object_id = ANY (gone) ORDER BY object_id FOR UPDATE;\n",
        "    PERFORM 1 FROM object WHERE object_id = ANY (gone) ORDER BY object_id DESC FOR UPDATE;\n",
        f"{UNDER_WAY}test_rows_are_locked_in_the_order_of_their_ids[object-row_by_row]",
    ),
    _mutant(
        "objects are released twice in a commit",
        Line.AT_ONCE,
        COMMIT,
        "        SELECT array_agg(object_id) INTO replaced FROM removed;\n",
        "        SELECT array_agg(object_id) INTO gone FROM removed;\n"
        "        PERFORM release(gone);\n        gone := NULL;\n",
        "shared_store/test_nodes_at_once.py::test_commits_that_let_go_of_the_same_objects_wait_in_no_circle",
    ),
    _mutant(
        "a topic is forgotten without locking its logs",
        Line.AT_ONCE,
        LOGS,
        "WHERE topic_id = topic ORDER BY log_id FOR UPDATE);",
        "WHERE topic_id = topic ORDER BY log_id);",
        f"{UNDER_WAY}test_a_topic_that_is_deleted_waits_for_a_commit_under_way",
    ),
)
