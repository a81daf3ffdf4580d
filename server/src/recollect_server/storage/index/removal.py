"""The part of the index's door that deletes use. Every method raises IndexUnavailable.

A conversation goes in steps, for its messages may be many and nobody shall wait for them: first its row and what hangs on it, then
its messages a part at a time, then the note that it is on its way out; at last the log is cut, which may have its words still.
"""

import apsw

from recollect_server.domain.message import Message
from recollect_server.storage.index import conversations, requests, turns, updates
from recollect_server.storage.index.file import IndexFile
from recollect_server.storage.index.lengths import Lengths

Removed = dict[str, int]
"""How many entries were taken out of each place."""


class Removal(IndexFile):
    """An open index file, as far as what is to leave it goes."""

    _lengths: Lengths

    def begin_removal(self, number: int, conversation_id: str, time: int) -> Removed:
        """Takes the conversation itself out: nobody finds it any more. Its messages follow with `remove_messages`."""
        rows: list[updates.Row] = []

        def job(connection: apsw.Connection, cursor: int) -> Removed:
            channel = connection.execute("SELECT channel FROM conversations WHERE number = ?", (number,)).get
            rows.append(updates.deleted(cursor + 1, number, time, conversation_id, channel or ""))
            anchors = connection.execute("SELECT count(*) FROM anchors WHERE number = ?", (number,)).get
            conversations.remove(connection, number)
            removed = {"anchors": anchors} if anchors else {}
            removed |= {
                "conversations": 1,
                "updates": updates.remove(connection, number),
                "requests": requests.remove(connection, conversation_id),
            }
            connection.execute("INSERT INTO deletions VALUES(?, ?)", (number, conversation_id))
            updates.add_deleted(connection, rows[-1])
            return removed

        removed = self._database.write(job, updates=1, news=lambda: rows[-1])
        self._lengths.remove(number)
        return removed

    def removal(self, conversation_id: str) -> int | None:
        """The number of a conversation whose removal has begun, or None."""
        with self.reading() as connection:
            number: int | None = connection.execute("SELECT number FROM deletions WHERE id = ?", (conversation_id,)).get
            return number

    def indexed_sequences(self, number: int, after: int, limit: int) -> list[int]:
        """The lines of a conversation that are indexed messages, behind line `after`."""
        with self.reading() as connection:
            return turns.sequences(connection, number, after, limit)

    def remove_messages(self, number: int, messages: list[Message]) -> None:
        """Takes messages of a conversation out, their words too."""
        self._database.write(lambda connection, _: turns.remove(connection, number, messages))
        self._lengths.count(-len(messages))

    def end_removal(self, number: int) -> None:
        """The conversation's messages are out: forgets that it was there."""
        self._database.write(lambda connection, _: connection.execute("DELETE FROM deletions WHERE number = ?", (number,)))

    def empty_log(self) -> bool:
        """Cuts the write-ahead log, which may hold text that was deleted, to nothing. False if a reader was in the way."""

        def job(connection: apsw.Connection, _: int) -> bool:
            return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]

        return self._database.write(job, alone=True)
