-- Takeovers: a standby, or a restored backup, may lack the last changes that were acknowledged.
--
-- Whoever connects calls `enter` before anything else. The first one behind a takeover notes where
-- the new history begins: all changes from the transaction `began` on are of it, so of each log is
-- known how much of it both histories have. Nothing that was given out before is given out again.

CREATE TABLE recollect.timelines (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    place text COLLATE "C" NOT NULL,
    tag integer NOT NULL,
    began xid8 NOT NULL
);
COMMENT ON TABLE recollect.timelines IS 'Histories of this database, each of which goes on where the one before ended.';
COMMENT ON COLUMN recollect.timelines.place IS 'Cluster and timeline, as PostgreSQL numbers them.';
COMMENT ON COLUMN recollect.timelines.tag IS
    'Random: two standbys that do not know of each other number their timelines alike.';

-- Empty: this PostgreSQL does not tell.
CREATE FUNCTION recollect.place() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT system_identifier::text FROM pg_control_system()) || ' '
        || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8);
EXCEPTION WHEN OTHERS THEN
    RETURN '';
END $$;

INSERT INTO recollect.timelines (place, tag, began)
    VALUES (recollect.place(), recollect.timeline(), '0');

CREATE OR REPLACE FUNCTION recollect.timeline() RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT tag FROM recollect.timelines ORDER BY id DESC LIMIT 1
$$;

CREATE FUNCTION recollect.is_entered(here text) RETURNS boolean LANGUAGE sql AS $$
    SELECT here = '' OR here = (SELECT place FROM recollect.timelines ORDER BY id DESC LIMIT 1)
$$;

CREATE FUNCTION recollect.enter() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    here text := recollect.place();
    series regclass;
BEGIN
    IF recollect.is_entered(here) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(7018351, 4);
    IF recollect.is_entered(here) THEN
        RETURN;
    END IF;
    INSERT INTO recollect.timelines (place, tag, began)
        VALUES (here, (random() * 2147483646)::integer, pg_snapshot_xmax(pg_current_snapshot()));
    -- Numbers that were given out by what is lost may be known: of replicas, tokens, deletes of
    -- spaces, and leases.
    FOREACH series IN ARRAY ARRAY[
        pg_get_serial_sequence('recollect.replicas', 'number')::regclass,
        pg_get_serial_sequence('recollect.tokens', 'line')::regclass,
        pg_get_serial_sequence('recollect.deleted_spaces', 'id')::regclass]
    LOOP
        PERFORM setval(series, nextval(series) + 1000000);
    END LOOP;
    UPDATE recollect.leases SET fence = fence + 1000000;
END $$;
