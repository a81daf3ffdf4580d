-- Answers of requests that leave no line end a month after they were given: a repeat comes within
-- minutes. So do requests that were begun and never answered.
ALTER TABLE recollect.receipts ADD COLUMN "time" timestamptz NOT NULL DEFAULT now();

CREATE OR REPLACE FUNCTION recollect.prune_changes(
    in_space text, max_age double precision, most bigint
) RETURNS bigint LANGUAGE plpgsql SET lock_timeout = '10s' AS $$
DECLARE
    bound xid8;
    removed bigint;
BEGIN
    DELETE FROM recollect.claims
        WHERE space = in_space AND "time" < now() - interval '1 day';
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
