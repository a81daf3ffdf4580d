-- The move of all logs into this database, if there was one (see kernel/log/moves.py).
CREATE TABLE recollect.moved_from (
    alone boolean PRIMARY KEY DEFAULT true CHECK (alone),
    source text NOT NULL,
    ended text NOT NULL
);
COMMENT ON TABLE recollect.moved_from IS
    'One row at most: the place that all logs were copied from, and the time at which that ended, or nothing.';
