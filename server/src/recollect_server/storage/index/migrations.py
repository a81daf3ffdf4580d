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
from recollect_server.domain.conversation_names import REQUEST, name_of, shortened
from recollect_server.domain.ids import SEQUENCE_BITS
from recollect_server.domain.text import sentences
from recollect_server.storage.index import activity_tables
from recollect_server.storage.index.analysis import TOKENIZER
from recollect_server.storage.index.columns import (
    REQUESTS,
    load_texts,
    take_in_trigger,
)
from recollect_server.storage.index.words import entries_of_texts

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


def _external_tables(connection: apsw.Connection) -> None:
    """Add the tables of external communications. None of a conversation's tables has anything of
    theirs, but for `requests`.
    """
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


def _external_words(connection: apsw.Connection) -> None:
    """Add names, subjects, acknowledgements, groups and words of external communications.

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
    # not the last itself: a watcher with that cursor would get every message again
    following = int(last) + 1
    connection.execute("DELETE FROM sqlite_sequence WHERE name = 'external_updates'")
    connection.execute("INSERT INTO sqlite_sequence VALUES('external_updates', ?)", (following,))
    connection.execute(
        "INSERT OR REPLACE INTO identity VALUES('external_updates_pruned', ?)", (str(following),)
    )


def _channel_tables(connection: apsw.Connection) -> None:
    """Add the tables that messages of channels are routed by.

    Where a conversation is held stands in its own row; `mail` has the ids that lead to a
    conversation on e-mail, `continued` where what comes in for a conversation goes instead. The
    transcripts tell all of it, but for `forgotten`, which a ledger tells, and `limited`, which
    nothing else tells.
    """
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
    """Add the display names of contacts. No transcript before this step has any."""
    connection.execute("""
        CREATE TABLE contact_names(number INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TRIGGER take_in_contact_name INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.contactName' IS NOT NULL BEGIN
            INSERT OR REPLACE INTO contact_names VALUES(NEW.document ->> '$.conversation[0]', NEW.document ->> '$.contactName');
        END;
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


def _notes_words(connection: apsw.Connection) -> None:
    """Add the words of notes, those of the conversations that are indexed."""
    connection.execute("""
        CREATE TABLE notes_words(
            stem TEXT, number INTEGER, count INTEGER NOT NULL, PRIMARY KEY(stem, number)) WITHOUT ROWID;
        CREATE INDEX notes_words_by_number ON notes_words(number);
        CREATE TRIGGER take_in_notes_words INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.words' IS NOT NULL BEGIN
            DELETE FROM notes_words WHERE number = NEW.document ->> '$.conversation[0]';
            INSERT INTO notes_words
                SELECT value ->> 0, NEW.document ->> '$.conversation[0]', value ->> 1 FROM json_each(NEW.document, '$.words');
        END;
    """)
    rows = connection.execute(
        "SELECT c.number, c.title, c.topics, coalesce(n.abbreviation, '') FROM conversations c"
        " LEFT JOIN notes n ON n.number = c.number WHERE c.title <> '' OR c.topics <> '[]' OR n.abbreviation <> ''"
    ).fetchall()
    for number, title, topics, abbreviation in rows:
        entries = entries_of_texts(
            connection, str(title), load_texts(str(topics)), str(abbreviation)
        )
        connection.executemany(
            "INSERT INTO notes_words VALUES(?, ?, ?)",
            [(stem, number, count) for stem, count in entries],
        )


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


def _archive(connection: apsw.Connection) -> None:
    """Add topics by hand, the archive, and the metadata of conversations. No transcript before this
    step has any.
    """
    connection.execute(f"""
        ALTER TABLE conversations ADD COLUMN topics_by_hand INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE conversations ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE conversations ADD COLUMN metadata TEXT;  -- as JSON; NULL: none
        DROP TRIGGER IF EXISTS take_in;
        {take_in_trigger()}
    """)


def _note_refusals(connection: apsw.Connection) -> None:
    """Add the number of times that the model wrote no notes of a conversation."""
    connection.execute("""
        -- `messages` is how many the conversation had at the last try, `next_try` when the model is asked
        -- again; NULL: not before the conversation goes on. Nothing in the transcripts says this.
        CREATE TABLE IF NOT EXISTS note_refusals(
            number INTEGER PRIMARY KEY, model TEXT NOT NULL, messages INTEGER NOT NULL, tries INTEGER NOT NULL,
            next_try INTEGER);
    """)


def _forks(connection: apsw.Connection) -> None:
    """Add the origins of forks. No transcript before this step is one."""
    connection.execute(f"""
        ALTER TABLE conversations ADD COLUMN origin_id TEXT NOT NULL DEFAULT '';
        ALTER TABLE conversations ADD COLUMN origin_turn INTEGER NOT NULL DEFAULT 0;
        DROP TRIGGER IF EXISTS take_in;
        {take_in_trigger()}
    """)


def _wordless(connection: apsw.Connection) -> None:
    """Add conversations that searches leave out. No transcript before this step has any."""
    connection.execute(f"""
        ALTER TABLE conversations ADD COLUMN unindexed INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX conversations_unindexed ON conversations(number) WHERE unindexed = 1;
        -- Up to this line the messages of a conversation have no words in `turns_fts`; the others have all of theirs.
        CREATE TABLE wordless(number INTEGER PRIMARY KEY, line INTEGER NOT NULL);
        CREATE TRIGGER take_in_wordless INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.wordless' IS NOT NULL BEGIN
            INSERT OR REPLACE INTO wordless VALUES(NEW.document ->> '$.conversation[0]', NEW.document ->> '$.wordless');
        END;
        DROP TRIGGER IF EXISTS take_in;
        {take_in_trigger()}
    """)


def _words_anew(connection: apsw.Connection) -> None:
    """Make the tables of words anew, for the form of texts in `analysis` has changed. An index with
    messages is made anew as a whole by this start: their texts are in the transcripts.
    """
    query = "SELECT EXISTS(SELECT 1 FROM messages) OR EXISTS(SELECT 1 FROM external_messages)"
    if connection.execute(query).get:
        connection.execute(
            "INSERT OR REPLACE INTO identity VALUES('rebuild_wanted', ?)",
            ("an earlier version made it, with words in another form",),
        )
        return
    for name in ("turns", "external"):
        connection.execute(f"""
            DROP TABLE {name}_vocabulary;
            DROP TABLE {name}_occurrences;
            DROP TABLE {name}_fts;
            CREATE VIRTUAL TABLE {name}_fts USING fts5(text, content='', tokenize="{TOKENIZER}");
            INSERT INTO {name}_fts({name}_fts, rank) VALUES('secure-delete', 1);
            CREATE VIRTUAL TABLE {name}_vocabulary USING fts5vocab({name}_fts, 'row');
            CREATE VIRTUAL TABLE {name}_occurrences USING fts5vocab({name}_fts, 'instance');
        """)


def _freed_requests(connection: apsw.Connection) -> None:
    """Let the lines of an append have requests of conversations that are being removed."""
    connection.execute(f"DROP TRIGGER take_in; {take_in_trigger()}")


def _requests_used_again(connection: apsw.Connection) -> None:
    """Keep a request beside that of a conversation which has it already.

    Over PostgreSQL the request of a deleted conversation is free at once, and the index may take in
    the lines of its next user before it learns of the delete.
    """
    new = ", ".join(f"NEW.{name}" for name in REQUESTS.names)
    connection.execute(f"""
        CREATE TABLE requests_used_again(
            request_id TEXT, hash TEXT, conversation_id TEXT, first_sequence INTEGER, last_sequence INTEGER,
            cursor INTEGER, answer TEXT, PRIMARY KEY(request_id, conversation_id)) WITHOUT ROWID;
        CREATE TRIGGER request_used_again BEFORE INSERT ON requests
            WHEN NEW.first_sequence > 0 AND EXISTS(SELECT 1 FROM requests
                WHERE request_id = NEW.request_id AND conversation_id <> NEW.conversation_id)
        BEGIN
            INSERT OR REPLACE INTO requests_used_again({REQUESTS.list}) VALUES({new});
        END;
        CREATE TRIGGER request_freed AFTER DELETE ON requests BEGIN
            INSERT OR IGNORE INTO requests({REQUESTS.list})
                SELECT {REQUESTS.list} FROM requests_used_again WHERE request_id = OLD.request_id LIMIT 1;
            DELETE FROM requests_used_again WHERE request_id = OLD.request_id
                AND conversation_id = (SELECT conversation_id FROM requests WHERE request_id = OLD.request_id);
        END;
    """)


def _participants_by_key(connection: apsw.Connection) -> None:
    """Remove the participants of a conversation by the key of their table, which begins with them:
    by the conversation alone, SQLite reads the participants of all.
    """
    connection.execute("""
        DROP TRIGGER participants_changed;
        CREATE TRIGGER participants_changed AFTER UPDATE OF participants ON conversations
                WHEN OLD.participants <> NEW.participants BEGIN
            DELETE FROM participants WHERE number = NEW.number
                AND participant IN (SELECT value FROM json_each(OLD.participants));
            INSERT OR IGNORE INTO participants SELECT value, NEW.number FROM json_each(NEW.participants);
        END;
        CREATE TRIGGER participants_of_removed AFTER DELETE ON conversations BEGIN
            DELETE FROM participants WHERE number = OLD.number
                AND participant IN (SELECT value FROM json_each(OLD.participants));
        END;
    """)


def _earlier_origins(connection: apsw.Connection) -> None:
    """Add what the origins of forks were copied of. No transcript before this step says it."""
    connection.execute(f"""
        ALTER TABLE conversations ADD COLUMN earlier_origins TEXT NOT NULL DEFAULT '[]';
        DROP TRIGGER IF EXISTS take_in;
        {take_in_trigger()}
    """)


def _deliveries_of_parties(connection: apsw.Connection) -> None:
    """Give the deliveries of third parties the party and the place, beside which a provider's id
    means nothing.
    """
    # A table is renamed only where every trigger fits; the next step makes this one anew.
    connection.execute("""
        DROP TRIGGER IF EXISTS take_in;
        ALTER TABLE external_deliveries RENAME TO former_deliveries;
        CREATE TABLE external_deliveries(
            number INTEGER NOT NULL, place TEXT NOT NULL, provider_message_id TEXT NOT NULL, sequence INTEGER NOT NULL,
            PRIMARY KEY(number, place, provider_message_id)) WITHOUT ROWID;
        INSERT INTO external_deliveries
            SELECT d.number, m.place, d.provider_message_id, d.sequence
            FROM former_deliveries d JOIN external_messages m USING (number, sequence);
        DROP TABLE former_deliveries;
    """)


def _names(connection: apsw.Connection) -> None:
    """Add names of conversations, by which lists are filtered.

    Of a conversation that is indexed the request is the beginning of its first message, also
    where that asks for nothing: only an index that is made anew knows which one does.
    """
    connection.execute(f"""
        DROP TRIGGER IF EXISTS take_in;
        ALTER TABLE conversations RENAME COLUMN opening TO request;
        ALTER TABLE conversations ADD COLUMN request_rank INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE conversations ADD COLUMN name TEXT NOT NULL DEFAULT '';
        {take_in_trigger()}
    """)
    rows = connection.execute("SELECT number, request FROM conversations WHERE request <> ''")
    requests = [(shortened((sentences(text) or [""])[0]), number) for number, text in rows]
    update = f"UPDATE conversations SET request = ?, request_rank = {REQUEST} WHERE number = ?"
    connection.executemany(update, requests)
    parts = connection.execute(
        "SELECT number, title, channel, subject,"
        " coalesce(nullif(group_id, ''), nullif(k.name, ''), contact), request"
        " FROM conversations LEFT JOIN contact_names k USING (number)"
    )
    there = [(name_of(*texts), number) for number, *texts in parts]
    connection.executemany("UPDATE conversations SET name = ? WHERE number = ?", there)


def _splits(connection: apsw.Connection) -> None:
    """Add suggestions to split conversations. An index whose transcripts have any is made anew."""
    connection.execute(f"""
        DROP TRIGGER IF EXISTS take_in;
        ALTER TABLE conversations ADD COLUMN split_reason TEXT NOT NULL DEFAULT '';
        ALTER TABLE conversations ADD COLUMN split_titles TEXT NOT NULL DEFAULT '[]';
        {take_in_trigger()}
    """)
    if connection.execute("SELECT EXISTS(SELECT 1 FROM updates WHERE kind = 'split')").get:
        connection.execute(
            "INSERT OR REPLACE INTO identity VALUES('rebuild_wanted', ?)",
            ("an earlier version made it, before it kept suggestions to split",),
        )


def _turn_memories(connection: apsw.Connection) -> None:
    """Add what callers record of turns. No transcript before this step has any."""
    connection.execute("""
        CREATE TABLE IF NOT EXISTS turn_memories(
            number INTEGER NOT NULL, turn INTEGER NOT NULL, tier INTEGER NOT NULL, summary TEXT NOT NULL,
            PRIMARY KEY(number, turn)) WITHOUT ROWID;
        CREATE TRIGGER IF NOT EXISTS take_in_turn_memories INSTEAD OF INSERT ON incoming
            WHEN NEW.document -> '$.turnMemories' IS NOT NULL
        BEGIN
            INSERT OR REPLACE INTO turn_memories
                SELECT NEW.document ->> '$.conversation[0]', value ->> 0, value ->> 1, value ->> 2
                FROM json_each(NEW.document, '$.turnMemories') ORDER BY key;
        END;
    """)


def _updates_of_communications(connection: apsw.Connection) -> None:
    # a delete of a communication takes its updates, which else are found by reading all
    connection.execute("CREATE INDEX external_updates_of ON external_updates(number)")


MIGRATIONS: tuple[Callable[[apsw.Connection], None], ...] = (
    _first_tables,
    _notes_and_anchors,
    _external_tables,
    _channel_tables,
    _tiers,
    contact_names,
    _external_words,
    _late_messages,
    _notes_words,
    _note_records,
    activity_tables.add_tables,
    _note_refusals,
    _words_anew,  # in the forms of their language
    _archive,
    _forks,
    _wordless,
    _words_anew,  # Hindi in one spelling
    _freed_requests,
    _requests_used_again,
    _participants_by_key,
    _earlier_origins,
    _deliveries_of_parties,
    _names,
    _splits,
    _words_anew,  # in normal form, with emoji
    _turn_memories,
    _updates_of_communications,
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
