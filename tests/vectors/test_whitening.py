"""Whitening: the tone of all messages does not decide which conversation is nearest."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from recollect_server.recall.meaning import Copy, Meaning
from recollect_server.recall.model.marks import USER
from recollect_server.recall.vectors.joint import JointScan
from recollect_server.recall.vectors.matrix import Matrix
from recollect_server.recall.vectors.scan import Scan
from recollect_server.recall.vectors.whitening import LEAST_WHITENED

BITS = 22
_EACH = 10  # messages of a conversation
Floats = NDArray[np.float64]


class Talks:
    """Conversations of ten messages, each with a subject of its own. Messages differ most in their
    tone, which is one of eight in every conversation.
    """

    def __init__(self, count: int) -> None:
        self.random = np.random.default_rng(5)
        directions = self.random.standard_normal((count + 8, 384)) / 384**0.5
        self.subjects, self.tones = directions[:count], directions[count:]
        vectors = np.array([self.said(number) for number in range(count) for _ in range(_EACH)])
        highest = np.abs(vectors).max(axis=1, keepdims=True)
        self.vectors = np.rint(vectors / highest * 127).astype(np.int8)
        self.ids = np.arange(1, count + 1).repeat(_EACH) << BITS | np.tile(
            np.arange(2, 2 + _EACH), count
        )

    def said(self, number: int) -> Floats:
        """Return a vector about a subject, in some tone."""
        tone = self.tones[self.random.integers(8)]
        noise = self.random.standard_normal(384) / 384**0.5
        return np.asarray(self.subjects[number] + 2 * tone + 1.5 * noise)

    def question(self, number: int) -> NDArray[np.float32]:
        """Return a question about a subject."""
        vector = self.said(number)
        return np.asarray(vector / np.linalg.norm(vector), np.float32)

    def matrix(self, entries: NDArray[np.int64] | None = None) -> Matrix:
        """Return a matrix to which these entries were added in this order."""
        matrix = Matrix(BITS)
        self.add(matrix, np.arange(len(self.ids)) if entries is None else entries)
        matrix.whiten()
        return matrix

    def add(self, matrix: Matrix, entries: NDArray[np.int64]) -> None:
        """Add some entries."""
        users = np.full(len(entries), USER)
        matrix.add(self.ids[entries], entries, users, self.vectors[entries])


@pytest.fixture
def talks() -> Talks:
    """Return eighty conversations, of each test its own: questions draw from their generator."""
    return Talks(80)


def test_conversations_are_told_apart_by_their_subjects_not_by_the_tone(
    talks: Talks,
) -> None:
    whole, numbers = talks.matrix(), np.arange(1, 81)
    plain = whitened = 0
    for number in range(80):
        scan = Scan(whole, talks.question(number))
        plain += int(scan.best_of(numbers)[1].argmax()) == number
        near = scan.conversations(numbers)
        assert near.numbers.tolist() == numbers.tolist()
        whitened += int(near.whitened.argmax()) == number
    assert whitened >= 72
    assert plain <= whitened - 16, (plain, whitened)  # 55 and 77 were seen


def test_whitened_scores_are_on_the_scale_of_the_cosines(talks: Talks) -> None:
    scan = Scan(talks.matrix(), talks.question(7))
    plain, whitened = scan.of(talks.ids)[0], scan.whitened_of(talks.ids)
    assert whitened.ids.tolist() == plain.ids.tolist()
    assert whitened.cosines.mean() == pytest.approx(plain.cosines.mean(), abs=1e-3)
    assert whitened.cosines.std() == pytest.approx(plain.cosines.std(), abs=1e-3)
    best = whitened.cosines.reshape(80, _EACH).max(axis=1)
    assert scan.conversations(np.arange(1, 81)).whitened == pytest.approx(best, abs=1e-12)


def test_few_messages_have_nothing_in_common(talks: Talks) -> None:
    scan = Scan(talks.matrix(np.arange(LEAST_WHITENED - 1)), talks.question(3))
    numbers = np.arange(1, 31)
    assert not scan.is_whitened
    near = scan.conversations(numbers)
    assert near.whitened.tolist() == near.best.tolist()
    assert Scan(talks.matrix(np.arange(LEAST_WHITENED)), talks.question(3)).is_whitened


def test_equal_messages_have_no_whitening(talks: Talks) -> None:
    matrix, count = Matrix(BITS), LEAST_WHITENED
    same = np.repeat(talks.vectors[:1], count, axis=0)
    matrix.add(talks.ids[:count], np.arange(count), np.full(count, USER), same)
    matrix.whiten()
    assert not Scan(matrix, talks.question(0)).is_whitened


def test_the_whitening_depends_on_nothing_but_the_entries_there_are(talks: Talks) -> None:
    random = np.random.default_rng(7)
    everything = np.arange(len(talks.ids))
    left = np.setdiff1d(everything, np.arange(50, 90))
    fresh = Matrix(BITS)
    # the numbers of conversations are others over another index
    numbers = random.permutation(np.arange(1, 81))[(talks.ids[left] >> BITS) - 1]
    ids = numbers << BITS | talks.ids[left] & (1 << BITS) - 1
    order = np.argsort(ids)
    vectors, marks = talks.vectors[left][order], np.full(len(left), USER)
    fresh.load(ids[order], left[order], marks, [(np.arange(len(left)), vectors)])
    fresh.whiten()
    assert fresh.whitening is not None
    grown = Matrix(BITS)
    for part in np.split(random.permutation(everything), 20):
        talks.add(grown, part)
        grown.whiten(settled=False)
    grown.whiten()
    for number in range(6, 10):
        grown.remove(number)
    grown.whiten()
    assert grown.whitening is not None
    assert grown.whitening.map.tolist() == fresh.whitening.map.tolist()


def test_it_is_of_the_oldest_entries_and_computed_anew_where_these_are_others(
    talks: Talks,
) -> None:
    matrix = talks.matrix(np.arange(100, 500))
    first = matrix.whitening
    talks.add(matrix, np.arange(500, 520))
    matrix.whiten()
    assert matrix.whitening is first  # they are newer
    talks.add(matrix, np.arange(50, 60))
    matrix.whiten(settled=False)
    assert matrix.whitening is first  # more are on their way
    matrix.whiten()
    second = matrix.whitening
    assert second is not first
    matrix.remove(52)  # the last one
    matrix.whiten()
    assert matrix.whitening is second
    talks.add(matrix, np.arange(520, 640))
    matrix.whiten(settled=False)
    assert matrix.whitening is not None
    oldest = np.setdiff1d(np.r_[50:60, 100:640], np.arange(510, 520))[:468]  # 300 * 1.25 ** 2
    units = talks.vectors[oldest].astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    assert matrix.whitening.mean == pytest.approx(units.mean(axis=0), abs=1e-6)
    for number in range(6, 60):
        matrix.remove(number)
    matrix.whiten()
    assert matrix.whitening is None  # few are left


def test_of_many_entries_the_oldest_decide_and_new_ones_cost_nothing() -> None:
    random = np.random.default_rng(3)
    count = 20_000
    numbers = np.arange(1, 1 + count // 20).repeat(20)
    ids = numbers << BITS | np.tile(np.arange(2, 22), count // 20)
    vectors = random.integers(-127, 128, (count, 384)).astype(np.int8)
    times, marks = np.arange(count), np.full(count, USER)

    def of(chosen: NDArray[np.int64]) -> Matrix:
        matrix = Matrix(BITS)
        matrix.add(ids[chosen], times[chosen], marks[chosen], vectors[chosen])
        matrix.whiten()
        return matrix

    whole, beginning = of(np.arange(count)), of(np.arange(17_000))
    assert whole.whitening is not None
    assert beginning.whitening is not None
    assert whole.whitening.map.tolist() == beginning.whitening.map.tolist()


def test_beside_another_model_both_are_on_one_scale(talks: Talks) -> None:
    question, numbers = talks.question(5), np.arange(1, 81)
    entries = np.arange(len(talks.ids))
    whitened, plain = Matrix(BITS), Matrix(BITS)
    talks.add(whitened, entries[:-100])
    whitened.whiten()
    talks.add(plain, entries[-100:])  # ten conversations in another language
    joint = JointScan([(Scan(whitened, question), 1.0), (Scan(plain, question), 1.8)])
    assert joint.is_whitened
    near = joint.conversations(numbers)
    assert near.numbers.tolist() == numbers.tolist()
    assert near.whitened[-10:].tolist() == near.best[-10:].tolist()
    assert int(near.whitened.argmax()) == 5
    assert joint.whitened_of(talks.ids[-100:]).cosines.tolist() == (
        joint.of(talks.ids[-100:])[0].cosines.tolist()
    )


def test_of_two_whitened_models_a_conversation_has_the_nearer_ones_cosine(talks: Talks) -> None:
    question, numbers = talks.question(5), np.arange(1, 81)
    main, beside = talks.matrix(), talks.matrix(np.arange(400))
    parts = Scan(main, question), Scan(beside, question)
    near = JointScan([(parts[0], 1.0), (parts[1], 1.2)]).conversations(numbers)
    own, other = (part.conversations(numbers).whitened for part in parts)
    other = np.append(np.tanh(1.2 * other), np.full(40, -1.0))
    assert (other > own).any()
    assert (other < own)[:40].any()
    assert near.whitened.tolist() == np.maximum(own, other).tolist()


class Spaces:
    """Copies of a space's vectors by both models, as `Meaning.whiten` takes them."""

    def __init__(self, talks: Talks, folder: Path, *, both: bool) -> None:
        self.talks = talks
        self.main, self.every = Matrix(BITS), Matrix(BITS)
        models = cast(Any, SimpleNamespace(both=both))
        self._meaning = Meaning(folder, models)

    def add(self, entries: NDArray[np.int64], *, english: bool) -> None:
        """Add messages: of all of them both models have pieces, or the second model alone."""
        # every second message has three pieces of the second model
        pieces = entries.repeat(np.where(entries % 2, 3, 1))
        self.talks.add(self.every, pieces)
        if english:
            self.talks.add(self.main, entries)

    def whiten(self) -> tuple[bool, bool]:
        """Whiten, and return whether the vectors of each model are."""
        none = cast(Any, None)
        beside = Copy(2, none, none, self.every, none)
        self._meaning.whiten(Copy(1, none, none, self.main, none, beside))
        return self.main.whitening is not None, self.every.whitening is not None


