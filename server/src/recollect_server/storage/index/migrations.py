"""The history of the index's tables: an ordered list of small steps. `PRAGMA user_version` counts
those that were taken.

A message's id is `number << 22 | sequence` (see `domain.ids`): the conversation's number in
this index and the message's line.
"""

import secrets
from collections.abc import Callable
from functools import cache

import apsw

from recollect_server.domain.conversation import RULE
from recollect_server.domain.ids import SEQUENCE_BITS
from recollect_server.storage.index.channel_tables import channel_tables, contact_names
from recollect_server.storage.index.columns import take_in_trigger
from recollect_server.storage.index.external_tables import external_tables, external_words
from recollect_server.storage.index.notes_words import notes_words_table

INCOMING = """
    -- The way in: `INSERT INTO incoming` takes one JSON document (see `incoming.py`) into every table at once.
    CREATE VIEW incoming AS SELECT '' AS document;
    CREATE TRIGGER topics_of_new AFTER INSERT ON conversations WHEN NEW.topics <> '[]' BEGIN
        INSERT OR IGNORE INTO topics SELECT value, NEW.number FROM json_each(NEW.topics);
    END;
    CREATE TRIGGER topics_changed AFTER UPDATE OF topics ON conversations WHEN OLD.topics <> NEW.topics BEGIN
        DELETE FROM topics WHERE number = NEW.number;
        INSERT OR IGNORE INTO topics SELECT value, NEW.number FROM json_each(NEW.topics);
    END;
    CREATE TRIGGER participants_of_new AFTER INSERT ON conversations BEGIN
        INSERT OR IGNORE INTO participants SELECT value, NEW.number FROM json_each(NEW.participants);
    END;
    CREATE TRIGGER participants_changed AFTER UPDATE OF participants ON conversations
            WHEN OLD.participants <> NEW.participants BEGIN
        DELETE FROM participants WHERE number = NEW.number;
        INSERT OR IGNORE INTO participants SELECT value, NEW.number FROM json_each(NEW.participants);
    END;
"""


def _first_tables(connection: apsw.Connection) -> None:
    connection.execute("""
        CREATE TABLE identity(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

        CREATE TABLE conversations(
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            channel TEXT NOT NULL, create_time INTEGER NOT NULL, update_time INTEGER NOT NULL,
            title TEXT NOT NULL, opening TEXT NOT NULL, topics TEXT NOT NULL, participants TEXT NOT NULL,
            turn_count INTEGER NOT NULL, message_count INTEGER NOT NULL,
            manually_named INTEGER NOT NULL, pinned INTEGER NOT NULL, model TEXT NOT NULL,
            contact TEXT NOT NULL, group_id TEXT NOT NULL, thread_id TEXT NOT NULL, subject TEXT NOT NULL,
            usage_input INTEGER NOT NULL, usage_output INTEGER NOT NULL, cost_total REAL NOT NULL,
            text_bytes INTEGER NOT NULL, compressed_through INTEGER NOT NULL, abbreviated_through INTEGER NOT NULL,
            abbreviation_wanted INTEGER NOT NULL DEFAULT 0);
        CREATE INDEX conversations_by_time ON conversations(update_time, id);
        CREATE INDEX conversations_by_channel ON conversations(channel, update_time, id);
        -- Long texts have a row of their own, so that an append does not write them again.
        CREATE TABLE notes(
            number INTEGER PRIMARY KEY, abbreviation TEXT NOT NULL, compression_summary TEXT NOT NULL);
        CREATE TABLE topics(topic TEXT, number INTEGER, PRIMARY KEY(topic, number)) WITHOUT ROWID;
        CREATE TABLE participants(participant TEXT, number INTEGER, PRIMARY KEY(participant, number)) WITHOUT ROWID;

        CREATE TABLE messages(
            id INTEGER PRIMARY KEY, turn_number INTEGER NOT NULL, time INTEGER NOT NULL,
            offset INTEGER NOT NULL, length INTEGER NOT NULL, tokens INTEGER NOT NULL);
        -- The words of the messages, without the text: that is in the transcripts.
        CREATE VIRTUAL TABLE turns_fts USING fts5(text, content='', tokenize='porter unicode61');
        CREATE VIRTUAL TABLE turns_vocabulary USING fts5vocab(turns_fts, 'row');
        CREATE VIRTUAL TABLE turns_occurrences USING fts5vocab(turns_fts, 'instance');

        CREATE TABLE progress(number INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, lines INTEGER NOT NULL);
        CREATE TABLE requests(
            request_id TEXT PRIMARY KEY, hash TEXT NOT NULL, conversation_id TEXT NOT NULL,
            first_sequence INTEGER NOT NULL, last_sequence INTEGER NOT NULL,
            cursor INTEGER NOT NULL, answer TEXT NOT NULL) WITHOUT ROWID;
        CREATE INDEX requests_by_conversation ON requests(conversation_id);
        CREATE TABLE updates(
            cursor INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL, kind TEXT NOT NULL, time INTEGER NOT NULL,
            first_sequence INTEGER NOT NULL, last_sequence INTEGER NOT NULL, detail TEXT NOT NULL);
        CREATE INDEX updates_by_conversation ON updates(number);
        -- Conversations whose messages are being taken out, a part at a time.
        CREATE TABLE deletions(number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
    """)
    connection.execute(INCOMING)
    # Deleted words are taken out of the segments themselves, not only marked.
    connection.execute("INSERT INTO turns_fts(turns_fts, rank) VALUES('secure-delete', 1)")
    # A cursor of another index must not be taken for one of this.
    connection.execute("INSERT INTO identity VALUES('epoch', ?)", (secrets.token_hex(6),))


