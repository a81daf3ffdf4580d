"""Pure functions against anything that can come in, and against models so simple that they are
plainly right.
"""

import json
import string
from datetime import timedelta
from itertools import groupby
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recollect_server.kernel.domain.conversation import (
    MAX_OPENING,
    Abbreviated,
    Began,
    Compressed,
    MetaUpdated,
    Party,
    TitleAssigned,
    fold,
    opening_of,
)
from recollect_server.kernel.domain.ids import is_conversation_id
from recollect_server.kernel.domain.message import (
    Attachment,
    Message,
    Role,
    ToolCall,
    Usage,
    estimate_tokens,
    newest_turns,
)
from recollect_server.kernel.domain.time import UNLIMITED, from_text, to_text
from recollect_server.kernel.index.tokenizer import tokens
from recollect_server.kernel.log.lines import Damaged, Entry, Stamp, decode, encode
from recollect_server.run.settings import Settings, WrongSettings
from recollect_server.text.snippets import END, LENGTH, START, PassageFinder, plain
from recollect_server.text.text import (
    UNSPACED_RUN,
    normal_form,
    pairs,
    places_of_form,
    segment,
    sentences,
)

from tests.conftest import examples

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
WORD = TEXT.filter(bool)
TIME = st.integers(1, 253_402_300_799_999)
NUMBER = st.integers(0, 2**63 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)

MESSAGES = st.builds(
    Message,
    role=st.sampled_from(Role),
    content=TEXT,
    timestamp=TIME,
    sequence=st.just(9),
    turn_number=st.integers(1, 2**31 - 1),
    thinking_text=TEXT,
    usage=st.none() | st.builds(Usage, NUMBER, NUMBER),
    cost=st.none() | st.floats(0, allow_nan=False, allow_infinity=False),
    channel=TEXT,
    sender=TEXT,
    tool_calls=st.lists(st.builds(ToolCall, TEXT, TEXT, TEXT), max_size=3).map(tuple),
    tool_call_id=TEXT,
    attachments=st.lists(st.builds(Attachment, TEXT, TEXT, NUMBER), max_size=3).map(tuple),
    metadata=st.none() | st.dictionaries(TEXT, JSON, max_size=4),
)
TOPICS = st.lists(TEXT, max_size=3, unique=True).map(tuple)
EVENTS = st.one_of(
    st.builds(Began, TEXT, TEXT, TIME, TOPICS, st.builds(Party, *[TEXT] * 6), TEXT),
    st.builds(TitleAssigned, TEXT, TOPICS, TIME),
    st.builds(Compressed, st.integers(1, 2**31 - 1), TEXT, TIME),
    st.builds(Abbreviated, TEXT, TIME, st.none() | TOPICS),
    st.builds(
        MetaUpdated,
        TIME,
        st.none() | TEXT,
        st.none() | st.booleans(),
        st.none() | TEXT,
        st.none() | st.booleans(),
        group_name=st.none() | TEXT,
    ),
)
BATCHES = st.integers(1, 1000).flatmap(
    lambda count: st.tuples(st.integers(1, count), st.just(count))
)
# A hash stands only where an id does.
STAMPS = st.builds(Stamp, WORD, TEXT, BATCHES, TEXT) | st.builds(
    Stamp, st.just(""), st.just(""), BATCHES, TEXT
)
ENTRIES = st.builds(Entry, MESSAGES | EVENTS, STAMPS)


@given(ENTRIES)
@settings(max_examples=examples(400))
def test_a_line_says_what_was_written_into_it(entry: Entry) -> None:
    if entry.stamp.batch[1] == 1:
        assert entry.stamp.batch == (1, 1)
    line = encode(entry)
    assert line.endswith(b'"}\n')
    assert line.count(b"\n") == 1
    assert decode(line[:-1], 9) == entry
    assert json.loads(line)["crc"] == line[-11:-3].decode()


