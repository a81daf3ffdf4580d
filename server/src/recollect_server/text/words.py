"""Words: how a query becomes terms, where a text has them, and those of notes. The tokeniser is the
index's own, so both sides agree.

The words of notes (titles, topics and abbreviations) are in a plain table and not in FTS5: where a
row is changed and then deleted, FTS5 may leave the words in its segments, even with
`secure-delete`. A table of whose freed cells SQLite writes zeros leaves none.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.index.derived import Analysis
from recollect_server.kernel.index.tokenizer import tokens
from recollect_server.text.analysis import (
    MARKER,
    MARKER_END,
    MARKERS,
    forms,
    indexed_form,
    plain_form,
    stems_of_forms,
)
from recollect_server.text.languages import (
    ENGLISH,
    EVERYDAY_WORDS,
    guess_language,
    question_stop_words,
)
from recollect_server.text.ranking import K1, highest, rarity
from recollect_server.text.text import (
    UNSPACED_RUN,
    folded,
    normal_form,
    pairs,
    parts_of_identifiers,
    runs,
    segment,
    single_words,
)

_MAX_TERMS = 128
_MAX_SINGLE = 4  # words of a single character in one run: each is looked up by prefix
_MAX_NOTES = 50_000  # entries of the words of notes that one query may read
# a word in more than this share of all messages finds none by itself, where rarer ones are there
_MAX_COMMON = 0.15
_MAX_FINDING = 5_000  # messages that one query may find and score, whatever the corpus's size
MAX_POSTINGS = 100_000
"""Entries of the index that one query may read."""
_LEAST_TERMS = 2
_GERMAN = "de"
MAX_TEXT = 16_384
"""Characters of a query that are read for its words."""
MAX_WORDS = 512
"""Different words of a query that are looked up: a look takes some 20 to 35 us of the processor."""
# Messages that are counted of each word that the step before left uncounted: rare words cost little
# beside common ones.
_COUNTS = (64, 1_024, 8_192, 65_536)
_MAX_COUNTED = 100_000  # messages that one query may count in steps
LEAST_MESSAGES = 300
"""Size of the store that the rarity of words is judged by at least: the other messages count as
without the word.

