"""Defects of SQL: what of an object and of a bucket may go, and when."""

from tests.mutants.mutant import Mutant
from tests.mutants.over_a_store.changed_sql import ChangedSql
from tests.mutants.over_a_store.lines import Line

OBJECTS = "broker.shared.schema_objects:OBJECTS"
COMMIT = "broker.shared.schema_commits:HEADS"
LOGS = "broker.shared.schema:_LOGS"
ENGINE = "broker.shared.objects_in_s3"
READING = "broker.shared.postgresql"
STORIES = "shared_store/test_conformance.py::"
OF_OBJECTS = "shared_store/test_conformance_of_objects.py::"
BUCKET = "shared_store/objects/test_faults_of_a_bucket.py::"
REMOVING = "shared_store/objects/test_removing_at_once.py::"
AT_RANDOM = "shared_store/test_random_operations.py::test_every_answer_is_that_of_the_model[0-postgresql]"
UPGRADED = "shared_store/test_postgresql_schema.py::"
DAMAGED = "shared_store/test_damage.py::test_what_is_changed_in_a_run_is_passed_over_by_nobody"
REMOVED = f"{OF_OBJECTS}test_objects_are_removed_when_no_log_has_held_a_run_for_long[postgresql]"
NEWEST = f"{OF_OBJECTS}test_the_newest_object_of_each_that_lives_stays_and_what_it_gave_up[postgresql]"
STAYS = f"{BUCKET}test_what_a_living_node_may_yet_name_stays[moto]"
NOT_FOR_LONG = f"{BUCKET}test_who_dies_between_bringing_and_committing_leaves_nothing_for_long[moto]"
SWEPT = "WHERE fenced AND NOT swept AND at <= clock_timestamp() - silent_ms * interval '1 millisecond'\n"


def _mutant(name: str, line: Line, place: str, old: str, new: str, *caught_by: str) -> tuple[Line, Mutant]:
    return line, Mutant(name, line.happens, caught_by=caught_by, plant=ChangedSql(place, old, new))


