"""The tables of the index, and the history of their changes: an ordered list of small steps.
`PRAGMA user_version` says which was taken last.

A message's id is `number << 22 | sequence` (see `kernel.domain.ids`): the conversation's number in
this index and the message's line.
"""

import secrets
from collections.abc import Callable
from functools import cache

import apsw

from recollect_server.kernel.domain.conversation import RULE
from recollect_server.kernel.domain.ids import SEQUENCE_BITS, Kind
from recollect_server.kernel.domain.message import Role
from recollect_server.kernel.index.columns import REQUESTS, take_in_trigger
from recollect_server.kernel.index.tokenizer import TOKENIZER

OLDEST = 30
"""Version of `_TABLES`. An index of an earlier one has its words in another form (before 30 those
of identifiers and of Hebrew with points), and is made anew from the transcripts.
"""

_TABLES = f"""
    CREATE TABLE identity(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

    CREATE TABLE conversations(
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        channel TEXT NOT NULL, create_time INTEGER NOT NULL, update_time INTEGER NOT NULL,
        title TEXT NOT NULL, request TEXT NOT NULL, topics TEXT NOT NULL, participants TEXT NOT NULL,
        turn_count INTEGER NOT NULL, message_count INTEGER NOT NULL,
        manually_named INTEGER NOT NULL, pinned INTEGER NOT NULL, model TEXT NOT NULL,
        contact TEXT NOT NULL, group_id TEXT NOT NULL, thread_id TEXT NOT NULL, subject TEXT NOT NULL,
        usage_input INTEGER NOT NULL, usage_output INTEGER NOT NULL, cost_total REAL NOT NULL,
        text_bytes INTEGER NOT NULL, compressed_through INTEGER NOT NULL, abbreviated_through INTEGER NOT NULL,
        abbreviation_wanted INTEGER NOT NULL DEFAULT 0,
        -- Why the last try to write notes failed; empty: it did not.
        needs_abbreviation TEXT NOT NULL DEFAULT '',
        -- Messages that need not be condensed any more: a compression has them, or they were looked at.
        compaction_from INTEGER NOT NULL DEFAULT 0,
        open_calls TEXT,  -- the tool calls that wait for a result, as JSON
        topics_by_hand INTEGER NOT NULL DEFAULT 0, archived INTEGER NOT NULL DEFAULT 0,
        metadata TEXT,  -- as JSON; NULL: none
        origin_id TEXT NOT NULL DEFAULT '', origin_turn INTEGER NOT NULL DEFAULT 0,
        unindexed INTEGER NOT NULL DEFAULT 0, earlier_origins TEXT NOT NULL DEFAULT '[]',
        request_rank INTEGER NOT NULL DEFAULT 0, name TEXT NOT NULL DEFAULT '',
        split_reason TEXT NOT NULL DEFAULT '', split_titles TEXT NOT NULL DEFAULT '[]');
    CREATE INDEX conversations_by_time ON conversations(update_time, id);
    CREATE INDEX conversations_by_channel ON conversations(channel, update_time, id);
    -- The queue of the idle clock: what waits is in one of these, what does not is in none.
    CREATE INDEX conversations_without_notes ON conversations(update_time) WHERE turn_count > abbreviated_through;
    CREATE INDEX conversations_left ON conversations(number) WHERE abbreviation_wanted = 1;
    CREATE INDEX conversations_without_title ON conversations(number)
        WHERE title = '' AND manually_named = 0 AND turn_count >= 5;
    CREATE INDEX conversations_to_condense ON conversations(number) WHERE message_count - compaction_from > 40;
    CREATE INDEX conversations_that_failed ON conversations(number) WHERE needs_abbreviation <> '';
    -- A conversation's own row says where it is held.
    CREATE INDEX conversations_pinned ON conversations(channel, contact, group_id, thread_id, id) WHERE pinned = 1;
    CREATE INDEX conversations_of_contact ON conversations(contact, channel) WHERE contact <> '';
    CREATE INDEX conversations_unindexed ON conversations(number) WHERE unindexed = 1;
    CREATE TRIGGER notes_written AFTER UPDATE OF abbreviated_through, title ON conversations
        WHEN (OLD.abbreviation_wanted = 1 OR OLD.needs_abbreviation <> '')
            AND (NEW.abbreviated_through > OLD.abbreviated_through OR NEW.title <> OLD.title) BEGIN
        UPDATE conversations SET needs_abbreviation = '', abbreviation_wanted =
            iif(NEW.abbreviated_through > OLD.abbreviated_through, 0, OLD.abbreviation_wanted) WHERE number = NEW.number;
    END;

    -- Long texts have a row of their own, so that an append does not write them again.
    CREATE TABLE notes(
        number INTEGER PRIMARY KEY, abbreviation TEXT NOT NULL, compression_summary TEXT NOT NULL);
    -- Who wrote them. An empty writer: nothing is recorded of that note.
    CREATE TABLE note_records(
        number INTEGER PRIMARY KEY, abbreviation_writer TEXT NOT NULL, abbreviation_model TEXT NOT NULL,
        abbreviation_time INTEGER NOT NULL, title_writer TEXT NOT NULL, title_model TEXT NOT NULL,
        title_time INTEGER NOT NULL);
    CREATE INDEX offline_notes ON note_records(abbreviation_time) WHERE abbreviation_writer = '{RULE}';
    CREATE TABLE notes_words(
        stem TEXT, number INTEGER, count INTEGER NOT NULL, PRIMARY KEY(stem, number)) WITHOUT ROWID;
    CREATE INDEX notes_words_by_number ON notes_words(number);
    -- Conversations whose notes a caller wants anew. Nothing in the transcripts says this.
    CREATE TABLE notes_wanted(number INTEGER PRIMARY KEY);
    -- How often the model wrote no notes: `messages` is how many the conversation had at the last try,
    -- `next_try` when the model is asked again; NULL: not before the conversation goes on. Nothing in
    -- the transcripts says this, nor what a day's (UTC) calls of a language model cost.
    CREATE TABLE note_refusals(
        number INTEGER PRIMARY KEY, model TEXT NOT NULL, messages INTEGER NOT NULL, tries INTEGER NOT NULL,
        next_try INTEGER);
    CREATE TABLE model_spending(
        day TEXT PRIMARY KEY, calls INTEGER NOT NULL, tokens INTEGER NOT NULL, cost REAL NOT NULL DEFAULT 0) WITHOUT ROWID;

    CREATE TABLE topics(topic TEXT, number INTEGER, PRIMARY KEY(topic, number)) WITHOUT ROWID;
    CREATE INDEX topics_of_conversation ON topics(number);
    CREATE TRIGGER topics_of_new AFTER INSERT ON conversations WHEN NEW.topics <> '[]' BEGIN
        INSERT OR IGNORE INTO topics SELECT value, NEW.number FROM json_each(NEW.topics);
    END;
    -- Only topics that change move their facts.
    CREATE TRIGGER topics_changed AFTER UPDATE OF topics ON conversations WHEN OLD.topics <> NEW.topics BEGIN
        DELETE FROM topics WHERE number = NEW.number AND topic NOT IN (SELECT value FROM json_each(NEW.topics));
        -- Not OR IGNORE: a statement that fires a trigger decides what conflicts do within it.
        INSERT INTO topics SELECT DISTINCT value, NEW.number FROM json_each(NEW.topics)
            WHERE value NOT IN (SELECT topic FROM topics WHERE number = NEW.number);
    END;
    -- Those of a conversation go by the key of their table, which begins with them: by the
    -- conversation alone, SQLite reads the participants of all.
    CREATE TABLE participants(participant TEXT, number INTEGER, PRIMARY KEY(participant, number)) WITHOUT ROWID;
    CREATE TRIGGER participants_of_new AFTER INSERT ON conversations BEGIN
        INSERT OR IGNORE INTO participants SELECT value, NEW.number FROM json_each(NEW.participants);
    END;
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
    CREATE TABLE contact_names(number INTEGER PRIMARY KEY, name TEXT NOT NULL);
    -- 63 bits of the SHA-256 of a Message-ID, and the conversation that named it.
    CREATE TABLE mail(name INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY(name, number)) WITHOUT ROWID;
    CREATE INDEX mail_of_conversation ON mail(number);
    -- Where what comes in for a conversation goes instead.
    CREATE TABLE continued(number INTEGER PRIMARY KEY, id TEXT NOT NULL);
    CREATE TABLE anchors(
        number INTEGER NOT NULL, line INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, confidence REAL NOT NULL,
        source INTEGER NOT NULL, time INTEGER NOT NULL, PRIMARY KEY(number, line)) WITHOUT ROWID;
    CREATE INDEX anchors_by_key ON anchors(key, time);

    CREATE TABLE messages(
        id INTEGER PRIMARY KEY, turn_number INTEGER NOT NULL, time INTEGER NOT NULL,
        offset INTEGER NOT NULL, length INTEGER NOT NULL, tokens INTEGER NOT NULL);
    -- A late message joins an earlier turn than those stored before it: turns are read by their numbers.
    CREATE INDEX messages_by_turn ON messages(id >> {SEQUENCE_BITS}, turn_number);
    -- The words of the messages, without the text: that is in the transcripts. Deleted words are taken
    -- out of the segments themselves, not only marked.
    CREATE VIRTUAL TABLE turns_fts USING fts5(text, content='', tokenize="{TOKENIZER}");
    INSERT INTO turns_fts(turns_fts, rank) VALUES('secure-delete', 1);
    CREATE VIRTUAL TABLE turns_vocabulary USING fts5vocab(turns_fts, 'row');
    CREATE VIRTUAL TABLE turns_occurrences USING fts5vocab(turns_fts, 'instance');
    -- Up to this line the messages of a conversation have no words in `turns_fts`; the others have all of theirs.
    CREATE TABLE wordless(number INTEGER PRIMARY KEY, line INTEGER NOT NULL);

    CREATE TABLE progress(number INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, lines INTEGER NOT NULL);
    CREATE TABLE requests(
        request_id TEXT PRIMARY KEY, hash TEXT NOT NULL, conversation_id TEXT NOT NULL,
        first_sequence INTEGER NOT NULL, last_sequence INTEGER NOT NULL,
        cursor INTEGER NOT NULL, answer TEXT NOT NULL) WITHOUT ROWID;
    CREATE INDEX requests_by_conversation ON requests(conversation_id);
    -- A request beside that of a conversation which has it already. Over PostgreSQL the request of a
    -- deleted conversation is free at once, and the index may take in the lines of its next user before
    -- it learns of the delete.
    CREATE TABLE requests_used_again(
        request_id TEXT, hash TEXT, conversation_id TEXT, first_sequence INTEGER, last_sequence INTEGER,
        cursor INTEGER, answer TEXT, PRIMARY KEY(request_id, conversation_id)) WITHOUT ROWID;
    CREATE TRIGGER request_used_again BEFORE INSERT ON requests
        WHEN NEW.first_sequence > 0 AND EXISTS(SELECT 1 FROM requests
            WHERE request_id = NEW.request_id AND conversation_id <> NEW.conversation_id)
    BEGIN
        INSERT OR REPLACE INTO requests_used_again({REQUESTS.list})
            VALUES({", ".join(f"NEW.{name}" for name in REQUESTS.names)});
    END;
    CREATE TRIGGER request_freed AFTER DELETE ON requests BEGIN
        INSERT OR IGNORE INTO requests({REQUESTS.list})
            SELECT {REQUESTS.list} FROM requests_used_again WHERE request_id = OLD.request_id LIMIT 1;
        DELETE FROM requests_used_again WHERE request_id = OLD.request_id
            AND conversation_id = (SELECT conversation_id FROM requests WHERE request_id = OLD.request_id);
    END;
    CREATE TABLE updates(
        cursor INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL, kind TEXT NOT NULL, time INTEGER NOT NULL,
        first_sequence INTEGER NOT NULL, last_sequence INTEGER NOT NULL, detail TEXT NOT NULL);
    CREATE INDEX updates_by_conversation ON updates(number);
    -- Conversations whose messages are being taken out, a part at a time.
    CREATE TABLE deletions(number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);

    -- External communications: none of a conversation's tables has anything of theirs, but for
    -- `requests`. With how far the transcript is indexed: one row changes with every message as it is.
    CREATE TABLE external_communications(
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
        channel TEXT NOT NULL, party TEXT NOT NULL, trust TEXT NOT NULL, scopes TEXT NOT NULL,
        create_time INTEGER NOT NULL, update_time INTEGER NOT NULL, message_count INTEGER NOT NULL,
        open TEXT NOT NULL, released INTEGER NOT NULL, bytes INTEGER NOT NULL, lines INTEGER NOT NULL,
        party_name TEXT NOT NULL DEFAULT '', subject TEXT NOT NULL DEFAULT '', acknowledged INTEGER NOT NULL DEFAULT 0);
    CREATE INDEX external_by_party ON external_communications(party, channel, id);
    CREATE INDEX external_by_time ON external_communications(update_time, id);
    CREATE INDEX external_by_trust ON external_communications(trust, update_time, id);
    CREATE INDEX external_that_wait ON external_communications(update_time, id) WHERE open <> '[]';
    CREATE TABLE external_messages(
        number INTEGER NOT NULL, sequence INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
        time INTEGER NOT NULL DEFAULT 0,
        -- The channel and the group that it was written in; empty: none.
        place TEXT NOT NULL DEFAULT '',
        PRIMARY KEY(number, sequence)) WITHOUT ROWID;
    CREATE INDEX external_in_groups ON external_messages(place, time) WHERE place <> '';
    -- The id of a row is that of `kernel.domain.ids`, with the communication's number.
    CREATE VIRTUAL TABLE external_fts USING fts5(text, content='', tokenize="{TOKENIZER}");
    INSERT INTO external_fts(external_fts, rank) VALUES('secure-delete', 1);
    CREATE VIRTUAL TABLE external_vocabulary USING fts5vocab(external_fts, 'row');
    CREATE VIRTUAL TABLE external_occurrences USING fts5vocab(external_fts, 'instance');
    -- What each provider delivered, so that nothing is taken twice.
    CREATE TABLE external_deliveries(
        number INTEGER NOT NULL, place TEXT NOT NULL, provider_message_id TEXT NOT NULL, sequence INTEGER NOT NULL,
        PRIMARY KEY(number, place, provider_message_id)) WITHOUT ROWID;
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

    -- Messages of providers whose conversation was deleted: hashes of their ids. They are never stored
    -- again. A ledger tells them, not the transcripts.
    CREATE TABLE forgotten(key TEXT PRIMARY KEY) WITHOUT ROWID;
    -- Senders that wrote faster than allowed. Nothing else tells them.
    CREATE TABLE limited(
        channel TEXT NOT NULL, sender TEXT NOT NULL, refused INTEGER NOT NULL, time INTEGER NOT NULL,
        PRIMARY KEY(channel, sender)) WITHOUT ROWID;
    CREATE INDEX limited_by_time ON limited(time);
    -- What contexts were made of. Nothing in the transcripts says this: a new index begins without it.
    CREATE TABLE tier_transitions(
        id INTEGER PRIMARY KEY AUTOINCREMENT, conversation_id TEXT NOT NULL, from_tier INTEGER NOT NULL,
        to_tier INTEGER NOT NULL, reason TEXT NOT NULL, time INTEGER NOT NULL);
    CREATE INDEX tier_transitions_by_conversation ON tier_transitions(conversation_id, id);
    CREATE TABLE tier_hits(name TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;

    -- The way in: `INSERT INTO incoming` takes one JSON document (see `incoming.py`) into every table at once.
    CREATE VIEW incoming AS SELECT '' AS document;
    CREATE TRIGGER take_in_anchors INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.anchors' IS NOT NULL BEGIN
        INSERT OR REPLACE INTO anchors
            SELECT NEW.document ->> '$.conversation[0]', value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
                value ->> 5
            FROM json_each(NEW.document, '$.anchors');
    END;
    CREATE TRIGGER take_in_mail INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.mail' IS NOT NULL BEGIN
        INSERT OR IGNORE INTO mail
            SELECT value, NEW.document ->> '$.conversation[0]' FROM json_each(NEW.document, '$.mail');
    END;
    CREATE TRIGGER take_in_continued INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.continued' IS NOT NULL BEGIN
        INSERT OR REPLACE INTO continued VALUES(NEW.document ->> '$.conversation[0]', NEW.document ->> '$.continued');
    END;
    CREATE TRIGGER take_in_contact_name INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.contactName' IS NOT NULL BEGIN
        INSERT OR REPLACE INTO contact_names VALUES(NEW.document ->> '$.conversation[0]', NEW.document ->> '$.contactName');
    END;
    CREATE TRIGGER take_in_notes_words INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.words' IS NOT NULL BEGIN
        DELETE FROM notes_words WHERE number = NEW.document ->> '$.conversation[0]';
        INSERT INTO notes_words
            SELECT value ->> 0, NEW.document ->> '$.conversation[0]', value ->> 1 FROM json_each(NEW.document, '$.words');
    END;
    CREATE TRIGGER take_in_note_records INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.records' IS NOT NULL BEGIN
        INSERT OR REPLACE INTO note_records VALUES(
            NEW.document ->> '$.conversation[0]', NEW.document ->> '$.records[0]', NEW.document ->> '$.records[1]',
            NEW.document ->> '$.records[2]', NEW.document ->> '$.records[3]', NEW.document ->> '$.records[4]',
            NEW.document ->> '$.records[5]');
    END;
    CREATE TRIGGER take_in_wordless INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.wordless' IS NOT NULL BEGIN
        INSERT OR REPLACE INTO wordless VALUES(NEW.document ->> '$.conversation[0]', NEW.document ->> '$.wordless');
    END;
"""


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