Among three messages no word is rare, and one that most of them have weighs nothing. Stop words and
everyday words are common whatever the store.
"""
# of a code that is written in several words: characters of one, words, and ways that are tried
_LONGEST_PART, _MOST_PARTS, _MOST_WAYS = 8, 9, 60
_COMMON_PART = 1000  # messages that have a word which is not looked for beside other such words
_TITLE, _TOPICS, _ABBREVIATION = 3, 2, 1  # what a word counts in each
# of a question: words that are looked for in near spellings, of these spellings
_MOST_MISSPELT, _MOST_NEAR = 2, 3
_MISSPELT = re.compile(r"[^\W\d_]{5,16}")
"""A word that may be misspelt: of a shorter one too many others are near."""
_LEAST_TYPED = 3  # letters of the beginning of a word, of which all words are looked for
# Words of a search of which the last one may be a beginning whatever is stored. A longer text, or
# one with a stop word, is a sentence: its last word is whole if anybody said it.
_MOST_TYPED = 4
_TYPED = re.compile(r"[^\W_]+\Z")
_ENDINGS = tuple(
    "a ad al as at ate ble ce d e ed el em en ence ent er ers es ess ful g ge ht ial ic ies in ing ion ions ish ist it "  # noqa: SIM905 - a list would be a word a line
    "ity ive k l le ly m ment n nce ness ng nt o on or os ous r re rs s sh ss st t te th tion ty ul um un ung y".split()
)
"""Endings that make a word of one whose end is not typed yet. Its stem has fewer letters than were
typed ("migrat" of "migratio"), so that no stem begins with these.
"""
_LETTERS = {
    "LATIN": "abcdefghijklmnopqrstuvwxyz",
    "CYRILLIC": "абвгдежзийклмнопрстуфхцчшщъыьэюя",
    "GREEK": "αβγδεζηθικλμνξοπρστυφχψω",
}
"""Letters that a near spelling may have, by script: those that are left when accents are."""
_LAST = "\U0010ffff"  # behind all that begin with a prefix

Entry = tuple[str, int]
"""A stem, and how often it stands in the notes, weighted."""


@dataclass(frozen=True, slots=True)
class WordTables:
    """A table of words and its vocabulary."""

    words: str
    vocabulary: str
    occurrences: str
    notes: str = ""
    """The table of the words of notes; empty where there are none."""


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """The words of a question, weighed by how rare they are."""

    weight: float
    """Sum of their inverse document frequencies, words that no message has included: about the BM25
    of a message with each once.
    """
    missing: float
    """Share of this weight that belongs to words which no message has."""
    only_stops: bool
    """True if it has nothing but stop words, or no word at all."""
    everyday: float
    """Share of its words, stop words apart, that are of small talk; 1 where it has no others."""
    vocabulary: float = 1.0
    """Evidence of a missing word, from 0 to 1: near 0 in a store of a few messages, which lacks
    nearly every word.
    """
    is_whole: bool = True
    """False if the query has more words than are looked up."""
    named: float = 0.0
    """Share of its weight, stop words apart, in words that were said and begin with a capital in
    it, behind the first one: most are names, but in German.
    """


CONVERSATIONS = WordTables("turns_fts", "turns_vocabulary", "turns_occurrences", "notes_words")
EXTERNAL = WordTables("external_fts", "external_vocabulary", "external_occurrences")


@frozen
class Term:
    """A form of a word of a query: the word in other languages is another term."""

    word: str
    """As the query has it, lower-cased."""
    stem: str
    """As the index has it."""
    form: str = ""
    """As the tokenizer gets it, if it is not the word: stemmed in a language."""
    prefix: bool = False
    """Any word that begins so: a single character of a script without spaces, or a word that is
    not typed to its end.
    """
    only_ranks: bool = False
    """It is common, and there are rarer ones: it finds no message, and counts in those that they
    find.
    """
    frequency: int = 0
    """Number of messages that have it."""
    is_stop: bool = False
    """It is a stop word of the query's language."""
    is_near: bool = False
    """It is a near spelling of a word that nobody wrote, or what else a word begins that somebody
    wrote.
    """

    @property
    def is_more(self) -> bool:
        """True if it stands for words that begin with one that somebody wrote."""
        return self.prefix and self.is_near

    @property
    def is_common(self) -> bool:
        """True if it is common whatever the store."""
        return self.is_stop or self.word in EVERYDAY_WORDS

    def rarity(self, total: int) -> float:
        """Return its inverse document frequency among so many messages, with the prior of
        `LEAST_MESSAGES`.
        """
        return rarity(self.frequency, total if self.is_common else max(total, LEAST_MESSAGES))

    @property
    def match(self) -> str:
        """The term as FTS5 reads it: one quoted string, in which no character is an operator."""
        quoted = '"' + (self.form or self.word).replace('"', '""') + '"'
        return quoted + "*" if self.prefix else quoted


@frozen
class QueryTerms:
    """The terms of a query that are searched for, and how rare all of its words are."""

    chosen: list[Term]
    """The rarest first, without those that no message has."""
    words: QuestionWords
    rarities: dict[str, float] = field(default_factory=dict)
    """Rarity of each word, those that no message has included; without stop words."""
    only_english: bool = False
    """True if no message is stemmed in another language than English."""


NO_TERMS = QueryTerms([], QuestionWords(0.0, 0.0, only_stops=True, everyday=1.0))
"""The terms of a query without words."""


