"""Queue of conversations that wait for notes or for a title, with failures, and the cost of writing
notes.

The queue is the table of conversations itself: partial indexes have what waits in order of time, so
the next one is found as fast with a million others beside it, and a restart loses nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import apsw
import orjson

from recollect_server.kernel.domain.conversation import CALLER, RULE
from recollect_server.kernel.domain.filters import Filter
from recollect_server.kernel.domain.ids import SEQUENCE_BITS
from recollect_server.kernel.index import requests
from recollect_server.kernel.index.columns import KnownRequest
from recollect_server.kernel.index.conversations import condition_of
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.file import look
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.requests import SeenNames

_REASONS = 3  # that are shown
_MANY = 20  # conversations from which on a word can be common among them
_SHOWN = 10  # conversations that failed
_REPLACEABLE = f"""NOT EXISTS (
    SELECT 1 FROM note_records r WHERE r.number = c.number AND r.abbreviation_writer NOT IN ('', '{RULE}'))"""
"""Of a conversation `c`: a rule may write its abbreviation."""

_FAILED = (
    """conversations c LEFT JOIN note_refusals r USING (number) WHERE c.needs_abbreviation <> ''"""
)
_GIVEN_BACK = "(r.model IS ? AND r.messages IS c.message_count)"
"""Of a conversation `c` and its refusals `r`: the model was asked about these very messages."""


def _due(condition: str) -> str:
    return f"""
    SELECT number FROM (
        SELECT number FROM conversations c INDEXED BY conversations_without_notes
            WHERE turn_count > abbreviated_through AND update_time <= ? AND needs_abbreviation = '' AND {condition}
            ORDER BY update_time LIMIT ?)
    UNION SELECT number FROM (
        SELECT number FROM conversations c INDEXED BY conversations_without_notes
            WHERE turn_count > abbreviated_through AND update_time > ? AND needs_abbreviation = '' AND {condition} LIMIT ?)
    UNION SELECT number FROM (
        SELECT number FROM notes_wanted JOIN conversations USING (number) WHERE needs_abbreviation = '' LIMIT ?)
    UNION SELECT number FROM (
        SELECT number FROM conversations WHERE abbreviation_wanted = 1 AND needs_abbreviation = '' LIMIT ?)
    UNION SELECT number FROM (
        SELECT number FROM conversations
            WHERE title = '' AND manually_named = 0 AND turn_count >= 5 AND needs_abbreviation = '' LIMIT ?)
"""


_DUE, _DUE_BY_RULE = _due("true"), _due(_REPLACEABLE)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A conversation that waits."""

    number: int
    conversation_id: str
    idle: bool
    """True if it was quiet for long enough, or left; else only a title is due."""
    redo: bool = False
    """True if its notes are to be written anew, though they cover all of it."""