def _group_names(connection: apsw.Connection) -> None:
    """Add the names of groups. One that a newer server wrote while this index was an older one's is
    missing until the next message brings it, or a rebuild.
    """
    connection.execute(f"""
        ALTER TABLE conversations ADD COLUMN group_name TEXT NOT NULL DEFAULT '';
        DROP TRIGGER IF EXISTS take_in;
        {take_in_trigger()}
    """)


def _one_update_log(connection: apsw.Connection) -> None:
    """Move the updates of communications into the log of all updates, which says of each row which
    kind of log it is about.

    The oldest may have the cursors of conversations' updates: there was a counter for each kind.
    Those of communications up to the last such cursor go, and count as pruned.
    """
    query = "SELECT max(seq) FROM sqlite_sequence WHERE name IN ('updates', 'external_updates')"
    last = int(connection.execute(query).get or 0)
    query = "SELECT max(cursor) FROM updates JOIN external_updates USING (cursor)"
    shared = int(connection.execute(query).get or 0)
    connection.execute(f"""
        UPDATE updates SET kind = '{Kind.CONVERSATION}';
        INSERT INTO updates
            SELECT cursor, number, '{Kind.COMMUNICATION}', time, sequence, sequence,
                iif(kind = 'deleted', escalation_id || ' ', '')
            FROM external_updates WHERE cursor > {shared};
        INSERT INTO identity SELECT 'external_updates_pruned', '{shared}' WHERE {shared} > 0
            ON CONFLICT DO UPDATE SET value = max(CAST(value AS INTEGER), {shared});
        INSERT OR REPLACE INTO identity
            SELECT 'cursors_lost', json_group_array(json(pair)) FROM (
                SELECT DISTINCT pairs.value AS pair FROM identity, json_each(identity.value) AS pairs
                WHERE name IN ('cursors_lost', 'external_cursors_lost') ORDER BY pair ->> 0)
            HAVING count(*) > 0;
        DELETE FROM identity WHERE name = 'external_cursors_lost';
        -- These are few among many: whoever reads them need not read all.
        CREATE INDEX updates_of_communications ON updates(cursor)
            WHERE kind = '{Kind.COMMUNICATION}';
        DELETE FROM sqlite_sequence WHERE name = 'updates';
        INSERT INTO sqlite_sequence VALUES('updates', {last});
        DROP TABLE external_updates;
        DROP TRIGGER take_in;
        {take_in_trigger()}
    """)


