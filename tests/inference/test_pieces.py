"""Words compared one by one, by the static vectors of their pieces."""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from recollect_server.inference.pieces import FILE, PieceVectors, read_pieces
from recollect_server.inference.weights import SUMS, TOKENIZER, shipped
from tokenizers import Tokenizer


@pytest.fixture
def tokenizer() -> Tokenizer:
    made = Tokenizer.from_file(str(shipped() / TOKENIZER))
    made.no_padding()
    made.no_truncation()
    return made


@pytest.fixture
def pieces(tokenizer: Tokenizer) -> PieceVectors:
    made = read_pieces(shipped(), tokenizer)
    assert made is not None
    return made


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for name in (FILE, SUMS):
        shutil.copy(shipped() / name, tmp_path)
    return tmp_path


def sign(folder: Path) -> None:
    digest = hashlib.sha256((folder / FILE).read_bytes()).hexdigest()
    (folder / SUMS).write_text(f"{digest}  {FILE}\n")


def test_a_word_is_nearest_to_the_text_that_has_one_like_it(pieces: PieceVectors) -> None:
    texts = ["She works as a doctor", "My puppy ate the sofa", "The job pays well"]
    nearest = pieces.nearest(["physician", "dog", "job"], texts)
    assert nearest.argmax(axis=1).tolist() == [0, 1, 2]
    assert nearest[2, 2] == pytest.approx(1.0, abs=1e-4)
    assert nearest[0, 0] > 0.7 > 0.3 > nearest[0, 1]


def test_a_word_of_several_pieces_is_compared_as_one(pieces: PieceVectors) -> None:
    (near, far) = pieces.nearest(["Caf\u00e9s"], ["two cafes and a bar", "the tax return"])[0]
    assert near > 0.8 > far


def test_a_text_without_words_is_near_to_nothing(pieces: PieceVectors) -> None:
    assert pieces.nearest(["doctor"], ["", "...", "\u6771\u4eac"]).tolist() == [[0, 0, 0]]
    assert pieces.nearest([], ["a doctor"]).shape == (0, 1)
    assert pieces.nearest(["doctor"], []).shape == (1, 0)


def test_of_a_long_text_and_a_long_question_only_the_beginning_is_compared(
    pieces: PieceVectors,
) -> None:
    filler = "the and of " * 400
    assert pieces.nearest(["doctor"], [f"doctor {filler}"])[0, 0] > 0.99
    assert pieces.nearest(["doctor"], [f"{filler} doctor"])[0, 0] < 0.5
    assert len(pieces.nearest(["word"] * 1000, ["a word"])) == 64


def test_without_its_file_words_are_not_compared(copied: Path, tokenizer: Tokenizer) -> None:
    assert read_pieces(copied, tokenizer) is not None
    (copied / FILE).unlink()
    assert read_pieces(copied, tokenizer) is None
    (copied / SUMS).write_text("")
    assert read_pieces(copied, tokenizer) is None


def test_a_file_that_its_sums_do_not_name_is_refused(copied: Path, tokenizer: Tokenizer) -> None:
    body = bytearray((copied / FILE).read_bytes())
    body[-1] ^= 1
    (copied / FILE).write_bytes(body)
    assert read_pieces(copied, tokenizer) is None
    sign(copied)
    assert read_pieces(copied, tokenizer) is not None


def test_a_table_of_another_model_is_refused(copied: Path, tokenizer: Tokenizer) -> None:
    np.save(copied / FILE, np.ones((7, 96), np.int8))
    sign(copied)
    assert read_pieces(copied, tokenizer) is None
    (copied / FILE).write_bytes(b"no table")
    sign(copied)
    assert read_pieces(copied, tokenizer) is None