def choose_terms(
    connection: apsw.Connection,
    query: str,
    total_messages: int,
    tables: WordTables = CONVERSATIONS,
    *,
    is_typed: bool = False,
) -> QueryTerms:
    """Return the words of a query to search for; the last one of a query that somebody types
    (`is_typed`) may be the beginning of a word.

    Stop words are dropped unless nothing else is left. Common words only rank the hits of rarer
    ones, because every hit is scored. The number of words is bounded, and the number of index
    entries that must be counted and read for them, so of many common words some are left out.
    """
    languages = _languages(connection, tables)
    words, is_whole = _terms(connection, query, languages)
    frequencies, occurring = _frequencies(connection, words, tables)
    there = {
        term.word
        for term, frequency in zip(words, frequencies, strict=True)
        if frequency is not None or term.stem in occurring
    }
    if parts := _parts_of_missing(query, there):
        own = {it.stem for it in words}
        of_parts = [it for it in _terms(connection, parts, languages)[0] if it.stem not in own]
        counts, more = _frequencies(connection, of_parts, tables)
        words += of_parts
        frequencies += counts
        occurring |= more
        there |= {it.word for it, count in zip(of_parts, counts, strict=True) if count is not None}
    beginning = _beginning_in(query, words, there) if is_typed else ""
    if beginning:
        others = _words_that_begin(
            connection, beginning, languages, tables, is_said=beginning in there
        )
        counts = _frequencies(connection, others, tables)[0]
        for term, count in zip(others, counts, strict=True):
            if count is not None:
                words.append(term)
                frequencies.append(count)
                there.add(beginning)
    missing = {it.word: None for it in words if it.word not in there}
    near: list[Term] = []
    if len(missing) >= len(there):  # else the others find it: near spellings take 6 ms a word
        near = _near_spellings(connection, [*missing], languages, tables)
    frequencies += _frequencies(connection, near, tables)[0]
    terms = [
        (frequency, term)
        for term, frequency in zip([*words, *near], frequencies, strict=True)
        if frequency is not None
    ]
    terms.sort(key=lambda it: (it[0], it[1].stem))
    chosen: list[Term] = []
    rarest: set[str] = set()
    postings = 0
    for frequency, term in terms[:_MAX_TERMS]:
        postings += frequency
        spare = len(rarest) >= _LEAST_TERMS and term.word not in rarest
        if frequency and not spare:
            rarest.add(term.word)
        if spare and postings > MAX_POSTINGS:
            break
        common = postings > _MAX_FINDING or (
            frequency > _MAX_COMMON * total_messages and total_messages > 1000
        )
        chosen.append(replace(term, only_ranks=spare and common, frequency=frequency))
    as_written = [it for it in chosen if not it.is_near]
    weighed, rarities = _weighed(words, as_written, occurring, total_messages, is_whole)
    names = _names(query[:MAX_TEXT], languages) & there
    weighed = replace(
        weighed,
        named=sum(rarities.get(it, 0.0) for it in names) / (sum(rarities.values()) or 1.0),
    )
    return QueryTerms(chosen, weighed, rarities, only_english=not languages)


def _names(question: str, languages: Sequence[str]) -> set[str]:
    """Return the words of a question, lowered, that begin with a capital behind the first one; none
    of a question that may be German, where all nouns do.
    """
    if _GERMAN in languages and guess_language(question) != ENGLISH:
        return set()
    return {it.lower() for it in re.findall(r"\w+", question)[1:] if it.istitle()}


def _parts_of_missing(query: str, there: Set[str]) -> str:
    """Return the words of which identifiers in a query are made that no message has as they are:
    messages may have them in another spelling.
    """
    text = normal_form(query[:MAX_TEXT])
    spans = parts_of_identifiers(text)
    if not spans:
        return ""
    return " ".join(
        text[at:end]
        for it in re.finditer(r"[^\W_]+", text)
        if it[0].lower() not in there
        for at, end in spans
        if it.start() <= at < it.end()
    )


def _beginning_in(query: str, words: list[Term], there: Set[str]) -> str:
    """Return the last word of a query if more of it may follow; empty if it is whole. `words` are
    those of the query, of which messages have those that are `there`.
    """
    match = _TYPED.search(normal_form(query[-MAX_TEXT:]).lower())
    last = match[0] if match else ""
    if len(last) < _LEAST_TYPED or UNSPACED_RUN.search(last):
        return ""
    if not any(it.word == last and not it.is_stop for it in words):
        return ""
    every = re.findall(r"\w+", query.lower()[:MAX_TEXT])
    is_search = len(every) <= _MOST_TYPED and {it.word for it in words}.issuperset(every)
    return last if is_search or last not in there else ""


