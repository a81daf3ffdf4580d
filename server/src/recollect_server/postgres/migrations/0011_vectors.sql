-- Vectors of texts, so that one server computes them and the others take them over.

CREATE TABLE recollect.vectors (
    space text COLLATE "C" NOT NULL,
    log text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (space, log, model, hash)
) PARTITION BY HASH (space);
COMMENT ON TABLE recollect.vectors IS
    'Derived: of texts of a log, by their hashes. They go with a delete or a redaction of the log.';
DO $$
BEGIN
    FOR part IN 0..15 LOOP
        -- As the lines: what was deleted is to be vacuumed soon, however large the table.
        EXECUTE format(
            'CREATE TABLE recollect.vectors_%s PARTITION OF recollect.vectors'
            ' FOR VALUES WITH (MODULUS 16, REMAINDER %s)'
            ' WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 0)', part, part);
    END LOOP;
END $$;

-- Keep the vectors of texts of a log that were read at a moment, unless the log was deleted, or
-- redacted since. Whoever deletes or redacts waits for the lock.
CREATE FUNCTION recollect.keep_vectors(
    in_space text, in_log text, in_model text, moment pg_snapshot, hashes bytea[], bodies bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM recollect.logs
        WHERE space = in_space AND log = in_log AND NOT deleting FOR SHARE;
    IF NOT FOUND OR EXISTS (
        SELECT FROM recollect.changes
        WHERE space = in_space AND log = in_log AND action = 'redact'
          AND xid >= pg_snapshot_xmin(moment) AND NOT pg_visible_in_snapshot(xid, moment)) THEN
        RETURN false;
    END IF;
    INSERT INTO recollect.vectors (space, log, model, hash, body)
        SELECT in_space, in_log, in_model, hash, body FROM unnest(hashes, bodies) AS new (hash, body)
        ON CONFLICT DO NOTHING;
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION recollect.add_change(
    in_space text, in_log text, in_kind text, in_action text, in_from bigint, in_until bigint,
    in_replica bigint, in_append uuid
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    added recollect.changes;
    its_channel text;
BEGIN
    IF in_action = 'delete' THEN
        SELECT substring(encode(substring(body FROM 1 FOR 1000), 'escape')
                         FROM '"channel":"([^"\\]*)"')
            INTO its_channel FROM recollect.lines
            WHERE space = in_space AND log = in_log AND "offset" = 0 AND body LIKE '{"type":"meta"%';
    END IF;
    IF in_action IN ('delete', 'redact') THEN
        DELETE FROM recollect.vectors WHERE space = in_space AND log = in_log;
    END IF;
    INSERT INTO recollect.changes
            (space, log, kind, action, "from", until, replica, append, channel)
        VALUES (in_space, in_log, in_kind, in_action, in_from, in_until, in_replica, in_append,
                its_channel)
        RETURNING * INTO added;
    PERFORM set_config(
        'recollect.change', concat_ws(' ', added.xid, added.tag, added.seen), true);
END $$;

-- As the other functions, since 0008.
ALTER FUNCTION recollect.keep_vectors SET lock_timeout = '10s';
