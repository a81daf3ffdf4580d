-- Promises that hold without settings of a session. Behind a pooler in transaction mode (PgBouncer)
-- each transaction gets another session, which has the settings of its role or of whoever had it before.

-- Whoever is answered counts on the disk, whatever a role or a database has set.
CREATE FUNCTION recollect.be_durable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN NULL;
END $$;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'changes', 'leases', 'tokens', 'receipts', 'made_spaces', 'deleted_spaces', 'moved_from'
    ] LOOP
        EXECUTE format(
            'CREATE TRIGGER be_durable BEFORE INSERT OR UPDATE OR DELETE ON recollect.%I'
            ' FOR EACH STATEMENT EXECUTE FUNCTION recollect.be_durable()', name);
    END LOOP;
    -- Nobody waits for a lock for ever. (SET LOCAL within these still holds until their transaction ends.)
    FOR name IN
        SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
        WHERE nspname = 'recollect' AND proname IN (
            'append', 'cancel_begin', 'replace', 'begin_redaction', 'end_redaction', 'begin_delete',
            'end_delete', 'remove_empty', 'take_lease', 'prune_changes')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET lock_timeout = ''10s''', name);
    END LOOP;
END $$;
