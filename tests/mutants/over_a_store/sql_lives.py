"""Defects of SQL: who lives, who may end whom, by which clock, and what a server has to have."""

from tests.mutants.mutant import Change, Mutant
from tests.mutants.over_a_store.changed_sql import ChangedSql
from tests.mutants.over_a_store.lines import Line

NODES = "broker.shared.schema:_NODES"
HEADS = "broker.shared.schema_commits:HEADS"
MEMBERS = "broker.shared.schema_members:MEMBERS"
OBJECTS = "broker.shared.schema_objects:OBJECTS"
ENGINE = "broker.shared.postgresql"
CONNECTIONS = "broker.shared.connections"
STORIES = "shared_store/test_conformance.py::"
AT_ONCE = "shared_store/test_nodes_at_once.py::"
UNDER_WAY = "shared_store/test_commits_under_way.py::"
STANDBY = "shared_store/test_standby.py::"
SCHEMA = "shared_store/test_postgresql_schema.py::"
ACKNOWLEDGED = "shared_store/test_what_was_acknowledged.py::"
FIRE = "shared_store/test_under_fire.py::test_connections_are_ended_at_any_moment[0]"
AT_RANDOM = "shared_store/test_random_operations.py::test_every_answer_is_that_of_the_model[0-postgresql]"
LIVES = "WHERE number = me AND node_id = my_node AND NOT fenced FOR SHARE;"
SILENT = "(silent_ms = 0 OR at <= clock_timestamp() - silent_ms * interval '1 millisecond')"
LIVE = "    IF NOT lives(me, my_node) THEN RETURN; END IF;\n"
READ_ONLY = (
    "    PERFORM 1 FROM incarnation WHERE number = me AND node_id = my_node AND NOT fenced;\n"
    "    IF NOT FOUND THEN RETURN; END IF;\n"
)


def _mutant(name: str, line: Line, place: str, old: str, new: str, *caught_by: str) -> tuple[Line, Mutant]:
    return line, Mutant(name, line.happens, caught_by=caught_by, plant=ChangedSql(place, old, new))


def _code(name: str, line: Line, change: Change, *caught_by: str) -> tuple[Line, Mutant]:
    return line, Mutant(name, line.happens, (change,), caught_by)


