"""The two keyword legs, each one question to FTS5: which messages fit, and how often each
conversation has each word.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from recollect_server.domain.budget import BYTES_PER_TOKEN
from recollect_server.domain.filters import Filter, Scope
from recollect_server.domain.ids import (
    MAX_LINES,
    SEQUENCE_BITS,
    id_range,
    number_of,
    sequence_of,
)
from recollect_server.storage.index import words
from recollect_server.storage.index.analysis import Word, words_of
from recollect_server.storage.index.conversations import Lengths, condition_of
from recollect_server.storage.index.database import Database
from recollect_server.storage.index.messages import Place
from recollect_server.storage.index.words import QuestionWords, Term
from recollect_server.storage.ranking import Postings

_QUIET = 3_600_000  # milliseconds without a message that end a section
_SECTION = 16  # messages of one, at the most


class Found(NamedTuple):
    """A message that may be shown: where its line is, and when it was said."""

    number: int
    turn_number: int
    time: int
    place: Place
    tokens: int


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages that may be shown: a column for each field, of shape [n]. An object is made only of
    those that are asked for.
    """

    ids: NDArray[np.int64]
    """Ascending."""
    turn_numbers: NDArray[np.int64]
    times: NDArray[np.int64]
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    tokens: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, at: int) -> Found:
        identity = self.ids.item(at)
        place = (sequence_of(identity), self.offsets.item(at), self.lengths.item(at))
        return Found(
            number_of(identity),
            self.turn_numbers.item(at),
            self.times.item(at),
            place,
            self.tokens.item(at),
        )

    def __iter__(self) -> Iterator[Found]:
        return map(self.__getitem__, range(len(self)))

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The numbers of their conversations, ascending."""
        return self.ids >> SEQUENCE_BITS

    @property
    def sequences(self) -> NDArray[np.int64]:
        """Their lines in the transcripts."""
        return self.ids & MAX_LINES

    def only(self, chosen: NDArray[np.bool_]) -> "Messages":
        """Return those that are chosen."""
        if chosen.all():
            return self
        columns = (self.ids, self.turn_numbers, self.times, self.offsets, self.lengths, self.tokens)
        return Messages(*(column[chosen] for column in columns))


class Bm25(NamedTuple):
    """BM25 of messages by id: arrays of shape [n], the ids ascending."""

    ids: NDArray[np.int64]
    scores: NDArray[np.float64]

    def best(self, most: int) -> NDArray[np.int64]:
        """Return the ids of the highest scores, highest first; of equal ones the lower id first."""
        best: NDArray[np.int64] = self.ids[np.lexsort((self.ids, -self.scores))[:most]]
        return best

    def joined(self, more: "Bm25") -> "Bm25":
        """Return these scores, and of the others those whose ids are not among them."""
        new = np.isin(more.ids, self.ids, invert=True)
        ids = np.concatenate([self.ids, more.ids[new]])
        order = np.argsort(ids)
        return Bm25(ids[order], np.concatenate([self.scores, more.scores[new]])[order])


def message_scores(
    connection: apsw.Connection,
    terms: list[Term],
    scope: Scope,
    limit: int,
    *,
    within: int | None = None,
) -> Bm25:
    """Return BM25 of the best messages with any of the terms; higher is better. `within` is the
    number of the only conversation to search.

    A term that only ranks finds no message, except within one conversation.
    """
    finding = [term for term in terms if within is not None or not term.only_ranks]
    ids, values = _best(
        connection, _any(finding), scope, limit, within, sum(term.frequency for term in finding)
    )
    if ranking := [term for term in terms if term not in finding]:
        # The sum over all terms, where both kinds are: higher than what the finding ones gave
        # alone.
        scores = dict(zip(ids, values, strict=True))
        scores |= zip(
            *_best(connection, f"({_any(finding)}) AND ({_any(ranking)})", scope, limit, within),
            strict=True,
        )
        best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]
        ids, values = [pair[0] for pair in best], [pair[1] for pair in best]
    names = np.array(ids, np.int64)
    order = np.argsort(names)
    return Bm25(names[order], np.array(values, np.float64)[order])


def normal_scores(
    connection: apsw.Connection, terms: list[Term], scope: Scope, limit: int, total: int
) -> Bm25:
    """Return BM25 of messages with any of the terms, with the prior of `words.LEAST_MESSAGES` for
    their frequency.
    """
    scores: dict[int, float] = defaultdict(float)
    for term in terms:
        for identity, score in zip(
            *_best(connection, term.match, scope, limit, None, term.frequency), strict=True
        ):
            scores[identity] += term.normal(score, total)
    ids = sorted(scores)
    return Bm25(np.array(ids, np.int64), np.array([scores[it] for it in ids], np.float64))


def _best(
    connection: apsw.Connection,
    match: str,
    scope: Scope,
    limit: int,
    within: int | None,
    matches: float = math.inf,
) -> tuple[list[int], list[float]]:
    """Return the ids and the scores of the best messages. There are at most `matches`, if the
    caller knows.
    """
    where, values = _conditions(scope)
    if within is not None:
        where.append("turns_fts.rowid BETWEEN ? AND ?")
        values += id_range(within)
    times = " JOIN messages m ON m.id = turns_fts.rowid" if scope.timed else ""
    # The `+` lets SQLite sort: FTS5 would prepare a second statement for that with every search,
    # which takes as long as the matches of a small history. Where all are wanted the order is not,
    # and sorting would take as long as scoring.
    order = "" if matches <= limit else f" ORDER BY +rank LIMIT {limit}"
    # As two texts: one step for SQLite, without Python's global lock.
    ids, scores = connection.execute(
        "SELECT json_group_array(id), json_group_array(-score) FROM (SELECT turns_fts.rowid AS id, rank AS score"
        f" FROM turns_fts{times} WHERE turns_fts MATCH ?{_and(where)}{order})",
        (match, *values),
    ).get
    return orjson.loads(ids), orjson.loads(scores)


def postings(connection: apsw.Connection, terms: list[Term]) -> Postings:
    """Return every occurrence of the terms."""
    # As one text for each term: three times as fast as a row for each, and without Python's global
    # lock.
    texts = [_messages_with(connection, term) for term in terms]
    sizes = [text.count(",") + 1 if text else 0 for text in texts]
    of_terms = np.repeat(np.arange(len(terms)), sizes)
    ids = np.array(orjson.loads(f"[{','.join(filter(None, texts))}]"), np.int64)
    # FTS5 answers in order, which nothing promises
    if not ((ids[1:] >= ids[:-1]) | (of_terms[1:] > of_terms[:-1])).all():
        ids = ids[np.lexsort((ids, of_terms))]
    return Postings(of_terms, ids)


def _messages_with(connection: apsw.Connection, term: Term) -> str:
    """Return the id of a message for every occurrence of a term, separated by commas; by a prefix,
    for every message.
    """
    if term.prefix:
        query, value = (
            "SELECT group_concat(rowid) FROM turns_fts WHERE turns_fts MATCH ?",
            term.match,
        )
    else:
        query, value = "SELECT group_concat(doc) FROM turns_occurrences WHERE term = ?", term.stem
    return connection.execute(query, (value,)).get or ""


def sections(
    connection: apsw.Connection, number: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the sections of a conversation: of each the line and the time of its first message,
    and about how many bytes it has.

    A section ends where the conversation was quiet for an hour, or has 16 messages.
    """
    ids, times, tokens = (
        np.fromstring(text or "", dtype=np.int64, sep=",")
        for text in connection.execute(
            "SELECT group_concat(id), group_concat(time), group_concat(tokens) FROM"
            " (SELECT id, time, tokens FROM messages WHERE id BETWEEN ? AND ? ORDER BY id)",
            id_range(number),
        ).get
    )
    quiet = np.flatnonzero(np.diff(times, prepend=times[:1] - _QUIET) >= _QUIET)
    since = np.arange(len(ids)) - np.repeat(quiet, np.diff(quiet, append=len(ids)))
    first = np.flatnonzero(since % _SECTION == 0)
    if not len(first):
        return np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64)
    return (
        ids[first] & MAX_LINES,
        times[first].astype(np.float64),
        BYTES_PER_TOKEN * np.add.reduceat(tokens, first),
    )


