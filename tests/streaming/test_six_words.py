"""The checkers notice each word that is broken: else the tests that use them would show nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.cases import each
from tests.streaming import checkers
from tests.streaming.checkers import Received, Written

SNAPSHOT = [Received("conversation_list"), Received("conversation_loaded", "e", 0)]
TOLD = [
    Received("conversation_created", "e", 1, "a"),
    Received("conversation_updated", "e", 2, "a", (2, 3)),
    Received("conversation_updated", "e", 5, "a", (4,)),
    Received("heartbeat", "e", 6),
    Received("conversation_updated", "e", 7, "a", (6, 7)),
]
WRITTEN = [Written("a", (2, 3), "e", 2), Written("a", (4,), "e", 5), Written("a", (6, 7), "e", 7)]
WHOLE = SNAPSHOT + TOLD


def without(place: int) -> list[Received]:
    return [it for it in WHOLE if it.position != place]


def test_what_keeps_all_six_words_passes_in_one_run_or_in_several() -> None:
    checkers.check([WHOLE], WRITTEN, WHOLE)
    for cut in range(2, len(WHOLE)):
        checkers.check([WHOLE[:cut], WHOLE[cut:]], WRITTEN, WHOLE)
    reset = [
        replace(SNAPSHOT[0], reset=True),
        Received("conversation_loaded", "f", 3),
        Received("conversation_updated", "f", 4, "a", (3,)),
    ]
    checkers.check([WHOLE, reset], [*WRITTEN, Written("a", (3,), "f", 4)], WHOLE)


BROKEN: dict[str, Callable[[], None]] = {
    "ordered, by cursor": lambda: checkers.ordered([[*SNAPSHOT, TOLD[2], TOLD[0]]]),
    "ordered, across runs": lambda: checkers.ordered([WHOLE, [TOLD[0]]]),
    "ordered, by message": lambda: checkers.ordered(
        [[replace(TOLD[2], position=1), replace(TOLD[1], position=2)]]
    ),
    "unique": lambda: checkers.unique([WHOLE, [TOLD[4]]]),
    "unique, by message": lambda: checkers.unique([WHOLE, [replace(TOLD[4], position=9)]]),
    "atomic, less": lambda: checkers.atomic([[replace(TOLD[1], sequences=(2,))]], WRITTEN),
    "atomic, more": lambda: checkers.atomic([[replace(TOLD[1], sequences=(2, 3, 4))]], WRITTEN),
    "reliable": lambda: checkers.reliable([without(5)], WRITTEN),
    "reliable, across runs": lambda: checkers.reliable([WHOLE[:4], WHOLE[5:]], WRITTEN),
    "resumable": lambda: checkers.resumable([without(1)], WHOLE),
    "resumable, across runs": lambda: checkers.resumable([WHOLE[:3], WHOLE[4:]], WHOLE),
    "bookmarkable, no cursor": lambda: checkers.bookmarkable(
        [[*SNAPSHOT, replace(TOLD[0], position=-1)]]
    ),
    "bookmarkable, a heartbeat that goes back": lambda: checkers.bookmarkable(
        [[*WHOLE, Received("heartbeat", "e", 2)]]
    ),
    "bookmarkable, a delta with a cursor": lambda: checkers.bookmarkable(
        [[Received("message_delta", "e", 2)]]
    ),
}


@each("word", BROKEN)
def test_a_broken_word_is_noticed(word: str) -> None:
    with pytest.raises(AssertionError):
        BROKEN[word]()
