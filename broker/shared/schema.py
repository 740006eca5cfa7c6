"""What lies in PostgreSQL: tables, and a function for each method that changes them.

Rule 1. Locks are taken in one order: incarnation (shared), logs by id, objects by id. So nobody waits in a circle. Who
        locks an incarnation to end it, or more than one, has locked the cluster before: one does at a time. Who leaves
        locks its own and nothing else. What is heard of an incarnation is locked last.
Rule 2. Rows are locked in a statement of their own before they are changed from arrays: joined in one, it is quadratic.
Rule 3. Each function is one statement of its caller, READ COMMITTED: every statement inside sees what was committed
        before it began, so what was locked is read as it is now.
Rule 4. Whoever answers from what it found has written something in the same transaction, were it the lock of its
        incarnation: so its commit waits for the synchronous standby, and for all that it found. What is only read may
        be committed on the primary alone; WAL has an order, so whatever is committed afterwards is not without it.
"""

from broker.shared.schema_commits import HEADS, RELEASES
from broker.shared.schema_members import MEMBERS
from broker.shared.schema_objects import OBJECTS

_TABLES = """
CREATE TABLE cluster (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    cluster_id text,
    last_number integer NOT NULL DEFAULT 0
);
INSERT INTO cluster DEFAULT VALUES;

-- One start of one node. Rows stay: a node that comes back finds that it was fenced.
CREATE TABLE incarnation (
    number integer PRIMARY KEY,
    node_id integer NOT NULL,
    fenced boolean NOT NULL DEFAULT false
);
CREATE INDEX living ON incarnation (number) WHERE NOT fenced;

-- Apart: a heartbeat does not wait for a commit, which holds the row of its incarnation.
CREATE TABLE heard (
    number integer PRIMARY KEY,
    at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- What the owner keeps is moved out of the row early: the row is written anew by each commit.
CREATE TABLE log (
    log_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    topic_id bytea NOT NULL,
    partition integer NOT NULL,
    owner integer NOT NULL,
    owner_epoch integer NOT NULL,
    first_offset bigint NOT NULL DEFAULT 0,
    start_offset bigint NOT NULL DEFAULT 0,
    next_offset bigint NOT NULL DEFAULT 0,
    kept bytea NOT NULL DEFAULT '',
    UNIQUE (topic_id, partition),
    CHECK (0 <= first_offset AND first_offset <= start_offset AND start_offset <= next_offset)
) WITH (fillfactor = 50, toast_tuple_target = 128);

-- `refused` is what the commit returned; without it the row says that the commit was given up, and can never be made.
-- `written_at` tells one history of the database from another: see `is_lost`.
CREATE TABLE object (
    object_id bigint PRIMARY KEY,
    live_runs integer NOT NULL CHECK (live_runs >= 0),
    refused bigint[],
    dead_since timestamptz,
    written_at pg_lsn NOT NULL DEFAULT pg_current_wal_insert_lsn(),
    bytes bytea
) WITH (autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_scale_factor = 0.02);
-- Not compressed: batches are, if anything is to be gained, and a stretch is read without the rest.
ALTER TABLE object ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE INDEX dead_object ON object (object_id) WHERE dead_since IS NOT NULL;

CREATE TABLE run (
    log_id bigint NOT NULL,
    last_offset bigint NOT NULL,
    base_offset bigint NOT NULL,
    object_id bigint NOT NULL,
    position integer NOT NULL,
    size_bytes integer NOT NULL,
    max_timestamp_ms bigint NOT NULL,
    PRIMARY KEY (log_id, last_offset)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
"""

