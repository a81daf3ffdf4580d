-- Steps of the schema mostly add something ("expand"), and servers that do not know them go on, and may start. A
-- step that takes away what they use, or lets lines be written that they would pass over ("contract"), sets this to
-- the number of the first step that a server must know.
ALTER TABLE recollect.owner ADD COLUMN oldest_server integer NOT NULL DEFAULT 6;
COMMENT ON COLUMN recollect.owner.oldest_server IS
    'Step of the schema that a server must know to use the database.';
