-- A claim of a log that was deleted since is nobody's, also where a log of the same name was begun
-- again: a conversation that is imported again has its ids again, and those of its requests.
--
-- An append and a delete of one log wait for each other, and an append that waits for a delete
-- writes nothing: so a claim is of before a delete exactly if its transaction is the older one.
CREATE OR REPLACE FUNCTION recollect.claim_request(
    in_space text, in_key bytea, in_log text, append_id uuid
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    held_log text;
    held_by xid;
BEGIN
    INSERT INTO recollect.claims AS c (space, key, log, append)
        VALUES (in_space, in_key, in_log, append_id) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        RETURN true;
    END IF;
    SELECT log, xmin INTO held_log, held_by FROM recollect.claims
        WHERE space = in_space AND key = in_key FOR NO KEY UPDATE;
    IF EXISTS (SELECT FROM recollect.logs
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
