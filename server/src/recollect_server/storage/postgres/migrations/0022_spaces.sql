-- Spaces that somebody made, which are there without a log, and receipts of those that were deleted.
CREATE TABLE recollect.made_spaces (
    space text COLLATE "C" PRIMARY KEY
);
CREATE TABLE recollect.deleted_spaces (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    "time" bigint NOT NULL,
    conversations bigint NOT NULL,
    communications bigint NOT NULL,
    bytes bigint NOT NULL,
    ended boolean NOT NULL DEFAULT false
);
COMMENT ON COLUMN recollect.deleted_spaces.ended IS
    'Whether all logs are removed: the next start of a server ends what was interrupted.';
CREATE UNIQUE INDEX deleting_spaces ON recollect.deleted_spaces (name) WHERE NOT ended;
