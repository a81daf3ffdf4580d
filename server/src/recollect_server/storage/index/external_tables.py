"""The tables of external communications. None of a conversation's tables has anything of theirs, but for `requests`."""

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