@given(ENTRIES, st.data())
@settings(max_examples=examples(200))
def test_a_line_that_lost_or_won_or_changed_a_byte_is_damaged(
    entry: Entry, data: st.DataObject
) -> None:
    line = encode(entry)[:-1]
    place = data.draw(st.integers(0, len(line) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda value: value != line[place]))
    for damaged in (
        line[:place] + bytes([other]) + line[place + 1 :],
        line[:place] + line[place + 1 :],
        line[:place],
        line + bytes([other]),
    ):
        if damaged != line:
            with pytest.raises(Damaged):
                decode(damaged, 9)


@given(ENTRIES)
@settings(max_examples=examples(20))
def test_a_line_whose_checksum_lost_any_byte_is_damaged(entry: Entry) -> None:
    line = encode(entry)[:-1]
    for place in range(len(line) - len(b',"crc":"00000000"}'), len(line)):
        with pytest.raises(Damaged):
            decode(line[:place] + line[place + 1 :], 9)


@given(st.binary(max_size=200))
@settings(max_examples=examples(300))
def test_any_bytes_are_a_line_or_damaged(data: bytes) -> None:
    with pytest.raises(Damaged):
        decode(data, 1)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_text_that_is_not_unicode_is_refused_before_it_is_written(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        encode(Entry(Message(Role.USER, text, 1, 2, 1)))


TURNS = st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), max_size=12)
"""The tokens of the messages of each turn, oldest first."""


def naive_newest_turns(
    turns: list[list[int]], after: int, max_turns: int, max_tokens: int
) -> list[tuple[int, int]]:
    """Return the newest turns by the model: take turn after turn from the end while both limits
    hold.
    """
    chosen: list[tuple[int, int]] = []
    for number in range(len(turns), after, -1):
        turn = [(number, size) for size in turns[number - 1]]
        spent = sum(size for _, size in chosen + turn)
        if chosen and (spent > max_tokens or len({n for n, _ in chosen}) == max_turns):
            break
        chosen = turn + chosen
    return chosen


@given(TURNS, st.integers(0, 14), st.integers(1, 14), st.integers(1, 300))
@settings(max_examples=examples(500))
def test_the_newest_turns_are_those_of_the_model(
    turns: list[list[int]], after: int, max_turns: int, max_tokens: int
) -> None:
    messages = [(number, size) for number, turn in enumerate(turns, start=1) for size in turn]
    offered = ((number, size, 1, (number, size)) for number, size in reversed(messages))
    chosen, cut = newest_turns(
        offered, after_turn=after, max_turns=max_turns, max_tokens=max_tokens, max_bytes=1000
    )
    assert not cut
    assert chosen == naive_newest_turns(turns, after, max_turns, max_tokens)


@given(TURNS.filter(bool), st.integers(1, 5), st.integers(1, 100))
@settings(max_examples=examples(300))
def test_pages_of_turns_are_everything_once_and_no_turn_is_cut(
    turns: list[list[int]], max_turns: int, max_tokens: int
) -> None:
    messages = [
        (number, place) for number, turn in enumerate(turns, start=1) for place in range(len(turn))
    ]
    turns_read: list[tuple[int, int]] = []
    before = len(turns) + 1
    while before > 1:
        offered = (
            (n, turns[n - 1][place], 1, (n, place)) for n, place in reversed(messages) if n < before
        )
        page, cut = newest_turns(
            offered, after_turn=0, max_turns=max_turns, max_tokens=max_tokens, max_bytes=1000
        )
        assert page
        assert not cut
        turns_read = page + turns_read
        before = page[0][0]
    assert turns_read == messages


