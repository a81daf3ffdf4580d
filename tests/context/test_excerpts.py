"""Excerpts of long texts: around the words that matter, within their tokens, in any script."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recollect_server.domain.budget import estimate_tokens
from recollect_server.services.context.excerpts import MARK, excerpt
from recollect_server.services.context.relevance import words_of

FILLING = "The committee met again and agreed on nothing at all that day. "


def test_a_text_that_fits_is_returned_as_it_is() -> None:
    assert excerpt("Short. Very.", 10, words_of("very")) == "Short. Very."


def test_the_sentences_with_the_words_are_shown_whole_between_marks() -> None:
    text = (
        FILLING * 40
        + "The key of the cellar hangs behind the clock. Nobody else knows it. "
        + FILLING * 40
    )
    shown = excerpt(text, 60, words_of("Where does the cellar key hang?"))
    assert "The key of the cellar hangs behind the clock." in shown
    assert shown.startswith(f"{MARK} The ")
    assert shown.endswith(f". {MARK}")
    assert estimate_tokens(shown) <= 60


def test_a_rare_word_counts_more_than_one_that_stands_everywhere() -> None:
    text = "Ghent is old. " * 100 + "The zebra of Ghent was born in May. " + "Ghent is old. " * 100
    assert "zebra" in excerpt(text, 40, words_of("the zebra of Ghent"))


def test_a_word_that_is_rare_in_all_that_is_stored_counts_more() -> None:
    text = f"We can plan it again, mate. {FILLING * 3}The Niyama resort has it. {FILLING}"
    words = frozenset({"plan", "mate", "niyama"})
    assert "We can plan it again" in excerpt(text, 20, words)
    rarities = {"plan": 0.4, "mate": 0.2, "niyama": 6.0}
    assert "Niyama" in excerpt(text, 20, words, rarities)
    many = words | {f"longer{number}" for number in range(24)}
    assert "Niyama" in excerpt(text, 20, many, rarities)


def test_other_forms_of_a_word_are_found() -> None:
    text = FILLING * 30 + "She was arriving with two suitcases. " + FILLING * 30
    assert "suitcases" in excerpt(text, 40, words_of("when did she arrive"))


def test_without_any_of_the_words_it_is_the_beginning() -> None:
    shown = excerpt(FILLING * 40, 40, words_of("zebra"))
    assert shown.startswith("The committee met")
    assert shown.endswith(MARK)


def test_the_end_of_a_text_is_shown_to_its_last_word() -> None:
    shown = excerpt(FILLING * 40 + "In the end the zebra won.", 60, words_of("zebra"))
    assert shown.endswith("In the end the zebra won.")
    assert shown.startswith(MARK)


@pytest.mark.parametrize(
    ("text", "question", "expected"),
    [
        (
            "委员会又开会了。" * 60 + "斑马住在根特动物园。" + "什么也没有决定。" * 60,
            "斑马住在哪里？",
            "斑马住在根特动物园。",
        ),
        ("ที่ประชุมไม่ได้ตกลงอะไร " * 60 + "ม้าลายอยู่ที่เกนต์ " + "ไม่มีอะไรเลย " * 60, "ม้าลายอยู่ที่ไหน", "ม้าลาย"),
        (
            "Снова ничего не решили. " * 60 + "Зебра живёт в Генте. " + "Никто не пришёл. " * 60,
            "Где живёт зебра?",
            "Зебра живёт в Генте.",
        ),
    ],
)
def test_it_finds_the_words_in_other_scripts(text: str, question: str, expected: str) -> None:
    shown = excerpt(text, 60, words_of(question))
    assert expected in shown
    assert estimate_tokens(shown) <= 60


@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=400),
    tokens=st.integers(0, 60),
    question=st.text(max_size=30),
)
def test_an_excerpt_never_takes_more_than_its_tokens(text: str, tokens: int, question: str) -> None:
    shown = excerpt(text, tokens, words_of(question + text[5:15]))
    assert estimate_tokens(shown) <= tokens
    stripped = shown.removeprefix(f"{MARK} ").removesuffix(f" {MARK}")
    assert shown == text or stripped in text


def test_the_time_is_linear_in_the_text() -> None:
    def seconds(times: int) -> float:
        text = "the zebra aaaa " * times + "." * times + "a" * times
        words = words_of("where does the zebra aaaaaa live")
        began = time.process_time()
        excerpt(text, 300, words)
        return time.process_time() - began

    seconds(1000)
    assert seconds(40_000) < 40 * max(seconds(4000), 0.002)