def numbers_of(connection: apsw.Connection, chosen: Filter) -> NDArray[np.int64] | None:
    """Return the numbers of the conversations that match, ascending; None for all."""
    where, values = condition_of(chosen)
    if where == "1":
        return None
    rows = connection.execute(
        f"SELECT c.number FROM conversations c WHERE {where} ORDER BY c.number", values
    )
    return np.fromiter((row[0] for row in rows), dtype=np.int64)


def numbers_with(connection: apsw.Connection, terms: list[Term], scope: Scope) -> NDArray[np.int64]:
    """Return the numbers, ascending, of the conversations with any of the terms in a message of the
    scope.
    """
    where, values = _conditions(scope)
    rows = connection.execute(
        f"SELECT DISTINCT turns_fts.rowid >> {SEQUENCE_BITS} FROM turns_fts JOIN messages m ON m.id = turns_fts.rowid"
        f" WHERE turns_fts MATCH ?{_and(where)} ORDER BY 1",
        (_any(terms), *values),
    )
    return np.fromiter((row[0] for row in rows), dtype=np.int64)


def numbers_within(
    connection: apsw.Connection, start: int | None, end: int | None
) -> NDArray[np.int64]:
    """Return the numbers, ascending, of the conversations that began at `start` or later and ended
    before `end`.
    """
    rows = connection.execute(
        "SELECT number FROM conversations WHERE (?1 IS NULL OR create_time >= ?1) AND (?2 IS NULL OR update_time < ?2) ORDER BY 1",
        (start, end),
    )
    return np.fromiter((row[0] for row in rows), dtype=np.int64)


