-- Any number of servers ("replicas") over one database, all equal.
--
-- Each function that changes a log adds a row to `changes` in its own transaction. Replicas keep
-- their indexes up to the logs by them: a row counts as soon as it is visible. Streams order them by
-- (xid, id), below the oldest transaction that still runs, which is the same order on every replica:
-- a row above may be preceded by one that is not committed yet. A function locks the row of its log
-- before it takes a transaction's number, so the changes of one log are in the order of its lines.

CREATE TABLE recollect.replicas (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    started timestamptz NOT NULL DEFAULT now(),
    seen timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE recollect.replicas IS
    'Servers that use the database, by their own word each few seconds.';

CREATE TABLE recollect.changes (
    space text COLLATE "C" NOT NULL,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id bigint GENERATED ALWAYS AS IDENTITY,
    log text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    "from" bigint NOT NULL,
    until bigint NOT NULL,
    replica bigint NOT NULL,
    append uuid,
    "time" timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (space, xid, id)
) PARTITION BY HASH (space);
COMMENT ON COLUMN recollect.changes."from" IS
    'Bytes of the log before and behind the change; a delete leaves 0.';
COMMENT ON COLUMN recollect.changes.append IS 'Names an append, as recollect.logs.last_append.';

CREATE TABLE recollect.pruned (
    space text COLLATE "C" PRIMARY KEY,
    xid xid8 NOT NULL
);
COMMENT ON TABLE recollect.pruned IS
    'Newest transaction whose changes were pruned: who stands before it compares all lengths.';

CREATE TABLE recollect.claims (
    space text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    log text COLLATE "C" NOT NULL,
    append uuid NOT NULL,
    "time" timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (space, key)
) PARTITION BY HASH (space);
COMMENT ON TABLE recollect.claims IS
    'Digests of what exactly one append may have: a request, or the first lines at a place. It decides'
    ' between calls that run at the same time; later ones find the lines. So it is pruned after hours.';

CREATE TABLE recollect.followers (
    space text COLLATE "C" NOT NULL,
    replica bigint NOT NULL REFERENCES recollect.replicas ON DELETE CASCADE,
    PRIMARY KEY (space, replica)
);
COMMENT ON TABLE recollect.followers IS 'Replicas that keep an index of a space.';

CREATE TABLE recollect.traces (
    space text COLLATE "C" NOT NULL,
    log text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    replica bigint NOT NULL REFERENCES recollect.replicas ON DELETE CASCADE,
    PRIMARY KEY (space, log, action, replica)
);
COMMENT ON TABLE recollect.traces IS
    'Replicas that may still have words of a log which was deleted or redacted. Its old lines stay'
    ' until none is left, for they say which words.';

CREATE TABLE recollect.leases (
    space text COLLATE "C" NOT NULL,
    purpose text COLLATE "C" NOT NULL,
    holder bigint NOT NULL,
    fence bigint NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (space, purpose),
    UNIQUE (space, purpose, fence)
);
COMMENT ON TABLE recollect.leases IS
    'Work that one replica does at a time. A new holder gets a higher fence.';

-- The number of a lease, taken or held on; 0 if it is another replica's. Only the clock of the
-- database counts.
CREATE FUNCTION recollect.take_lease(
    in_space text, in_purpose text, in_holder bigint, seconds double precision
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    taken bigint;
BEGIN
    INSERT INTO recollect.leases AS l (space, purpose, holder, fence, until)
        VALUES (in_space, in_purpose, in_holder, 1, now() + make_interval(secs => seconds))
        ON CONFLICT (space, purpose) DO UPDATE
        SET holder = excluded.holder, until = excluded.until,
            fence = CASE l.holder WHEN excluded.holder THEN l.fence ELSE l.fence + 1 END
        WHERE l.holder = excluded.holder OR l.until < now()
        RETURNING fence INTO taken;
    RETURN coalesce(taken, 0);
END $$;

DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format(
            'CREATE TABLE recollect.changes_%s PARTITION OF recollect.changes'
            ' FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
        EXECUTE format(
            'CREATE TABLE recollect.claims_%s PARTITION OF recollect.claims'
            ' FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
    END LOOP;
END $$;

DROP FUNCTION recollect.append, recollect.cancel_begin, recollect.replace,
    recollect.begin_redaction, recollect.end_redaction, recollect.begin_delete,
    recollect.end_delete, recollect.remove_empty, recollect.is_owner, recollect.take_over;

CREATE FUNCTION recollect.add_change(
    in_space text, in_log text, in_kind text, in_action text, in_from bigint, in_until bigint,
    in_replica bigint, in_append uuid
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO recollect.changes (space, log, kind, action, "from", until, replica, append)
    VALUES (in_space, in_log, in_kind, in_action, in_from, in_until, in_replica, in_append);
$$;

-- Whether a request belongs to nobody, and is claimed now. One that runs elsewhere is waited for.
CREATE FUNCTION recollect.claim_request(
    in_space text, in_key bytea, in_log text, append_id uuid
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    held recollect.claims;
BEGIN
    INSERT INTO recollect.claims AS c (space, key, log, append)
        VALUES (in_space, in_key, in_log, append_id) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        RETURN true;
    END IF;
    SELECT * INTO held FROM recollect.claims
        WHERE space = in_space AND key = in_key FOR NO KEY UPDATE;
    IF EXISTS (SELECT FROM recollect.logs
               WHERE space = in_space AND log = held.log AND NOT deleting) THEN
        RETURN false;
    END IF;
    -- What it wrote is deleted, or was cancelled.
    UPDATE recollect.claims SET log = in_log, append = append_id, "time" = now()
        WHERE space = in_space AND key = in_key;
    RETURN true;
END $$;

-- Whether the holder of a place is the one that the caller saw, and is the caller now.
CREATE FUNCTION recollect.claim_place(
    in_space text, in_key bytea, in_log text, append_id uuid, seen uuid
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF seen IS NULL THEN
        INSERT INTO recollect.claims (space, key, log, append)
            VALUES (in_space, in_key, in_log, append_id) ON CONFLICT DO NOTHING;
    ELSE
        UPDATE recollect.claims SET log = in_log, append = append_id, "time" = now()
            WHERE space = in_space AND key = in_key AND append = seen;
    END IF;
    RETURN FOUND;
END $$;

-- Status of each function: done, conflict, missing (no log of that name), taken (a claim is not
-- free). Of one that is not done, nothing is stored.
CREATE FUNCTION recollect.append(
    replica bigint, in_space text, in_log text, in_kind text, after_bytes bigint, append_id uuid,
    is_again boolean, bodies bytea[], request bytea, places bytea[], holders uuid[],
    lease text DEFAULT NULL, in_fence bigint DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held recollect.logs;
BEGIN
    IF lease IS NOT NULL THEN
        -- Whoever would replace the holder waits until this transaction ends.
        PERFORM FROM recollect.leases
            WHERE space = in_space AND purpose = lease AND fence = in_fence FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'RC001', MESSAGE = 'another replica does this work now';
        END IF;
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
    IF held.deleting AND (held.bytes > 0 OR after_bytes > 0 OR held.last_append = append_id) THEN
        RETURN CASE WHEN after_bytes > 0 THEN 'missing' ELSE 'conflict' END;
    ELSIF held.last_append = append_id THEN
        RETURN 'done';
    ELSIF is_again AND EXISTS (SELECT FROM recollect.changes
                               WHERE space = in_space AND log = in_log AND append = append_id) THEN
        RETURN 'done'; -- and another replica's append came behind it
    ELSIF held.bytes <> after_bytes THEN
        RETURN 'conflict';
    END IF;
    IF request IS NOT NULL
       AND NOT recollect.claim_request(in_space, request, in_log, append_id) THEN
        RAISE EXCEPTION USING ERRCODE = 'RC001', MESSAGE = 'the request is carried out elsewhere';
    END IF;
    FOR place IN 1..cardinality(places) LOOP
        IF NOT recollect.claim_place(
            in_space, places[place], in_log, append_id, holders[place]) THEN
            RAISE EXCEPTION USING ERRCODE = 'RC001', MESSAGE = 'the place is taken';
        END IF;
    END LOOP;
    IF held.deleting THEN
        -- A log whose begin was cancelled, begun again.
        UPDATE recollect.logs SET deleting = false WHERE space = in_space AND log = in_log;
    END IF;
    PERFORM recollect.add_lines(in_space, in_log, held.lines, held.bytes, append_id, bodies);
    PERFORM recollect.add_change(
        in_space, in_log, in_kind, 'append', held.bytes,
        held.bytes + (SELECT coalesce(sum(octet_length(body) + 1), 0) FROM unnest(bodies) body),
        replica, append_id);
    RETURN 'done';
END $$;

-- Let the append that began a log not have been made. Its statement may still be on its way: the
-- row that stays keeps it from beginning the log later. It goes as a deleted log goes.
CREATE FUNCTION recollect.cancel_begin(
    replica bigint, in_space text, in_log text, in_kind text, append_id uuid
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held recollect.logs;
BEGIN
    INSERT INTO recollect.logs (space, log, kind, lines, bytes, last_append, deleting)
        VALUES (in_space, in_log, in_kind, 0, 0, append_id, true) ON CONFLICT DO NOTHING;
    SELECT * INTO held FROM recollect.logs
        WHERE space = in_space AND log = in_log FOR NO KEY UPDATE;
    IF held.last_append = append_id AND NOT held.deleting AND NOT EXISTS (
        -- Another replica may have answered with it: then it stays, and a repeat finds it.
        SELECT FROM recollect.followers f JOIN recollect.replicas r ON r.number = f.replica
        WHERE f.space = in_space AND f.replica <> cancel_begin.replica
          AND r.seen > now() - interval '30 seconds') THEN
        DELETE FROM recollect.lines WHERE space = in_space AND log = in_log;
        UPDATE recollect.logs SET lines = 0, bytes = 0, deleting = true
            WHERE space = in_space AND log = in_log;
        PERFORM recollect.add_change(
            in_space, in_log, in_kind, 'delete', held.bytes, 0, replica, NULL);
    END IF;
    RETURN 'done';
END $$;

-- `after_bytes`, here and below: of the log that the change was made from; NULL: of any.
CREATE FUNCTION recollect.replace(
    replica bigint, in_space text, in_log text, in_kind text, after_bytes bigint, bodies bytea[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held recollect.logs;
BEGIN
    INSERT INTO recollect.logs (space, log, kind, lines, bytes)
        VALUES (in_space, in_log, in_kind, 0, 0) ON CONFLICT DO NOTHING;
    SELECT * INTO held FROM recollect.logs
        WHERE space = in_space AND log = in_log FOR NO KEY UPDATE;
    IF held.bytes <> coalesce(after_bytes, held.bytes) THEN
        RETURN 'conflict';
    END IF;
    DELETE FROM recollect.lines WHERE space = in_space AND log = in_log;
    PERFORM recollect.add_lines(in_space, in_log, 0, 0, NULL, bodies);
    PERFORM recollect.add_change(
        in_space, in_log, in_kind, 'replace', held.bytes,
        (SELECT coalesce(sum(octet_length(body) + 1), 0) FROM unnest(bodies) body), replica, NULL);
    RETURN 'done';
END $$;

-- Replicas that were not heard of for this long are taken for gone: they make their indexes anew
-- where they find that words went without them.
CREATE FUNCTION recollect.add_traces(in_space text, in_log text, in_action text)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO recollect.traces (space, log, action, replica)
    SELECT in_space, in_log, in_action, r.number
    FROM recollect.followers f JOIN recollect.replicas r ON r.number = f.replica
    WHERE f.space = in_space AND r.seen > now() - interval '30 seconds' FOR KEY SHARE OF r
    ON CONFLICT DO NOTHING;
$$;

CREATE FUNCTION recollect.begin_redaction(
    replica bigint, in_space text, in_log text, after_bytes bigint, append_id uuid, bodies bytea[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held recollect.logs;
BEGIN
    SELECT * INTO held FROM recollect.logs
        WHERE space = in_space AND log = in_log FOR NO KEY UPDATE;
    IF NOT FOUND OR held.deleting THEN
        RETURN 'missing';
    ELSIF held.last_append = append_id THEN
        RETURN 'done';
    ELSIF held.bytes <> coalesce(after_bytes, held.bytes)
          OR EXISTS (SELECT FROM recollect.redacted_lines
                     WHERE space = in_space AND log = in_log) THEN
        RETURN 'conflict';
    END IF;
    INSERT INTO recollect.redacted_lines (space, log, "offset", body)
        SELECT space, log, "offset", body FROM recollect.lines
        WHERE space = in_space AND log = in_log;
    DELETE FROM recollect.lines WHERE space = in_space AND log = in_log;
    PERFORM recollect.add_lines(in_space, in_log, 0, 0, append_id, bodies);
    PERFORM recollect.add_traces(in_space, in_log, 'redact');
    PERFORM recollect.add_change(
        in_space, in_log, held.kind, 'redact', held.bytes,
        (SELECT coalesce(sum(octet_length(body) + 1), 0) FROM unnest(bodies) body), replica,
        append_id);
    RETURN 'done';
END $$;

-- Note that a replica has none of the words any more, and remove the old lines if none has. Status:
-- done, or waiting (for others).
CREATE FUNCTION recollect.end_redaction(replica bigint, in_space text, in_log text)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM recollect.logs WHERE space = in_space AND log = in_log FOR NO KEY UPDATE;
    IF recollect.is_waiting(replica, in_space, in_log, 'redact') THEN
        RETURN 'waiting';
    END IF;
    DELETE FROM recollect.redacted_lines WHERE space = in_space AND log = in_log;
    RETURN 'done';
END $$;

-- Remove the trace of a replica, and return whether there are others. Its caller holds the log.
CREATE FUNCTION recollect.is_waiting(
    in_replica bigint, in_space text, in_log text, in_action text
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM recollect.traces
        WHERE space = in_space AND log = in_log AND action = in_action AND replica = in_replica;
    RETURN EXISTS (
        SELECT FROM recollect.traces JOIN recollect.replicas r ON r.number = replica
        WHERE space = in_space AND log = in_log AND action = in_action
          AND r.seen > now() - interval '30 seconds');
END $$;

CREATE FUNCTION recollect.begin_delete(
    replica bigint, in_space text, in_log text, after_bytes bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held recollect.logs;
BEGIN
    SELECT * INTO held FROM recollect.logs
        WHERE space = in_space AND log = in_log FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'missing';
    ELSIF held.deleting THEN
        RETURN 'begun';
    ELSIF held.bytes <> coalesce(after_bytes, held.bytes) THEN
        RETURN 'conflict';
    END IF;
    UPDATE recollect.logs SET deleting = true WHERE space = in_space AND log = in_log;
    IF held.kind = 'conversations' THEN -- of others no index has words
        PERFORM recollect.add_traces(in_space, in_log, 'delete');
    END IF;
    PERFORM recollect.add_change(
        in_space, in_log, held.kind, 'delete', held.bytes, 0, replica, NULL);
    RETURN 'done';
END $$;

CREATE FUNCTION recollect.end_delete(replica bigint, in_space text, in_log text)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM recollect.logs
        WHERE space = in_space AND log = in_log AND deleting FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'missing';
    ELSIF recollect.is_waiting(replica, in_space, in_log, 'delete') THEN
        RETURN 'waiting';
    END IF;
    DELETE FROM recollect.lines WHERE space = in_space AND log = in_log;
    DELETE FROM recollect.redacted_lines WHERE space = in_space AND log = in_log;
    DELETE FROM recollect.traces WHERE space = in_space AND log = in_log;
    DELETE FROM recollect.logs WHERE space = in_space AND log = in_log;
    RETURN 'done';
END $$;

CREATE FUNCTION recollect.remove_empty(replica bigint, in_space text, in_log text)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM recollect.logs
        WHERE space = in_space AND log = in_log AND bytes = 0 AND NOT deleting;
    RETURN CASE WHEN FOUND THEN 'done' ELSE 'missing' END;
END $$;

-- Remove old changes of a space: those older than so many seconds, and all but the newest. None of a
-- transaction that some reader may not have seen the end of.
CREATE FUNCTION recollect.prune_changes(in_space text, max_age double precision, most bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    bound xid8;
    removed bigint;
BEGIN
    SELECT max(xid) INTO bound FROM (
        SELECT xid FROM (
            SELECT c.xid, c."time", row_number() OVER (ORDER BY c.xid DESC, c.id DESC) AS place
            FROM recollect.changes c
            WHERE c.space = in_space AND c.xid < pg_snapshot_xmin(pg_current_snapshot())
        ) numbered
        WHERE place > most OR "time" < now() - make_interval(secs => max_age)
    ) old;
    IF bound IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM recollect.changes WHERE space = in_space AND xid <= bound;
    GET DIAGNOSTICS removed = ROW_COUNT;
    INSERT INTO recollect.pruned (space, xid) VALUES (in_space, bound)
        ON CONFLICT (space) DO UPDATE SET xid = excluded.xid WHERE pruned.xid < excluded.xid;
    DELETE FROM recollect.claims
        WHERE space = in_space AND "time" < now() - interval '1 day';
    RETURN removed;
END $$;
