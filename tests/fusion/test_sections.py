"""Sections of a long conversation: what ranks its messages ends where it was quiet."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
from recollect_server.kernel.index.conversations import Outline
from recollect_server.recall.retrieval import LONG, by_sections
from recollect_server.recall.search import Sections
from recollect_server.text.ranking import Postings

from tests.fusion.conftest import made


class Halves:
    """The searches of an index whose one conversation was quiet before its line 4."""

    def sections(self, _number: int, _lines: object) -> Sections:
        """Return both sections."""
        return Sections(
            np.array([2, 4]), np.array([3, 19]), np.array([1.0, 2.0]), np.array([100, 100]), 4
        )

    def lengths(self) -> tuple[Any, int, float]:
        """Return the bytes of conversation 0, and those of the mean one."""
        return np.array([200]), 1, 200.0


def test_neighbours_count_only_within_a_section() -> None:
    messages, above = made(1)  # the lines 2 to 5
    messages = replace(
        messages,
        keyword_before=np.ones((2, 4)),
        keyword_after=np.ones((2, 4)),
    )
    none = Postings(np.zeros(0, np.int64), np.zeros(0, np.int64))
    split = by_sections(
        cast(Any, Halves()), none, none.counts(), [Outline(0, "conv", 0, LONG + 1)], messages, above
    )
    assert split is not None
    legs, _ = split
    assert legs.sequence.tolist() == [2, 3, 2, 3]
    assert legs.keyword_before.tolist() == [[0, 1, 0, 1], [0, 0, 0, 0]]
    # the index alone knows where the last one ends
    assert legs.keyword_after.tolist() == [[1, 0, 1, 1], [0, 0, 1, 1]]
    assert np.isnan(legs.vector_before).tolist() == [True, False, True, False]


def test_sections_are_compared_by_the_cosines_that_conversations_are() -> None:
    messages, above = made(1)
    none = Postings(np.zeros(0, np.int64), np.zeros(0, np.int64))
    split = by_sections(
        cast(Any, Halves()), none, none.counts(), [Outline(0, "conv", 0, LONG + 1)], messages, above,
        lambda: np.array([0.1, 0.2, 0.4, 0.3]),
    )  # fmt: skip
    assert split is not None
    legs, sections = split
    assert sections.vector.tolist() == [0.2, 0.4]
    assert legs.vector.tolist() == messages.vector.tolist()