def test_with_both_models_for_english_the_vectors_of_each_are_whitened(
    talks: Talks, tmp_path: Path
) -> None:
    space = Spaces(talks, tmp_path, both=True)
    space.add(np.arange(400), english=True)
    assert space.whiten() == (True, True)
    assert space.main.whitening is not None
    own = space.main.whitening.map.copy()
    assert space.every.whitening is not None
    assert not np.allclose(space.every.whitening.map, own)  # of its own vectors


def test_with_both_models_nothing_is_whitened_beyond_one_message_in_a_hundred_in_another_language(
    talks: Talks, tmp_path: Path
) -> None:
    space = Spaces(talks, tmp_path, both=True)
    space.add(np.arange(396), english=True)
    space.add(np.arange(400, 404), english=False)  # 4 of 400: of the 41st conversation
    assert space.whiten() == (True, True)
    space.add(np.arange(404, 405), english=False)
    assert space.whiten() == (False, False)
    space.every.remove_ids(int(talks.ids[404]))
    assert space.whiten() == (True, True)
    space.add(np.arange(404, 405), english=False)
    assert space.whiten() == (False, False)
    space.add(np.arange(500, 600), english=True)  # 5 of 501
    assert space.whiten() == (True, True)
    for number in range(51, 61):
        space.main.remove(number)
        space.every.remove(number)
    assert space.whiten() == (False, False)