def _words_that_begin(
    connection: apsw.Connection,
    beginning: str,
    languages: list[str],
    tables: WordTables,
    *,
    is_said: bool,
) -> list[Term]:
    """Return what stands for the words that messages have and that begin so. One that was said as
    it is typed (`is_said`) keeps its own weight.
    """
    terms = [Term(beginning, folded(beginning), prefix=True, is_near=is_said)]
    if not is_said:
        whole = [
            form for its in forms([beginning + it for it in _ENDINGS], languages) for form in its
        ]
        stems = dict(zip(stems_of_forms(connection, whole), whole, strict=True))
        terms += [
            Term(beginning, stem, stems[stem])
            for stem in _occurring(connection, stems, tables)
            if not stem.startswith(terms[0].stem)
        ]
    return terms


def _occurring(connection: apsw.Connection, stems: Iterable[str], tables: WordTables) -> list[str]:
    """Return those of the stems that any message has."""
    query = (
        f"SELECT value FROM json_each(?) WHERE EXISTS"
        f" (SELECT 1 FROM {tables.occurrences} WHERE term = value)"
    )
    rows = connection.execute(query, (orjson.dumps([*stems]).decode(),))
    return [str(stem) for (stem,) in rows]


def _near_spellings(
    connection: apsw.Connection, missing: list[str], languages: list[str], tables: WordTables
) -> list[Term]:
    """Return the words that messages have and that are one slip of the hand away from words which
    no message has: a letter more, less or another, or two letters exchanged.
    """
    near: list[Term] = []
    for word in [it for it in missing if _MISSPELT.fullmatch(it)][:_MOST_MISSPELT]:
        spelt = [form for its in forms(_one_slip_away(word), languages) for form in its]
        stems = dict(zip(stems_of_forms(connection, spelt), spelt, strict=True))
        near_stems = _occurring(connection, stems, tables)[:_MOST_NEAR]
        near += [Term(word, stem, stems[stem], is_near=True) for stem in near_stems]
    return near


def _one_slip_away(word: str) -> list[str]:
    """Return the spellings that are one slip away. The first letter is seldom wrong."""
    splits = [(word[:at], word[at:]) for at in range(1, len(word) + 1)]
    letters = _LETTERS.get(unicodedata.name(word[0], "").split(" ")[0], "")
    spelt = [f"{before}{after[1]}{after[0]}{after[2:]}" for before, after in splits if after[1:]]
    spelt += [f"{before}{after[1:]}" for before, after in splits if after]
    spelt += [f"{before}{it}{after}" for before, after in splits for it in letters]
    spelt += [f"{before}{it}{after[1:]}" for before, after in splits if after for it in letters]
    return spelt


def spellings(
    connection: apsw.Connection, code: str, tables: WordTables = CONVERSATIONS
) -> list[tuple[str, ...]]:
    """Return how messages write a code of letters and figures, in small letters: in one word, or in
    words side by side. A word of one character only ends it.

    Words that are all common are not looked for side by side: each way would read all their places.
    """
    parts = {code[at:end] for at in range(len(code)) for end in range(at + 1, at + _LONGEST_PART)}
    matching = f"SELECT 1 FROM {tables.words} WHERE {tables.words} MATCH '\"' || value || '\"'"
    query = f"SELECT value FROM json_each(?) WHERE EXISTS ({matching})"
    occurring = {
        str(it) for (it,) in connection.execute(query, (orjson.dumps([code, *parts]).decode(),))
    }
    ways = _divisions(code, occurring)
    used = sorted({part for way in ways for part in way})
    query = f"SELECT value FROM json_each(?) WHERE (SELECT count(*) FROM ({matching} LIMIT {_COMMON_PART})) < {_COMMON_PART}"
    rare = {str(it) for (it,) in connection.execute(query, (orjson.dumps(used).decode(),))}
    phrases = {" ".join(it): it for it in ways if len(it) == 1 or not rare.isdisjoint(it)}
    query = f"SELECT value FROM json_each(?) WHERE EXISTS ({matching})"
    rows = connection.execute(query, (orjson.dumps([*phrases]).decode(),))
    return [phrases[str(it)] for (it,) in rows]


