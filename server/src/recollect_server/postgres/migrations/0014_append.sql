-- `append` as before, with half of the processor time. Its parameters made PostgreSQL plan each
-- statement over a partitioned table anew in each call, for it takes a plan of all partitions to be
-- dearer than that; executed, such a plan opens the partition of the space alone. And what it called
-- in functions of its own is part of it.
--
-- No sequential scan: a plan that was made over a small table is kept while the table grows.
CREATE OR REPLACE FUNCTION recollect.append(
    replica bigint, in_space text, in_log text, in_kind text, after_bytes bigint, append_id uuid,
    is_again boolean, bodies bytea[], request bytea, places bytea[], holders uuid[],
    lease text DEFAULT NULL, in_fence bigint DEFAULT NULL
) RETURNS text LANGUAGE plpgsql
SET lock_timeout = '10s' SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = 'off' AS $$
DECLARE
    held_lines integer;
    held_bytes bigint;
    held_append uuid;
    is_deleting boolean;
    end_bytes bigint;
    line_body bytea;
    offsets bigint[];
    its_xid xid8;
    its_tag integer;
    its_seen pg_snapshot;
    ignored text;
BEGIN
    IF lease IS NOT NULL THEN
        -- Whoever would replace the holder waits until this transaction ends.
        PERFORM FROM recollect.leases
            WHERE space = in_space AND purpose = lease AND fence = in_fence FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'RC001', MESSAGE = 'another replica does this work now';
        END IF;
    END IF;
    SELECT lines, bytes, last_append, deleting
        INTO held_lines, held_bytes, held_append, is_deleting
        FROM recollect.logs WHERE space = in_space AND log = in_log FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        IF after_bytes > 0 THEN
            RETURN 'missing';
        END IF;
        INSERT INTO recollect.logs (space, log, kind, lines, bytes)
            VALUES (in_space, in_log, in_kind, 0, 0) ON CONFLICT DO NOTHING;
        SELECT lines, bytes, last_append, deleting
            INTO held_lines, held_bytes, held_append, is_deleting
            FROM recollect.logs WHERE space = in_space AND log = in_log FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN 'conflict';
        END IF;
    END IF;
    IF is_deleting AND (held_bytes > 0 OR after_bytes > 0 OR held_append = append_id) THEN
        RETURN CASE WHEN after_bytes > 0 THEN 'missing' ELSE 'conflict' END;
    ELSIF held_append = append_id THEN
        RETURN 'done';
    ELSIF is_again AND EXISTS (SELECT FROM recollect.changes
                               WHERE space = in_space AND log = in_log AND append = append_id) THEN
        RETURN 'done'; -- and another replica's append came behind it
    ELSIF held_bytes <> after_bytes THEN
        RETURN 'conflict';
    END IF;
    IF request IS NOT NULL THEN
        INSERT INTO recollect.claims (space, key, log, append)
            VALUES (in_space, request, in_log, append_id) ON CONFLICT DO NOTHING;
        IF NOT FOUND AND NOT recollect.claim_request(in_space, request, in_log, append_id) THEN
            RAISE EXCEPTION USING ERRCODE = 'RC001', MESSAGE = 'the request is carried out elsewhere';
        END IF;
    END IF;
    FOR place IN 1..cardinality(places) LOOP
        IF NOT recollect.claim_place(
            in_space, places[place], in_log, append_id, holders[place]) THEN
            RAISE EXCEPTION USING ERRCODE = 'RC001', MESSAGE = 'the place is taken';
        END IF;
    END LOOP;
    end_bytes := held_bytes;
    FOREACH line_body IN ARRAY bodies LOOP
        offsets := offsets || end_bytes;
        end_bytes := end_bytes + octet_length(line_body) + 1;
    END LOOP;
    INSERT INTO recollect.lines (space, log, "offset", line, body)
        SELECT in_space, in_log, added.start, held_lines + added.place, added.body
        FROM unnest(offsets, bodies) WITH ORDINALITY AS added (start, body, place);
    -- A log whose begin was cancelled is begun again: it is not deleted any more.
    UPDATE recollect.logs
        SET lines = held_lines + cardinality(bodies), bytes = end_bytes, last_append = append_id,
            deleting = false
        WHERE space = in_space AND log = in_log;
    INSERT INTO recollect.changes AS c (space, log, kind, action, "from", until, replica, append)
        VALUES (in_space, in_log, in_kind, 'append', held_bytes, end_bytes, append.replica,
                append_id)
        RETURNING c.xid, c.tag, c.seen INTO its_xid, its_tag, its_seen;
    -- An assignment, for PERFORM would be one more statement.
    ignored := set_config('recollect.change', concat_ws(' ', its_xid, its_tag, its_seen), true);
    RETURN 'done';
END $$;
