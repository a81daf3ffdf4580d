"""Words compared one by one, by the static vectors of their pieces."""

import pytest
from recollect_server.inference.pieces import PieceVectors, pieces_of
from recollect_server.inference.weights import MODEL, TOKENIZER, shipped
from tokenizers import Tokenizer


@pytest.fixture
def tokenizer() -> Tokenizer:
    made = Tokenizer.from_file(str(shipped() / TOKENIZER))
    made.no_padding()
    made.no_truncation()
    return made


@pytest.fixture
def model() -> bytes:
    return (shipped() / MODEL).read_bytes()


@pytest.fixture
def pieces(model: bytes, tokenizer: Tokenizer) -> PieceVectors:
    made = pieces_of(model, tokenizer)
    assert made is not None
    return made


def test_a_word_is_nearest_to_the_text_that_has_one_like_it(pieces: PieceVectors) -> None:
    texts = ["She works as a doctor", "My puppy ate the sofa", "The job pays well"]
    nearest = pieces.nearest(["physician", "dog", "job"], texts)
    assert nearest.argmax(axis=1).tolist() == [0, 1, 2]
    assert nearest[2, 2] == pytest.approx(1.0, abs=1e-4)
    assert nearest[0, 0] > 0.5 > 0.3 > nearest[0, 1]


def test_a_word_of_several_pieces_is_compared_as_one(pieces: PieceVectors) -> None:
    (near, far) = pieces.nearest(["Caf\u00e9s"], ["two cafes and a bar", "the tax return"])[0]
    assert near > 0.8 > far


def test_a_text_without_words_is_near_to_nothing(pieces: PieceVectors) -> None:
    assert pieces.nearest(["doctor"], ["", "...", "\u6771\u4eac"]).tolist() == [[0, 0, 0]]
    assert pieces.nearest([], ["a doctor"]).shape == (0, 1)
    assert pieces.nearest(["doctor"], []).shape == (1, 0)


def test_unknown_characters_are_near_to_nothing(pieces: PieceVectors) -> None:
    assert pieces.nearest(["\u1200"], ["\u1201", "\u1200"]).tolist() == [[0, 0]]


def test_of_a_long_text_and_a_long_question_only_the_beginning_is_compared(
    pieces: PieceVectors,
) -> None:
    filler = "the and of " * 400
    assert pieces.nearest(["doctor"], [f"doctor {filler}"])[0, 0] > 0.99
    assert pieces.nearest(["doctor"], [f"{filler} doctor"])[0, 0] < 0.5
    assert len(pieces.nearest(["word"] * 1000, ["a word"])) == 64


def test_a_model_without_such_a_table_compares_no_words(model: bytes, tokenizer: Tokenizer) -> None:
    assert pieces_of(b"", tokenizer) is None
    assert pieces_of(model.replace(b"word_emb__q", b"word_emb__x"), tokenizer) is None
    tensor = b"\x10\x03" + b"\x42\x0bword_emb__q"  # its type and its name, and no data
    graph = b"\x2a" + bytes([len(tensor)]) + tensor
    assert pieces_of(b"\x3a" + bytes([len(graph)]) + graph, tokenizer) is None


def test_a_table_of_another_tokenizer_is_not_used(model: bytes, tokenizer: Tokenizer) -> None:
    tokenizer.add_tokens(["recollect"])
    assert pieces_of(model, tokenizer) is None
