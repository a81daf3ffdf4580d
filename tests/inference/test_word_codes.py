"""Codes of word pieces, with the real model, and how near they come to those of a question."""

import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from recollect_server.kernel.domain.ids import message_id
from recollect_server.kernel.index.conversations import Outline
from recollect_server.recall.meaning import AskedWords
from recollect_server.recall.model.embedder import _CUT_PIECES, _CUT_TEXTS, Embedder
from recollect_server.recall.model.marks import DIMENSIONS
from recollect_server.recall.model.questions import marked, written
from recollect_server.recall.model.weights import (
    E5,
    MODEL,
    SUMS,
    TOKENIZER,
    WrongWeights,
    look,
    shipped,
)
from recollect_server.recall.model.word_codes import WIDTH, Codes, QuestionPieces, joined
from recollect_server.recall.retrievers import Matches
from recollect_server.recall.search import Messages
from recollect_server.recall.vectors.store import EmbeddedText, VectorStore, hash_of
from recollect_server.recall.word_matches import (
    LOWER,
    NEIGHBOUR,
    Talk,
    nearness,
    piece_cosines,
    weights,
    word_matches,
)

from tests.fusion.conftest import made


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder(look(shipped()))


def codes(embedder: Embedder, text: str) -> Codes:
    return joined([it.codes for it in embedder.embed_pieces(embedder.cut(text))], 32)


def asked(embedder: Embedder, text: str) -> QuestionPieces:
    words = embedder.ask(text).words
    assert words is not None
    return words


def test_a_word_comes_near_to_the_text_that_has_one_like_it(embedder: Embedder) -> None:
    question = asked(embedder, "Which doctor does Nora know?")
    assert question.words == ("which", "doctor", "does", "nora", "know", "")
    doctor, cat = (
        question.cosines(codes(embedder, it)).max(axis=0)
        for it in ("Nora became a physician last year", "The cat is asleep")
    )
    assert doctor[1] > 0.6 > 0.3 > cat[1]
    assert doctor[3] > 0.8


@pytest.fixture(scope="module")
def second() -> Embedder:
    return Embedder(look(shipped(E5), E5))


def test_by_the_second_model_a_word_comes_near_to_the_text_that_has_its_translation(
    second: Embedder,
) -> None:
    question = asked(second, "When does the dentist have time?")
    dentist, cat = (
        question.cosines(codes(second, it)).max(axis=0)
        for it in ("Der Zahnarzt hat am Donnerstag Zeit", "Die Katze schläft auf dem Sofa")
    )
    when, time = (question.words.index(it) for it in ("when", "time"))
    assert min(dentist[when], dentist[time]) > 0.3 > 0.2 > max(cat[when], cat[time])


def matched(
    folder: Path, models: tuple[Embedder, Embedder], question: str, read_by: dict[str, Embedder]
) -> Matches:
    """Compare a question with four messages, each read by a model; `models`: the main one first."""
    store = VectorStore(folder)
    numbers = {it.identity: store.model(it.identity, folder) for it in models}
    for line, (text, model) in enumerate(read_by.items(), 2):
        vectors, of_words = np.zeros((1, DIMENSIONS), np.int8), codes(model, text).tobytes()
        place = EmbeddedText("a", line, 0, 0, hash_of(text), vectors, of_words)
        store.add(numbers[model.identity], [place], {})
    zeros = np.zeros(4, np.int64)
    messages = Messages(message_id(1, 2) + np.arange(4), *[zeros] * 5)
    legs, _ = made(1)
    words = [
        AskedWords(asked(it, question), store, numbers[it.identity], it, it is models[0])
        for it in models
    ]
    matches = word_matches(words, {}, messages, legs, [Outline(1, "a", 0, 4)], np.ones(4))
    store.close()
    assert matches is not None
    return matches


def test_messages_of_other_languages_count_as_across_by_their_share(
    embedder: Embedder, second: Embedder, tmp_path: Path
) -> None:
    read_by = {
        "Nora became a physician last year": embedder,
        "The cat is asleep": embedder,
        "We painted the fence blue": embedder,
        "Der Zahnarzt hat am Donnerstag Zeit": second,
    }
    matches = matched(tmp_path, (embedder, second), "When is the dentist there?", read_by)
    assert matches.near.argmax() == 3
    assert matches.is_across.tolist() == [False, False, False, True]
    assert matches.across == 0.25