def said_in(connection: apsw.Connection, scope: Scope, limit: int) -> NDArray[np.int64]:
    """Return the ids of messages of the scope, which has both times: those of the conversations
    that were updated last.
    """
    where, values = condition_of(scope.conversations)
    rows = connection.execute(
        "SELECT m.id FROM conversations c JOIN messages m"
        f" ON m.id BETWEEN c.number << {SEQUENCE_BITS} AND ((c.number + 1) << {SEQUENCE_BITS}) - 1"
        f" WHERE c.update_time >= ? AND c.create_time < ? AND ({where}) AND m.time >= ? AND m.time < ?"
        " ORDER BY c.update_time DESC, c.number DESC, m.id LIMIT ?",
        (scope.start, scope.end, *values, scope.start, scope.end, limit),
    )
    return np.array([row[0] for row in rows], np.int64)


def showable(connection: apsw.Connection, ids: NDArray[np.int64], scope: Scope) -> Messages:
    """Return those of the messages that exist and lie in the scope's period. Their conversations
    may be in deletion.
    """
    times, values = _times(scope)
    names = "id", "turn_number", "time", "offset", "length", "tokens"
    # As one text for each column: a row for each message took ten times as long, and Python's
    # global lock with it.
    texts = connection.execute(
        f"SELECT {', '.join(f'json_group_array({name})' for name in names)} FROM messages m"
        f" WHERE m.id IN (SELECT value FROM json_each(?)){_and(times)}",
        (orjson.dumps(ids.tolist()).decode(), *values),
    ).fetchone()
    assert texts is not None  # an aggregate answers with one row
    columns = np.array([orjson.loads(str(text)) for text in texts], np.int64)
    return Messages(*columns[:, np.argsort(columns[0])])


def _and(conditions: list[str]) -> str:
    return "".join(f" AND {condition}" for condition in conditions)


def _any(terms: list[Term]) -> str:
    return " OR ".join(term.match for term in terms)


def _conditions(scope: Scope) -> tuple[list[str], list[Any]]:
    parts, values = _times(scope)
    where, more = condition_of(scope.conversations)
    if where != "1":
        parts.append(
            f"turns_fts.rowid >> {SEQUENCE_BITS} IN (SELECT c.number FROM conversations c WHERE {where})"
        )
        values += more
    return parts, values


