-- The use of tokens, by day and method, of all servers over this database.
CREATE TABLE IF NOT EXISTS recollect.token_uses (
    token text NOT NULL,
    day integer NOT NULL,
    space text NOT NULL,
    method text NOT NULL,
    peer text NOT NULL,
    calls bigint NOT NULL,
    refused bigint NOT NULL,
    last bigint NOT NULL,
    batch uuid NOT NULL,
    PRIMARY KEY (token, day, space, method, peer)
);
CREATE INDEX IF NOT EXISTS token_uses_day ON recollect.token_uses (day);
COMMENT ON TABLE recollect.token_uses IS
    'Counts of calls, kept for 90 days: day in days and last in milliseconds since 1970. No text of calls.';