def _divisions(code: str, words: Set[str]) -> list[tuple[str, ...]]:
    """Return ways to divide a code into some of the words, at most `_MOST_WAYS`, those that begin
    with a long word first.
    """
    ends: dict[int, list[int]] = {}
    # how many words the rest takes at least, where it can be divided: no other way is followed
    least = {len(code): 0}
    for at in range(len(code) - 1, -1, -1):
        longest = range(min(len(code) - 1, at + _LONGEST_PART), at + 1, -1)
        ends[at] = [it for it in (len(code), *longest) if it in least and code[at:it] in words]
        if ends[at]:
            least[at] = 1 + min(least[it] for it in ends[at])
    ways: list[tuple[str, ...]] = []

    def divide(at: int, before: tuple[str, ...]) -> None:
        if at == len(code):
            ways.append(before)
            return
        for end in ends[at]:
            if len(ways) < _MOST_WAYS and len(before) + 1 + least[end] <= _MOST_PARTS:
                divide(end, (*before, code[at:end]))

    divide(0, ())
    return ways


def _weighed(
    every: list[Term],
    chosen: list[Term],
    occurring: set[str],
    total_messages: int,
    is_whole: bool,
) -> tuple[QuestionWords, dict[str, float]]:
    """Return how rare the words of a query are: together, and each. Of those that were not chosen,
    the `occurring` ones are common, and no message has the others.
    """
    weight = sum(term.rarity(total_messages) for term in chosen)
    stems = {term.stem for term in chosen}
    there = {it.word for it in every if it.stem in stems or it.prefix or it.stem in occurring}
    unknown = {term.word: term for term in every if term.word not in there}
    missing = sum(term.rarity(total_messages) for term in unknown.values())
    distinct = {term.word: term for term in every}
    only_stops = all(term.is_stop for term in distinct.values())
    everyday = (
        1.0 if only_stops else sum(word in EVERYDAY_WORDS for word in distinct) / len(distinct)
    )
    share = missing / (weight + missing) if missing else 0.0
    rarities = {
        it.word: it.rarity(total_messages) for it in (*chosen, *unknown.values()) if not it.is_stop
    }
    weighed = QuestionWords(
        weight + missing,
        share,
        only_stops,
        everyday,
        min(1.0, total_messages / LEAST_MESSAGES),
        is_whole,
    )
    return weighed, rarities


def _languages(connection: apsw.Connection, tables: WordTables) -> list[str]:
    """Return the languages of messages that are stemmed otherwise than English."""
    # One look for each language that is there: a look for each that may be took a millisecond.
    query = f"SELECT term FROM {tables.occurrences} WHERE term >= ? AND term < ? LIMIT 1"
    languages = []
    marker = MARKER
    while marker := connection.execute(query, (marker, MARKER_END)).get or "":
        if marker in MARKERS:
            languages.append(MARKERS[marker])
        marker += "0"
    return languages


