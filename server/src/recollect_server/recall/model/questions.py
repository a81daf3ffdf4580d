"""Word pieces of a message that stand in its questions.

In a chat the message that asks has the words of a search, and the next one has the answer.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from recollect_server.text.text import is_question, sentence_ends


def asking_ranges(
    text: str, first: int, places: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the ranges of word pieces that stand in a sentence which asks, of those from a
    character of the text on: the first piece of each, and the one behind its last. `places` are
    those of the pieces, in order.
    """
    ends = [it for it in sentence_ends(text) if it > first]
    asking = [it for it in pairwise([first, *ends, len(text)]) if is_question(text[it[0] : it[1]])]
    starts = [start for start, _ in places]
    bounds = np.searchsorted(starts, np.array(asking, np.int64).reshape(-1, 2)).tolist()
    return [(start, end) for start, end in bounds if start < end]


def written(ranges: Sequence[tuple[int, int]]) -> bytes:
    """Return ranges as bytes: two numbers of 16 bits each."""
    return np.array(ranges, "<u2").tobytes()


def marked(ranges: bytes, count: int) -> NDArray[np.bool_]:
    """Return for each of so many pieces whether it is in one of the ranges that `written` gave."""
    marks = np.zeros(count, np.bool_)
    for start, end in np.frombuffer(ranges, "<u2").reshape(-1, 2).tolist():
        marks[start:end] = True
    return marks
