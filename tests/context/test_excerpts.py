"""Excerpts of long texts: around the words that matter, within their tokens, in any script, and as
whole Markdown.
"""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recollect_server.context.excerpts import MARK, Passages, excerpt
from recollect_server.context.relevance import words_of, words_stated
from recollect_server.context.shortening import head_and_tail
from recollect_server.kernel.domain.message import estimate_tokens

from tests.cases import each

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
    # bold text that is cut has marks that the text has not
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="*"), max_size=400),
    tokens=st.integers(0, 60),
    question=st.text(max_size=30),
)
def test_an_excerpt_never_takes_more_than_its_tokens(text: str, tokens: int, question: str) -> None:
    shown = excerpt(text, tokens, words_of(question + text[5:15]))
    assert estimate_tokens(shown) <= tokens
    stripped = shown.removeprefix(MARK).removesuffix(MARK).strip()
    assert shown == text or stripped in text


@each("tokens", range(8, 80))
def test_an_excerpt_whose_last_word_is_asked_for_ends_with_a_whole_word(tokens: int) -> None:
    text = (
        "We compare the options beforehand and will prioritize those that provide detailed numbers "
        "on batteries and prioritization of detailedness, resilience and consumption, among others "
    ) * 4
    shown = excerpt(text, tokens, words_of("Which options prioritize detailed consumption?"))
    words = set(re.findall(r"\w+", text))
    assert set(re.findall(r"\w+", shown)) <= words


def test_an_excerpt_of_wide_characters_ends_with_a_whole_word() -> None:
    wide = "“It’s a naïve façade” – she said so. "
    text = FILLING * 10 + wide * 3 + "The zebra never crosses Wilhelmstraße " * 12 + FILLING * 10
    words = set(text.split())
    for tokens in range(12, 60):
        shown = excerpt(text, tokens, words_of("zebra façade"))
        assert set(shown.strip(f"{MARK} ").split()) <= words, (tokens, shown)


@pytest.mark.parametrize(
    ("text", "question", "expected"),
    [
        (f"{FILLING}**{FILLING * 2}zebra runs**, they say. {FILLING}", "zebra runs", "… **"),
        (f"{FILLING}The zebra **runs and {FILLING * 3}** {FILLING}", "zebra runs", "** …"),
        (f"{FILLING}**Zebras run** {FILLING}**Cows walk** {FILLING}", "zebra", "**Zebras run**"),
    ],
)
def test_bold_text_that_is_cut_is_bold(text: str, question: str, expected: str) -> None:
    for tokens in range(8, 30):
        shown = excerpt(text, tokens, words_of(question))
        assert shown.count("**") % 2 == 0, (tokens, shown)
        assert "****" not in shown
        assert estimate_tokens(shown) <= tokens
    assert expected in excerpt(text, 16, words_of(question))


def test_stars_in_code_are_no_bold_text() -> None:
    text = FILLING + "\n\n```python\n" + "area = side ** 2\n" * 30 + "```\n" + FILLING
    for tokens in range(12, 40):
        shown = excerpt(text, tokens, words_of("area side"))
        assert set(shown.splitlines()) <= {MARK, "```python", "area = side ** 2", "```"}, shown


def test_code_that_is_cut_keeps_its_indentation() -> None:
    block = "def walk(beast):\n" + "    beast.step()\n" * 30 + "    zebra.run()\n    return beast\n"
    text = FILLING * 4 + "\n\n```python\n" + block + "```\n" + FILLING * 4
    for tokens in range(14, 40):
        shown = excerpt(text, tokens, words_of("zebra run"))
        lines = [it for it in shown.splitlines() if "(" in it or "return" in it]
        assert "    zebra.run()" in lines, shown
        assert all(f"{it}\n" in block and not it.startswith("beast") for it in lines), shown


CODE = (
    "Here is the code:\n\n```python\n" + "total = total + price\n" * 40 + "```\n\nIt adds prices. "
)


def is_code_open(text: str) -> bool:
    """Return whether a code block of a text is not closed."""
    return len(re.findall(r"^ *```", text, re.MULTILINE)) % 2 == 1


def test_a_code_block_that_is_cut_is_closed_and_opened_again() -> None:
    text = FILLING * 20 + "\n\n" + CODE + FILLING * 20
    lines = ["total = total + price\n"] * 40
    middle = excerpt(
        text.replace("".join(lines), "".join([*lines, "zebra = 1\n", *lines])),
        40,
        words_of("zebra"),
    )
    assert re.fullmatch(
        r"…\n```python\n(total = total \+ price\n)+zebra = 1\n(total = total \+ price\n)+```\n…",
        middle,
    )
    assert estimate_tokens(middle) <= 40
    end = excerpt(text.replace("adds", "adds zebra"), 60, words_of("zebra"))
    assert "```python\ntotal" in end
    assert "```\n\nIt adds zebra prices." in end
    begin = excerpt(text.replace("Here is", "Zebra has"), 60, words_of("zebra"))
    assert begin.endswith("total = total + price\n```\n…")


def test_an_excerpt_that_would_begin_behind_code_does_not_begin_with_its_fence() -> None:
    text = "```\n" + "x = 1\n" * 60 + "```\n\nThe zebra runs. " + FILLING * 20
    assert excerpt(text, 10, words_of("zebra runs")).startswith(f"{MARK} The zebra runs.")


