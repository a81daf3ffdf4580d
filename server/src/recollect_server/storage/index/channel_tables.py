"""The tables that messages of channels are routed by, and their way in (see `incoming.py`).

Where a conversation is held stands in its own row; `mail` has the ids that lead to a conversation
on e-mail, `continued` where what comes in for a conversation goes instead. All of it is told by the
transcripts, but for `forgotten`, which is told by a ledger, and `limited`, which nothing else
tells.
"""

import apsw


def channel_tables(connection: apsw.Connection) -> None:
    """The step of the migrations."""
    connection.execute("""
        CREATE INDEX conversations_pinned ON conversations(channel, contact, group_id, thread_id, id) WHERE pinned = 1;
        CREATE INDEX conversations_of_contact ON conversations(contact, channel) WHERE contact <> '';

        -- 63 bits of the SHA-256 of a Message-ID, and the conversation that named it.
        CREATE TABLE mail(name INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY(name, number)) WITHOUT ROWID;
        CREATE INDEX mail_of_conversation ON mail(number);
        CREATE TABLE continued(number INTEGER PRIMARY KEY, id TEXT NOT NULL);
        CREATE TRIGGER take_in_mail INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.mail' IS NOT NULL BEGIN
            INSERT OR IGNORE INTO mail
                SELECT value, NEW.document ->> '$.conversation[0]' FROM json_each(NEW.document, '$.mail');
        END;
        CREATE TRIGGER take_in_continued INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.continued' IS NOT NULL BEGIN
            INSERT OR REPLACE INTO continued VALUES(NEW.document ->> '$.conversation[0]', NEW.document ->> '$.continued');
        END;

        -- Messages of providers whose conversation was deleted: hashes of their ids. They are never stored again.
        CREATE TABLE forgotten(key TEXT PRIMARY KEY) WITHOUT ROWID;
        -- Senders that wrote faster than allowed.
        CREATE TABLE limited(
            channel TEXT NOT NULL, sender TEXT NOT NULL, refused INTEGER NOT NULL, time INTEGER NOT NULL,
            PRIMARY KEY(channel, sender)) WITHOUT ROWID;
        CREATE INDEX limited_by_time ON limited(time);
    """)


def contact_names(connection: apsw.Connection) -> None:
    """Add the display names of contacts, a later step of the migrations. No transcript before it
    has any.
    """
    connection.execute("""
        CREATE TABLE contact_names(number INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TRIGGER take_in_contact_name INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.contactName' IS NOT NULL BEGIN
            INSERT OR REPLACE INTO contact_names VALUES(NEW.document ->> '$.conversation[0]', NEW.document ->> '$.contactName');
        END;
    """)
