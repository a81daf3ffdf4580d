"""The set of questions in ten languages holds together, and its benchmark runs."""

from collections import Counter
from pathlib import Path

import orjson

from bench import languages
from bench.languages import ENGLISH, FOLDER, QUESTIONS, TEXTS, read_questions, read_texts


def test_every_language_has_its_questions_and_every_question_its_text() -> None:
    texts = {text.id: text for text in read_texts()}
    assert len(texts) == len(read_texts())
    questions = read_questions()
    assert len({question.query for question in questions}) == len(questions)
    own = Counter(it.language for it in questions if it.language == texts[it.text].language)
    across = Counter(texts[it.text].language for it in questions if it.language == ENGLISH)
    assert len(own) == 10
    assert own.keys() == across.keys()
    assert all(own[it] + across[it] >= 30 and across[it] >= 5 for it in own)


def test_the_set_is_small() -> None:
    assert sum((FOLDER / name).stat().st_size for name in (*TEXTS, QUESTIONS)) < 400_000


def test_the_benchmark_asks_every_question(tmp_path: Path) -> None:
    texts = [
        {"id": "de00", "language": "de", "text": "Die Zahnärzte haben zwei neue Termine für uns"},
        {"id": "en00", "language": "en", "text": "The wombat went to Kyoto"},
    ]
    questions = [
        {"query": "Wann ist der Termin?", "language": "de", "text": "de00"},
        {"query": "When is the appointment?", "language": "en", "text": "de00"},
    ]
    for name, rows in zip((*TEXTS, QUESTIONS), (texts, [], questions), strict=True):
        (tmp_path / name).write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    figures = languages.main(["--words", "--set", str(tmp_path)])
    shares = {figure.name: figure.value for figure in figures}
    assert shares["own language any@1"] == 100
    assert shares["across language any@10"] == 0