@given(TURNS.filter(bool), st.integers(1, 120))
@settings(max_examples=examples(300))
def test_pages_of_so_many_bytes_are_everything_once_and_only_a_turn_that_is_larger_is_cut(
    turns: list[list[int]], max_bytes: int
) -> None:
    """Whoever asks for what is before the first message of each page sees every message."""
    messages = [
        (number, place) for number, turn in enumerate(turns, start=1) for place in range(len(turn))
    ]
    turns_read: list[tuple[int, int]] = []
    while rest := messages[: len(messages) - len(turns_read)]:
        offered = ((n, 1, turns[n - 1][place], (n, place)) for n, place in reversed(rest))
        page, cut = newest_turns(
            offered, after_turn=0, max_turns=1000, max_tokens=1000, max_bytes=max_bytes
        )
        sizes = [turns[n - 1][place] for n, place in page]
        assert sum(sizes) <= max_bytes or len(page) == 1
        assert cut == (page[0][1] > 0)
        assert not cut or len({number for number, _ in page}) == 1
        turns_read = page + turns_read
    assert turns_read == messages


@given(TEXT)
def test_tokens_are_bytes_by_four_rounded_up(text: str) -> None:
    assert estimate_tokens(text) == (len(text.encode()) + 3) // 4


UNSPACED = st.text(st.sampled_from("北京大学東カﾀ서울あいฉันกมลာម"), min_size=1, max_size=12)


@given(st.text())
def test_sentences_are_all_of_a_text_but_the_space_between_them(text: str) -> None:
    parts = sentences(text)
    assert all(sentence == sentence.strip() != "" for sentence in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


@pytest.mark.timeout(20)  # what is quadratic takes hours here
@pytest.mark.parametrize(
    "text",
    [
        "!" * (1 << 20) + "x",
        '."' * (1 << 19) + "x",
        "." + '"' * (1 << 20) + "x",
        "。！" * (1 << 19),
    ],
)
def test_a_mebibyte_of_marks_is_cut_in_a_moment(text: str) -> None:
    assert sentences(text) == [text]


@given(UNSPACED)
def test_the_pairs_of_a_run_hold_every_two_neighbours_and_the_last_character(run: str) -> None:
    assert pairs(run) == [*(run[i] + run[i + 1] for i in range(len(run) - 1)), run[-1]]


@given(TEXT)
@settings(max_examples=examples(300))
def test_segmenting_loses_nothing_and_leaves_spaced_scripts_alone(text: str) -> None:
    form = normal_form(text)
    cut = segment(text)
    if not UNSPACED_RUN.search(form):
        assert cut == form
    # The first character of every piece of a run, put together, is the run again.
    rebuilt = UNSPACED_RUN.sub(lambda run: run.group()[0], cut)
    runs = groupby(form, lambda character: bool(UNSPACED_RUN.match(character)))
    for expected in [" ".join(part) if is_run else "".join(part) for is_run, part in runs]:
        assert expected in rebuilt


@given(TEXT)
@settings(max_examples=examples(300))
def test_every_character_of_the_normal_form_comes_from_a_place_of_the_text(text: str) -> None:
    form, places = places_of_form(text)
    assert len(places) == len(form) + 1
    assert [*places] == sorted(places)
    for at, character in enumerate(form):  # of it alone, or composed with what is behind it
        until = next((it for it in places[at:] if it > places[at]), len(text))
        assert character in f" {normal_form(text[places[at] : until])}", (text, at)


@given(UNSPACED, st.data())
def test_every_part_of_a_run_is_found_by_its_pairs(run: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(run) - 1))
    part = run[start : data.draw(st.integers(start + 1, len(run)))]
    expected = pairs(part)[:-1] if len(part) > 1 else []
    assert set(expected) <= set(pairs(run))
    assert any(piece.startswith(part[0]) for piece in pairs(run))


@given(TIME)
def test_a_time_comes_back_from_its_text(time: int) -> None:
    assert from_text(to_text(time)) == time
    assert to_text(time).endswith("Z")


@given(st.integers() | st.just(253_402_300_800_000))
def test_a_time_that_no_text_stands_for_is_refused(time: int) -> None:
    if not -62_135_596_800_000 <= time <= 253_402_300_799_999:
        with pytest.raises(ValueError, match="outside the years"):
            to_text(time)
    else:
        assert from_text(to_text(time)) == time


