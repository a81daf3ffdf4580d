"""BM25 of messages from the postings of a query: FTS5's own, within a budget."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import apsw
import numpy as np
import pytest
from recollect_server.kernel.domain.filters import SearchScope
from recollect_server.kernel.domain.ids import SEQUENCE_BITS, number_of, sequence_of
from recollect_server.kernel.index.index import Index
from recollect_server.recall.postings import read_postings
from recollect_server.recall.search import Search
from recollect_server.text.words import MAX_TEXT, Term, choose_terms

from bench.corpus import Corpus, Made, write_conversation, write_transcripts
from tests.at_rest import INDEX, opened
from tests.cases import each

_CORPUS = Corpus(1_500, words_per_message=30)
_HAN = [chr(code) for code in range(0x4E00, 0x4E00 + 2_000)]
_OFTEN_FIRST, _ABSENT = chr(0x9000), chr(0x9001)
_PAIRS = 200_000  # words that begin so: thrice as many as are counted of a word
_LONG = 2_500  # messages of one conversation, a minute apart, with two words each


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("postings")
    write_transcripts(data, _CORPUS)
    write_conversation(data, Made(10_000, ["zebra crossing"] * _LONG))
    begins = [f"{_HAN[0]}{other}{_HAN[0]}{other}" for other in _HAN[1::2]]
    write_conversation(data, Made(10_001, begins))
    pairs = "".join(f"{_OFTEN_FIRST}{other}" for other in _HAN[1:401])
    write_conversation(data, Made(10_002, [pairs] * (_PAIRS // 400)))
    return data / "default" / "conversations"


@pytest.fixture(scope="module")
def index(folder: Path) -> Iterator[Index]:
    index = opened(folder).index
    yield index
    index.close()


@pytest.fixture(scope="module")
def connection(index: Index, folder: Path) -> Iterator[apsw.Connection]:
    index.settle()
    connection = apsw.Connection(str(folder / INDEX), flags=apsw.SQLITE_OPEN_READONLY)
    yield connection
    connection.close()


@each("place", range(8))
def test_scores_are_those_of_fts5(index: Index, connection: apsw.Connection, place: int) -> None:
    question = [*_CORPUS.questions(6), "zebra", "the of and to"][place]
    terms = Search(index).terms(question).chosen
    ours = Search(index).keyword(terms, SearchScope(), None).best(10_000)
    finding = " OR ".join(term.match for term in terms if not term.only_ranks)
    ranking = " OR ".join(term.match for term in terms if term.only_ranks)
    theirs = _ranked(connection, finding)
    if ranking:
        theirs |= _ranked(connection, f"({finding}) AND ({ranking})")
    assert ours.ids.tolist() == sorted(theirs)
    assert ours.scores == pytest.approx([theirs[it] for it in ours.ids.tolist()])


def _ranked(connection: apsw.Connection, match: str) -> dict[int, float]:
    query = "SELECT rowid, -rank FROM turns_fts WHERE turns_fts MATCH ?"
    return {row[0]: row[1] for row in connection.execute(query, (match,))}


def test_of_a_common_word_the_newest_places_fit_the_budget(
    index: Index, connection: apsw.Connection
) -> None:
    terms = Search(index).terms("zebra").chosen
    whole = read_postings(connection, terms)
    part = read_postings(connection, terms, budget=100)
    number = int(whole.ids[0] >> SEQUENCE_BITS)
    none = read_postings(connection, terms, np.array([number - 1]), budget=100)
    inside = read_postings(connection, terms, np.array([number]), budget=100)
    assert (len(whole.ids), whole.is_cut) == (_LONG, False)
    assert (part.ids.tolist(), part.is_cut) == (whole.ids[-100:].tolist(), True)
    assert len(none.ids) == 0
    assert inside.ids.tolist() == part.ids.tolist()


@pytest.mark.parametrize("budget", [100, 1, 0])
def test_common_words_share_the_budget(connection: apsw.Connection, budget: int) -> None:
    # more than two words that are too common stand in a question where messages have several
    # languages: each word has a form in each
    terms = [
        Term("zebra", "zebra", frequency=_LONG),
        Term("crossing", "cross", frequency=_LONG),
        Term("crossing", "cross", form="cross", frequency=_LONG),
    ]
    part = read_postings(connection, terms, budget=budget)
    sizes = np.bincount(part.terms, minlength=3)
    assert part.is_cut
    assert len(part.ids) == budget
    assert sizes.max() - sizes.min() <= 1


def test_a_rare_word_leaves_its_share_to_common_ones(connection: apsw.Connection) -> None:
    word = _CORPUS.vocabulary[300]
    query = "SELECT doc FROM turns_vocabulary WHERE term = ?"
    rare = Term(word, word, frequency=int(connection.execute(query, (word,)).get))
    assert 0 < rare.frequency < 100
    part = read_postings(connection, [rare, Term("zebra", "zebra", frequency=_LONG)], budget=2_000)
    assert np.bincount(part.terms).tolist() == [rare.frequency, 2_000 - rare.frequency]


def test_nouns_of_a_german_question_are_no_names(tmp_path: Path) -> None:
    write_conversation(
        tmp_path, Made(1, ["Die Waschmaschine hat geleckt, und der Boden war nass."])
    )
    index = opened(tmp_path / "default" / "conversations").index
    questions = "Wann hat die Waschmaschine geleckt?", "When did the Waschmaschine break?"
    assert [Search(index).terms(it).words.named > 0 for it in questions] == [False, True]
    index.close()


def test_a_message_counts_once_however_many_of_its_words_begin_so(
    connection: apsw.Connection,
) -> None:
    terms = choose_terms(connection, _HAN[0], 10_000).chosen
    assert [(term.prefix, term.frequency) for term in terms] == [(True, len(_HAN) // 2)]


def test_words_of_a_beginning_are_not_all_read_to_count_their_messages(
    connection: apsw.Connection,
) -> None:
    # Pages that are asked for, not time: a busy machine changes nothing.
    def pages_of(query: str) -> int:
        before = _pages(connection)
        assert all(term.prefix for term in choose_terms(connection, query, 10_000).chosen)
        return _pages(connection) - before

    before = _pages(connection)
    query = "SELECT count(*) FROM turns_occurrences WHERE term BETWEEN ? AND ?"
    bounds = (_OFTEN_FIRST, _OFTEN_FIRST + chr(0x10FFFF))
    assert connection.execute(query, bounds).get == _PAIRS
    of_all = _pages(connection) - before
    assert pages_of(_OFTEN_FIRST) - pages_of(_ABSENT) < of_all


def _pages(connection: apsw.Connection) -> int:
    """Return the number of pages that a connection has asked for."""
    kinds = (apsw.SQLITE_DBSTATUS_CACHE_HIT, apsw.SQLITE_DBSTATUS_CACHE_MISS)
    return sum(connection.status(kind)[0] for kind in kinds)


def test_messages_with_words_of_a_beginning_are_cut_at_the_budget(
    connection: apsw.Connection,
) -> None:
    begins = [Term("zebra", "zebra", prefix=True)]
    whole = read_postings(connection, begins, budget=2 * _LONG)
    part = read_postings(connection, begins, budget=100)
    assert (len(whole.ids), whole.is_cut) == (_LONG, False)
    assert (len(part.ids), part.is_cut) == (100, True)


def test_words_beyond_the_budget_are_not_looked_up(index: Index) -> None:
    rare = [word for word in _CORPUS.vocabulary[500:] if len(word) > 5]
    every = " ".join(rare[:2_000])
    assert Search(index).terms("zebra crossing").words.is_whole
    assert not Search(index).terms(every).words.is_whole
    behind = "x" * MAX_TEXT + " zebra"
    assert Search(index).terms(behind).chosen == []


def test_words_of_one_stem_count_once_among_those_that_are_looked_up(index: Index) -> None:
    stems = ["x" + "".join(letters) for letters in product("bcdfghjklm", repeat=3)][:300]
    every = " ".join(f"{stem} {stem}s" for stem in stems)
    terms = Search(index).terms(f"{every} zebra")
    assert [term.word for term in terms.chosen] == ["zebra"]
    assert terms.words.is_whole


def test_others_keep_their_scores_while_a_message_is_removed(tmp_path: Path) -> None:
    write_conversation(tmp_path, Made(1, ["zebra", "zebra crossing", "a zebra " * 100]))
    index = opened(tmp_path / "default" / "conversations").index
    terms = Search(index).terms("zebra").chosen
    before, during = (Search(index).keyword(terms, SearchScope(), None) for _ in range(2))
    expected = before.best(3)
    number, sequence = number_of(int(expected.ids[1])), sequence_of(int(expected.ids[1]))
    index.removal.take_out(number, [(sequence, "zebra crossing")], sequence, mark=False)
    scores = during.best(3)
    index.close()
    assert scores.ids.tolist() == expected.ids.tolist()
    assert scores.scores[[0, 2]].tolist() == expected.scores[[0, 2]].tolist()


def test_messages_of_a_time_in_a_long_conversation_are_found_without_reading_it(
    index: Index, connection: apsw.Connection
) -> None:
    query = "SELECT time FROM messages WHERE id >> ? = ? ORDER BY id"
    zebras = Search(index).keyword(Search(index).terms("zebra").chosen, SearchScope(), None).best(1)
    number = int(zebras.ids[0] >> SEQUENCE_BITS)
    times = [int(str(row[0])) for row in connection.execute(query, (SEQUENCE_BITS, number))]
    there = Search(index).said_in(SearchScope(start=times[2_400], end=times[2_403]), 100)
    assert len(there) == 3
