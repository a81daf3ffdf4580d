"""Postings of a query's terms, read once for a search, and BM25 of messages worked out from them.

The scores are those of FTS5's `bm25()`, to the last digits. That function counts every message of
each term again and looks up the length of every match, and FTS5 cannot stop early. Here a search
reads at most `words.MAX_POSTINGS` entries, and the lengths of at most `_SIZED` messages, whatever
is asked of whatever corpus. Where that is not all, `Postings.is_cut` says so: then of the common
words the newest messages within the conversations asked about are read.
"""

from collections.abc import Sequence

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from recollect_server.kernel.domain.filters import SearchScope
from recollect_server.kernel.domain.ids import SEQUENCE_BITS
from recollect_server.kernel.index.database import Database
from recollect_server.text.ranking import Bm25, Postings, among, highest, rarity, saturation, starts
from recollect_server.text.words import LEAST_MESSAGES, MAX_POSTINGS, Term

_OFTEN = 40_000  # of a word that more messages have, not counted how often each has it
_RANGES = 64  # of conversations that a common word is looked for in one by one
_SIZED = 10_000  # messages whose lengths are looked up
_NEVER = -(1 << 62)  # before all times
_LAST = "\U0010ffff"  # behind all that begin with a prefix

Ids = NDArray[np.int64]


def read_postings(
    connection: apsw.Connection,
    terms: list[Term],
    numbers: Ids | None = None,
    budget: int = MAX_POSTINGS,
) -> Postings:
    """Return the occurrences of the terms, the rarest first: all, or as many as the budget allows.

    What does not fit is read within these conversations (None: all), the newest first. Every term
    may read an equal share of what is left, so that the first common one leaves some to the next.
    """
    parts: list[Ids] = []
    left, is_cut = budget, False
    for at, term in enumerate(terms):
        most = left // (len(terms) - at)
        if term.prefix:
            ids, is_part = _with_prefix(connection, term, most)
            is_cut |= is_part
        elif term.frequency > most:
            ids, is_cut = _newest(connection, term, numbers, most), True
        elif term.frequency > _OFTEN:
            query = "SELECT group_concat(rowid) FROM turns_fts WHERE turns_fts MATCH ?"
            ids = _column(connection.execute(query, (term.match,)).get)
        else:
            # As one text for each term: three times as fast as a row for each, and without
            # Python's global lock.
            query = "SELECT group_concat(doc) FROM turns_occurrences WHERE term = ?"
            ids = _column(connection.execute(query, (term.stem,)).get)
        # a message counts once, however often it has the term
        left -= min(most, len(ids), term.frequency or most)
        parts.append(ids)
    of_terms = np.repeat(np.arange(len(terms)), [len(ids) for ids in parts])
    ids = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    # FTS5 answers in order, which nothing promises
    if not ((ids[1:] >= ids[:-1]) | (of_terms[1:] > of_terms[:-1])).all():
        ids = ids[np.lexsort((ids, of_terms))]
    return Postings(of_terms, ids, is_cut)


def _column(text: object) -> Ids:
    """Return the numbers of a text that has them separated by commas."""
    return np.array(orjson.loads(f"[{text or ''}]"), np.int64)


def _with_prefix(connection: apsw.Connection, term: Term, most: int) -> tuple[Ids, bool]:
    """Return the messages with a word that begins so, each once, and whether there may be more."""
    query = (
        "SELECT group_concat(doc) FROM"
        " (SELECT doc FROM turns_occurrences WHERE term >= ? AND term <= ? LIMIT ?)"
    )
    ids = np.sort(_column(connection.execute(query, (term.stem, term.stem + _LAST, most)).get))
    return ids[starts(ids)], len(ids) == most


def _newest(connection: apsw.Connection, term: Term, numbers: Ids | None, most: int) -> Ids:
    """Return the newest messages with a term, ascending: of some conversations, if these are few
    or lie side by side, else of all.
    """
    if numbers is None or not len(numbers):
        ranges = [(0, 1 << 62)]
    else:
        first = np.flatnonzero(np.diff(numbers, prepend=-2) > 1)
        if len(first) > _RANGES:  # the smallest gaps are closed
            gaps = np.diff(numbers, prepend=-2)[first]
            first = np.sort(first[highest(gaps.astype(np.float64), _RANGES)])
            first[0] = 0
        begins = numbers[first]
        ends = numbers[np.append(first[1:], len(numbers)) - 1] + 1
        ranges = list(
            zip((begins << SEQUENCE_BITS).tolist(), (ends << SEQUENCE_BITS).tolist(), strict=True)
        )
    query = (
        "SELECT group_concat(rowid) FROM (SELECT rowid FROM turns_fts WHERE turns_fts MATCH ?"
        " AND rowid >= ? AND rowid < ? ORDER BY rowid DESC LIMIT ?)"
    )
    parts = [np.zeros(0, np.int64)]
    for start, end in reversed(ranges):
        if most <= 0:
            break
        parts.append(_column(connection.execute(query, (term.match, start, end, most)).get))
        most -= len(parts[-1])
    return np.sort(np.concatenate(parts))