def test_rows_of_a_table_keep_its_header_and_are_whole() -> None:
    header = "| animal | legs |\n|:-------|-----:|\n"
    rows = "".join(f"| beast{number} | {number} |\n" for number in range(80))
    text = FILLING + "\n\n" + header + rows + "| zebra | 4 |\n" + rows + FILLING
    shown = excerpt(text, 40, words_of("zebra"))
    assert shown.startswith(f"{MARK}\n{header}| ")
    assert "| zebra | 4 |" in shown
    assert all(it.startswith("|") and it.endswith("|") for it in shown.splitlines()[1:-1])
    assert estimate_tokens(shown) <= 40
    # a header without its rows says nothing
    text = FILLING.replace("all", "zebra") + "\n" + header + rows
    ends = {
        excerpt(text, tokens, words_of("zebra")).splitlines()[-2:][0] for tokens in range(18, 40)
    }
    assert not ends & set(header.splitlines())


@each("lone", ["2.", "-", "### Costs", "**Costs**:", "---", "```"])
def test_no_list_mark_heading_or_rule_stands_alone_at_the_end(lone: str) -> None:
    text = f"1. The zebra eats hay.\n\n{lone}\n{FILLING * 20}"
    for tokens in range(9, 14):
        assert excerpt(text, tokens, words_of("zebra")) == f"1. The zebra eats hay. {MARK}"


def test_an_item_of_a_list_and_a_quotation_keep_their_marks() -> None:
    items = "".join(f"{number}. {FILLING}\n" for number in range(1, 30))
    text = f"{items}30. The zebra eats hay.\n{items}"
    assert f"{MARK}\n30. The zebra eats hay." in excerpt(text, 12, words_of("zebra"))
    text = f"{FILLING * 9}\n> She said that the zebra eats hay.\n{FILLING * 9}"
    assert f"{MARK}\n> She said" in excerpt(text, 12, words_of("zebra hay"))


def test_a_shortened_text_is_cut_where_sentences_end_and_its_code_is_whole() -> None:
    assert head_and_tail(FILLING * 30, 400).startswith(f"{FILLING * 3}".strip() + "\n… ")
    assert head_and_tail(FILLING * 30, 400).endswith(f" left out …\n{FILLING * 2}")
    text = CODE.replace("It adds prices. ", "") + "It adds prices.\n\n" + CODE
    shown = head_and_tail(text, 300)
    assert re.search(r"price\n```\n… \d+ tokens left out …\n```python\ntotal", shown)


@given(
    blocks=st.lists(
        st.sampled_from(
            ["zebra ", FILLING, "\n", "\n```\ncode = 1\n\ncode = 2\n```\n", "\n- item\n", "\n# H\n"]
        ),
        max_size=40,
    ),
    tokens=st.integers(30, 120),
)
def test_no_code_block_is_left_open(blocks: list[str], tokens: int) -> None:
    text = "".join(blocks)
    shown = excerpt(text, tokens, words_of("zebra code"))
    assert not is_code_open(shown)
    assert estimate_tokens(shown) <= tokens
    assert not is_code_open(head_and_tail(text, 4 * tokens))
    assert not is_code_open(head_and_tail(text, 4 * tokens, Passages(text, words_of("zebra code"))))


def test_the_time_is_linear_in_the_text() -> None:
    def seconds(times: int) -> float:
        text = "the zebra aaaa " * times + "." * times + "a" * times
        words = words_of("where does the zebra aaaaaa live")
        began = time.process_time()
        excerpt(text, 300, words)
        return time.process_time() - began

    seconds(1000)
    fences = "```\nzebra\n" * 40_000 + "| a |\n|---|\n" * 40_000
    began = time.process_time()
    excerpt(fences, 300, words_of("zebra"))
    head_and_tail(fences, 100_000, Passages(fences, words_of("zebra")))
    assert time.process_time() - began < 0.5
    assert seconds(40_000) < 40 * max(seconds(4000), 0.002)


def test_passages_of_other_lengths_cost_little_beside_the_first() -> None:
    sentence = "我们昨天在北京开会讨论项目。服务器很慢，因为磁盘已满日志。"
    passages = Passages(sentence * 700, words_of(sentence))
    began = time.process_time()
    first, last = passages.best(200)
    middle = time.process_time()
    assert 0 < last - first <= 200
    for length in range(100, 4100, 200):
        passages.best(length)
    # about a tenth of the first; 11 times it when each looked at all matches anew
    assert time.process_time() - middle < 2 * (middle - began)


@given(
    st.lists(st.sampled_from(["zebra", "otter", "tiger", "lion", "x", "lorem"]), max_size=40),
    st.integers(1, 120),
)
def test_no_window_of_a_text_has_words_that_weigh_more(words: list[str], length: int) -> None:
    animals = frozenset({"zebra", "otter", "tiger", "lion"})
    text = " ".join(words)
    places = [(it.start(), it[0]) for it in re.finditer(r"\w+", text) if it[0] in animals]

    def weight(start: int, end: int) -> float:
        inside = {word for at, word in places if start <= at < end}
        return float(sum(words.count(word) ** -0.5 for word in inside))

    heaviest = max(
        (
            weight(start, end)
            for start, _ in places
            for end in (at + 4 for at, _ in places if at >= start)  # letters looked for
            if end - start <= length or weight(start, end) == weight(start, start + 1)
        ),
        default=0.0,
    )
    assert weight(*Passages(text, animals).best(length)) == pytest.approx(heaviest)


def test_what_a_text_states_is_read_in_a_time_linear_in_it() -> None:
    text = "Is the quagga a horse? It died in 1883. Where? " + "zebra " * 20_000
    began = time.process_time()
    words = words_stated(text)
    assert time.process_time() - began < 1, "it took minutes when it was quadratic"
    assert {"zebra", "died", "1883"} <= words
    assert words.isdisjoint({"quagga", "horse"})
