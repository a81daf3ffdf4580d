"""Notes never say the opposite of what was said, and cut no sentence, figure or date in two."""

import json
import random
from pathlib import Path

import pytest
from recollect_server.notes.offline.extractive import Extractive
from recollect_server.notes.offline.phrases import NEGATION
from recollect_server.notes.offline.sentences import split
from recollect_server.text.text import sentences

from tests.cases import each
from tests.naming.conftest import Talk

DIALOGUES: dict[str, list[list[str]]] = json.loads(
    (Path(__file__).parent / "dialogues.json").read_bytes()
)
RECALL_SETS = Path(__file__).parents[3] / "shared" / "recall-sets"

NEGATIONS = (
    "No more meat in the diet.",
    "No, I do not want the premium plan.",
    "Well, no meetings on Fridays any more.",
    "Thanks, but no deployment before Monday.",
    "Thanks to nobody the disk was cleaned.",
    "Okay, never restart the database at night.",
    "Oh no, the backup has not run since May.",
    "Nope, we don't ship on Friday.",
    "Great, nothing was lost in the crash.",
    "Sure, without sugar please.",
    "Well water is not safe to drink.",
    "Hey Marta, not the blue one.",
    "Hi no reply came from the bank.",
    "Nein, kein Fleisch mehr in der Woche.",
    "Gut, nicht am Montag.",
    "Hallo, ich esse keine Nüsse.",
    "Non, plus de viande dans le régime.",
    "Merci, mais pas de livraison le lundi.",
    "No quiero turnos de noche.",
    "Gracias, pero sin azúcar.",
    "Não, nunca mais carne na dieta.",
    "Нет, мяса больше не нужно.",
    "Хорошо, но без сахара.",
    "不，我们不吃肉。",
    "好的，不要放辣椒。",
    "いいえ、肉は食べません。",
    "はい、でも砂糖は使わないでください。",
    "لا، لا أريد اللحم.",
    "شكرا، لكن بدون سكر.",
)


def negations(text: str) -> list[str]:
    return [match.group().lower() for match in NEGATION.finditer(text)]


@each("sentence", NEGATIONS)
def test_no_negation_is_left_out(talk: Talk, sentence: str) -> None:
    assert negations(sentence)
    assert negations(" ".join(split(sentence))) == negations(sentence)
    notes = Extractive().write_notes(talk(sentence), "")
    assert negations(notes.abbreviation) == negations(sentence)
    # A summary may leave a short sentence out, but whole.
    assert negations(
        Extractive().condense(talk(f"{sentence} The plant has five reactors."), "")
    ) in ([], negations(sentence))


def test_a_diet_without_meat_stays_without_meat_in_the_title_too(talk: Talk) -> None:
    notes = Extractive().write_notes(talk("No more meat in the diet, please.", "Understood."), "")
    assert notes.title == "No More Meat in the Diet"


@each("seed", range(6))
def test_random_sentences_keep_their_negations_whatever_stands_before_and_around_them(
    seed: int,
) -> None:
    chance = random.Random(seed)  # noqa: S311 - of a test
    opening = (
        "",
        "Well, ",
        "Thanks! ",
        "Oh, okay, ",
        "Hey Mel, ",
        "Sure. ",
        "Hallo! ",
        "Merci, ",
        "- ",
        "> ",
        "**Note** ",
        "1. ",
    )
    everything = [*NEGATIONS, *(content for turns in DIALOGUES.values() for _, content in turns)]
    for _ in range(40):
        text = "\n".join(
            chance.choice(opening) + chance.choice(everything) for _ in range(chance.randint(1, 4))
        )
        assert negations(" ".join(split(text))) == negations(text)


def test_real_sentences_keep_their_negations() -> None:
    if not RECALL_SETS.is_dir():
        pytest.skip("the recall sets are not there")
    chance = random.Random(17)  # noqa: S311 - of a test
    for name in ("realmem", "friendsqa", "locomo"):
        lines = (RECALL_SETS / name / "conversations.jsonl").read_bytes().splitlines()
        for line in chance.sample(lines, 6):
            for message in json.loads(line)["messages"]:
                for sentence in sentences(message["content"][:2_000]):
                    split_texts = split(sentence)
                    # A sentence is left out whole (code, a heading) or keeps each word that turns
                    # it around.
                    assert not split_texts or negations(" ".join(split_texts)) == negations(
                        sentence
                    ), sentence


def test_a_sentence_too_long_is_cut_only_where_no_negation_follows() -> None:
    harmless = f"We ship {'the green and the blue boxes, ' * 12}and all the others"
    assert split(harmless)[0].endswith("boxes…")
    assert split(f"{harmless}, but not to Ghent.") == []


@each(
    ("text", "parts"),
    [
        (
            "Wir essen am 1. Oktober. Es kostet z. B. 3.5 Euro.",
            ["Wir essen am 1. Oktober.", "Es kostet z. B. 3.5 Euro."],
        ),
        (
            "Dr. J. Smith comes at 3.5 p.m. today. We left.",
            ["Dr. J. Smith comes at 3.5 p.m. today.", "We left."],
        ),
        (
            "It was No. 5. I said no. We have 3. You have 4.",
            ["It was No. 5.", "I said no.", "We have 3.", "You have 4."],
        ),
        ("I just... don't know. See e.g. Fig. 3.", ["I just... don't know.", "See e.g. Fig. 3."]),
        ("El Sr. López llegó. ¿Y tú?", ["El Sr. López llegó.", "¿Y tú?"]),
        ("Сахар, соль и т.д. Потом домой.", ["Сахар, соль и т.д.", "Потом домой."]),
        ("هل تأتي؟ نعم. شكرا!", ["هل تأتي؟", "نعم.", "شكرا!"]),
        ("我想去北京。你呢？好的！", ["我想去北京。", "你呢？", "好的！"]),
    ],
)
def test_a_sentence_ends_at_its_mark_and_not_after_an_abbreviation_or_an_ordinal(
    text: str, parts: list[str]
) -> None:
    assert sentences(text) == parts


def test_a_date_at_the_beginning_of_a_line_is_no_number_of_a_list() -> None:
    assert split("1. Oktober ist der Termin.\n2. Die Rohrzange holen.") == [
        "1. Oktober ist der Termin.",
        "Die Rohrzange holen.",
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            "Call `compute_class_weight()` twice with C# and x > 5.",
            "Call compute_class_weight() twice with C# and x > 5.",
        ),
        ("# Plan\n\n**Goal:**\nWe *really* ship on **Friday**.", "We really ship on Friday."),
        ("It broke.\nconst x = {a: 1, b: 2};\nimport os; os.exit(1)", "It broke."),
        ("| a | b |\n|---|---|\nThe table is above.", "The table is above."),
    ],
)
def test_code_and_headings_stay_out_and_names_in_code_stay_whole(
    content: str, expected: str
) -> None:
    assert split(content) == [expected]
