-- The logs of all spaces, and the number of the server that may write.
--
-- Every key begins with the space, and the tables are partitioned by its hash. A line is found by the
-- byte at which it begins in its log, as in a file. Every change is one function, so that it is one
-- round trip; each locks the row of its log first, for a statement that changes a row takes its
-- transaction's number before it waits for the row, and could then be out of order.

CREATE TABLE recollect.owner (
    alone boolean PRIMARY KEY DEFAULT true CHECK (alone),
    number bigint NOT NULL,
    identity uuid NOT NULL DEFAULT gen_random_uuid()
);
COMMENT ON TABLE recollect.owner IS
    'One row: the number of the server process that may write, and the name of this database.';
INSERT INTO recollect.owner (number) VALUES (0);

CREATE TABLE recollect.logs (
    space text COLLATE "C" NOT NULL,
    log text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    lines integer NOT NULL,
    bytes bigint NOT NULL,
    last_append uuid,
    deleting boolean NOT NULL DEFAULT false,
    PRIMARY KEY (space, log)
) PARTITION BY HASH (space);
COMMENT ON COLUMN recollect.logs.last_append IS
    'Names the last append, so that one whose answer was lost is not made twice.';

CREATE TABLE recollect.lines (
    space text COLLATE "C" NOT NULL,
    log text COLLATE "C" NOT NULL,
    "offset" bigint NOT NULL,
    line integer NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (space, log, "offset")
) PARTITION BY HASH (space);
COMMENT ON TABLE recollect.lines IS 'One JSON line each, without its newline, byte for byte.';

CREATE TABLE recollect.redacted_lines (
    space text COLLATE "C" NOT NULL,
    log text COLLATE "C" NOT NULL,
    "offset" bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (space, log, "offset")
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 0);
COMMENT ON TABLE recollect.redacted_lines IS
    'Logs as they were before a redaction that has not ended: empty but for moments.';

DO $$
BEGIN
    FOR part IN 0..15 LOOP
        -- Room in each page, so that an update of a log's end needs no new entry of the index.
        EXECUTE format(
            'CREATE TABLE recollect.logs_%s PARTITION OF recollect.logs'
            ' FOR VALUES WITH (MODULUS 16, REMAINDER %s) WITH (fillfactor = 70)', part, part);
        -- Rows die by deletes alone: what was deleted is to be vacuumed soon, however large the table.
        EXECUTE format(
            'CREATE TABLE recollect.lines_%s PARTITION OF recollect.lines'
            ' FOR VALUES WITH (MODULUS 16, REMAINDER %s)'
            ' WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 0)', part, part);
    END LOOP;
END $$;

-- Whether the server of this number may write until the transaction ends. Whoever takes over waits
-- for the lock, so a server that lost the database changes nothing from then on.
CREATE FUNCTION recollect.is_owner(server bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7018351, 2);
    RETURN EXISTS (SELECT FROM recollect.owner WHERE number = server);
END $$;

CREATE FUNCTION recollect.take_over() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    taken bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(7018351, 2);
    UPDATE recollect.owner SET number = number + 1 RETURNING number INTO taken;
    RETURN taken;
END $$;