_NODES = """
CREATE FUNCTION begin_life(my_node integer, silent_ms bigint, OUT other integer, OUT mine integer)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM cluster FOR UPDATE;  -- one begins after the other
    SELECT incarnation.node_id INTO other FROM incarnation JOIN heard USING (number)
    WHERE NOT fenced AND node_id <> my_node AND at > clock_timestamp() - silent_ms * interval '1 millisecond'
    ORDER BY number LIMIT 1;
    IF FOUND THEN RETURN; END IF;
    UPDATE incarnation SET fenced = true WHERE NOT fenced;  -- waits for their commits under way
    UPDATE cluster SET last_number = last_number + 1 RETURNING last_number INTO mine;
    INSERT INTO incarnation (number, node_id) VALUES (mine, my_node);
    INSERT INTO heard (number, at) VALUES (mine, clock_timestamp());
END $$;

CREATE FUNCTION hear(me integer, my_node integer) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM incarnation WHERE number = me AND node_id = my_node AND NOT fenced;
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM set_config('synchronous_commit', 'off', true);  -- nobody misses one
    UPDATE heard SET at = clock_timestamp() WHERE number = me;
    RETURN true;
END $$;

-- Whether it lives, and it does until the caller's transaction is over.
CREATE FUNCTION lives(me integer, my_node integer) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM incarnation WHERE number = me AND node_id = my_node AND NOT fenced FOR SHARE;
    RETURN FOUND;
END $$;

-- Whether this database is without what it had acknowledged to who asks: its incarnation, its last object. WAL has an
-- order: where the last is, all are. Of a fenced one the objects may have been removed, with reason.
CREATE FUNCTION is_lost(me integer, my_node integer, last_object bigint, last_written_at pg_lsn) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE over boolean;
BEGIN
    SELECT fenced INTO over FROM incarnation WHERE number = me AND node_id = my_node;
    IF NOT FOUND THEN RETURN true; END IF;
    IF over OR last_object IS NULL THEN RETURN false; END IF;
    PERFORM 1 FROM object WHERE object_id = last_object AND written_at = last_written_at;
    RETURN NOT FOUND;
END $$;
"""

_LOGS = """
-- No row: fenced. Not `owned`: another has it, under the epoch that is returned.
CREATE FUNCTION claim_log(me integer, my_node integer, topic bytea, index integer, epoch integer)
RETURNS TABLE (owned boolean, held log)
LANGUAGE plpgsql AS $$
DECLARE new_epoch integer;
BEGIN
    IF NOT lives(me, my_node) THEN RETURN; END IF;
    LOOP
        SELECT * INTO held FROM log WHERE topic_id = topic AND partition = index FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO log (topic_id, partition, owner, owner_epoch) VALUES (topic, index, me, coalesce(epoch, 0))
        ON CONFLICT DO NOTHING RETURNING * INTO held;
        IF FOUND THEN owned := true; RETURN NEXT; RETURN; END IF;
    END LOOP;
    new_epoch := coalesce(epoch, held.owner_epoch + 1);
    owned := new_epoch > held.owner_epoch OR (new_epoch = held.owner_epoch AND held.owner = me);
    IF owned THEN
        UPDATE log SET owner = me, owner_epoch = new_epoch WHERE log_id = held.log_id RETURNING * INTO held;
    END IF;
    RETURN NEXT;
END $$;

-- Runs of these objects, each as often as it is named, are gone.
CREATE FUNCTION release(gone bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM object WHERE object_id = ANY (gone) ORDER BY object_id FOR UPDATE;
    UPDATE object SET
        live_runs = live_runs - less.runs,
        dead_since = CASE WHEN live_runs = less.runs THEN clock_timestamp() END
    FROM (SELECT one, count(*)::integer AS runs FROM unnest(gone) AS one GROUP BY one) AS less
    WHERE object_id = less.one;
END $$;

CREATE FUNCTION forget_topic(me integer, my_node integer, topic bytea) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    logs bigint[];
    gone bigint[];
BEGIN
    IF NOT lives(me, my_node) THEN RETURN false; END IF;
    logs := ARRAY(SELECT log_id FROM log WHERE topic_id = topic ORDER BY log_id FOR UPDATE);
    WITH removed AS (DELETE FROM run WHERE log_id = ANY (logs) RETURNING object_id)
    SELECT array_agg(object_id) INTO gone FROM removed;
    PERFORM release(gone);
    DELETE FROM log WHERE log_id = ANY (logs);
    RETURN true;
END $$;
"""