class NoteQueue:
    """The queue of conversations that wait for notes."""

    def __init__(self, database: Database, names: SeenNames) -> None:
        self._database = database
        self._names = names

    def due(
        self, idle_before: int, ahead_after: int, limit: int, *, by_rule: bool = False
    ) -> list[Waiting]:
        """Return the conversations that wait: those without a message since `idle_before`, those
        that were left, and untitled ones.

        One whose newest message is from after `ahead_after` waits too: a clock had jumped ahead,
        and its true time is not known. Those whose notes are to be written anew come last.
        `by_rule`: without those whose abbreviation a rule may not replace.
        """
        with self._database.reading() as connection:
            chosen = _DUE_BY_RULE if by_rule else _DUE
            return _waiting(
                connection,
                idle_before,
                ahead_after,
                chosen,
                (idle_before, limit, ahead_after, limit, limit, limit, limit),
            )

    def idle_next(self, *, by_rule: bool = False) -> int | None:
        """Return the time of the newest message of the conversation that is idle next, of those
        that wait for notes; None if none does. Those that `due` gives at once are left out.
        """
        condition = _REPLACEABLE if by_rule else "true"
        time = self._database.value(
            "SELECT update_time FROM conversations c INDEXED BY conversations_without_notes"
            f" WHERE turn_count > abbreviated_through AND needs_abbreviation = '' AND {condition}"
            " ORDER BY update_time LIMIT 1"
        )
        return None if time is None else int(time)

    def next_try(self, model: str) -> int | None:
        """Return when the next of the conversations whose last try failed is tried again, 0 for the
        next sweep; None if none is before it goes on.
        """
        time = self._database.value(
            f"SELECT min(iif({_GIVEN_BACK}, r.next_try, 0)) FROM {_FAILED}"
            f" AND NOT ({_GIVEN_BACK} AND r.next_try IS NULL)",
            (model, model),
        )
        return None if time is None else int(time)

    def offline(self, idle_before: int, limit: int) -> list[Waiting]:
        """Return idle conversations whose abbreviation is a rule's, the one that was written first
        at the front.
        """
        rows = self._database.rows(
            "SELECT c.number, c.id FROM note_records r JOIN conversations c USING (number)"
            f" WHERE r.abbreviation_writer = '{RULE}' AND c.needs_abbreviation = '' AND c.update_time <= ?"
            " ORDER BY r.abbreviation_time LIMIT ?",
            (idle_before, limit),
        )
        return [Waiting(row[0], row[1], idle=False) for row in rows]

    def choose(self, chosen: Filter, writers: tuple[str, ...], *, by_rule: bool) -> "ChosenNotes":
        """Return which of the conversations that match and have an abbreviation may get another
        one.

        `writers`: those of the present abbreviations; none: all but callers. `by_rule`: a rule is
        to write it.
        """
        where, values = condition_of(chosen)
        marks = ", ".join("?" * len(writers))
        by = (
            f"coalesce(r.abbreviation_writer, '') IN ({marks})"
            if writers
            else f"coalesce(r.abbreviation_writer, '') <> '{CALLER}'"
        )
        if by_rule:
            by += f" AND {_REPLACEABLE}"
        rows = self._database.rows(
            f"SELECT c.number, {by} FROM conversations c JOIN notes n ON n.number = c.number"
            f" LEFT JOIN note_records r ON r.number = c.number WHERE n.abbreviation <> '' AND c.turn_count > 0 AND {where}",
            (*writers, *values),
        )
        return ChosenNotes(
            [int(str(row[0])) for row in rows if row[1]], sum(not row[1] for row in rows)
        )

    def failures(self, conversation_ids: Sequence[str]) -> dict[str, str]:
        """Return why the last try to write notes failed, for those of the conversations where it
        did.
        """
        rows = self._database.rows(
            "SELECT id, needs_abbreviation FROM conversations"
            " WHERE id IN (SELECT value FROM json_each(?)) AND needs_abbreviation <> ''",
            (orjson.dumps(conversation_ids).decode(),),
        )
        return {row[0]: row[1] for row in rows}

    def counts(self) -> tuple[int, int]:
        """Return the number of conversations with turns that no notes have, and of those whose last
        try failed. What is not taken in yet is not counted.
        """
        with self._database.reading(settled=False) as connection:
            due = connection.execute(
                "SELECT count(*) FROM conversations WHERE turn_count > abbreviated_through"
            ).get
            failed = connection.execute(
                "SELECT count(*) FROM conversations WHERE needs_abbreviation <> ''"
            ).get
        return int(due), int(failed)

    def labels(self, limit: int) -> list[tuple[str, int]]:
        """Return the topics of all conversations, with how many have each, the most used first."""
        rows = self._database.rows(
            "SELECT topic, count(*) FROM topics GROUP BY topic ORDER BY 2 DESC, 1 LIMIT ?",
            (limit,),
        )
        return [(row[0], row[1]) for row in rows]

    def said_everywhere(self, words: Sequence[str]) -> set[str]:
        """Return those of the words that a fifth of the conversations have; none where there are
        few conversations.
        """
        with self._database.reading() as connection:
            total = int(connection.execute("SELECT count(*) FROM conversations").get or 0)
            if total < _MANY:
                return set()
            # ids in order: the conversations of a common word are counted up to the share alone
            query = (
                f"SELECT count(*) FROM (SELECT DISTINCT rowid >> {SEQUENCE_BITS} FROM turns_fts"
                " WHERE turns_fts MATCH ?1 LIMIT ?2)"
            )
            least = total // 5
            return {
                word
                for word in words
                if int(connection.execute(query, (f'"{word}"', least)).get or 0) >= least
            }

    def failed(self, idle_before: int, ahead_after: int, now: int, model: str) -> list[Waiting]:
        """Return the conversations whose last try failed and that are to be tried again by now."""
        with self._database.reading() as connection:
            return _waiting(
                connection,
                idle_before,
                ahead_after,
                f"SELECT c.number FROM {_FAILED}"
                f" AND NOT ({_GIVEN_BACK} AND coalesce(r.next_try > ?, true))",
                (model, now),
            )

    def refusals(self, number: int, model: str) -> int:
        """Return how many times in a row a model wrote no notes of a conversation."""
        tries = self._database.value(
            "SELECT tries FROM note_refusals WHERE number = ? AND model = ?", (number, model)
        )
        return int(tries or 0)

    def keep_refusal(
        self, number: int, model: str, messages: int, tries: int, next_try: int | None
    ) -> None:
        """Record that a model wrote no notes of a conversation with so many messages, and when it
        is asked again; None: not before the conversation goes on.
        """
        self._database.execute(
            (
                "INSERT OR REPLACE INTO note_refusals VALUES(?, ?, ?, ?, ?)",
                (number, model, messages, tries, next_try),
            )
        )

    def forget_refusals(self, number: int) -> None:
        """Forget that a model wrote no notes of a conversation."""
        self._database.execute(("DELETE FROM note_refusals WHERE number = ?", (number,)))

    def keep_failure(self, number: int, reason: str) -> None:
        """Record why a conversation's notes could not be written; only a sweep tries again."""
        self._database.execute(
            (
                "UPDATE conversations SET needs_abbreviation = ? WHERE number = ?",
                (reason or "unknown", number),
            )
        )

    def forget_wish(self, number: int) -> None:
        """Remove a conversation from the queue, because there is nothing to write."""
        self._database.execute(
            (
                "UPDATE conversations SET needs_abbreviation = '', abbreviation_wanted = 0 WHERE number = ?",
                (number,),
            ),
            ("DELETE FROM notes_wanted WHERE number = ?", (number,)),
        )

    def compaction_due(self, limit: int, messages: int = 40) -> list[Waiting]:
        """Return conversations that grew by more than so many messages since they were condensed or
        looked at.

        The partial index `conversations_to_condense` serves 40 messages and more.
        """
        least = "message_count - compaction_from > 40 AND" if messages >= 40 else ""
        rows = self._database.rows(
            f"SELECT number, id FROM conversations WHERE {least} message_count - compaction_from > ? LIMIT ?",
            (messages, limit),
        )
        return [Waiting(row[0], row[1], idle=False) for row in rows]

    def put_off_compaction(self, number: int, past: int) -> None:
        """Count only the last `past` messages of a conversation at the next check for
        compaction.
        """
        self._database.execute(
            (
                "UPDATE conversations SET compaction_from = message_count - ? WHERE number = ?",
                (past, number),
            )
        )

    def want(self, number: int, request: KnownRequest | None) -> None:
        """Queue a conversation's abbreviation, and record the request that asked for it."""
        self._want(
            "UPDATE conversations SET abbreviation_wanted = 1 WHERE number = ? AND turn_count > abbreviated_through",
            [number],
            request,
        )

    def want_anew(self, numbers: list[int], request: KnownRequest | None) -> None:
        """Queue the notes of conversations to be written anew, and record the request that asked
        for it.
        """
        self._want(
            "INSERT OR IGNORE INTO notes_wanted SELECT number FROM conversations WHERE number = ?",
            numbers,
            request,
            "DELETE FROM note_refusals WHERE number = ?",
        )

    def _want(
        self, query: str, numbers: list[int], request: KnownRequest | None, *more: str
    ) -> None:
        if request:
            self._names.add(request.request_id)

        def job(connection: apsw.Connection, _: int) -> None:
            for each in (query, *more):
                connection.executemany(each, [(number,) for number in numbers])
            if request:
                requests.add(connection, request)

        self._database.write(job)


