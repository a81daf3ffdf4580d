-- An id belongs to one request, also where that writes no line (a delete, a switch), replaces lines
-- (a redaction, a forgotten anchor), or loses the line that it wrote (an anchor that is forgotten).
-- Until here only an append claimed the id of its request.

COMMENT ON COLUMN recollect.claims.log IS
    'Log of the append; empty: a request that writes no line, named by the digest of its payload.';

-- As in 0015; and whoever has a claim may claim it again, and the claim of a request that writes no
-- line stays as long as its receipt.
CREATE OR REPLACE FUNCTION recollect.claim_request(
    in_space text, in_key bytea, in_log text, append_id uuid
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    held_log text;
    held_append uuid;
    held_by xid;
BEGIN
    LOOP
        INSERT INTO recollect.claims AS c (space, key, log, append)
            VALUES (in_space, in_key, in_log, append_id) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN true;
        END IF;
        SELECT log, append, xmin INTO held_log, held_append, held_by FROM recollect.claims
            WHERE space = in_space AND key = in_key FOR NO KEY UPDATE;
        EXIT WHEN FOUND; -- else it was given up in between
    END LOOP;
    IF held_log = in_log AND held_append = append_id THEN
        RETURN true;
    END IF;
    IF held_log = ''
        OR EXISTS (SELECT FROM recollect.logs
                   WHERE space = in_space AND log = held_log AND NOT deleting)
        AND NOT EXISTS (SELECT FROM recollect.changes
                        WHERE space = in_space AND log = held_log AND action = 'delete'
                            AND age(xid::xid) < age(held_by)) THEN
        RETURN false;
    END IF;
    -- What it wrote is deleted, or was cancelled.
    UPDATE recollect.claims SET log = in_log, append = append_id, "time" = now()
        WHERE space = in_space AND key = in_key;
    RETURN true;
END $$;

-- Begin a request that writes no line: it has an empty receipt from here on. False: another request
-- has its id.
CREATE FUNCTION recollect.begin_request(
    in_space text, in_key bytea, in_claim bytea, payload uuid
) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '10s' AS $$
BEGIN
    IF NOT recollect.claim_request(in_space, in_claim, '', payload) THEN
        RETURN false;
    END IF;
    INSERT INTO recollect.receipts (space, key, answer) VALUES (in_space, in_key, '')
        ON CONFLICT DO NOTHING;
    RETURN true;
END $$;

-- Keep the answer of such a request, and return the first one. It claims its id again, which a
-- repeat may have given up that was refused.
CREATE FUNCTION recollect.answer_request(
    in_space text, in_key bytea, in_claim bytea, payload uuid, in_answer text
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '10s' AS $$
DECLARE
    first text;
BEGIN
    PERFORM recollect.claim_request(in_space, in_claim, '', payload);
    INSERT INTO recollect.receipts AS r (space, key, answer) VALUES (in_space, in_key, in_answer)
        ON CONFLICT (space, key) DO UPDATE
        SET answer = CASE r.answer WHEN '' THEN excluded.answer ELSE r.answer END
        RETURNING answer INTO first;
    RETURN first;
END $$;

-- Give up a request that was refused, so that its id is free. One that has an answer keeps it.
CREATE FUNCTION recollect.give_up_request(
    in_space text, in_key bytea, in_claim bytea, payload uuid
) RETURNS void LANGUAGE plpgsql SET lock_timeout = '10s' AS $$
BEGIN
    DELETE FROM recollect.claims
        WHERE space = in_space AND key = in_claim AND log = '' AND append = payload
            AND EXISTS (SELECT FROM recollect.receipts
                        WHERE space = in_space AND key = in_key AND answer = '');
    IF FOUND THEN
        DELETE FROM recollect.receipts WHERE space = in_space AND key = in_key AND answer = '';
    END IF;
END $$;

-- As before, with the claim of the request that redacts.
CREATE FUNCTION recollect.begin_redaction(
    replica bigint, in_space text, in_log text, after_bytes bigint, append_id uuid, bodies bytea[],
    request bytea
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '10s' AS $$
DECLARE
    status text;
BEGIN
    status := recollect.begin_redaction(replica, in_space, in_log, after_bytes, append_id, bodies);
    IF status = 'done' AND request IS NOT NULL
        AND NOT recollect.claim_request(in_space, request, in_log, append_id) THEN
        RAISE EXCEPTION USING ERRCODE = 'RC001', MESSAGE = 'the request is carried out elsewhere';
    END IF;
    RETURN status;
END $$;

-- As before, with the claim of the request that replaces the lines, and without those of requests
-- whose lines are not among the new ones: nothing of them is left.
CREATE FUNCTION recollect.replace(
    replica bigint, in_space text, in_log text, in_kind text, after_bytes bigint, bodies bytea[],
    request bytea, released bytea[]
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '10s' AS $$
DECLARE
    status text;
BEGIN
    status := recollect.replace(replica, in_space, in_log, in_kind, after_bytes, bodies);
    IF status <> 'done' THEN
        RETURN status;
    END IF;
    DELETE FROM recollect.claims WHERE space = in_space AND key = ANY(released) AND log = in_log;
    -- Named by itself, for a statement whose answer was lost is made again.
    IF request IS NOT NULL AND NOT recollect.claim_request(
        in_space, request, in_log, encode(request, 'hex')::uuid) THEN
        RAISE EXCEPTION USING ERRCODE = 'RC001', MESSAGE = 'the request is carried out elsewhere';
    END IF;
    RETURN status;
END $$;

-- As in 0009, but the claims of receipts end with them.
CREATE OR REPLACE FUNCTION recollect.prune_changes(
    in_space text, max_age double precision, most bigint
) RETURNS bigint LANGUAGE plpgsql SET lock_timeout = '10s' AS $$
DECLARE
    bound xid8;
    removed bigint;
BEGIN
    DELETE FROM recollect.claims
        WHERE space = in_space
            AND "time" < now() - CASE log WHEN '' THEN interval '30 days' ELSE interval '1 day' END;
    DELETE FROM recollect.receipts
        WHERE space = in_space AND "time" < now() - interval '30 days';
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
    RETURN removed;
END $$;
