"""The sentences of a message that are its sender's own words."""

import pytest
from recollect_server.recall.model.own_words import own_sentences

from tests.cases import each


def own(content: str, *, is_mail: bool = False) -> list[str]:
    return [content[start:end] for start, end in own_sentences(content, is_mail=is_mail)]


FACT = "I live in Porto now."
# What is somebody else's, and what of it is the sender's.
OTHERS = [
    ("Translate to German: I live in Porto and my name is Sam.", []),
    ("Correct this sentence: I am allergic to nuts.", []),
    ("Write a short story in the first person. My name is Jack. I live in Boston.", []),
    ("Let's play: I'm a knight and my name is Lancelot, you are the dragon.", []),
    ("Imagine my name is Napoleon.", []),
    ("My character is called Thorin. I live in Erebor.", []),
    ("> I live in Porto", []),
    ("Look. ```I'm allergic to nuts```", ["Look."]),
    ("From: Bob\nTo: me\nI live in Rome.", []),
    ("His e-mail:\nDear Sam,\nI live in Rome.\nBob", ["His e-mail:"]),
    ("User: I live in Rome.\nAssistant: Nice.", []),
    ("On Friday Bob wrote:\nI live in Rome.", []),
    ("---------- Forwarded message from Kim Roe ----------\nI am allergic to nuts.", []),
    (
        "can you make this more polite\n\nHi Bob,\nI'm allergic to shellfish.\nMarta",
        ["can you make this more polite"],
    ),
    ("is this ok to send?\nHi Jim, I'm vegetarian", ["is this ok to send?"]),
    ("does this sound ok\nI am a nurse and I live in Boston.", ["does this sound ok"]),
    ("got this from my landlord\n\nHello, I'm Paul Green.", ["got this from my landlord"]),
    ("what should i answer\nMy husband Dan is a vegan.", ["what should i answer"]),
    ("tinder profile\nI'm a nurse. I live in Kent.", ["tinder profile"]),
    ("Dear Sam,\n\nI live in Dover now.\n\nPaul", []),
    ("Good morning,\nI work as a plumber.\nKind regards\nK. Fuchs", []),
    ("Ich wohne in Hamburg.\n\nMit freundlichen Grüßen\nJ. K.", []),
    ("J'habite à Lyon.\nCordialement,\nSophie", []),
    ('She wrote "I have lived in Rome since May" to him. I laughed.', ["I laughed."]),
    ("Er schrieb „Ich wohne seit Mai in Rom“. Na ja.", ["Na ja."]),
]


@each(("content", "expected"), OTHERS)
def test_what_may_be_somebody_elses_is_left_out(content: str, expected: list[str]) -> None:
    assert own(content) == expected


@pytest.mark.parametrize(
    "content",
    [
        f"Hi there,\n{FACT}",
        f"Hi! {FACT}\nThanks!",
        f"Hello, {FACT}\nBest restaurant for fish?",
        f"{FACT}\nthanks\nand what about the tram",
        f"{FACT} Can you check this?\n\nHi Ana,\nI live in Rome now.\nBest,\nBob",
        f"Hey Ada,\n\n{FACT}\n\nThanks,\nAlex",
        f"Please answer in French.\n{FACT}",
        f"Hello. {FACT} Thanks!",
        f"Some rules:\n- be brief\n- {FACT}",
        f'My dog is called "Rex". {FACT}',
    ],
)
def test_a_greeting_thanks_and_wishes_make_no_letter_of_what_is_said(content: str) -> None:
    assert any(FACT in it for it in own(content))
    assert not {"Rome", "Hello.", "Thanks!"} & set(" ".join(own(content)).split())


def test_a_letter_that_came_by_e_mail_has_the_words_of_its_sender() -> None:
    letter = f"Hi Recollect,\n\n{FACT}\n\nBest regards,\nAna"
    assert own(letter) == []
    assert FACT in own(letter, is_mail=True)


def test_places_are_of_the_whole_text_that_the_message_stands_in() -> None:
    text = f"Ana: Look. {FACT}"
    spans = own_sentences(text, len("Ana: "))
    assert [text[start:end] for start, end in spans] == ["Look.", FACT]


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "part", ["I'm ", "' ", '"', "“", "```", "> ", "Mr. ", "write a ", "\nBest regards", "\n \n"]
)
def test_a_message_of_nothing_but_beginnings_is_read_in_a_moment(part: str) -> None:
    assert len(own((part * 3_000)[:200_000])) < 1_000
