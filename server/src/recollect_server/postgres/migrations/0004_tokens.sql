-- The ledger of tokens, for all servers over this database.
CREATE TABLE recollect.tokens (
    line bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    append_id uuid NOT NULL UNIQUE,
    body bytea NOT NULL
);
COMMENT ON TABLE recollect.tokens IS
    'One JSON line each, as in tokens.jsonl: a token was created or revoked. Secrets as SHA-256 only.';