def _looked_up(
    connection: apsw.Connection, table: str, values: str, ids: Ids
) -> tuple[Ids, str | None]:
    """Return those of the ids, ascending, that a table has, and an aggregate of its rows for them
    in this order: mostly `group_concat`.
    """
    parameter = (orjson.dumps(ids, option=orjson.OPT_SERIALIZE_NUMPY).decode(),)
    rows = f"FROM json_each(?) j CROSS JOIN {table} t ON t.id = j.value"
    count, text = connection.execute(f"SELECT count(*), {values} {rows}", parameter).get
    if count == len(ids):
        return ids, text
    # Some are being removed. The ids of the others are asked for only then: to write and to read
    # them takes as long as the values.
    there, text = connection.execute(f"SELECT group_concat(t.id), {values} {rows}", parameter).get
    return _column(there), text


class KeywordScores:
    """BM25 of messages by all terms of one search, in its scope. Not safe to share between
    threads.
    """

    def __init__(
        self, database: Database, terms: list[Term], scope: SearchScope, numbers: Ids | None
    ) -> None:
        """Read the postings. `numbers` are the conversations of the scope, ascending; None: all."""
        self._database = database
        self._terms = terms
        self._scope = scope
        with database.reading() as connection:
            self.postings = postings = read_postings(connection, terms, numbers)
            self._total, self._mean_length = _totals(connection)
        first = starts(postings.ids, postings.terms)
        self._of_terms, self._pairs = postings.terms[first], postings.ids[first]
        """Term and message of each occurrence, each pair once, by term and then by message."""
        self._often = np.diff(first, append=len(postings.ids))
        finding = np.array([not term.only_ranks for term in terms], np.bool_)
        self._finding = self._inside(_once(self._pairs[finding[self._of_terms]]), numbers)
        self._times: Ids | None = None
        """Times of the messages that are found, once they are asked for."""
        self._timed: Ids | None = None
        """Messages of the scope with any term, if it has a time."""
        if scope.timed:
            # Looked up once: it is most of what such a search takes.
            every = self._inside(_once(self._pairs), numbers)
            times = self._times_of(every)
            inside = _between(times, scope.start, scope.end)
            self._timed, times = every[inside], times[inside]
            finds = among(self._timed, self._finding)
            self._finding, self._times = self._timed[finds], times[finds]

    def best(self, most: int) -> Bm25:
        """Return the best messages with any of the terms. One that only ranks finds none."""
        return self._best(self._finding, most)

    def best_between(self, start: int, end: int, most: int) -> Bm25:
        """Return the best messages of some time, `end` excluded."""
        if self._times is None:
            self._times = self._times_of(self._finding)
        return self._best(self._finding[_between(self._times, start, end)], most)

    def best_within(self, number: int, most: int) -> Ids:
        """Return the best messages of one conversation with any term at all, best first."""
        every = self._pairs[self._pairs >> SEQUENCE_BITS == number]
        ids = _once(every)
        if self._scope.timed:
            ids = ids[_between(self._times_of(ids), self._scope.start, self._scope.end)]
        return self._best(ids, most).best(most)

    def with_all(self, words: Sequence[str]) -> Ids:
        """Return the messages, ascending, that are found and have all of these words of the query,
        each in any of its forms. Of common words only the places that were read count.
        """
        ids = self._finding
        for word in words:
            own = [at for at, term in enumerate(self._terms) if term.word == word]
            # what else a word begins is another word
            own = [at for at in own if not self._terms[at].is_more] or own
            ids = ids[among(ids, _once(self._pairs[np.isin(self._of_terms, own)]))]
        return ids

    def normal(self, most: int) -> Bm25 | None:
        """Return BM25 as in a store of `LEAST_MESSAGES`; None if this one has as many."""
        if self._total >= LEAST_MESSAGES:
            return None
        rarities = np.array([term.rarity(self._total) for term in self._terms])
        return self._scored(self._likely(self._finding, most), rarities)

    def rarities(self) -> dict[str, float]:
        """Return the inverse document frequency of each word that a message has; of a word with
        several forms, that of its commonest.
        """
        by_frequency = sorted(self._terms, key=lambda it: (not it.is_more, it.frequency))
        return {term.word: term.rarity(self._total) for term in by_frequency}

    def conversations(self) -> Ids | None:
        """Return the conversations, ascending, with any term in a message of the scope's time; None
        if it has none.
        """
        return None if self._timed is None else _once(self._timed >> SEQUENCE_BITS)

    def _inside(self, ids: Ids, numbers: Ids | None) -> Ids:
        return ids if numbers is None else ids[among(ids >> SEQUENCE_BITS, numbers)]

    def _times_of(self, ids: Ids) -> Ids:
        """Return the times of messages; of one that does not exist `_NEVER`."""
        with self._database.reading() as connection:
            there, times = _looked_up(connection, "messages", "group_concat(time)", ids)
        values = np.full(len(ids), _NEVER, np.int64)
        values[ids.searchsorted(there)] = _column(times)
        return values

    def _best(self, ids: Ids, most: int) -> Bm25:
        scores = self._scored(self._likely(ids, _SIZED), self._rarities())
        chosen = np.sort(highest(scores.scores, most))
        return Bm25(scores.ids[chosen], scores.scores[chosen])

    def _likely(self, ids: Ids, most: int) -> Ids:
        """Return the ids, ascending, that score highest if all messages are of mean length; of
        equal ones the newest.
        """
        if len(ids) <= most:
            return ids
        scores = self._sums(ids, np.ones(len(ids)), self._rarities())
        return np.sort(ids[::-1][highest(scores[::-1], most)])

    def _scored(self, ids: Ids, rarities: NDArray[np.float64]) -> Bm25:
        if not len(ids):
            return Bm25(ids, np.zeros(0))
        with self._database.reading() as connection:
            there, sizes = _looked_up(
                connection, "turns_fts_docsize", "group_concat(hex(sz), '')", ids
            )
        lengths = np.ones(len(ids))
        if sizes:
            lengths[ids.searchsorted(there)] = _sizes(sizes) / self._mean_length
        return Bm25(ids, self._sums(ids, lengths, rarities))

    def _rarities(self) -> NDArray[np.float64]:
        spread = [
            max(term.frequency, int(count))
            for term, count in zip(
                self._terms, np.bincount(self._of_terms, minlength=len(self._terms)), strict=True
            )
        ]
        return np.array([rarity(it, self._total) for it in spread])

    def _sums(
        self, ids: Ids, lengths: NDArray[np.float64], rarities: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the sums over all terms. `lengths` are those of the messages by the mean."""
        at = ids.searchsorted(self._pairs)
        chosen = np.flatnonzero(ids.take(at, mode="clip") == self._pairs)
        at, of_terms = at[chosen], self._of_terms[chosen]
        values = rarities[of_terms] * saturation(self._often[chosen], lengths[at])
        return np.bincount(at, values, minlength=len(ids)).astype(np.float64)


def _once(ids: Ids) -> Ids:
    """Return the ids, ascending, each once."""
    ascending = np.sort(ids)
    once: Ids = ascending[starts(ascending)]
    return once


def _between(times: Ids, start: int | None, end: int | None) -> NDArray[np.bool_]:
    inside = times >= start if start is not None else times > _NEVER
    if end is not None:
        inside &= times < end
    return inside


def _totals(connection: apsw.Connection) -> tuple[int, float]:
    """Return how many messages FTS5 has indexed, and their mean length in words."""
    # FTS5's averages record: the number of rows, and of each column how many words it has
    record = str(connection.execute("SELECT hex(block) FROM turns_fts_data WHERE id = 1").get or "")
    values = [0]
    for byte in bytes.fromhex(record):
        values[-1] = values[-1] << 7 | byte & 0x7F
        if byte < 0x80:
            values.append(0)
    count, words = values[:2] if len(values) > 2 else (0, 0)
    return count, words / count if count and words else 1.0


def _sizes(text: str) -> NDArray[np.int64]:
    """Return the numbers of words that FTS5 keeps as variable-length integers, in hexadecimal and
    one behind the other: of the bytes of each, which has the highest digits first, all but the last
    have their upper bit set.
    """
    digits = np.frombuffer(bytes.fromhex(text), np.uint8)
    last = np.flatnonzero(digits < 0x80)
    first = np.append(0, last[:-1] + 1)
    value = np.zeros(len(last), np.int64)
    for place in range(int((last - first).max(initial=0)) + 1):
        longer = np.flatnonzero(first + place <= last)
        value[longer] = value[longer] << 7 | digits[first[longer] + place] & 0x7F
    return value