def _no_moves_between_tiers(connection: apsw.Connection) -> None:
    connection.execute("DROP TABLE tier_transitions")


def _latest_messages(connection: apsw.Connection) -> None:
    """Add the beginnings of newest messages. Only the transcripts have those of conversations that
    are here, so that such an index is made anew.
    """
    connection.execute(f"""
        ALTER TABLE conversations ADD COLUMN latest_role TEXT NOT NULL DEFAULT '{Role.USER}';
        ALTER TABLE conversations ADD COLUMN latest_sender TEXT NOT NULL DEFAULT '';
        ALTER TABLE conversations ADD COLUMN latest_text TEXT NOT NULL DEFAULT '';
        INSERT INTO identity SELECT 'rebuild_wanted', 'it has no beginnings of newest messages'
            WHERE EXISTS (SELECT 1 FROM conversations) ON CONFLICT DO NOTHING;
        DROP TRIGGER take_in;
        {take_in_trigger()}
    """)


def _no_notes_of_deletes(connection: apsw.Connection) -> None:
    """Answer the requests whose deletes a kill cut short: what they deleted is not counted. From
    here on the note of such a request lies beside the transcript.
    """
    notes = "FROM requests WHERE request_id >= char(10) AND request_id < char(11)"
    connection.execute(f"""
        INSERT OR IGNORE INTO requests({REQUESTS.list})
            SELECT answer ->> 0, answer ->> 1, substr(request_id, 2), 0, 0, 0,
                json_object('removed', json_object(), 'time', 1000 * unixepoch()) {notes};
        DELETE {notes};
    """)