MUTANTS = (
    _mutant(
        "what a living node may yet name is swept",
        Line.ORPHAN,
        OBJECTS,
        SWEPT,
        SWEPT.replace("fenced AND NOT swept", "NOT swept"),
        STAYS,
    ),
    _mutant(
        "what may be on its way to the bucket is swept",
        Line.ORPHAN,
        OBJECTS,
        SWEPT,
        "WHERE fenced AND NOT swept\n",
        NOT_FOR_LONG,
    ),
    _mutant(
        "lives to be swept are looked for by a clock the other way round",
        Line.ORPHAN,
        OBJECTS,
        SWEPT,
        SWEPT.replace("<=", ">="),
        NOT_FOR_LONG,
    ),
    _mutant(
        "what a row names is swept",
        Line.ORPHAN,
        f"{ENGINE}:_NAMED",
        "SELECT upload_id FROM object WHERE upload_id = ANY ($1::bigint[])\nUNION ALL ",
        "",
        NOT_FOR_LONG,
    ),
    _mutant(
        "what is swept was read in a transaction that waits for no standby",
        Line.FAILOVER,
        OBJECTS,
        "ORDER BY number FOR UPDATE OF incarnation SKIP LOCKED;",
        "ORDER BY number;",
        "shared_store/test_standby.py::test_what_is_removed_in_a_bucket_is_on_the_standby[lives_to_sweep-0]",
    ),
    _mutant(
        "what leaves the bucket was read in a transaction that waits for no standby",
        Line.FAILOVER,
        OBJECTS,
        "SELECT upload_id FROM leaving ORDER BY upload_id LIMIT most FOR UPDATE SKIP LOCKED;",
        "SELECT upload_id FROM leaving ORDER BY upload_id LIMIT most;",
        "shared_store/test_standby.py::test_what_is_removed_in_a_bucket_is_on_the_standby[uploads_leaving-10]",
    ),
    _mutant(
        "who removes from the bucket waits for another who does",
        Line.AT_ONCE,
        f"{ENGINE}:_LEFT",
        " FOR UPDATE SKIP LOCKED",
        " FOR UPDATE",
        f"{REMOVING}test_who_removes_from_a_bucket_waits_for_nobody",
    ),
    _mutant(
        "who removes objects waits for another who does",
        Line.AT_ONCE,
        OBJECTS,
        "            ORDER BY object_id LIMIT most FOR UPDATE SKIP LOCKED\n",
        "            ORDER BY object_id LIMIT most FOR UPDATE\n",
        f"{REMOVING}test_who_removes_objects_waits_for_no_other_who_does",
    ),
    _mutant(
        "what has left the database stays in the bucket",
        Line.ORPHAN,
        OBJECTS,
        "INSERT INTO leaving SELECT upload_id FROM gone WHERE upload_id IS NOT NULL",
        "INSERT INTO leaving SELECT upload_id FROM gone WHERE upload_id < 0",
        f"{BUCKET}test_what_another_node_removes_at_the_same_time_is_removed[moto]",
    ),
    _mutant(
        "an object is removed as soon as it holds nothing",
        Line.ORPHAN,
        OBJECTS,
        "            WHERE dead_since <= clock_timestamp() - older_ms * interval '1 millisecond'\n",
        "            WHERE dead_since IS NOT NULL\n",
        REMOVED,
        AT_RANDOM,
    ),
    _mutant(
        "the newest object of who lives is removed",
        Line.IN_THE_COMMIT,
        OBJECTS,
        "                    ) AS newest WHERE NOT fenced\n",
        "                    ) AS newest WHERE fenced\n",
        NEWEST,
        AT_RANDOM,
    ),
    _mutant(
        "what was given up counts as the newest object",
        Line.IN_THE_COMMIT,
        OBJECTS,
        "                            AND refused IS NOT NULL\n",
        "",
        NEWEST,
    ),
    _mutant(
        "what who lives has given up is forgotten",
        Line.IN_THE_COMMIT,
        OBJECTS,
        "        WHERE refused IS NULL AND fenced\n",
        "        WHERE refused IS NULL\n",
        NEWEST,
    ),
    _mutant(
        "an object that is read is removed with its first run",
        Line.ORPHAN,
        LOGS,
        "CASE WHEN live_runs = less.runs THEN clock_timestamp() END",
        "clock_timestamp()",
        REMOVED,
        AT_RANDOM,
    ),
    _mutant(
        "what is replaced is held for good",
        Line.ORPHAN,
        COMMIT,
        "    gone := replaced || gone;\n",
        "",
        AT_RANDOM,
        "shared_store/test_nodes_at_once.py::test_commits_that_let_go_of_the_same_objects_wait_in_no_circle",
    ),
    _mutant(
        "what was in a deleted topic is held for good",
        Line.ORPHAN,
        LOGS,
        "    PERFORM release(gone);\n    DELETE FROM log",
        "    DELETE FROM log",
        f"{OF_OBJECTS}test_the_logs_of_a_deleted_topic_are_gone[postgresql]",
    ),
    _mutant(
        "runs are found behind the one that holds the offset",
        Line.DAMAGED,
        f"{READING}:_RUNS",
        "last_offset >= $2",
        "base_offset >= $2",
        f"{OF_OBJECTS}test_runs_are_found_from_an_offset_on[postgresql]",
        AT_RANDOM,
    ),
    _mutant(
        "a stretch of an object is another",
        Line.DAMAGED,
        f"{READING}:_READ",
        "substr(bytes, position + 1, size_bytes)",
        "substr(bytes, position, size_bytes)",
        f"{STORIES}test_a_commit_is_found_by_whoever_claims_next[postgresql]",
        AT_RANDOM,
    ),
    _mutant(
        "runs have no checksum of the heads of their batches",
        Line.DAMAGED,
        COMMIT,
        "        added.heads\n",
        "        NULL::bigint\n",
        f"{UPGRADED}test_the_fourth_version_is_upgraded_while_its_nodes_commit",
        f"{DAMAGED}[postgresql-with-checksums]",
    ),
    _mutant(
        "runs of nodes of the version before have the checksum of none",
        Line.DAMAGED,
        COMMIT,
        "        added.heads\n",
        "        coalesce(added.heads, 0)\n",
        f"{UPGRADED}test_the_fourth_version_is_upgraded_while_its_nodes_commit",
    ),
    _mutant(
        "an upload may be of two objects",
        Line.SLOW_BUCKET,
        OBJECTS,
        "CREATE UNIQUE INDEX uploaded ON object (upload_id)",
        "CREATE INDEX uploaded ON object (upload_id)",
        f"{BUCKET}test_a_commit_that_was_given_up_leaves_its_upload_to_the_next[moto]",
    ),
    _mutant(
        "a bucket is decided on by a start that is refused",
        Line.AT_ONCE,
        OBJECTS,
        "    IF FOUND THEN RETURN; END IF;\n    UPDATE cluster SET objects = wanted",
        "    UPDATE cluster SET objects = wanted",
        "shared_store/objects/test_where_objects_lie.py::"
        "test_nobody_begins_with_a_bucket_beside_a_node_that_knows_of_none",
    ),
)
