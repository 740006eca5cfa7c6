"""The third version of what lies in PostgreSQL: objects whose bytes lie in a bucket. `broker/shared/schema.py` has the
rules; these come to them.

Rule 5. An upload is named in the bucket after its id. A row of `object` that has one holds it; a row of `leaving` says
        that it may be removed there, and goes when it was. It is of one of them at a time, and leaves the second when
        the bucket has it no more: whoever crashes between leaves behind what somebody else finds.
Rule 6. What is removed in the bucket cannot be brought back by a failover: only what was read in a transaction that
        waits for the synchronous standby is acted upon (Rule 4).
"""

OBJECTS = """
-- Where bytes are that are kept apart, as the first node with such a place has written it.
ALTER TABLE cluster ADD COLUMN objects text;
ALTER TABLE object ADD COLUMN upload_id bigint, ADD COLUMN upload_bytes integer;
-- An upload is of one object.
CREATE UNIQUE INDEX uploaded ON object (upload_id) WHERE upload_id IS NOT NULL;
CREATE TABLE leaving (upload_id bigint PRIMARY KEY);
-- What starts of this database have written into the bucket: what is there and not here was written for a copy.
CREATE TABLE signature (sign text PRIMARY KEY);
-- Whether it was looked for what this life has brought and no commit has named.
ALTER TABLE incarnation ADD COLUMN swept boolean NOT NULL DEFAULT false;
CREATE INDEX unswept ON incarnation (number) WHERE fenced AND NOT swept;

-- Where bytes lie from now on. Nothing is decided where there is an `other`: that node lives, and knows of none.
CREATE FUNCTION place_objects(wanted text, my_node integer, silent_ms bigint, OUT placed text, OUT other integer)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT objects INTO placed FROM cluster FOR UPDATE;
    IF placed IS NOT NULL THEN RETURN; END IF;
    SELECT node_id INTO other FROM incarnation JOIN heard USING (number)
    WHERE NOT fenced AND node_id <> my_node AND at > clock_timestamp() - silent_ms * interval '1 millisecond'
    ORDER BY number LIMIT 1;
    IF FOUND THEN RETURN; END IF;
    UPDATE cluster SET objects = wanted RETURNING objects INTO placed;
END $$;

-- See `commit_object`. No row: fenced.
CREATE FUNCTION commit_upload(
    new_upload bigint, new_size integer,
    me integer, my_node integer, new_object bigint,
    logs bigint[], epochs integer[], bases bigint[], nexts bigint[], starts bigint[], firsts bigint[], keeps bytea[],
    cut_firsts bigint[], cut_lasts bigint[],
    run_logs bigint[], run_bases bigint[], run_lasts bigint[], run_positions integer[], run_sizes integer[],
    run_timestamps bigint[]
) RETURNS TABLE (others bigint[], at_lsn pg_lsn)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT made.others, made.at_lsn INTO others, at_lsn
    FROM commit_object(
        me, my_node, new_object, NULL, logs, epochs, bases, nexts, starts, firsts, keeps, cut_firsts, cut_lasts,
        run_logs, run_bases, run_lasts, run_positions, run_sizes, run_timestamps
    ) AS made;
    IF NOT FOUND THEN RETURN; END IF;
    UPDATE object SET upload_id = new_upload, upload_bytes = new_size WHERE object_id = new_object;
    RETURN NEXT;
END $$;

-- As before; what has bytes in the bucket leaves there, too.
CREATE OR REPLACE FUNCTION collect_objects(older_ms bigint, most bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE removed bigint;
BEGIN
    WITH gone AS (
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
        ) RETURNING upload_id
    ), left_behind AS (
        INSERT INTO leaving SELECT upload_id FROM gone WHERE upload_id IS NOT NULL
    )
    SELECT count(*) INTO removed FROM gone;
    DELETE FROM object WHERE object_id IN (
        SELECT object_id FROM object JOIN incarnation ON number = object_id >> 32
        WHERE refused IS NULL AND fenced
        ORDER BY object_id FOR UPDATE OF object SKIP LOCKED
    );
    RETURN removed;
END $$;

-- Rule 6: locked, and so written.
CREATE FUNCTION uploads_leaving(most bigint) RETURNS TABLE (upload bigint)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT upload_id FROM leaving ORDER BY upload_id LIMIT most FOR UPDATE SKIP LOCKED;
END $$;

-- What is kept beside a log may be megabytes, and this is asked some times a second: it is not even read where nobody
-- wants it. Nodes of the second version go on asking as before.
CREATE FUNCTION look_at_log(me integer, my_node integer, topic bytea, index integer, with_kept boolean)
RETURNS TABLE (
    owner_node integer, owner integer, log_id bigint, owner_epoch integer,
    first_offset bigint, start_offset bigint, next_offset bigint, kept bytea
)
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT lives(me, my_node) THEN RETURN; END IF;
    RETURN QUERY
        SELECT incarnation.node_id, log.owner, log.log_id, log.owner_epoch,
            log.first_offset, log.start_offset, log.next_offset, CASE WHEN with_kept THEN log.kept ELSE '' END
        FROM log JOIN incarnation ON incarnation.number = log.owner
        WHERE log.topic_id = topic AND log.partition = index;
    IF NOT FOUND THEN RETURN NEXT; END IF;
END $$;

-- Lives that are over, and were not heard for so long that nothing of theirs is under way any more.
CREATE FUNCTION lives_to_sweep(silent_ms bigint) RETURNS TABLE (life integer)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT number FROM incarnation JOIN heard USING (number)
    WHERE fenced AND NOT swept AND at <= clock_timestamp() - silent_ms * interval '1 millisecond'
    ORDER BY number FOR UPDATE OF incarnation SKIP LOCKED;
END $$;
"""
