"""The second version of what lies in PostgreSQL: nodes beside each other. `broker/shared/schema.py` has the rules."""

MEMBERS = """
ALTER TABLE incarnation ADD COLUMN about bytea NOT NULL DEFAULT '';

-- It took a life for the only one, and ended those of all others.
DROP FUNCTION begin_life(integer, bigint);

CREATE FUNCTION join_others(my_node integer, about_me bytea) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE mine integer;
BEGIN
    PERFORM 1 FROM cluster FOR UPDATE;  -- one begins after the other
    UPDATE incarnation SET fenced = true WHERE NOT fenced AND node_id = my_node;  -- waits for their commits under way
    UPDATE cluster SET last_number = last_number + 1 RETURNING last_number INTO mine;
    INSERT INTO incarnation (number, node_id, about) VALUES (mine, my_node, about_me);
    INSERT INTO heard (number, at) VALUES (mine, clock_timestamp());
    RETURN mine;
END $$;

-- NULL: fenced itself. First it waits for the commits of the other, and then looks when that was heard, and keeps it
-- from being heard: a heartbeat that is answered before is seen here, and one that comes later finds that it is over.
-- A clock may have gone back: 0 is not compared with it.
CREATE FUNCTION fence(me integer, my_node integer, other integer, other_node integer, silent_ms bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE over boolean;
BEGIN
    PERFORM 1 FROM cluster FOR UPDATE;
    IF NOT lives(me, my_node) THEN RETURN NULL; END IF;
    SELECT fenced INTO over FROM incarnation WHERE number = other AND node_id = other_node FOR UPDATE;
    IF NOT FOUND THEN RETURN false; END IF;
    IF over THEN RETURN true; END IF;
    PERFORM 1 FROM heard WHERE number = other
        AND (silent_ms = 0 OR at <= clock_timestamp() - silent_ms * interval '1 millisecond') FOR UPDATE;
    IF NOT FOUND THEN RETURN false; END IF;
    UPDATE incarnation SET fenced = true WHERE number = other;
    RETURN true;
END $$;

-- See `fence`: it may wait for one.
CREATE OR REPLACE FUNCTION hear(me integer, my_node integer) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);  -- nobody misses one
    PERFORM 1 FROM heard WHERE number = me FOR UPDATE;
    PERFORM 1 FROM incarnation WHERE number = me AND node_id = my_node AND NOT fenced;
    IF NOT FOUND THEN RETURN false; END IF;
    UPDATE heard SET at = clock_timestamp() WHERE number = me;
    RETURN true;
END $$;

-- No row: fenced. Without a log all is NULL.
CREATE FUNCTION look_at_log(me integer, my_node integer, topic bytea, index integer)
RETURNS TABLE (owner_node integer, held log)
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT lives(me, my_node) THEN RETURN; END IF;
    SELECT * INTO held FROM log WHERE topic_id = topic AND partition = index;
    SELECT node_id INTO owner_node FROM incarnation WHERE number = held.owner;
    RETURN NEXT;
END $$;

-- As before, and what was given up goes though somebody older lives.
CREATE OR REPLACE FUNCTION collect_objects(older_ms bigint, most bigint) RETURNS bigint
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
    DELETE FROM object WHERE object_id IN (
        SELECT object_id FROM object JOIN incarnation ON number = object_id >> 32
        WHERE refused IS NULL AND fenced
        ORDER BY object_id FOR UPDATE OF object SKIP LOCKED
    );
    RETURN removed;
END $$;
"""