@given(TEXT)
def test_an_opening_is_short_and_on_one_line(text: str) -> None:
    opening = opening_of(text * 20)
    assert len(opening) <= MAX_OPENING
    assert opening == " ".join(opening.split())
    assert opening_of(opening) == opening


ULID = st.text(string.digits + "ABCDEFGHJKMNPQRSTVWXYZ", min_size=25, max_size=25)


@given(st.sampled_from("01234567"), ULID)
def test_every_ulid_names_a_conversation(first: str, rest: str) -> None:
    assert is_conversation_id(f"conv-{first}{rest}")


@given(TEXT | st.from_regex(r"conv-.{26}"))
def test_what_names_a_conversation_is_a_plain_file_name(text: str) -> None:
    if is_conversation_id(text):
        assert len(text) == 31
        assert set(text[5:]) <= set(string.digits + string.ascii_uppercase)
    assert not is_conversation_id(text + "/")
    assert not is_conversation_id("../" + text)
    assert not is_conversation_id(text + "\n")


UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}


@given(st.integers(0, 10_000), st.sampled_from(sorted(UNITS)))
@settings(max_examples=examples(50))
def test_durations_are_numbers_with_a_unit(number: int, unit: str) -> None:
    assert Settings.load(None, {"idle_timeout": f"{number}{unit}"}).idle_timeout == timedelta(
        seconds=number * UNITS[unit]
    )


@given(TEXT)
@settings(max_examples=examples(100))
def test_any_other_text_is_no_duration(text: str) -> None:
    if not text.endswith(tuple(UNITS)):
        with pytest.raises(WrongSettings, match=r"^shutdown_grace: "):
            Settings.load(None, {"shutdown_grace": text})


@given(st.lists(MESSAGES, max_size=8), st.integers(0, 8))
@settings(max_examples=examples(100))
def test_what_is_known_does_not_depend_on_where_a_fold_was_interrupted(
    messages: list[Message], cut: int
) -> None:
    began = Began("conv-x", "web", 1)

    def folded(before: Any, contents: list[Message]) -> Any:
        for content in contents:
            before = fold(before, content)
        return before

    beginning = fold(None, began)
    whole = folded(beginning, messages)
    assert folded(folded(beginning, messages[:cut]), messages[cut:]) == whole
    assert whole.message_count == len(messages)
    assert whole.usage_total.input <= 2**63 - 1
    assert whole.text_bytes == sum(len(message.content.encode()) for message in messages)


MIXED = st.lists(
    st.text(
        st.sampled_from("zebra runs 北京大学東カ서울สวัสดีनमस्तेရန်ကုန် éß🦓-,.\ue000\ue001\n"),
        max_size=300,
    ),
    min_size=1,
    max_size=6,
).map(" ".join)


@given(MIXED, st.data())
@settings(max_examples=examples(300))
def test_a_snippet_is_a_part_of_its_text_with_marks(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    query = text[start : start + data.draw(st.integers(1, 12))]
    connection = apsw.Connection(":memory:")
    stems = {stem for _, _, stem in tokens(connection, segment(query).encode())}
    prefixes = (
        {character for character in query if UNSPACED_RUN.match(character)}
        if len(query) == 1
        else set()
    )
    passages = PassageFinder(
        stems, prefixes, lambda part, _: tokens(connection, part.encode()), UNLIMITED
    )
    passage = passages.best(text)
    snippet = passage.rendered(text) if passage else opening_of(plain(text))
    connection.close()
    assert [mark for mark in snippet if mark in (START, END)] == [START, END] * snippet.count(START)
    shown = plain(snippet).strip("…")
    whole = " ".join(text.replace(START, "").replace(END, "").split())
    assert " ".join(shown.split()) in whole
    assert len(shown) <= LENGTH + 20