def test_by_the_second_model_a_text_is_less_near_the_longer_it_is(
    embedder: Embedder, second: Embedder, tmp_path: Path
) -> None:
    question = "Wann hat der Zahnarzt Zeit?"
    short = "Der Zahnarzt hat am Donnerstag Zeit"
    long = f"{short}. Danach kochen wir eine Suppe und streichen den Zaun"
    others = ("Die Katze schläft auf dem Sofa", "Der Bus kam heute wieder zu spät")
    read_by = dict.fromkeys((short, long, *others), second)
    matches = matched(tmp_path, (embedder, second), question, read_by)
    assert matches.across == 1.0
    words, bodies = asked(second, question), [(codes(second, it).tobytes(), b"") for it in read_by]
    of_pieces = nearness(
        piece_cosines(words, bodies), weights(words, {}), Talk(np.arange(4), np.zeros(4), 0.0)
    )
    for raw, near in zip(of_pieces, (matches.near, matches.even), strict=True):
        taken = raw + LOWER - near
        assert taken[1] > taken[0] + 0.02
        assert abs(taken).max() < 0.1


def test_words_of_a_question_of_several_parts_have_the_vectors_of_their_own_pieces(
    second: Embedder,
) -> None:
    short = "Wann hat der Zahnarzt Zeit?"
    question = asked(second, f"{short} {'Ich frage noch einmal nach dem Termin. ' * 40}")
    alone = asked(second, short)
    of_text = codes(second, "Der Zahnarzt hat am Donnerstag Zeit")
    at = alone.words.index("zahnarzt")
    assert question.words[: at + 1] == alone.words[: at + 1]
    long, brief = (it.cosines(of_text).max(axis=0) for it in (question, alone))
    assert long[at] == pytest.approx(brief[at], abs=0.15)
    assert len(long) == len(question.words)


