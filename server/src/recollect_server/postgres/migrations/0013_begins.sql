-- As in 0002, but a begin stays if any other replica follows the space, and not only if one of them was heard of
-- within 30 seconds.
CREATE OR REPLACE FUNCTION recollect.cancel_begin(
    replica bigint, in_space text, in_log text, in_kind text, append_id uuid
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '10s' AS $$
DECLARE
    held recollect.logs;
BEGIN
    INSERT INTO recollect.logs (space, log, kind, lines, bytes, last_append, deleting)
        VALUES (in_space, in_log, in_kind, 0, 0, append_id, true) ON CONFLICT DO NOTHING;
    SELECT * INTO held FROM recollect.logs
        WHERE space = in_space AND log = in_log FOR NO KEY UPDATE;
    IF held.last_append = append_id AND NOT held.deleting AND NOT EXISTS (
        -- Another replica may have answered with it: then it stays, and a repeat finds it. Whether
        -- that one is alive does not count: what it answered before holds.
        SELECT FROM recollect.followers f
        WHERE f.space = in_space AND f.replica <> cancel_begin.replica) THEN
        DELETE FROM recollect.lines WHERE space = in_space AND log = in_log;
        UPDATE recollect.logs SET lines = 0, bytes = 0, deleting = true
            WHERE space = in_space AND log = in_log;
        PERFORM recollect.add_change(
            in_space, in_log, in_kind, 'delete', held.bytes, 0, replica, NULL);
    END IF;
    RETURN 'done';
END $$;

-- As the other functions, since 0008.
ALTER FUNCTION recollect.enter SET lock_timeout = '10s';

-- Whoever was given one of these numbers counts on it, and so does who follows a space.
CREATE TRIGGER be_durable BEFORE INSERT ON recollect.replicas
    FOR EACH STATEMENT EXECUTE FUNCTION recollect.be_durable();
CREATE TRIGGER be_durable BEFORE INSERT ON recollect.followers
    FOR EACH STATEMENT EXECUTE FUNCTION recollect.be_durable();
CREATE TRIGGER be_durable BEFORE INSERT ON recollect.timelines
    FOR EACH STATEMENT EXECUTE FUNCTION recollect.be_durable();
