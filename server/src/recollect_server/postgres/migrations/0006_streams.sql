-- What streams need of the changes: positions that hold on every replica, and drafts.

ALTER TABLE recollect.changes
    ADD COLUMN seen pg_snapshot NOT NULL DEFAULT pg_current_snapshot(),
    ADD COLUMN tag integer NOT NULL DEFAULT (random() * 2147483646)::integer,
    ADD COLUMN channel text;
COMMENT ON COLUMN recollect.changes.seen IS
    'What its transaction could see when it wrote: others of a lower number may commit after it.';
COMMENT ON COLUMN recollect.changes.tag IS
    'Tells it from a change that has its number in a copy of the database which lost this one.';

COMMENT ON COLUMN recollect.changes.channel IS 'Of a deleted log, whose lines do not say it any more.';

-- Small, for deletes are few: whether a log was deleted after a change of it.
CREATE INDEX changes_deletes ON recollect.changes (space, log, xid) WHERE action = 'delete';

-- The position of the change is left where the statement that called can read it.
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
    INSERT INTO recollect.changes
            (space, log, kind, action, "from", until, replica, append, channel)
        VALUES (in_space, in_log, in_kind, in_action, in_from, in_until, in_replica, in_append,
                its_channel)
        RETURNING * INTO added;
    PERFORM set_config(
        'recollect.change', concat_ws(' ', added.xid, added.tag, added.seen), true);
END $$;

-- Parts of unfinished answers. Not logged: they are in no backup and on no standby, and a crash of
-- PostgreSQL empties the table.
CREATE UNLOGGED TABLE recollect.drafts (
    space text COLLATE "C" NOT NULL,
    log text COLLATE "C" NOT NULL,
    draft text COLLATE "C" NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    channel text NOT NULL,
    "offset" integer NOT NULL,
    text text NOT NULL,
    done boolean NOT NULL,
    replica bigint NOT NULL,
    "time" timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (space, log, draft, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX drafts_by_xid ON recollect.drafts (space, xid);

-- Grows when a standby takes over. 0: this PostgreSQL does not tell.
CREATE FUNCTION recollect.timeline() RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RETURN ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::integer;
EXCEPTION WHEN OTHERS THEN
    RETURN 0;
END $$;
