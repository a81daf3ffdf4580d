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
    ended boolean NOT NULL DEFAULT false,
    emptied boolean NOT NULL DEFAULT false
);
COMMENT ON COLUMN recollect.deleted_spaces.ended IS
    'Whether nobody reads a log any more: the next start of a server ends what was interrupted.';
COMMENT ON COLUMN recollect.deleted_spaces.emptied IS
    'Whether the lines are removed, for no replica had words of them any more.';
CREATE UNIQUE INDEX deleting_spaces ON recollect.deleted_spaces (name) WHERE NOT ended;
