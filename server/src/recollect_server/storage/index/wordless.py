"""Words that the index leaves out: those of conversations that are unindexed.

The table `wordless` says of a conversation up to which line its messages have no words; those
behind have all of theirs, and every message keeps its row. Words go from the first line on and come
back from the last, a part in a transaction, so the table is exact at any moment: a redaction, a
delete and the comparison with the transcripts know by it which words are there.
"""

import apsw

from recollect_server.domain.ids import MAX_LINES, SEQUENCE_BITS, message_id
from recollect_server.storage.index.database import Database
from recollect_server.storage.index.messages import searchable
from recollect_server.storage.index.removal import Spoken, purge_of, take_out_words, wordless_line


class Wordless:
    """The words that are left out."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def line(self, number: int) -> int:
        """Return the line up to which a conversation's messages have no words; 0: all have."""
        with self._database.reading() as connection:
            return wordless_line(connection, number)

    def due(self) -> list[str]:
        """Return the conversations whose words are to go or to come back."""
        rows = self._database.rows(
            "SELECT c.id FROM conversations c WHERE c.unindexed = 1 AND (EXISTS (SELECT 1 FROM messages WHERE"
            f" id > (c.number << {SEQUENCE_BITS}) + coalesce((SELECT line FROM wordless w WHERE w.number = c.number), 0)"
            f" AND id <= (c.number << {SEQUENCE_BITS}) + {MAX_LINES})"
            " OR EXISTS (SELECT 1 FROM identity WHERE name = 'words_to_purge ' || c.number))"
            " UNION SELECT c.id FROM wordless w JOIN conversations c ON c.number = w.number"
            " WHERE c.unindexed = 0"
        )
        return [str(row[0]) for row in rows]

    def take_out(self, number: int, messages: list[Spoken], line: int, *, mark: bool) -> None:
        """Take out the words of messages, the next ones up to `line`. With `mark` they are only
        marked, and `Removal.purge_words` must follow.
        """
        texts = {message_id(number, at): searchable(*spoken) for at, *spoken in messages}

        def job(connection: apsw.Connection, _: int) -> None:
            take_out_words(connection, "turns_fts", texts, purge_of(number), mark=mark)
            connection.execute("INSERT OR REPLACE INTO wordless VALUES(?, ?)", (number, line))

        self._database.write(job)

    def bring_back(self, number: int, messages: list[Spoken], line: int) -> None:
        """Index the words of messages again, the last ones that lack them: those behind `line`."""

        def job(connection: apsw.Connection, _: int) -> None:
            for at, *spoken in messages:
                identity = message_id(number, at)
                connection.execute(
                    "INSERT INTO turns_fts(turns_fts, rowid, text) VALUES('delete', ?, '')",
                    (identity,),
                )
                connection.execute(
                    "INSERT INTO turns_fts(rowid, text) VALUES(?, ?)",
                    (identity, searchable(*spoken)),
                )
            if line:
                connection.execute("UPDATE wordless SET line = ? WHERE number = ?", (line, number))
            else:
                connection.execute("DELETE FROM wordless WHERE number = ?", (number,))

        self._database.write(job)