def _notes_and_anchors(connection: apsw.Connection) -> None:
    connection.execute("""
        -- Why the last try to write notes failed; empty: it did not.
        ALTER TABLE conversations ADD COLUMN needs_abbreviation TEXT NOT NULL DEFAULT '';
        -- The queue of the idle clock: what waits is in one of these, what does not is in none.
        CREATE INDEX conversations_without_notes ON conversations(update_time) WHERE turn_count > abbreviated_through;
        CREATE INDEX conversations_left ON conversations(number) WHERE abbreviation_wanted = 1;
        CREATE INDEX conversations_without_title ON conversations(number)
            WHERE title = '' AND manually_named = 0 AND turn_count >= 5;
        -- Messages that need not be condensed any more: a compression has them, or they were looked at.
        ALTER TABLE conversations ADD COLUMN compaction_from INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX conversations_to_condense ON conversations(number) WHERE message_count - compaction_from > 40;
        CREATE INDEX conversations_that_failed ON conversations(number) WHERE needs_abbreviation <> '';
        CREATE TRIGGER notes_written AFTER UPDATE OF abbreviated_through, title ON conversations
            WHEN (OLD.abbreviation_wanted = 1 OR OLD.needs_abbreviation <> '')
                AND (NEW.abbreviated_through > OLD.abbreviated_through OR NEW.title <> OLD.title) BEGIN
            UPDATE conversations SET needs_abbreviation = '', abbreviation_wanted =
                iif(NEW.abbreviated_through > OLD.abbreviated_through, 0, OLD.abbreviation_wanted) WHERE number = NEW.number;
        END;

        CREATE TABLE anchors(
            number INTEGER NOT NULL, line INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, confidence REAL NOT NULL,
            source INTEGER NOT NULL, time INTEGER NOT NULL, PRIMARY KEY(number, line)) WITHOUT ROWID;
        CREATE INDEX anchors_by_key ON anchors(key, time);
        CREATE TRIGGER take_in_anchors INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.anchors' IS NOT NULL BEGIN
            INSERT OR REPLACE INTO anchors
                SELECT NEW.document ->> '$.conversation[0]', value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
                    value ->> 5
                FROM json_each(NEW.document, '$.anchors');
        END;
        -- What a day's (UTC) calls of a language model cost. Nothing in the transcripts says this.
        CREATE TABLE model_spending(day TEXT PRIMARY KEY, calls INTEGER NOT NULL, tokens INTEGER NOT NULL) WITHOUT ROWID;
    """)


def _tiers(connection: apsw.Connection) -> None:
    connection.execute("""
        -- Which conversations moved between the tiers of contexts, and what contexts were made of. Nothing in the transcripts says
        -- this: a new index begins without it.
        CREATE TABLE tier_transitions(
            id INTEGER PRIMARY KEY AUTOINCREMENT, conversation_id TEXT NOT NULL, from_tier INTEGER NOT NULL,
            to_tier INTEGER NOT NULL, reason TEXT NOT NULL, time INTEGER NOT NULL);
        CREATE INDEX tier_transitions_by_conversation ON tier_transitions(conversation_id, id);
        CREATE TABLE tier_hits(name TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
    """)