def _names_of_content(connection: apsw.Connection) -> None:
    """Name conversations by another rule than before: only the transcripts have their names by it,
    so that an index of conversations is made anew.
    """
    connection.execute("""
        INSERT INTO identity SELECT 'rebuild_wanted', 'it has names of an earlier rule'
            WHERE EXISTS (SELECT 1 FROM conversations WHERE request <> '') ON CONFLICT DO NOTHING;
    """)


MIGRATIONS: tuple[Callable[[apsw.Connection], None], ...] = (
    _turn_memories,
    _updates_of_communications,
    _group_names,
    _one_update_log,
    _no_moves_between_tiers,
    _latest_messages,
    _no_notes_of_deletes,
    _names_of_content,
)
"""The steps behind `OLDEST`."""


def migrate(connection: apsw.Connection, schema: str = "") -> None:
    """Take the steps that are missing, each in a transaction; a new file gets the tables of all
    steps at once, and those that the statements of `schema` make.

    Raises apsw.Error; ValueError for an index that is newer, or older than `OLDEST`.
    """
    version, newest = connection.pragma("user_version"), OLDEST + len(MIGRATIONS)
    if version == 0 and not connection.execute("SELECT count(*) FROM sqlite_schema").get:
        # The steps take twenty times as long as the copy, and every new space begins with this.
        template = apsw.Connection(":memory:")
        template.deserialize("main", _empty_index(schema))
        with connection.backup("main", template, "main") as copy:
            copy.step(-1)
        template.close()
    elif OLDEST <= version <= newest:
        _take_steps(connection, version)
    else:
        raise ValueError(
            f"the index is of version {version} and this program knows {OLDEST} to {newest}"
        )
    if not connection.execute("SELECT value FROM identity WHERE name = 'epoch'").get:
        # A cursor of another index must not be taken for one of this.
        connection.execute(
            "UPDATE identity SET value = ? WHERE name = 'epoch'", (secrets.token_hex(6),)
        )


def _take_steps(connection: apsw.Connection, version: int) -> None:
    for number, step in enumerate(MIGRATIONS[version - OLDEST :], start=version + 1):
        with connection:
            step(connection)
            connection.pragma("user_version", number)


@cache
def _empty_index(schema: str) -> bytes:
    """Return the file of an index without any rows, and without an epoch: two files must not share
    one.
    """
    connection = apsw.Connection(":memory:")
    connection.execute(_TABLES + schema)
    connection.execute("INSERT INTO identity VALUES('epoch', '')")
    _take_steps(connection, OLDEST)
    file = connection.serialize("main")
    connection.close()
    return file


@cache
def expected_tables(schema: str = "") -> frozenset[str]:
    """Return the names of all tables that a whole index of this version has."""
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", _empty_index(schema))
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    connection.close()
    return frozenset(str(row[0]) for row in rows)