def _terms(
    connection: apsw.Connection, query: str, languages: list[str]
) -> tuple[list[Term], bool]:
    """Return the first words of a query, and whether these are all. Each has the forms that it has
    in these languages; stop words are left out where there are others.
    """
    is_whole = len(query) <= MAX_TEXT
    query = query[:MAX_TEXT]
    language = guess_language(normal_form(query))
    stop_words = question_stop_words(language)
    text = segment(query).encode()
    stem_of: dict[str, str] = {}
    stems: set[str] = set()
    for start, end, stem in tokens(connection, text):
        word = text[start:end].decode().lower()
        stem_of.setdefault(word, stem)
        if word not in stop_words:
            stems.add(stem)
            if len(stems) > MAX_WORDS:
                is_whole = False
                break
    every_word = [*stem_of]
    forms_of = forms(every_word, languages)
    # the tokenizer knows the stem of a word that stands as it is
    others = {
        form: ""
        for word, its_forms in zip(every_word, forms_of, strict=True)
        for form in its_forms
        if form != word
    }
    others = dict(zip(others, stems_of_forms(connection, [*others]), strict=True))
    words: dict[str, Term] = {}
    stops: dict[str, Term] = {}
    for word, its_forms in zip(every_word, forms_of, strict=True):
        is_stop = word in stop_words
        bucket = stops if is_stop else words
        for form in its_forms:
            stem = stem_of[word] if form == word else others[form]
            bucket.setdefault(stem, Term(word, stem, form, is_stop=is_stop))
        if len(words) > MAX_WORDS:
            break
    unspaced = runs(query)
    for run in unspaced:
        # The last character of a run stands alone in the index; of a query it says something only
        # if it is all there is.
        last = pairs(run)[-1]
        if len(run) == 1:
            words[last] = Term(last, last, prefix=True)
        elif last not in unspaced:
            words.pop(last, None)
            for character in single_words(run)[:_MAX_SINGLE]:
                words[character] = Term(character, character, prefix=True)
    every = list((words or stops).values())
    return every[:MAX_WORDS], is_whole and len(every) <= MAX_WORDS


def _frequencies(
    connection: apsw.Connection, terms: list[Term], tables: WordTables
) -> tuple[list[int | None], set[str]]:
    """Return for each term how many messages have it, and the stems that any has. None for one that
    neither a message nor the notes have, and for common ones whose count would take too long while
    there are rarer ones.

    A count reads every entry of the word, so all are counted up to a few messages first.
    """
    frequencies: list[int | None] = [None] * len(terms)
    occurring: set[str] = set()
    if tables.notes:
        notes = f"SELECT 1 FROM {tables.notes} WHERE stem BETWEEN j.value ->> 1 AND j.value ->> 2"
    else:
        notes = "SELECT 1 WHERE false"
    for of_prefixes in (False, True):
        places = [at for at, it in enumerate(terms) if it.prefix is of_prefixes]
        if not places:
            continue
        values = [f"j.value ->> {at}" for at in range(3)]
        counted = _counting(tables, values, str(_COUNTS[0] + 1), is_prefix=of_prefixes)
        rows = connection.execute(
            f"SELECT ({counted}), EXISTS ({notes}) FROM json_each(?) j ORDER BY j.key",
            (orjson.dumps([_bounds(terms[at]) for at in places]).decode(),),
        )
        for at, row in zip(places, rows, strict=True):
            count, in_notes = map(int, row)
            if count or in_notes:
                frequencies[at] = count
            if count:
                occurring.add(terms[at].stem)
    uncounted = [at for at, it in enumerate(frequencies) if it is not None and it > _COUNTS[0]]
    left = _MAX_COUNTED
    for most in _COUNTS[1:]:
        if sum(it is not None for it in frequencies) - len(uncounted) >= _MAX_TERMS:
            break  # the others are more common than all that are chosen
        more = []
        for at in uncounted:
            if not left:
                more.append(at)
                continue
            limit = min(most, left)
            query = _counting(tables, ["?1", "?2", "?3"], "?4", is_prefix=terms[at].prefix)
            count = int(connection.execute(query, (*_bounds(terms[at]), limit + 1)).get)
            frequencies[at] = count
            left -= min(count, limit)
            if count > limit:
                more.append(at)
        uncounted = more
    # Two are always searched for, so these are counted in full, from the vocabulary.
    needed = _LEAST_TERMS - sum(
        1 for at, it in enumerate(frequencies) if it and at not in uncounted
    )
    for place, at in enumerate(uncounted):
        frequencies[at] = (
            _whole_frequency(connection, terms[at], tables) if place < needed else None
        )
    return frequencies, occurring


def _bounds(term: Term) -> tuple[str, str, str]:
    """Return a term as FTS5 reads it, and the first and the last stem that it stands for."""
    return term.match, term.stem, term.stem + (_LAST if term.prefix else "")


