"""Topics that conversations share: which are near, and which name nothing."""

import os
import subprocess
import sys

import pytest
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.notes.offline.extractive import Extractive
from recollect_server.text.topics import fitting, is_filler, shared, stems

from tests.cases import each


@each(
    "topic",
    [
        "last",
        "us-talk",
        "8-12-repetitions",
        "week",
        "great-idea",
        "monday",
        "2026",
        "ca-n-t",
        "next-steps",
        "9th",
        "1h20",
        "250mg",
        "another",
        "stopped-working",
    ],
)
def test_a_filler_is_no_topic(topic: str) -> None:
    assert is_filler(topic)
    assert shared([topic], []) == ()


@each(
    "topic",
    [
        "server",
        "job-interview",
        "puppy-training",
        "c",
        "ventil",
        "健康",
        "web-server",
        "40th-birthday",
        "5g",
        "401k",
    ],
)
def test_a_word_that_names_something_is_one(topic: str) -> None:
    assert is_filler(topic) == (topic == "c")


@pytest.mark.parametrize(
    ("topic", "label"),
    [
        ("recipes", "recipe"),
        ("allergies", "allergy"),
        ("interview-job", "job-interview"),
        ("boxes", "box"),
        ("web-servers", "server"),
    ],
)
def test_a_near_label_is_reused(topic: str, label: str) -> None:
    assert shared([topic], [(label, 2)]) == (label,)


def test_a_label_of_one_conversation_does_not_stand_for_a_narrower_topic() -> None:
    assert shared(["web-server"], [("server", 1)]) == ("web-server",)


def test_few_new_labels_are_made_and_any_number_reused() -> None:
    labels = [("server", 3), ("disk", 2)]
    assert shared(["puppy", "kennel", "leash", "servers", "disks"], labels) == (
        "puppy",
        "server",
        "disk",
    )
    assert shared(["puppy", "kennel", "leash"], labels) == ("puppy", "kennel")


def test_labels_fit_a_conversation_that_has_their_words_several_times() -> None:
    labels = [("server", 5), ("job-interview", 2), ("puppy", 1), ("disk", 4)]
    counts = {"server": 2, "servers": 2, "job": 4, "interview": 3, "puppy": 9, "disk": 1}
    assert fitting(labels, counts) == ["server", "job-interview"]


def test_words_that_end_in_s_without_being_plurals_stay() -> None:
    assert stems("glass-virus-analysis") == {"glass", "virus", "analysis"}


def test_a_plural_is_no_second_topic() -> None:
    sentences = [
        Message(Role.USER, text, sequence=2)
        for text in (
            "Sum the column of the ledger that says paid.",
            "Text to columns turns the columns of the ledger into figures; a ledger has columns.",
            "Which column of the ledger is empty, and how do I sum the column?",
        )
    ]
    topics = Extractive().write_notes(sentences, "").topics
    assert "column" in topics
    assert "columns" not in topics


def test_topics_of_equal_weight_are_the_same_in_every_process() -> None:
    program = """
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.notes.offline.extractive import Extractive
text = "The kettle, the carpet, the ladder, the mirror, the pillow and the candle were sold."
talk = [Message(Role.USER, text, 0, at, at) for at in (1, 2)]
print(Extractive().write_notes(talk, "").topics)
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(1, 4)
    }
    assert outputs == {"('candle', 'carpet', 'kettle', 'ladder', 'mirror')\n"}