def _times(scope: Scope) -> tuple[list[str], list[Any]]:
    parts: list[str] = []
    values: list[Any] = []
    if scope.start is not None:
        parts.append("m.time >= ?")
        values.append(scope.start)
    if scope.end is not None:
        parts.append("m.time < ?")
        values.append(scope.end)
    return parts, values


class Search:
    """Searches by words, and what they need to know of conversations. Every method raises
    IndexUnavailable.
    """

    def __init__(self, database: Database, lengths: Lengths) -> None:
        self._database = database
        self._lengths = lengths

    def terms(self, query: str) -> list[Term]:
        """Return the words of a query to search for."""
        with self._database.reading() as connection:
            return words.choose_terms(connection, query, self._lengths.messages)

    def weigh(self, query: str, terms: list[Term]) -> QuestionWords:
        """Return the rarity of a query's words, of which `terms` were chosen."""
        with self._database.reading() as connection:
            return words.weigh(connection, query, terms, self._lengths.messages)

    def tokens(self, text: str, language: str) -> list[Word]:
        """Return the words of a text in a language, with the stems that the index has of them."""
        # nothing is read: no append needs to be waited for
        with self._database.reading(settled=False) as connection:
            return words_of(connection, text, language)

    def message_scores(
        self, terms: list[Term], scope: Scope, limit: int, *, within: int | None = None
    ) -> Bm25:
        """Return BM25 of the best messages with any of the terms."""
        with self._database.reading() as connection:
            return message_scores(connection, terms, scope, limit, within=within)

    def said_in(self, scope: Scope, limit: int) -> NDArray[np.int64]:
        """Return the ids of messages of the scope, which has both times: those of the conversations
        that were updated last.
        """
        with self._database.reading() as connection:
            return said_in(connection, scope, limit)

    def normal_scores(self, terms: list[Term], scope: Scope, limit: int) -> Bm25 | None:
        """Return BM25 of messages as in a store of `words.LEAST_MESSAGES`; None if this one has as
        many.
        """
        total = self._lengths.messages
        if total >= words.LEAST_MESSAGES:
            return None
        with self._database.reading() as connection:
            return normal_scores(connection, terms, scope, limit, total)

    def notes_scores(
        self, terms: list[Term], limit: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the conversations whose title, topics and abbreviation fit best (numbers,
        ascending), and their BM25.
        """
        with self._database.reading() as connection:
            return words.scores_of_notes(connection, terms, self._lengths.read()[1], limit)

    def postings(self, terms: list[Term]) -> Postings:
        """Return every occurrence of the terms."""
        with self._database.reading() as connection:
            return postings(connection, terms)

    def sections(
        self, number: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
        """Return the sections of a conversation: first lines, times, bytes."""
        with self._database.reading() as connection:
            return sections(connection, number)

    def lengths(self) -> tuple[NDArray[np.int64], int, float]:
        """Return the bytes of text by conversation number, the number of conversations, and their
        mean length.
        """
        return self._lengths.read()

    def numbers_of(self, chosen: Filter) -> NDArray[np.int64] | None:
        """Return the conversations that match; None for all."""
        with self._database.reading() as connection:
            return numbers_of(connection, chosen)

    def numbers_with(self, terms: list[Term], scope: Scope) -> NDArray[np.int64]:
        """Return the conversations with any of the terms in a message of the scope."""
        with self._database.reading() as connection:
            return numbers_with(connection, terms, scope)

    def numbers_within(self, start: int | None, end: int | None) -> NDArray[np.int64]:
        """Return the conversations that lie wholly within a period."""
        with self._database.reading() as connection:
            return numbers_within(connection, start, end)

    def showable(self, ids: NDArray[np.int64], scope: Scope) -> Messages:
        """Return those of the messages that exist and lie in the scope."""
        with self._database.reading() as connection:
            return showable(connection, ids, scope)