def _counting(tables: WordTables, values: list[str], limit: str, *, is_prefix: bool) -> str:
    """Return the query that counts the messages with a term, up to `limit`. `values` are the
    expressions of its `_bounds`.
    """
    match, first, last = values
    if is_prefix:
        # FTS5 reads the places of all words that begin so before it gives the first message.
        return (
            f"SELECT iif(count(*) < {limit}, count(DISTINCT doc), count(*)) FROM (SELECT doc FROM"
            f" {tables.occurrences} WHERE term >= {first} AND term <= {last} LIMIT {limit})"
        )
    return (
        f"SELECT count(*) FROM (SELECT 1 FROM {tables.words} WHERE {tables.words} MATCH {match}"
        f" LIMIT {limit})"
    )


def _whole_frequency(connection: apsw.Connection, term: Term, tables: WordTables) -> int:
    if term.prefix:
        return MAX_POSTINGS
    query = f"SELECT doc FROM {tables.vocabulary} WHERE term = ?"
    return int(connection.execute(query, (term.stem,)).get or 0)


def entries_of_notes(connection: apsw.Connection, conversation: Conversation) -> list[Entry]:
    """Return what is indexed of a conversation's notes: their stems, weighted by the text that
    they stand in.
    """
    if conversation.unindexed:
        return []
    counts: Counter[str] = Counter()
    for text, weight in (
        (conversation.title, _TITLE),
        ("\n".join(conversation.topics), _TOPICS),
        (conversation.abbreviation, _ABBREVIATION),
    ):
        for _, _, stem in tokens(connection, indexed_form(text).encode()):
            if stem not in MARKERS:
                counts[stem] += weight
    return list(counts.items())


class NotesScores(NamedTuple):
    """The conversations whose notes fit a query best."""

    numbers: NDArray[np.int64]
    """Ascending."""
    scores: NDArray[np.float64]
    """BM25 of the notes of each."""
    titled: NDArray[np.int64]
    """Numbers, ascending, of those whose title has every word of the query: two at least."""


def scores_of_notes(
    connection: apsw.Connection, terms: list[Term], total: int, most: int, every: Set[str]
) -> NotesScores:
    """Return the conversations whose notes fit best; `every` is each word of the query but for stop
    words.

    `total` is how many conversations there are. Lengths count nothing: notes are all about as long.
    """
    numbers, values = [np.zeros(0, np.int64)], [np.zeros(0)]
    titled: dict[str, set[int]] = {word: set() for word in every}
    left = _MAX_NOTES
    for term in terms:
        if left <= 0:
            break
        # the newest first: of very many the others are left out
        rows = connection.execute(
            "SELECT json_group_array(number), json_group_array(count) FROM (SELECT number, count"
            " FROM notes_words WHERE stem BETWEEN ? AND ? ORDER BY stem DESC, number DESC LIMIT ?)",
            (term.stem, term.stem + (_LAST if term.prefix else ""), left),
        ).get
        with_stem, counts = (np.array(orjson.loads(text), np.int64) for text in rows)
        size = len(with_stem)
        left -= size
        if term.word in titled:
            titled[term.word].update(with_stem[counts >= _TITLE].tolist())
        idf = math.log(1 + (max(total, size) - size + 0.5) / (size + 0.5))
        numbers.append(with_stem)
        values.append(idf * counts * (K1 + 1) / (counts + K1))
    distinct, places = np.unique(np.concatenate(numbers), return_inverse=True)
    scores = np.bincount(places, np.concatenate(values), minlength=len(distinct)).astype(np.float64)
    best = np.sort(highest(scores, most))
    of_all = set.intersection(*titled.values()) if len(titled) >= _LEAST_TERMS else set[int]()
    return NotesScores(distinct[best], scores[best], np.array(sorted(of_all), np.int64))


ANALYSIS = Analysis(indexed_form, plain_form, entries_of_notes)
"""Analysis by the language that a text is guessed to be in."""