def test_without_english_by_both_the_first_models_vectors_alone_are_whitened(
    talks: Talks, tmp_path: Path
) -> None:
    space = Spaces(talks, tmp_path, both=False)
    space.add(np.arange(400), english=False)
    talks.add(space.main, np.arange(400, 700))
    assert space.whiten() == (True, False)


def test_what_is_loaded_counts_as_many_messages_as_what_was_added(
    talks: Talks, tmp_path: Path
) -> None:
    space = Spaces(talks, tmp_path, both=True)
    space.add(np.arange(400), english=True)
    added = space.every.view()
    loaded = Matrix(BITS)
    count, order = len(space.every), np.argsort(added.ids[: len(space.every)], kind="stable")
    entries = np.arange(count)
    vectors = added.rows.get(order).astype(np.int8)
    loaded.load(added.ids[order], added.times[order], added.marks[order], [(entries, vectors)])
    assert loaded.message_count == space.every.message_count == 400


def test_a_damaged_row_spoils_no_whitening(talks: Talks, tmp_path: Path) -> None:
    """A vector of zeros has no direction, and one of other bytes is a vector like any other."""
    damaged = [np.zeros(384, np.int8), np.full(384, -128, np.int8), np.zeros(384, np.int8)]
    damaged[2][7] = 127
    vectors = talks.vectors.copy()
    vectors[[3, 100, 401]] = damaged
    entries = np.arange(len(vectors))
    matrix = Matrix(BITS)
    matrix.load(talks.ids, entries, np.full(len(vectors), USER), [(entries, vectors)])
    matrix.whiten()
    best = 0
    for number in range(80):
        scan = Scan(matrix, talks.question(number))
        assert scan.is_whitened
        near = scan.conversations(np.arange(1, 81)).whitened
        assert np.isfinite(near).all()
        best += int(near.argmax()) == number
    assert best >= 72
