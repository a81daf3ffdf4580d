"""`vectors.db`: vectors by what was embedded, kept once, gone with the last text that has them."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest
from numpy.typing import NDArray
from recollect_server.kernel.domain.ids import number_of, sequence_of
from recollect_server.recall.vectors.file import NAME, VectorsDamaged, VectorsUnavailable
from recollect_server.recall.vectors.store import EmbeddedText, VectorStore, hash_of

Bytes = NDArray[np.int8]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[VectorStore]:
    opened = VectorStore(tmp_path)
    yield opened
    opened.close()


def vectors(text: str, pieces: int = 1) -> Bytes:
    return np.random.default_rng(list(text.encode())).integers(
        -127, 128, (pieces, 384), dtype=np.int8
    )


def place(conversation: str, line: int, text: str, pieces: int = 1) -> EmbeddedText:
    return EmbeddedText(conversation, line, 1000 + line, 5, hash_of(text), vectors(text, pieces))


def count_vectors(store: VectorStore) -> int:
    return sum(len(vectors) for _, vectors in store.chunks())


def rows(store: VectorStore, model: int) -> dict[tuple[str, int], list[Bytes]]:
    """Return the vectors of every place."""
    loaded = store.load(model)
    places = {
        row: vector
        for there, vectors in store.chunks()
        for row, vector in zip(there.tolist(), vectors, strict=True)
    }
    vectors: dict[tuple[str, int], list[Bytes]] = {}
    for where, row in zip(loaded.places.tolist(), loaded.rows.tolist(), strict=True):
        vectors.setdefault((loaded.keys[number_of(where)], sequence_of(where)), []).append(
            places[row]
        )
    return vectors


def under(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def traces(folder: Path, vectors: Bytes) -> int:
    """Return the number of 32-byte pieces of these vectors that any file of the folder contains."""
    there = under(folder)
    return sum(
        vectors.tobytes()[start : start + 32] in there for start in range(0, vectors.size, 32)
    )


def test_what_is_kept_is_read_again_from_under_the_virtual_table(
    store: VectorStore, tmp_path: Path
) -> None:
    model = store.model("one", tmp_path)
    places = [
        place(f"c{number // 7}", 2 + number % 7, f"text {number}", 1 + number % 3)
        for number in range(1500)
    ]
    store.add(model, places, {"c0": 8})
    store.close()
    again = VectorStore(tmp_path)
    assert again.model("one", tmp_path) == model
    stored = rows(again, model)
    assert len(stored) == 1500
    for one in places:
        assert np.array_equal(stored[one.conversation_id, one.line], one.vectors)
        assert np.array_equal(again.vectors_of(model, [one.hash])[one.hash], one.vectors)
    assert again.progress(model, "epoch")["c0"] == 0, "an index that it does not know yet"
    again.add(model, [], {"c0": 8})
    assert again.progress(model, "epoch")["c0"] == 8
    assert again.progress(model, "another")["c0"] == 0
    again.close()


def test_a_text_that_stands_twice_is_kept_once(store: VectorStore, tmp_path: Path) -> None:
    model = store.model("one", tmp_path)
    changed = store.add(model, [place("a", 2, "ok"), place("a", 4, "ok"), place("b", 2, "ok")], {})
    assert [(it.conversation_id, it.line, stood) for it, stood in changed] == [
        ("a", 2, False),
        ("a", 4, False),
        ("b", 2, False),
    ]
    assert count_vectors(store) == 1
    assert store.add(model, [place("a", 2, "ok")], {}) == [], "it is there already"


def test_a_delete_takes_the_vectors_out_of_every_byte_but_those_that_others_have(
    store: VectorStore, tmp_path: Path
) -> None:
    model = store.model("one", tmp_path)
    store.add(
        model,
        [place("a", 2, "mine", 3), place("a", 3, "ours"), place("b", 2, "ours")],
        {"a": 3, "b": 2},
    )
    assert traces(tmp_path, vectors("mine", 3)) > 30, "some lie across the end of a page"
    assert hash_of("mine") in under(tmp_path)
    assert store.remove("a") == 3
    assert traces(tmp_path, vectors("mine", 3)) == 0
    assert hash_of("mine") not in under(tmp_path)
    assert traces(tmp_path, vectors("ours")) > 10
    assert store.remove("b") == 1
    assert traces(tmp_path, vectors("ours")) == 0
    assert hash_of("ours") not in under(tmp_path)


def test_what_is_worked_out_for_a_conversation_that_is_deleted_meanwhile_is_dropped(
    store: VectorStore, tmp_path: Path
) -> None:
    model = store.model("one", tmp_path)
    store.remove("a")
    assert [
        it.conversation_id
        for it, _ in store.add(
            model, [place("a", 2, "late"), place("b", 2, "early")], {"a": 2, "b": 2}
        )
    ] == ["b"]
    assert traces(tmp_path, vectors("late")) == 0
    assert "a" not in store.progress(model, "epoch")


def test_another_text_in_the_same_place_takes_the_one_before_out(
    store: VectorStore, tmp_path: Path
) -> None:
    model = store.model("one", tmp_path)
    store.add(model, [place("a", 0, "first notes")], {})
    ((_, stood),) = store.add(model, [place("a", 0, "later notes")], {})
    assert stood
    assert count_vectors(store) == 1
    assert np.array_equal(rows(store, model)["a", 0][0], vectors("later notes")[0])


def test_a_model_is_served_when_it_is_complete_and_the_one_before_goes_then(
    store: VectorStore, tmp_path: Path
) -> None:
    old, new = store.model("old", tmp_path / "old"), store.model("new", tmp_path / "new")
    store.serve(old)
    assert store.served() == (old, "old", tmp_path / "old"), "the new one is known no more"
    new = store.model("new", tmp_path / "new")
    store.add(old, [place("a", 2, "text")], {"a": 2})
    store.add(new, [EmbeddedText("a", 2, 0, 0, hash_of("text"), vectors("other"))], {"a": 2})
    assert np.array_equal(rows(store, old)["a", 2][0], vectors("text")[0])
    store.serve(new)
    assert store.served() == (new, "new", tmp_path / "new")
    assert np.array_equal(rows(store, new)["a", 2][0], vectors("other")[0])
    assert count_vectors(store) == 1


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"garbage" * 1000)
    with pytest.raises(VectorsDamaged):
        VectorStore(tmp_path)
    (tmp_path / NAME).unlink()
    VectorStore(tmp_path).close()
    connection = apsw.Connection(str(tmp_path / NAME))
    connection.execute("DROP TABLE texts")
    connection.close()
    with pytest.raises(VectorsDamaged, match="lacks tables: texts"):
        VectorStore(tmp_path)


def test_a_file_that_is_removed_under_it_is_noticed(store: VectorStore, tmp_path: Path) -> None:
    assert not store.lost()
    (tmp_path / NAME).unlink()
    assert store.lost()


def test_a_closed_store_refuses_and_closes_again(store: VectorStore) -> None:
    store.close()
    store.close()
    with pytest.raises(VectorsUnavailable):
        store.newest_text()


def test_a_version_of_statements_is_never_that_of_statements_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[tuple[int, int]] = []
    store: VectorStore | None = None

    def look() -> None:
        if store is not None:
            noted.append((store.statements_version, len(store.stated())))

    def look_before_commits(connection: apsw.Connection) -> None:
        def hook() -> bool:
            look()
            return False

        connection.set_commit_hook(hook)

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, look_before_commits])
    store = VectorStore(tmp_path)
    model = store.model("one", tmp_path)
    store.add(model, [place("a", 2, "I live in Porto.")], {"a": 2})
    look()
    store.add_statements({store.newest_text(): b"[]"}, {}, {})
    look()
    store.add(model, [place("b", 2, "I live in Porto.")], {"b": 2})
    look()
    store.forget_lines("b", [2])
    look()
    store.drop_statements(model)
    look()
    assert {stated for _, stated in noted} == {0, 1, 2}
    assert len({version for version, _ in noted}) == len({*noted})
    store.close()