MUTANTS = (
    _mutant(
        "a commit does not hold its life",
        Line.STANDS_STILL,
        NODES,
        LIVES,
        LIVES.replace(" FOR SHARE", ""),
        f"{UNDER_WAY}test_a_life_is_over_when_its_commits_are[fence]",
        f"{STANDBY}test_who_asks_for_a_log_waits_until_the_standby_has_what_it_is_told[look_at_log]",
    ),
    _mutant(
        "who is fenced commits",
        Line.STANDS_STILL,
        NODES,
        LIVES,
        LIVES.replace(" AND NOT fenced", ""),
        f"{STORIES}test_each_start_has_a_greater_number_and_fences_the_one_before[postgresql]",
        AT_RANDOM,
        FIRE,
    ),
    _mutant(
        "a number is that of any node",
        Line.STANDS_STILL,
        NODES,
        LIVES,
        LIVES.replace(" AND node_id = my_node", ""),
        f"{STORIES}test_a_number_belongs_to_its_node[postgresql]",
    ),
    _mutant(
        "a fence does not ask how long a node was silent",
        Line.STANDS_STILL,
        MEMBERS,
        SILENT,
        "true",
        f"{STORIES}test_who_was_silent_is_fenced_by_another_and_nobody_else_is[postgresql]",
        AT_RANDOM,
    ),
    _mutant(
        "a fence compares the clock the other way round",
        Line.STANDS_STILL,
        MEMBERS,
        SILENT,
        SILENT.replace("<=", ">="),
        f"{STORIES}test_who_was_silent_is_fenced_by_another_and_nobody_else_is[postgresql]",
        AT_RANDOM,
    ),
    _mutant(
        "a fence takes milliseconds for seconds",
        Line.STANDS_STILL,
        MEMBERS,
        SILENT,
        SILENT.replace("1 millisecond", "1 second"),
        f"{STORIES}test_who_was_silent_is_fenced_by_another_and_nobody_else_is[postgresql]",
    ),
    _mutant(
        "a clock that went back saves who is to be over at once",
        Line.STANDS_STILL,
        MEMBERS,
        SILENT,
        SILENT.replace("silent_ms = 0 OR ", ""),
        f"{AT_ONCE}test_a_clock_that_went_back_does_not_save_who_is_to_be_over_at_once",
    ),
    _mutant(
        "a fence looks when a node was heard before it waits for its commits",
        Line.STANDS_STILL,
        MEMBERS,
        "    SELECT fenced INTO over FROM incarnation WHERE number = other AND node_id = other_node FOR UPDATE;\n",
        "    SELECT fenced INTO over FROM incarnation JOIN heard USING (number)\n"
        "    WHERE number = other AND node_id = other_node\n"
        "        AND (silent_ms = 0 OR at <= clock_timestamp() - silent_ms * interval '1 millisecond')\n"
        "    FOR UPDATE OF incarnation;\n"
        "    IF NOT FOUND THEN RETURN false; END IF;\n"
        "    UPDATE incarnation SET fenced = true WHERE number = other;\n"
        "    RETURN true;\n",
        f"{UNDER_WAY}test_a_heartbeat_saves_a_life_while_its_commits_are_waited_for",
    ),
    _mutant(
        "a fence does not wait for a heartbeat",
        Line.STANDS_STILL,
        MEMBERS,
        f"{SILENT} FOR UPDATE;",
        f"{SILENT};",
        f"{AT_ONCE}test_a_fence_waits_for_a_heartbeat_under_way_and_finds_it",
    ),
    _mutant(
        "a heartbeat does not wait for a fence",
        Line.STANDS_STILL,
        MEMBERS,
        "    PERFORM 1 FROM heard WHERE number = me FOR UPDATE;\n",
        "",
        f"{AT_ONCE}test_a_heartbeat_waits_for_a_fence_under_way[COMMIT]",
    ),
    _mutant(
        "who is fenced is told that it lives",
        Line.STANDS_STILL,
        MEMBERS,
        "WHERE number = me AND node_id = my_node AND NOT fenced;",
        "WHERE number = me AND node_id = my_node;",
        f"{STORIES}test_each_start_has_a_greater_number_and_fences_the_one_before[postgresql]",
    ),
    _mutant(
        "who is over is told of as a member",
        Line.STANDS_STILL,
        f"{ENGINE}:_MEMBERS",
        " WHERE NOT fenced ORDER BY",
        " ORDER BY",
        f"{STORIES}test_nodes_live_beside_each_other_and_a_node_lives_once[postgresql]",
        AT_RANDOM,
    ),
    _mutant(
        "who was heard by a clock that went back counts as silent",
        Line.STANDS_STILL,
        f"{ENGINE}:_MEMBERS",
        "greatest(0, extract(epoch FROM clock_timestamp() - at) * 1000)",
        "abs(extract(epoch FROM clock_timestamp() - at) * 1000)",
        f"{AT_ONCE}test_a_clock_that_went_back_does_not_save_who_is_to_be_over_at_once",
    ),
    _mutant(
        "two that fence each other are both over",
        Line.AT_ONCE,
        MEMBERS,
        "    PERFORM 1 FROM cluster FOR UPDATE;\n    IF NOT lives(me, my_node) THEN RETURN NULL; END IF;\n",
        "    IF NOT lives(me, my_node) THEN RETURN NULL; END IF;\n    PERFORM 1 FROM cluster FOR UPDATE;\n",
        f"{AT_ONCE}test_of_two_that_fence_each_other_one_is_over",
    ),
    _mutant(
        "a node that starts leaves its earlier life",
        Line.STANDS_STILL,
        MEMBERS,
        "    UPDATE incarnation SET fenced = true WHERE NOT fenced AND node_id = my_node;",
        "    PERFORM 1;",
        f"{STORIES}test_each_start_has_a_greater_number_and_fences_the_one_before[postgresql]",
        AT_RANDOM,
    ),
    _mutant(
        "of two starts of a node at once both live",
        Line.AT_ONCE,
        MEMBERS,
        "    PERFORM 1 FROM cluster FOR UPDATE;  -- one begins after the other\n"
        "    UPDATE incarnation SET fenced = true WHERE NOT fenced AND node_id = my_node;",
        "    UPDATE incarnation SET fenced = true WHERE NOT fenced AND node_id = my_node;",
        f"{AT_ONCE}test_of_two_starts_of_a_node_the_later_one_lives",
    ),
    _mutant(
        "a heartbeat waits for the standby",
        Line.FAILOVER,
        MEMBERS,
        "    PERFORM set_config('synchronous_commit', 'off', true);  -- nobody misses one\n",
        "",
        f"{STANDBY}test_who_asks_for_a_log_waits_until_the_standby_has_what_it_is_told[look_at_log]",
    ),
    _mutant(
        "who looks at a log waits for no standby",
        Line.FAILOVER,
        OBJECTS,
        "BEGIN\n" + LIVE + "    RETURN QUERY\n        SELECT incarnation.node_id, log.owner,",
        "BEGIN\n" + READ_ONLY + "    RETURN QUERY\n        SELECT incarnation.node_id, log.owner,",
        f"{STANDBY}test_who_asks_for_a_log_waits_until_the_standby_has_what_it_is_told[look_at_log]",
    ),
    _mutant(
        "what was found to be settled waits for no standby",
        Line.FAILOVER,
        "broker.shared.schema:_COMMITS",
        LIVE + "    INSERT INTO object (object_id, live_runs) VALUES (lost_object, 0)\n"
        "    ON CONFLICT (object_id) DO UPDATE SET live_runs = object.live_runs\n"
        "    RETURNING refused, written_at INTO others, at_lsn;\n",
        READ_ONLY + "    SELECT refused, written_at INTO others, at_lsn FROM object WHERE object_id = lost_object;\n"
        "    IF NOT FOUND THEN INSERT INTO object (object_id, live_runs) VALUES (lost_object, 0); END IF;\n",
        f"{STANDBY}test_a_commit_that_did_not_wait_for_the_standby_is_unknown_until_it_has_it[pg_terminate_backend]",
    ),
    _mutant(
        "a role may turn off what makes a commit safe",
        Line.FAILOVER,
        f"{CONNECTIONS}:_PREPARE",
        "('client_min_messages', 'notice'), ('synchronous_commit', 'on'),",
        "('client_min_messages', 'notice'),",
        f"{SCHEMA}test_what_a_role_was_given_makes_no_commit_unsafe",
    ),
    _code(
        "a wait for the standby that was cut off passes for one",
        Line.FAILOVER,
        Change(f"{CONNECTIONS}:_Greeted.ask", "if self._warnings:", "if False:"),
        f"{STANDBY}test_a_commit_that_did_not_wait_for_the_standby_is_unknown_until_it_has_it[pg_cancel_backend]",
    ),
    _code(
        "a server is not asked whether it has what was acknowledged",
        Line.FAILOVER,
        Change(f"{ENGINE}:PostgresqlStore._greet", "if self._acknowledged is None:", "if True:"),
        f"{ACKNOWLEDGED}test_a_database_without_what_it_had_acknowledged_is_refused",
        f"{STANDBY}test_a_standby_that_was_promoted_too_early_is_refused_however_far_it_is_by_now",
    ),
    _mutant(
        "an object of that id is enough",
        Line.FAILOVER,
        HEADS,
        "WHERE object_id = last_object AND written_at = last_written_at;",
        "WHERE object_id = last_object;",
        f"{ACKNOWLEDGED}test_a_database_without_what_it_had_acknowledged_is_refused",
    ),
    _mutant(
        "who is over is told that the database has lost something",
        Line.FAILOVER,
        HEADS,
        "IF over OR last_object IS NULL THEN",
        "IF last_object IS NULL THEN",
        f"{ACKNOWLEDGED}test_who_was_fenced_meanwhile_is_told_so_though_its_objects_are_gone",
    ),
    _mutant(
        "a later object says nothing of what was acknowledged",
        Line.FAILOVER,
        HEADS,
        "    LIMIT 1;\n    RETURN NOT FOUND;",
        "    LIMIT 1;\n    RETURN true;",
        f"{ACKNOWLEDGED}test_a_database_with_a_later_object_than_was_acknowledged_is_not_refused[True]",
    ),
    _mutant(
        "a later object that was given up is enough",
        Line.FAILOVER,
        HEADS,
        "AND refused IS NOT NULL AND written_at > last_written_at",
        "AND written_at > last_written_at",
        f"{ACKNOWLEDGED}test_a_database_with_a_later_object_than_was_acknowledged_is_not_refused[False]",
    ),
    _code(
        "only the first object that was acknowledged is looked for",
        Line.FAILOVER,
        Change(f"{ENGINE}:PostgresqlStore._acknowledge", "if known is None or known < object_id:", "if known is None:"),
        f"{STANDBY}test_a_standby_that_was_promoted_too_early_is_refused_however_far_it_is_by_now",
    ),
)
