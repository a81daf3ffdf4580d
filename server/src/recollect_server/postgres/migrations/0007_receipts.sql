-- Answers of requests that leave no line: deletes. A repeat that another server gets is answered.
CREATE TABLE recollect.receipts (
    space text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    answer text NOT NULL,
    PRIMARY KEY (space, key)
);
COMMENT ON TABLE recollect.receipts IS
    'By digests of request ids. Empty: the request was begun, and is not answered yet.';