def test_a_question_of_one_run_without_signs_is_cut_in_a_moment(second: Embedder) -> None:
    run = "我们明天下午去医院看牙医然后回家吃饭" * 150
    second.word_spans("Guten Morgen", [0])  # the model is loaded now
    began = time.process_time()
    spans = second.word_spans(run, range(10_000))
    assert (len(spans), spans) == (1, {(0, len(run))})
    whole = time.process_time() - began
    began = time.process_time()
    second.word_spans(run[: len(run) // 10], range(10_000))
    assert whole < 40 * (time.process_time() - began) + 0.2


def test_what_is_about_something_else_is_as_near_by_either_model(
    embedder: Embedder, second: Embedder
) -> None:
    texts = {
        embedder: (
            "The cat is asleep on the sofa",
            "We painted the fence blue on Sunday",
            "The bus was late again today",
            "She sings in a choir every week",
        ),
        second: (
            "Die Katze schläft auf dem Sofa",
            "Am Sonntag haben wir den Zaun gestrichen",
            "Der Bus kam heute wieder zu spät",
            "Sie singt jede Woche in einem Chor",
        ),
    }
    near: dict[Embedder, float] = {}
    for model, own in texts.items():
        bodies = [(codes(model, it).tobytes(), b"") for it in own]
        apart = Talk(9 * np.arange(4), np.zeros(4), 0.0)
        questions = [
            asked(model, it)
            for it in ("How much does the new laptop cost?", "Where did I leave my keys?")
        ]
        near[model] = float(
            np.mean(
                [nearness(piece_cosines(it, bodies), weights(it, {}), apart)[0] for it in questions]
            )
        )
    assert near[second] + LOWER == pytest.approx(near[embedder], abs=0.05)


@pytest.mark.parametrize(
    ("question", "asking", "reply", "other"),
    [
        (
            "Where did Anna meet her husband?",
            "Where did you meet your husband, Anna?",
            "On a boat, of all things.",
            "We painted the fence.",
        ),
        (
            "Which instrument does Tom play?",
            "Do you play an instrument, Tom? Which one?",
            "The cello, since I was six.",
            "It rains again.",
        ),
        (
            "Where did Anna meet her husband?",
            "ok so where did you meet your husband",
            "on a boat of all things",
            "we painted the fence",
        ),
    ],
)
def test_what_was_asked_belongs_to_the_reply(
    embedder: Embedder, question: str, asking: str, reply: str, other: str
) -> None:
    def near(senders: list[float], agents: float) -> list[float]:
        bodies = []
        for it in (other, asking, reply, other):
            of = codes(embedder, it).tobytes()
            bodies.append((of, written(embedder.asking(it, 0, of))))
        words = asked(embedder, question)
        talk = Talk(np.arange(4), np.array(senders), agents)
        near, _ = nearness(piece_cosines(words, bodies), weights(words, {}), talk)
        return [float(it) for it in near]

    between_two, alone, to_agent = (
        near([1, 2, 1, 2], 0),
        near([2, 2, 2, 2], 0),
        near([1, 2, 1, 2], 1),
    )
    assert between_two.index(max(between_two)) == 2
    assert alone[2] < between_two[2]
    assert to_agent.index(max(to_agent)) == 1


def test_only_the_pieces_of_sentences_that_ask_are_marked(
    embedder: Embedder, second: Embedder
) -> None:
    for model, text, first, expected in (
        (embedder, "Anna: It was late. Did you sleep?", 6, "did you sleep ?"),
        (embedder, "Did you sleep? I did not.", 0, "did you sleep ?"),
        (embedder, "Anna: It was late. did you sleep", 6, "did you sleep"),
        (embedder, "when I slept it was late", 0, ""),
        (second, "今天很冷。你冷吗", 0, "你冷吗"),
        (second, "es ist kalt. wo wohnst du", 0, "wo wohnst du"),
        (embedder, "No questions here.", 0, ""),
    ):
        of = codes(model, text).tobytes()
        marks = marked(written(model.asking(text, first, of)), len(of) // WIDTH)
        pieces = model.word_spans(text, np.flatnonzero(marks).tolist())
        met = " ".join(text[slice(*it)].lower() for it in sorted(pieces))
        assert met == expected.removesuffix(" ?"), text


def test_a_code_tells_its_own_piece_from_others(embedder: Embedder) -> None:
    text = "The dentist moved the appointment from Monday to Friday"
    own = asked(embedder, text).cosines(codes(embedder, text))
    assert (own.argmax(axis=0) == np.arange(len(own))).all()
    assert np.diag(own).min() > 0.8
    assert codes(embedder, text).shape == (len(own), WIDTH)


def test_the_codes_of_a_long_text_are_those_of_its_pieces_without_what_they_share(
    embedder: Embedder,
) -> None:
    text = "We talked about the weather and the garden. " * 60
    count = sum(len(piece) - 2 for piece in embedder.cut(text))
    assert len(codes(embedder, text)) == count - 32 * (len(embedder.cut(text)) - 1)


def test_a_model_without_constants_has_no_codes_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    for name in (MODEL, TOKENIZER, SUMS):
        shutil.copy(shipped() / name, tmp_path / name)
    without = Embedder(look(tmp_path))
    assert not without.words_identity
    assert without.ask("Where is the cat?").words is None
    assert not len(codes(without, "The cat is asleep"))
    (tmp_path / "words.npz").write_bytes(b"no constants")
    with pytest.raises(WrongWeights, match="cannot be used"):
        Embedder(look(tmp_path))


def test_a_message_is_as_near_as_its_best_passage_or_what_is_said_beside_it(
    embedder: Embedder,
) -> None:
    question = asked(embedder, "Which doctor does Nora know?")
    each = weights(question, {"doctor": 5.0, "nora": 3.0, "know": 1.0})
    assert each.sum() == pytest.approx(1)
    assert each[1] > each[3] > each[4] > each[0] == each[5]
    filler = "We talked about the weather and the garden. " * 8
    texts = [
        "Nora became a physician",
        "And what else is there?",
        f"{filler} Nora became a physician. {filler}",
        f"Nora left. {filler} A physician came. {filler}",
        "",
    ]
    bodies = [(codes(embedder, it).tobytes() if it else b"", b"") for it in texts]
    compared = piece_cosines(question, bodies)
    senders = np.zeros(5)
    apart, even = nearness(compared, each, Talk(np.array([2, 4, 6, 8, 10]), senders, 0.0))
    assert apart[0] > apart[2] > apart[3] > apart[1]
    assert np.isnan(apart[4])
    assert (even[:4] <= apart[:4]).all()
    assert np.isnan(even[4])
    beside, _ = nearness(compared, each, Talk(np.array([2, 3, 6, 8, 10]), senders, 0.0))
    assert beside[0] == apart[0]
    assert beside[0] > beside[1] >= NEIGHBOUR * apart[0] - 1e-6
    assert (beside[2:4] == apart[2:4]).all()


def test_pieces_of_one_word_lie_in_that_word_and_a_sign_lies_in_none(embedder: Embedder) -> None:
    text = "Hydroxychloroquine, naïve snake_case!"
    pieces = range(100)  # more than there are
    words = {text[first:last] for first, last in embedder.word_spans(text, pieces)}
    assert words == {"Hydroxychloroquine", "naïve", "snake_case"}
    assert embedder.word_spans(text, [1]) == {(0, len("Hydroxychloroquine"))}


def test_places_of_words_are_kept_of_so_many_texts_and_of_no_long_one(embedder: Embedder) -> None:
    places = embedder._loaded().cut_texts
    places.clear()
    embedder.word_spans("zebra " * (_CUT_PIECES + 1), [])
    assert not places
    for number in range(_CUT_TEXTS + 1):
        embedder.word_spans(str(number), [])
    assert len(places) == _CUT_TEXTS