def _late_messages(connection: apsw.Connection) -> None:
    connection.execute(f"""
        -- A late message joins an earlier turn than those stored before it: turns are read by their numbers, not by their lines.
        CREATE INDEX messages_by_turn ON messages(id >> {SEQUENCE_BITS}, turn_number);
        -- The tool calls that wait for a result, as JSON. NULL: an earlier version indexed it, and they are read once more.
        ALTER TABLE conversations ADD COLUMN open_calls TEXT;
        DROP TRIGGER IF EXISTS take_in;  -- indexes of earlier versions have one with the columns of their time
        {take_in_trigger()}
    """)


def _note_records(connection: apsw.Connection) -> None:
    """Add the record of who wrote notes, and the queue of those to write anew."""
    connection.execute(f"""
        -- An empty writer: nothing is recorded of that note.
        CREATE TABLE note_records(
            number INTEGER PRIMARY KEY, abbreviation_writer TEXT NOT NULL, abbreviation_model TEXT NOT NULL,
            abbreviation_time INTEGER NOT NULL, title_writer TEXT NOT NULL, title_model TEXT NOT NULL,
            title_time INTEGER NOT NULL);
        CREATE INDEX offline_notes ON note_records(abbreviation_time) WHERE abbreviation_writer = '{RULE}';
        CREATE TRIGGER take_in_note_records INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.records' IS NOT NULL BEGIN
            INSERT OR REPLACE INTO note_records VALUES(
                NEW.document ->> '$.conversation[0]', NEW.document ->> '$.records[0]', NEW.document ->> '$.records[1]',
                NEW.document ->> '$.records[2]', NEW.document ->> '$.records[3]', NEW.document ->> '$.records[4]',
                NEW.document ->> '$.records[5]');
        END;
        -- Conversations whose notes a caller wants anew. Nothing in the transcripts says this.
        CREATE TABLE notes_wanted(number INTEGER PRIMARY KEY);
        ALTER TABLE model_spending ADD COLUMN cost REAL NOT NULL DEFAULT 0;
    """)


MIGRATIONS: tuple[Callable[[apsw.Connection], None], ...] = (
    _first_tables,
    _notes_and_anchors,
    external_tables,
    channel_tables,
    _tiers,
    contact_names,
    external_words,
    _late_messages,
    notes_words_table,
    _note_records,
)


def migrate(connection: apsw.Connection) -> None:
    """Take the steps that are missing, each in a transaction; a new file gets the tables of all
    steps at once.

    Raises apsw.Error; ValueError for a newer index.
    """
    version = connection.pragma("user_version")
    if version > len(MIGRATIONS):
        raise ValueError(
            f"the index is of version {version} and this program knows {len(MIGRATIONS)}"
        )
    if version == 0 and not connection.execute("SELECT count(*) FROM sqlite_schema").get:
        # The steps take twenty times as long as the copy, and every new space begins with this.
        template = apsw.Connection(":memory:")
        template.deserialize("main", _empty_index())
        with connection.backup("main", template, "main") as copy:
            copy.step(-1)
        template.close()
    else:
        _take_steps(connection, version)
    if not connection.execute("SELECT value FROM identity WHERE name = 'epoch'").get:
        connection.execute(
            "UPDATE identity SET value = ? WHERE name = 'epoch'", (secrets.token_hex(6),)
        )


def _take_steps(connection: apsw.Connection, version: int) -> None:
    for number, step in enumerate(MIGRATIONS[version:], start=version + 1):
        with connection:
            step(connection)
            connection.pragma("user_version", number)


@cache
def _empty_index() -> bytes:
    """Return the file of an index without any rows, and without an epoch: two files must not share
    one.
    """
    connection = apsw.Connection(":memory:")
    _take_steps(connection, 0)
    connection.execute("UPDATE identity SET value = '' WHERE name = 'epoch'")
    file = connection.serialize("main")
    connection.close()
    return file


@cache
def expected_tables() -> frozenset[str]:
    """Return the names of all tables that a whole index of this version has."""
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", _empty_index())
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    connection.close()
    return frozenset(str(row[0]) for row in rows)