def _waiting(
    connection: apsw.Connection,
    idle_before: int,
    ahead_after: int,
    chosen: str,
    values: tuple[int | str, ...],
) -> list[Waiting]:
    rows = connection.execute(
        "SELECT number, id, turn_count > abbreviated_through AND (update_time <= ? OR update_time > ?"
        " OR abbreviation_wanted = 1), number IN (SELECT number FROM notes_wanted) FROM conversations"
        f" WHERE number IN ({chosen}) ORDER BY 4, update_time",
        (idle_before, ahead_after, *values),
    )
    return [Waiting(row[0], row[1], bool(row[2]), bool(row[3])) for row in rows]


@dataclass(frozen=True, slots=True)
class ChosenNotes:
    """Conversations whose notes may be written anew, and how many others match and keep theirs."""

    numbers: list[int]
    others: int


@dataclass(frozen=True, slots=True)
class NoteState:
    """State of notes in an index file."""

    without: int = 0
    """Conversations with turns that no notes have."""
    failed: int = 0
    reason: str = ""
    """Most common reasons of failures."""
    failures: tuple[tuple[str, str], ...] = ()
    """Some of them, the ones with the newest messages, each with its reason."""


def note_state_of(folder: Path) -> NoteState:
    """Examine the index in a folder without taking it from a running server."""
    return look(folder, _note_state, NoteState())


def _note_state(connection: apsw.Connection) -> NoteState:
    without = connection.execute(
        "SELECT count(*) FROM conversations WHERE turn_count > abbreviated_through"
    ).get
    rows = connection.execute(
        "SELECT needs_abbreviation, count(*) FROM conversations WHERE needs_abbreviation <> '' GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    failed = {str(row[0]): int(row[1]) for row in rows}
    shown = connection.execute(
        "SELECT id, needs_abbreviation FROM conversations WHERE needs_abbreviation <> '' ORDER BY update_time DESC LIMIT ?",
        (_SHOWN,),
    )
    failures = tuple((str(row[0]), str(row[1])) for row in shown)
    reasons = "; ".join(list(failed)[:_REASONS])
    return NoteState(int(without), sum(failed.values()), reasons, failures)


def notes_of(index: Index) -> NoteQueue:
    """Return the queue of notes of an index."""
    return NoteQueue(index, index.names)