CREATE FUNCTION recollect.add_lines(
    in_space text, in_log text, after_lines integer, after_bytes bigint, append_id uuid,
    bodies bytea[]
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO recollect.lines (space, log, "offset", line, body)
    SELECT in_space, in_log,
           after_bytes + sum(octet_length(body) + 1) OVER (ORDER BY place) - octet_length(body) - 1,
           after_lines + place, body
    FROM unnest(bodies) WITH ORDINALITY AS added (body, place);
    UPDATE recollect.logs
    SET lines = after_lines + cardinality(bodies), last_append = append_id,
        bytes = after_bytes + (SELECT coalesce(sum(octet_length(body) + 1), 0) FROM unnest(bodies) body)
    WHERE space = in_space AND log = in_log;
$$;

-- Status of each of these: done, conflict, missing (no log of that name), fenced (another server).
CREATE FUNCTION recollect.append(
    server bigint, in_space text, in_log text, in_kind text, after_bytes bigint, append_id uuid,
    bodies bytea[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held recollect.logs;
BEGIN
    IF NOT recollect.is_owner(server) THEN
        RETURN 'fenced';
    END IF;
    SELECT * INTO held FROM recollect.logs
        WHERE space = in_space AND log = in_log FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        IF after_bytes > 0 THEN
            RETURN 'missing';
        END IF;
        INSERT INTO recollect.logs (space, log, kind, lines, bytes)
            VALUES (in_space, in_log, in_kind, 0, 0) ON CONFLICT DO NOTHING;
        SELECT * INTO held FROM recollect.logs
            WHERE space = in_space AND log = in_log FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN 'conflict';
        END IF;
    END IF;
    IF held.deleting AND held.bytes = 0 AND after_bytes = 0 AND held.last_append <> append_id THEN
        -- A log whose begin was cancelled, begun again.
        UPDATE recollect.logs SET deleting = false WHERE space = in_space AND log = in_log;
    ELSIF held.deleting THEN
        RETURN CASE WHEN after_bytes > 0 THEN 'missing' ELSE 'conflict' END;
    END IF;
    IF held.last_append = append_id THEN
        RETURN 'done';
    END IF;
    IF held.bytes <> after_bytes THEN
        RETURN 'conflict';
    END IF;
    PERFORM recollect.add_lines(in_space, in_log, held.lines, held.bytes, append_id, bodies);
    RETURN 'done';
END $$;

-- Let the append that began a log not have been made. Its statement may still be on its way: the
-- row that stays keeps it from beginning the log later. It goes as a deleted log goes.
CREATE FUNCTION recollect.cancel_begin(
    server bigint, in_space text, in_log text, in_kind text, append_id uuid
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held recollect.logs;
BEGIN
    IF NOT recollect.is_owner(server) THEN
        RETURN 'fenced';
    END IF;
    INSERT INTO recollect.logs (space, log, kind, lines, bytes, last_append, deleting)
        VALUES (in_space, in_log, in_kind, 0, 0, append_id, true) ON CONFLICT DO NOTHING;
    SELECT * INTO held FROM recollect.logs
        WHERE space = in_space AND log = in_log FOR NO KEY UPDATE;
    IF held.last_append = append_id AND NOT held.deleting THEN
        DELETE FROM recollect.lines WHERE space = in_space AND log = in_log;
        UPDATE recollect.logs SET lines = 0, bytes = 0, deleting = true
            WHERE space = in_space AND log = in_log;
    END IF;
    RETURN 'done';
END $$;

CREATE FUNCTION recollect.replace(
    server bigint, in_space text, in_log text, in_kind text, bodies bytea[]
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF NOT recollect.is_owner(server) THEN
        RETURN 'fenced';
    END IF;
    INSERT INTO recollect.logs (space, log, kind, lines, bytes)
        VALUES (in_space, in_log, in_kind, 0, 0) ON CONFLICT DO NOTHING;
    PERFORM FROM recollect.logs WHERE space = in_space AND log = in_log FOR NO KEY UPDATE;
    DELETE FROM recollect.lines WHERE space = in_space AND log = in_log;
    PERFORM recollect.add_lines(in_space, in_log, 0, 0, NULL, bodies);
    RETURN 'done';
END $$;

CREATE FUNCTION recollect.begin_redaction(
    server bigint, in_space text, in_log text, append_id uuid, bodies bytea[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held recollect.logs;
BEGIN
    IF NOT recollect.is_owner(server) THEN
        RETURN 'fenced';
    END IF;
    SELECT * INTO held FROM recollect.logs
        WHERE space = in_space AND log = in_log FOR NO KEY UPDATE;
    IF NOT FOUND OR held.deleting THEN
        RETURN 'missing';
    ELSIF held.last_append = append_id THEN
        RETURN 'done';
    END IF;
    INSERT INTO recollect.redacted_lines (space, log, "offset", body)
        SELECT space, log, "offset", body FROM recollect.lines
        WHERE space = in_space AND log = in_log;
    DELETE FROM recollect.lines WHERE space = in_space AND log = in_log;
    PERFORM recollect.add_lines(in_space, in_log, 0, 0, append_id, bodies);
    RETURN 'done';
END $$;

CREATE FUNCTION recollect.end_redaction(server bigint, in_space text, in_log text)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF NOT recollect.is_owner(server) THEN
        RETURN 'fenced';
    END IF;
    DELETE FROM recollect.redacted_lines WHERE space = in_space AND log = in_log;
    RETURN 'done';
END $$;

CREATE FUNCTION recollect.begin_delete(server bigint, in_space text, in_log text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held recollect.logs;
BEGIN
    IF NOT recollect.is_owner(server) THEN
        RETURN 'fenced';
    END IF;
    SELECT * INTO held FROM recollect.logs
        WHERE space = in_space AND log = in_log FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'missing';
    ELSIF held.deleting THEN
        RETURN 'begun';
    END IF;
    UPDATE recollect.logs SET deleting = true WHERE space = in_space AND log = in_log;
    RETURN 'done';
END $$;

CREATE FUNCTION recollect.end_delete(server bigint, in_space text, in_log text)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF NOT recollect.is_owner(server) THEN
        RETURN 'fenced';
    END IF;
    PERFORM FROM recollect.logs
        WHERE space = in_space AND log = in_log AND deleting FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'missing';
    END IF;
    DELETE FROM recollect.lines WHERE space = in_space AND log = in_log;
    DELETE FROM recollect.logs WHERE space = in_space AND log = in_log;
    RETURN 'done';
END $$;

CREATE FUNCTION recollect.remove_empty(server bigint, in_space text, in_log text)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF NOT recollect.is_owner(server) THEN
        RETURN 'fenced';
    END IF;
    DELETE FROM recollect.logs
        WHERE space = in_space AND log = in_log AND bytes = 0 AND NOT deleting;
    RETURN CASE WHEN FOUND THEN 'done' ELSE 'missing' END;
END $$;
