"""The tables of external communications. None of a conversation's tables has anything of theirs,
but for `requests`.
"""

import apsw


def external_tables(connection: apsw.Connection) -> None:
    """A step of `migrations`."""
    connection.execute("""
        -- With how far the transcript is indexed: one row changes with every message as it is.
        CREATE TABLE external_communications(
            number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
            channel TEXT NOT NULL, party TEXT NOT NULL, trust TEXT NOT NULL, scopes TEXT NOT NULL,
            create_time INTEGER NOT NULL, update_time INTEGER NOT NULL, message_count INTEGER NOT NULL,
            open TEXT NOT NULL, released INTEGER NOT NULL, bytes INTEGER NOT NULL, lines INTEGER NOT NULL);
        CREATE INDEX external_by_party ON external_communications(party, channel, id);
        CREATE INDEX external_by_time ON external_communications(update_time, id);
        CREATE INDEX external_by_trust ON external_communications(trust, update_time, id);
        CREATE INDEX external_that_wait ON external_communications(update_time, id) WHERE open <> '[]';
        CREATE TABLE external_messages(
            number INTEGER NOT NULL, sequence INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
            PRIMARY KEY(number, sequence)) WITHOUT ROWID;
        -- What each provider delivered, so that nothing is taken twice.
        CREATE TABLE external_deliveries(
            channel TEXT NOT NULL, provider_message_id TEXT NOT NULL, number INTEGER NOT NULL, sequence INTEGER NOT NULL,
            PRIMARY KEY(channel, provider_message_id)) WITHOUT ROWID;
        CREATE TABLE external_escalations(
            id TEXT PRIMARY KEY, number INTEGER NOT NULL, sequence INTEGER NOT NULL, question TEXT NOT NULL,
            create_time INTEGER NOT NULL, answer TEXT NOT NULL, resolve_time INTEGER) WITHOUT ROWID;
        CREATE INDEX external_escalations_by_time ON external_escalations(create_time, id);
        CREATE INDEX external_escalations_open ON external_escalations(create_time, id) WHERE resolve_time IS NULL;
        CREATE INDEX external_escalations_of ON external_escalations(number, create_time, id);
        -- As `updates`: the functions there serve both.
        CREATE TABLE external_updates(
            cursor INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL, kind TEXT NOT NULL, time INTEGER NOT NULL,
            sequence INTEGER NOT NULL, escalation_id TEXT NOT NULL);
    """)


def external_words(connection: apsw.Connection) -> None:
    """Add names, subjects, acknowledgements, groups and words, a later step of `migrations`.

    What is there is taken out: the next start takes every transcript in again. The log of updates
    begins anew behind its last cursor, so a panel gets a snapshot with `reset`.
    """
    last = (
        connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'external_updates'").get
        or 0
    )
    connection.execute("""
        ALTER TABLE external_communications ADD COLUMN party_name TEXT NOT NULL DEFAULT '';
        ALTER TABLE external_communications ADD COLUMN subject TEXT NOT NULL DEFAULT '';
        ALTER TABLE external_communications ADD COLUMN acknowledged INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE external_messages ADD COLUMN time INTEGER NOT NULL DEFAULT 0;
        -- The channel and the group that it was written in; empty: none.
        ALTER TABLE external_messages ADD COLUMN place TEXT NOT NULL DEFAULT '';
        CREATE INDEX external_in_groups ON external_messages(place, time) WHERE place <> '';
        -- The id of a row is that of `domain.ids`, with the communication's number.
        CREATE VIRTUAL TABLE external_fts USING fts5(text, content='', tokenize='porter unicode61');
        INSERT INTO external_fts(external_fts, rank) VALUES('secure-delete', 1);
        CREATE VIRTUAL TABLE external_vocabulary USING fts5vocab(external_fts, 'row');
        CREATE VIRTUAL TABLE external_occurrences USING fts5vocab(external_fts, 'instance');
        DELETE FROM requests WHERE conversation_id IN (SELECT id FROM external_communications);
        DELETE FROM external_communications;
        DELETE FROM external_messages;
        DELETE FROM external_deliveries;
        DELETE FROM external_escalations;
        DELETE FROM external_updates;
    """)
    # not the last itself: whoever has that cursor would be told of every message again
    following = int(last) + 1
    connection.execute("DELETE FROM sqlite_sequence WHERE name = 'external_updates'")
    connection.execute("INSERT INTO sqlite_sequence VALUES('external_updates', ?)", (following,))
    connection.execute(
        "INSERT OR REPLACE INTO identity VALUES('external_updates_pruned', ?)", (str(following),)
    )