_COMMITS = """
-- No row: fenced.
CREATE FUNCTION commit_object(
    me integer, my_node integer, new_object bigint, new_bytes bytea,
    logs bigint[], epochs integer[], bases bigint[], nexts bigint[], starts bigint[], firsts bigint[], keeps bytea[],
    cut_firsts bigint[], cut_lasts bigint[],
    run_logs bigint[], run_bases bigint[], run_lasts bigint[], run_positions integer[], run_sizes integer[],
    run_timestamps bigint[]
) RETURNS TABLE (others bigint[], at_lsn pg_lsn)
LANGUAGE plpgsql AS $$
DECLARE
    taken bigint[];
    gone bigint[];
    made integer;
BEGIN
    IF NOT lives(me, my_node) THEN RETURN; END IF;
    PERFORM 1 FROM log WHERE log_id = ANY (logs) ORDER BY log_id FOR UPDATE;
    WITH changed AS (
        UPDATE log SET
            next_offset = change.next,
            start_offset = coalesce(change.start, log.start_offset),
            first_offset = coalesce(change.first, log.first_offset),
            kept = coalesce(change.keep, log.kept)
        FROM unnest(logs, epochs, bases, nexts, starts, firsts, keeps)
            AS change (log_id, epoch, base, next, start, first, keep)
        WHERE log.log_id = change.log_id
            AND log.owner = me AND log.owner_epoch = change.epoch AND log.next_offset = change.base
        RETURNING log.log_id
    )
    SELECT coalesce(array_agg(log_id), '{}') INTO taken FROM changed;
    others := ARRAY(SELECT unnest(logs) EXCEPT SELECT unnest(taken));

    IF array_length(array_remove(cut_firsts, NULL), 1) > 0 THEN
        WITH removed AS (
            DELETE FROM run USING unnest(logs, cut_firsts, cut_lasts) AS cut (log_id, first, last)
            JOIN unnest(taken) AS mine (log_id) ON mine.log_id = cut.log_id
            WHERE run.log_id = cut.log_id AND run.last_offset BETWEEN cut.first AND cut.last
            RETURNING run.object_id
        )
        SELECT array_agg(object_id) INTO gone FROM removed;
        PERFORM release(gone);
    END IF;
    INSERT INTO run (log_id, base_offset, last_offset, object_id, position, size_bytes, max_timestamp_ms)
    SELECT added.log_id, added.base, added.last, new_object, added.position, added.size, added.stamp
    FROM unnest(run_logs, run_bases, run_lasts, run_positions, run_sizes, run_timestamps)
        AS added (log_id, base, last, position, size, stamp)
    JOIN unnest(taken) AS mine (log_id) ON mine.log_id = added.log_id;
    GET DIAGNOSTICS made = ROW_COUNT;
    INSERT INTO object (object_id, live_runs, refused, dead_since, bytes)
    VALUES (new_object, made, others, CASE WHEN made = 0 THEN clock_timestamp() END, new_bytes)
    RETURNING written_at INTO at_lsn;

    IF array_length(array_remove(firsts, NULL), 1) > 0 THEN
        WITH removed AS (
            DELETE FROM run USING unnest(logs, firsts) AS change (log_id, first)
            JOIN unnest(taken) AS mine (log_id) ON mine.log_id = change.log_id
            WHERE run.log_id = change.log_id AND run.last_offset < change.first
            RETURNING run.object_id
        )
        SELECT array_agg(object_id) INTO gone FROM removed;
        PERFORM release(gone);
    END IF;
    RETURN NEXT;
END $$;

-- No row: fenced. The primary key waits for the commit under way, and then collides or wins. What collides may be on
-- the primary alone, where its connection was ended: Rule 4.
CREATE FUNCTION settle_object(me integer, my_node integer, lost_object bigint)
RETURNS TABLE (others bigint[], at_lsn pg_lsn)
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT lives(me, my_node) THEN RETURN; END IF;
    INSERT INTO object (object_id, live_runs) VALUES (lost_object, 0)
    ON CONFLICT (object_id) DO UPDATE SET live_runs = object.live_runs
    RETURNING refused, written_at INTO others, at_lsn;
    RETURN NEXT;
END $$;

-- The newest object of who lives stays: it may still be settled, and tells this database from one that lost it.
CREATE FUNCTION collect_objects(older_ms bigint, most bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE removed bigint;
BEGIN
    DELETE FROM object WHERE object_id IN (
        SELECT object_id FROM object
        WHERE dead_since <= clock_timestamp() - older_ms * interval '1 millisecond'
            AND object_id NOT IN (
                SELECT newest.object_id FROM incarnation CROSS JOIN LATERAL (
                    SELECT object_id FROM object
                    WHERE object_id >= number::bigint << 32 AND object_id < (number::bigint + 1) << 32
                        AND refused IS NOT NULL
                    ORDER BY object_id DESC LIMIT 1
                ) AS newest WHERE NOT fenced
            )
        ORDER BY object_id LIMIT most FOR UPDATE SKIP LOCKED
    );
    GET DIAGNOSTICS removed = ROW_COUNT;
    DELETE FROM object WHERE refused IS NULL AND object_id < (
        SELECT min(number)::bigint << 32 FROM incarnation WHERE NOT fenced
    );
    RETURN removed;
END $$;
CREATE INDEX given_up ON object (object_id) WHERE refused IS NULL;
"""

MIGRATIONS = (_TABLES + _NODES + _LOGS + _COMMITS, MEMBERS, OBJECTS, RELEASES, HEADS)
"""Each makes the next version of what the one before it left; the first, of nothing. None is ever changed."""
