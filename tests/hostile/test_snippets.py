"""Texts that make a snippet expensive: long ones with very many matches, or with words that never
stand together.
"""

import random
import time

import apsw
import pytest
from recollect_server.kernel.domain.time import UNLIMITED
from recollect_server.kernel.index.tokenizer import tokens
from recollect_server.text.snippets import CHUNK, LENGTH, PassageFinder

from tests.conftest import Start
from tests.server.conftest import Connect, user
from tests.server.searching import marked

KIB = 1024
TEXTS = {
    "the same letter again and again": ("q ", "q q q q"),
    "every word in every line": (
        "error: connection refused by 10.0.0.1 port 8080\n",
        "error connection refused",
    ),
    "words that never stand together": ("error " + "x " * 200, "error refused"),
    "a script without spaces": ("北京大学", "北京大学"),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_search_over_long_texts_is_answered_soon(
    kind: str, start_server: Start, connect: Connect, scale: int
) -> None:
    pattern, query = TEXTS[kind]
    size = min(160 * scale, 1000) * KIB
    service = connect(start_server())
    conversation = service.create().id
    text = (pattern * (size // len(pattern.encode()) + 1)).encode()[:size].decode(errors="ignore")
    for number in range(3):
        service.append(conversation, user(f"{number} {text}"))
    began = time.process_time()
    hits = service.search(query).hits
    # Without a bound 20 s in the short form: every match was compared with every other one.
    assert time.process_time() - began < 4
    assert len(hits) == 3
    assert all(marked(hit.snippet) for hit in hits)


def test_a_word_at_the_far_end_of_a_long_text_is_shown(
    start_server: Start, connect: Connect
) -> None:
    service = connect(start_server())
    filler = "nothing of note happened here today. " * 12_000
    service.conversation_of(f"{filler}The feasibility of zebras was discussed. {filler}")
    for query, expected in (
        ("zebra", ["zebras"]),
        ("feasible discussion", ["feasibility", "discussed"]),
    ):
        assert marked(service.search(query).hits[0].snippet) == expected


@pytest.mark.parametrize("seed", range(3))
def test_what_stands_around_the_end_of_a_chunk_is_found_as_in_a_short_text(
    seed: int, scale: int
) -> None:
    randomness = random.Random(seed)  # noqa: S311 - a test's words
    connection = apsw.Connection(":memory:")

    def best(text: str) -> str:
        passages = PassageFinder(
            {"zebra", "error"},
            set(),
            lambda part, _: tokens(connection, part.encode()),
            UNLIMITED,
        )
        passage = passages.best(text)
        return passage.rendered(text).strip("…") if passage else ""

    for _ in range(40 * scale):
        inner = " ".join(randomness.choice(["zebra", "error", "lorem", "naïve"]) for _ in range(8))
        before = "lorem " * ((CHUNK + randomness.randrange(-2 * LENGTH, LENGTH)) // 6)
        after = "lorem " * 200
        assert best(f"{before}{inner} {after}") == best(f"{'lorem ' * 100}{inner} {after}")
    connection.close()


def test_a_passage_is_the_same_however_many_other_words_are_searched_for() -> None:
    randomness = random.Random(5)  # noqa: S311 - a test's words
    connection = apsw.Connection(":memory:")
    words = ["zebra", "zebras", "errors", "an", "a1", "antelope", "ze_bra", "Error", "x", "terror"]
    stems = {"zebra", "error", "an"}
    others = {f"{letter}{number}q" for letter in "bcdfgh" for number in range(9)} | {"w", "v", "k"}

    def best(text: str, stems: set[str]) -> str:
        passages = PassageFinder(
            stems, set(), lambda part, _: tokens(connection, part.encode()), UNLIMITED
        )
        passage = passages.best(text)
        return passage.rendered(text) if passage else ""

    for _ in range(50):
        text = " ".join(randomness.choice(words) for _ in range(80))
        # Few words are looked for in the text, of many each word of the text is looked at.
        assert best(text, stems) == best(text, stems | others) != ""
    connection.close()
