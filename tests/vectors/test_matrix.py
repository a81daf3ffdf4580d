"""The vectors in memory: what a scan answers is what working everything out would, whatever the
order they came in.
"""

import math
from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray
from recollect_server.recall.model.marks import USER
from recollect_server.recall.vectors import scan
from recollect_server.recall.vectors.joint import JointScan
from recollect_server.recall.vectors.matrix import Matrix
from recollect_server.recall.vectors.rows import Rows
from recollect_server.recall.vectors.scan import Scan

BITS = 22
Bytes = NDArray[np.int8]
Ids = NDArray[np.int64]


def some(count: int, seed: int = 1) -> tuple[Ids, Bytes]:
    """Return vectors in clusters, as texts have them, of conversations with 1 to 30 entries; some
    messages have several pieces.
    """
    random = np.random.default_rng(seed)
    centres = random.standard_normal((40, 384))
    vectors = centres[random.integers(0, 40, count)] + 0.8 * random.standard_normal((count, 384))
    numbers = np.sort(random.integers(1, 2 + count // 15, count))
    lines = np.zeros(count, np.int64)
    for number in np.unique(numbers):
        lines[numbers == number] = 2 + np.sort(random.integers(0, 28, (numbers == number).sum()))
    return numbers << BITS | lines, np.rint(
        vectors / np.abs(vectors).max(axis=1, keepdims=True) * 127
    ).astype(np.int8)


def a_question(vectors: Bytes, seed: int = 2) -> NDArray[np.float32]:
    """Return a vector near one of the vectors."""
    random = np.random.default_rng(seed)
    near = vectors[random.integers(len(vectors))] + 25 * random.standard_normal(384)
    return np.asarray(near / np.linalg.norm(near), np.float32)


def filled(ids: Ids, vectors: Bytes, times: Ids | None = None) -> Matrix:
    matrix = Matrix(BITS)
    whole = np.arange(len(ids))
    matrix.load(
        ids,
        whole if times is None else times,
        np.full(len(ids), USER),
        [(whole[::-1], vectors[::-1])],
    )
    return matrix


def exact(ids: Ids, vectors: Bytes, question: NDArray[np.float32]) -> dict[int, float]:
    """Compute the cosine of every message one by one."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    own: dict[int, float] = {}
    for at, identity in enumerate(ids.tolist()):
        own[identity] = max(own.get(identity, -2), float(units[at] @ question))
    return own


def same(ones: Iterable[NDArray[np.generic]], others: Iterable[NDArray[np.generic]]) -> bool:
    return all(
        np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
        for one, other in zip(ones, others, strict=True)
    )


def best(scores: dict[int, float], most: int) -> list[int]:
    return sorted(scores, key=lambda identity: -scores[identity])[:most]


def test_a_small_matrix_is_searched_exactly() -> None:
    ids, vectors = some(900)
    question = a_question(vectors)
    own = exact(ids, vectors, question)
    scan = Scan(filled(ids, vectors), question)
    assert scan.nearest(50).ids.tolist() == best(own, 50)
    scores, marks = scan.of(ids[::3])
    chosen = np.unique(ids[::3]).tolist()
    assert marks.tolist() == [USER] * len(chosen)
    assert scores.ids.tolist() == chosen
    assert scores.cosines == pytest.approx([own[i] for i in chosen], abs=2e-3)


def test_a_large_matrix_loses_hardly_any_of_the_nearest() -> None:
    ids, vectors = some(12_000)
    matrix = filled(ids, vectors)
    assert len(matrix) > 5 * scan.RESCORED
    shares = []
    for seed in range(5):
        question = a_question(vectors, seed)
        expected = {*best(exact(ids, vectors, question), 10)}
        shares.append(len(expected.intersection(Scan(matrix, question).nearest(50).ids.tolist())))
    assert np.mean(shares) >= 9.7


def test_filters_come_before_the_choice_of_the_best() -> None:
    ids, vectors = some(12_000)
    times = np.arange(len(ids)) % 1000
    matrix = filled(ids, vectors, times)
    question = a_question(vectors)
    nearest = best(exact(ids, vectors, question), 12_000)
    allowed = np.array([7, 300, 901])
    inside = [identity for identity in nearest if identity >> BITS in allowed.tolist()]
    assert Scan(matrix, question, allowed).nearest(30).ids.tolist() == inside[:30]
    dates = {
        identity
        for identity, time in zip(ids.tolist(), times.tolist(), strict=True)
        if 100 <= time < 103
    }
    ids_found = Scan(matrix, question, None, 100, 103).nearest(10).ids.tolist()
    assert set(ids_found) <= dates
    assert ids_found[0] == next(identity for identity in nearest if identity in dates)
    assert Scan(matrix, question).nearest_of(100, 103, 10).ids.tolist() == ids_found
    assert not len(Scan(matrix, question, np.zeros(0, np.int64)).nearest(10).ids)


@pytest.mark.parametrize("part", [1, 7, 400])
def test_it_answers_the_same_whether_filled_at_once_or_bit_by_bit_in_any_order(part: int) -> None:
    ids, vectors = some(800)
    question = a_question(vectors)
    grown = Matrix(BITS)
    # Conversations come in between each other; each keeps its own order.
    turns = np.lexsort(
        (
            ids >> BITS,
            np.concatenate([np.arange(n) for n in np.unique(ids >> BITS, return_counts=True)[1]]),
        )
    )
    for first in range(0, len(ids), part):
        chosen = turns[first : first + part]
        grown.add(ids[chosen], chosen, np.full(len(chosen), USER), vectors[chosen])
    one, other = Scan(filled(ids, vectors), question), Scan(grown, question)
    assert same(one.nearest(100), other.nearest(100))
    near = one.conversations(np.arange(60))
    for at, number in enumerate(near.numbers.tolist()):
        assert same(
            [column[at : at + 1] for column in near], other.conversations(np.array([number]))
        )
    assert same(one.within(3, 5), other.within(3, 5))


def test_it_grows_past_what_a_dictionary_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recollect_server.recall.vectors.matrix._TAIL", 50)
    ids, vectors = some(700)
    question = a_question(vectors)
    grown = Matrix(BITS)
    for at in range(len(ids)):
        grown.add(
            ids[at : at + 1],
            ids[at : at + 1] * 0,
            ids[at : at + 1] * 0 + USER,
            vectors[at : at + 1],
        )
    whole = Scan(filled(ids, vectors), question)
    (scores, marks), (expected, expected_marks) = Scan(grown, question).of(ids), whole.of(ids)
    assert same([*scores, marks], [*expected, expected_marks])


def test_rows_of_several_blocks_are_read_and_multiplied_in_the_order_asked() -> None:
    random = np.random.default_rng(4)
    entries = random.permutation(40_000)[:1_500]  # a block has 32,768
    vectors = random.integers(-127, 128, (len(entries), 384)).astype(np.int8)
    rows = Rows()
    rows.set(entries, vectors)
    columns = random.integers(-64, 65, (384, 2)).astype(np.float32)
    assert np.array_equal(rows.get(entries), vectors)
    expected = vectors.astype(np.int64) @ columns.astype(np.int64)
    assert np.array_equal(rows.products(entries, columns), expected)


def test_sums_of_runs_are_those_of_all_rows_at_once_to_the_last_bit() -> None:
    random = np.random.default_rng(5)
    lengths = [1, 700, 3, 511, 2, *random.integers(1, 40, 60).tolist(), 513]  # 512 are read at once
    first = np.cumsum([0, *lengths[:-1]])
    entries = random.permutation(40_000)[: sum(lengths)]
    vectors = random.integers(-127, 128, (len(entries), 384)).astype(np.int8)
    rows = Rows()
    rows.set(entries, vectors)
    columns = random.integers(-64, 65, (384, 2)).astype(np.float32)
    weights = random.random(len(entries)).astype(np.float32)
    products, sums = rows.sums(entries, first, weights, columns)
    assert np.array_equal(products, rows.products(entries, columns))
    weighted = vectors.astype(np.float32) * weights[:, None]
    expected = [np.add.reduce(run) for run in np.split(weighted, first[1:])]
    assert np.array_equal(sums, expected)


def test_what_is_removed_is_found_no_more_and_its_bytes_are_gone() -> None:
    ids, vectors = some(500)
    matrix = filled(ids, vectors)
    question = a_question(vectors)
    removed = int(Scan(matrix, question).nearest(1).ids[0]) >> BITS
    matrix.remove(removed)
    after = Scan(matrix, question)
    assert not (after.nearest(500).ids >> BITS == removed).any()
    assert not len(after.of(ids[ids >> BITS == removed])[0].ids)
    assert not len(after.conversations(np.array([removed])).numbers)
    assert not matrix.view().rows.get(np.flatnonzero(ids >> BITS == removed)).any()
    assert len(after.nearest(500).ids) == len({*ids[ids >> BITS != removed].tolist()})


def test_an_empty_matrix_answers_nothing() -> None:
    scan = Scan(Matrix(BITS), np.ones(384, np.float32) / 384**0.5)
    one = np.array([1])
    assert not len(scan.nearest(5).ids)
    assert not len(scan.of(one)[0].ids)
    assert not len(scan.conversations(one).numbers)


def test_messages_that_come_before_their_turn_are_as_near_as_those_in_order() -> None:
    ids, vectors = some(600, seed=5)
    question = a_question(vectors)
    _, first = np.unique(ids, return_index=True)
    # each message whole: its pieces come together
    ends = np.append(first[1:], len(ids))
    turns = np.random.default_rng(6).permutation(len(first))
    matrix = Matrix(BITS)
    for some_turns in np.array_split(turns, 40):
        # several in one call: ascending within each conversation, as one turn has them
        entries = np.concatenate([np.arange(first[it], ends[it]) for it in np.sort(some_turns)])
        count = len(entries)
        matrix.add(ids[entries], entries, np.full(count, USER), vectors[entries])
    expected, answer = Scan(filled(ids, vectors), question), Scan(matrix, question)
    names = np.unique(ids)
    assert same(answer.of(names)[0], expected.of(names)[0])


def test_scans_of_two_models_give_each_message_the_mean_of_what_knows_it() -> None:
    ids, vectors = some(300, seed=7)
    question = a_question(vectors)
    names, numbers = np.unique(ids), np.unique(ids >> BITS)
    both, one = filled(ids, vectors), filled(ids[:100], vectors[:100])
    first, second = Scan(both, question), Scan(one, question)
    joint = JointScan([(first, 1.0), (second, 0.5)])
    whole = dict(zip(*(it.tolist() for it in first.of(names)[0]), strict=True))
    part = dict(zip(*(it.tolist() for it in second.of(names)[0]), strict=True))
    expected = {
        it: (cosine + math.tanh(part[it] / 2)) / 2 if it in part else cosine
        for it, cosine in whole.items()
    }
    scores, marks = joint.of(names)
    assert scores.ids.tolist() == names.tolist()
    assert scores.cosines.tolist() == pytest.approx([*expected.values()])
    assert set(marks.tolist()) == {USER}
    best = joint.nearest(5)
    assert best.cosines.tolist() == sorted(best.cosines.tolist(), reverse=True)
    assert best.cosines[0] == pytest.approx(max(expected.values()))
    near, alone = joint.conversations(numbers), first.conversations(numbers)
    assert near.numbers.tolist() == alone.numbers.tolist()
    assert (near.best >= alone.best - 1e-12).all()
    assert joint.best_of(numbers)[1].tolist() == near.best.tolist()
    assert joint.best_piece(int(names[0])) == first.best_piece(int(names[0]))
    assert len(joint.within(int(numbers[0]), 3).ids) <= 3
    assert len(joint.nearest_of(0, 300, 5).ids) == 5
