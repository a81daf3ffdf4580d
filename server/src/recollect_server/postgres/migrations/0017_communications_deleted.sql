-- A communication can be deleted too, and indexes have its words: each server that follows the space takes them out
-- by its lines, which stay until then.
CREATE OR REPLACE FUNCTION recollect.begin_delete(
    replica bigint, in_space text, in_log text, after_bytes bigint
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '10s' AS $$
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
    IF held.kind IN ('conversations', 'external') THEN -- of others no index has words
        PERFORM recollect.add_traces(in_space, in_log, 'delete');
    END IF;
    PERFORM recollect.add_change(
        in_space, in_log, held.kind, 'delete', held.bytes, 0, replica, NULL);
    RETURN 'done';
END $$;
