"""The embedding model: its files, its vectors, and texts of any length."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recollect_server.recall.model.embedder import OVERLAP, PIECE, CannotEmbed, Embedder, Piece
from recollect_server.recall.model.weights import (
    E5,
    MODEL,
    SUMS,
    TOKENIZER,
    NoWeights,
    WrongWeights,
    look,
    shipped,
)

ROOT = Path(__file__).parents[2]
# With any of these it would be quiet by itself, or write elsewhere.
_QUIET = (
    "CI",
    "GITHUB_ACTIONS",
    "TF_BUILD",
    "ORT_DISABLE_TELEMETRY",
    "ORT_RUNNING_UNIT_TESTS",
    "XDG_CACHE_HOME",
)


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder(look(shipped()))


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Copy the model's files, to be damaged."""
    for name in (MODEL, TOKENIZER, SUMS):
        shutil.copy(shipped() / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("folder", [".", "e5"])
def test_the_model_in_the_tree_is_the_one_that_was_checked_in(folder: str) -> None:
    models = ROOT / "models" / folder
    for line in (models / SUMS).read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((models / name).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize("name", [MODEL, TOKENIZER])
def test_a_file_with_another_byte_is_refused_with_what_to_do(weights: Path, name: str) -> None:
    data = bytearray((weights / name).read_bytes())
    data[len(data) // 2] ^= 1
    (weights / name).write_bytes(data)
    with pytest.raises(
        WrongWeights, match=f"{name} is not the file .* install recollect-server again"
    ):
        look(weights)


@pytest.mark.parametrize("name", [MODEL, TOKENIZER, SUMS])
def test_a_missing_file_is_named(weights: Path, name: str) -> None:
    (weights / name).unlink()
    with pytest.raises(NoWeights, match=name):
        look(weights)


def test_files_that_are_whole_and_no_model_are_refused(weights: Path) -> None:
    (weights / MODEL).write_bytes(b"no model")
    digest = hashlib.sha256(b"no model").hexdigest()
    lines = (weights / SUMS).read_text().splitlines()
    (weights / SUMS).write_text(
        "\n".join(f"{digest}  {MODEL}" if MODEL in line else line for line in lines)
    )
    with pytest.raises(WrongWeights, match="cannot be used"):
        Embedder(look(weights)).load()


def test_texts_that_mean_the_same_are_nearer_than_others(embedder: Embedder) -> None:
    cat, feline, tax = embedder.embed(
        [
            "The cat sat on the mat.",
            "A feline rested on the rug.",
            "The quarterly tax report is late.",
        ]
    )
    assert cat @ feline > 0.4 > 0.2 > cat @ tax
    assert embedder.question("where did the cat sit?") @ cat > 0.4


def test_vectors_have_length_one_those_of_odd_texts_too(embedder: Embedder) -> None:
    vectors = embedder.embed(
        ["", " ", "🦊" * 500, "日本語のテキスト", "a\0b", "x" * 5000, "word " * 3000]
    )
    assert vectors.shape == (7, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert embedder.embed([]).shape == (0, 384)


@pytest.mark.parametrize(
    "count", [1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE - OVERLAP, 2 * PIECE - OVERLAP + 1, 3000]
)
def test_no_word_of_a_long_text_is_left_out(embedder: Embedder, count: int) -> None:
    vocabulary: dict[str, int] = json.loads((shipped() / TOKENIZER).read_text())["model"]["vocab"]
    words = [word for word in vocabulary if word.isascii() and word.isalpha()][:count]
    pieces = [piece[1:-1] for piece in embedder.cut(" ".join(words))]
    place = {vocabulary[word]: number for number, word in enumerate(words)}
    spans = [(place[piece[0]], place[piece[-1]] + 1) for piece in pieces]
    assert all(
        end - start == len(piece) <= PIECE
        for (start, end), piece in zip(spans, pieces, strict=True)
    )
    assert (spans[0][0], spans[-1][1]) == (0, count)
    assert all(after[0] <= before[1] - OVERLAP for before, after in pairwise(spans))


def test_of_a_bounded_question_the_first_tokens_count(embedder: Embedder) -> None:
    long = "violin " * 100 + "We fly to Kyoto in April " * 60
    assert len(embedder.cut("violin " * 100)[0]) == 102  # a token each, and two marks
    bounded = embedder.question(long, 100)
    assert bounded.tobytes() == embedder.question("violin " * 100).tobytes()
    assert bounded.tobytes() != embedder.question(long).tobytes()
    assert bounded.tobytes() == embedder.question(long, 100).tobytes(), "the one that is kept"


def test_a_question_in_other_capitals_and_spaces_is_not_embedded_again(embedder: Embedder) -> None:
    first = embedder.ask("Which  disk is full?")
    assert embedder.ask("which DISK is full?") is first
    assert embedder.ask("which disk is full") is not first  # a sign is a piece of its own


def test_a_question_in_other_letters_has_its_own_words(embedder: Embedder) -> None:
    with_accent, without = embedder.ask("Where is the café?"), embedder.ask("Where is the cafe?")
    assert np.array_equal(with_accent.vector, without.vector)
    assert with_accent.words is not None
    assert without.words is not None
    assert "café" in with_accent.words.words
    assert "cafe" in without.words.words


def test_the_end_of_a_long_text_is_in_its_vectors(embedder: Embedder) -> None:
    filler = "We talked about the weather and the garden. " * 60
    (question,) = embedder.embed(["The password of the safe is written under the violin."])
    pieces = embedder.embed_pieces(
        embedder.cut(filler + "The password of the safe is written under the violin.")
    )
    without = embedder.embed_pieces(embedder.cut(filler))
    nearest, other = (max(it.vector @ question for it in of) for of in (pieces, without))
    assert nearest > other + 0.2


def test_the_model_tells_nobody_that_it_runs(tmp_path: Path) -> None:
    script = (
        "from recollect_server.recall.model.embedder import Embedder\n"
        "from recollect_server.recall.model.weights import look, shipped\n"
        "Embedder(look(shipped())).question('What did we say?')"
    )
    environment = {name: value for name, value in os.environ.items() if name not in _QUIET}
    subprocess.run(
        [sys.executable, "-c", script],
        env=environment | {"HOME": str(tmp_path)},
        check=True,
        timeout=60,
    )
    # it keeps an id of the machine, and what is to be sent, in the home folder
    assert [*tmp_path.rglob("*")] == []


def test_others_go_on_while_a_long_text_is_cut(embedder: Embedder) -> None:
    text = "a journey to Japan and back " * 35_000
    cutting = threading.Thread(target=embedder.cut, args=(text,))
    began = last = time.perf_counter()
    longest = 0.0
    cutting.start()
    while cutting.is_alive():
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    assert longest < (time.perf_counter() - began) / 2


def test_the_same_text_has_the_same_bytes_whatever_it_is_embedded_with(embedder: Embedder) -> None:
    texts = [f"Message {n} about {'the harbour and ' * (n % 7)}coffee." for n in range(40)] + [
        "long " * 700
    ]
    pieces = [piece for text in texts for piece in embedder.cut(text)]

    def made(of: list[Piece]) -> list[tuple[bytes, bytes]]:
        return [(it.vector.tobytes(), it.codes.tobytes()) for it in embedder.embed_pieces(of)]

    together = made(pieces)
    assert [*chain.from_iterable(made([piece]) for piece in pieces)] == together
    order = np.random.default_rng(1).permutation(len(pieces)).tolist()
    assert made([pieces[number] for number in order]) == [together[number] for number in order]


@pytest.fixture(scope="module")
def multilingual() -> Embedder:
    return Embedder(look(shipped(E5), E5))


def test_a_question_is_nearest_to_its_answer_in_another_language(multilingual: Embedder) -> None:
    answers = multilingual.embed(
        [
            "Der Zahnarzt hat den Termin auf Donnerstag verlegt.",
            "我们把会议改到了周五下午三点。",
            "Мой брат переезжает весной в Лейпциг.",
        ]
    )
    for number, questions in enumerate(
        [
            ("When do I see the dentist?", "Quand dois-je aller chez le dentiste ?"),
            ("When is the meeting?", "会议是什么时候？"),
            ("Where is my brother moving?", "¿A qué ciudad se muda mi hermano?"),
        ]
    ):
        for question in questions:
            cosines = answers @ multilingual.question(question)
            assert int(cosines.argmax()) == number, (question, cosines)


def test_a_question_has_nothing_of_what_questions_of_its_language_share(
    multilingual: Embedder,
) -> None:
    means = np.load(shipped(E5) / E5.questions)
    without = Embedder(look(shipped(E5), replace(E5, questions="")))
    for question in ("Wo ist der Schlüssel?", "Quand vient le plombier ?", "谁照看植物？"):
        before, vector = without.question(question), multilingual.question(question)
        form = means[(means @ before).argmax()]
        form = form / np.linalg.norm(form)
        assert before @ form > 0.2
        assert vector @ form == pytest.approx(0, abs=1e-5)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("content", [b"", b"no array", None])
def test_a_damaged_file_of_what_questions_share_is_named_and_a_missing_one_is_done_without(
    tmp_path: Path, content: bytes | None
) -> None:
    for name in (*E5.files, SUMS):
        (tmp_path / name).symlink_to(shipped(E5) / name)
    whole = Embedder(look(tmp_path, E5))
    assert whole.question("Wo ist der Schlüssel?").shape == (384,)
    if content is None:
        np.save(tmp_path / E5.questions, np.zeros((3, 100), np.float32))
    else:
        (tmp_path / E5.questions).write_bytes(content)
    with pytest.raises(WrongWeights, match="cannot be used"):
        Embedder(look(tmp_path, E5))


def test_of_a_model_with_prefixes_texts_and_questions_have_the_same_bytes_each_time(
    multilingual: Embedder,
) -> None:
    texts = ["Guten Morgen", "我们下午见", "A longer text in English, of another length. " * 3]
    together = multilingual.embed(texts)
    alone = np.concatenate([multilingual.embed([text]) for text in texts])
    assert together.tobytes() == alone.tobytes()
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    pieces = multilingual.cut("ein langer Text ohne Ende " * 200)
    assert len(pieces) > 1
    assert {piece[:3] for piece in pieces} == {pieces[0][:3]}, "each piece has the prefix"


def test_a_model_that_nobody_used_leaves_memory_and_the_next_text_loads_it_again(
    weights: Path,
) -> None:
    embedder = Embedder(look(weights))
    text, question = embedder.embed(["The roof leaks."]), embedder.question("What leaks?")
    assert not embedder.release(60.0)
    assert embedder.release(0.0)
    assert not embedder.release(0.0)
    assert embedder.embed(["The roof leaks."]).tobytes() == text.tobytes()
    assert embedder.release(0.0)
    assert embedder.question("Does the roof leak?") @ text[0] > 0.5
    assert embedder.question("What leaks?").tobytes() == question.tobytes()


def test_a_model_whose_files_changed_while_it_was_out_of_memory_is_refused(weights: Path) -> None:
    embedder = Embedder(look(weights))
    embedder.load()
    assert embedder.release(0.0)
    (weights / TOKENIZER).write_bytes(b"{}")
    with pytest.raises(CannotEmbed, match=TOKENIZER):
        embedder.embed(["The roof leaks."])
    shutil.copy(shipped() / TOKENIZER, weights / TOKENIZER)
    assert len(embedder.embed(["The roof leaks."])) == 1


def test_a_model_that_was_just_used_stays() -> None:
    embedder = Embedder(look(shipped()))
    loaded = time.monotonic()
    embedder.embed(["The roof leaks."])
    assert not embedder.release(time.monotonic() - loaded)


def test_another_model_in_the_place_of_a_released_one_is_refused(weights: Path) -> None:
    embedder = Embedder(look(weights))
    embedder.load()
    assert embedder.release(0.0)
    tokenizer = weights / TOKENIZER
    tokenizer.write_bytes(tokenizer.read_bytes() + b"\n")
    sums = (
        f"{hashlib.sha256((weights / name).read_bytes()).hexdigest()}  {name}\n"
        for name in (MODEL, TOKENIZER)
    )
    (weights / SUMS).write_text("".join(sums))
    with pytest.raises(CannotEmbed, match="was replaced: restart the server"):
        embedder.embed(["The roof leaks."])


def test_a_released_model_returns_its_memory_to_the_system() -> None:
    # in a process of its own: others have memory that was freed before
    program = """
from pathlib import Path
from recollect_server.recall.model.embedder import Embedder
from recollect_server.recall.model.weights import look, shipped

def memory():
    rollup = Path("/proc/self/smaps_rollup").read_text()
    return int(rollup.partition("Anonymous:")[2].split()[0]) // 1024

embedder = Embedder(look(shipped()))
embedder.embed(["The roof leaks."])
loaded = memory()
embedder.release(0.0)
print(loaded, memory())
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded, released = map(int, run.stdout.split())
    assert 100 < loaded < 215, "MiB; 250 with what loading leaves behind"
    assert released < 100, "MiB; 130 with what it leaves behind"


def test_a_long_text_is_run_once_and_has_the_same_bytes_beside_others(
    embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[tuple[int, int]] = []
    run = Embedder._run

    def counted(self: Embedder, model: Any, ids: Any, mask: Any) -> Any:
        runs.append(ids.shape)
        return run(self, model, ids, mask)

    monkeypatch.setattr(Embedder, "_run", counted)
    text = "a long walk by the river " * 12
    alone = embedder.embed([text])
    assert [rows for rows, _ in runs] == [1]
    assert embedder.embed([text, text[25:], "short"])[0].tobytes() == alone[0].tobytes()
    assert sum(rows for rows, _ in runs[1:]) == 4  # a short one stands in a batch of two
