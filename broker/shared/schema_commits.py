"""The fourth version of what lies in PostgreSQL, in which a commit takes the locks of objects once, and the fifth, in
which runs have a checksum of the heads of their batches, and a node is known by a later object than it knows of.
`broker/shared/schema.py` has the rules.
"""

RELEASES = """
-- As before, but for Rule 1: what goes for the sake of replacements and what goes for that of a new first offset is
-- released together. Of two releases each has its own order, and the second may be of an older object. Nobody else
-- waits for the object that is made here while he holds another.
CREATE OR REPLACE FUNCTION commit_object(
    me integer, my_node integer, new_object bigint, new_bytes bytea,
    logs bigint[], epochs integer[], bases bigint[], nexts bigint[], starts bigint[], firsts bigint[], keeps bytea[],
    cut_firsts bigint[], cut_lasts bigint[],
    run_logs bigint[], run_bases bigint[], run_lasts bigint[], run_positions integer[], run_sizes integer[],
    run_timestamps bigint[]
) RETURNS TABLE (others bigint[], at_lsn pg_lsn)
LANGUAGE plpgsql AS $$
DECLARE
    taken bigint[];
    replaced bigint[];
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
        SELECT array_agg(object_id) INTO replaced FROM removed;
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
    END IF;
    gone := replaced || gone;
    IF gone IS NOT NULL THEN PERFORM release(gone); END IF;
    RETURN NEXT;
END $$;
"""

HEADS = """
-- Of what older nodes commit, and have committed, there is none.
ALTER TABLE run ADD COLUMN heads_crc bigint;

-- As before, with the checksums.
CREATE FUNCTION commit_object(
    me integer, my_node integer, new_object bigint, new_bytes bytea,
    logs bigint[], epochs integer[], bases bigint[], nexts bigint[], starts bigint[], firsts bigint[], keeps bytea[],
    cut_firsts bigint[], cut_lasts bigint[],
    run_logs bigint[], run_bases bigint[], run_lasts bigint[], run_positions integer[], run_sizes integer[],
    run_timestamps bigint[], run_heads bigint[]
) RETURNS TABLE (others bigint[], at_lsn pg_lsn)
LANGUAGE plpgsql AS $$
DECLARE
    taken bigint[];
    replaced bigint[];
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
        SELECT array_agg(object_id) INTO replaced FROM removed;
    END IF;
    INSERT INTO run (log_id, base_offset, last_offset, object_id, position, size_bytes, max_timestamp_ms, heads_crc)
    SELECT added.log_id, added.base, added.last, new_object, added.position, added.size, added.stamp,
        added.heads
    FROM unnest(run_logs, run_bases, run_lasts, run_positions, run_sizes, run_timestamps, run_heads)
        AS added (log_id, base, last, position, size, stamp, heads)
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
    END IF;
    gone := replaced || gone;
    IF gone IS NOT NULL THEN PERFORM release(gone); END IF;
    RETURN NEXT;
END $$;

-- Nodes of older versions go on with this, over the connections that they have; their `commit_upload` calls it.
CREATE OR REPLACE FUNCTION commit_object(
    me integer, my_node integer, new_object bigint, new_bytes bytea,
    logs bigint[], epochs integer[], bases bigint[], nexts bigint[], starts bigint[], firsts bigint[], keeps bytea[],
    cut_firsts bigint[], cut_lasts bigint[],
    run_logs bigint[], run_bases bigint[], run_lasts bigint[], run_positions integer[], run_sizes integer[],
    run_timestamps bigint[]
) RETURNS TABLE (others bigint[], at_lsn pg_lsn)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM commit_object(
        me, my_node, new_object, new_bytes, logs, epochs, bases, nexts, starts, firsts, keeps, cut_firsts, cut_lasts,
        run_logs, run_bases, run_lasts, run_positions, run_sizes, run_timestamps, '{}'
    );
END $$;

CREATE FUNCTION commit_upload(
    new_upload bigint, new_size integer,
    me integer, my_node integer, new_object bigint,
    logs bigint[], epochs integer[], bases bigint[], nexts bigint[], starts bigint[], firsts bigint[], keeps bytea[],
    cut_firsts bigint[], cut_lasts bigint[],
    run_logs bigint[], run_bases bigint[], run_lasts bigint[], run_positions integer[], run_sizes integer[],
    run_timestamps bigint[], run_heads bigint[]
) RETURNS TABLE (others bigint[], at_lsn pg_lsn)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT made.others, made.at_lsn INTO others, at_lsn
    FROM commit_object(
        me, my_node, new_object, NULL, logs, epochs, bases, nexts, starts, firsts, keeps, cut_firsts, cut_lasts,
        run_logs, run_bases, run_lasts, run_positions, run_sizes, run_timestamps, run_heads
    ) AS made;
    IF NOT FOUND THEN RETURN; END IF;
    UPDATE object SET upload_id = new_upload, upload_bytes = new_size WHERE object_id = new_object;
    RETURN NEXT;
END $$;

-- As before, but that the last object may have been removed since: where a later one of this life was made, whose
-- commit was not answered, that one is held. WAL has an order: where it is, all is that was acknowledged before it.
CREATE OR REPLACE FUNCTION is_lost(me integer, my_node integer, last_object bigint, last_written_at pg_lsn)
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE over boolean;
BEGIN
    SELECT fenced INTO over FROM incarnation WHERE number = me AND node_id = my_node;
    IF NOT FOUND THEN RETURN true; END IF;
    IF over OR last_object IS NULL THEN RETURN false; END IF;
    PERFORM 1 FROM object WHERE object_id = last_object AND written_at = last_written_at;
    IF FOUND THEN RETURN false; END IF;
    PERFORM 1 FROM object
    WHERE object_id > last_object AND object_id < (me::bigint + 1) << 32
        AND refused IS NOT NULL AND written_at > last_written_at
    LIMIT 1;
    RETURN NOT FOUND;
END $$;
"""
