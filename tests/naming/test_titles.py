"""Offline titles and abbreviations as a reader sees them.

`graded.json` has conversations that were written before the writer was (2026-11-26), and on which
its notes were graded blind against those of the writer before it
(`docs/decisions/offline-notes.md`). A title here is one that a reader found good or usable on
2026-11-29, when titles got two to six words and no statement of somebody's; `KEPT` is what a reader
missed where it was left out.
"""

import json
import re
from pathlib import Path
from typing import Any

from recollect_server.kernel.domain.message import Message, Role, estimate_tokens
from recollect_server.notes.notes import MAX_ABBREVIATION
from recollect_server.notes.offline.extractive import Extractive
from recollect_server.notes.offline.sentences import split

from tests.cases import each
from tests.naming.conftest import Talk

FOLDER = Path(__file__).parent
GRADED: dict[str, list[list[str]]] = json.loads((FOLDER / "graded.json").read_bytes())
DIALOGUES: dict[str, list[list[str]]] = json.loads(
    (FOLDER / "dialogues.json").read_bytes()
) | json.loads((FOLDER / "more_dialogues.json").read_bytes())
TITLES = {
    "code-stale-lease": "Why the Lease Expires",
    "cli-agent": "Export Command, README",
    "think-tags": "Heat Pump, Gas Boiler, House",
    "json-error": "API, Docker, Container",
    "long-answer": "Why Did the Roman Republic Fall",
    "group-agent": "Old Mill",
    "de-strom": "Meinen Stromvertrag kündigen",
    "es-viaje": "Monte Albán, Tule, Hotel",
    "zh-fangzi": "在上海租一套两居室的房子",
    "pt-cartao": "Cartão, compras, agência",
    "tool-output": "Is the Disk on Web-3 Full",
    "email": "Quote for 40 Office Chairs",
    "de-1": "Brauchen wir dafür eine Genehmigung",
    "it-1": "Scuola, corso, figlio",
    "fr": "Hôtel, Célestins, mère",
    "ar": "رسالة, تاريخ غياب, مدرسة",
    "nl-1": "Regelen van een verhuizing naar Utrecht",
    "pl-1": "Zaplanować remont kuchni w naszym mieszkaniu",
    "tr-2": "Bilgisayarım çok yavaş açılıyor",
    "ko-2": "세탁기에서 이상한 소리가 나요",
    "fr-1": "Réunion, devis, toiture",
}
KEPT = {
    "support-refund": ["I'd like a refund, not a replacement."],
    "code-stale-lease": ["any idea why the lease expires?", "no more StaleLease since this"],
    "think-tags": ["we don't want gas anymore."],
    "data-url": ["what plant is in this picture, and is it poisonous for cats?"],
    "long-answer": ["The Roman Republic fell because institutions made for a city state"],
    "group-trip": ["Jonas: Tom isn't coming, his knee is still bad."],
    "group-agent": ["The Old Mill is not available on 3 May, I called."],
    "de-strom": ["nicht einfach in die neue Wohnung"],
    "es-viaje": ["No queremos hotel con escaleras.", "El Tule entonces, y no Monte Albán."],
    "es-codigo": ["no puedo instalar dependencias nuevas."],
    "zh-fangzi": ["我不要一楼的房子，太潮湿。"],
    "ja-pc": ["自分で交換したくないので、店に頼みます。"],
    "pt-cartao": ["Não quero cartão novo pelo correio"],
    "tool-output": ["don't restart nginx today."],
    "health": ["I don't want to take painkillers every day."],
    "smalltalk-late": ["please no jokes about her age."],
    "email": ["we can't accept the delivery date of 15 August."],
}
BOILERPLATE = (
    "Caveat",
    "DO NOT",
    "<",
    "{",
    "base64",
    "iVBOR",
    "Traceback",
    "raise Stale",
    "command-",
)


def messages_of(name: str) -> list[Message]:
    lines: list[Any] = GRADED.get(name) or [[role, "", text] for role, text in DIALOGUES[name]]
    return [
        Message(Role(role), text, sequence=at, turn_number=at, sender=sender)
        for at, (role, sender, text) in enumerate(lines, start=1)
    ]


@each("name", TITLES)
def test_a_title_that_a_reader_accepted_stays_so(name: str) -> None:
    assert Extractive().write_notes(messages_of(name), "").title == TITLES[name]


@each("name", {**GRADED, **DIALOGUES})
def test_an_abbreviation_has_whole_sentences_with_their_speakers_and_no_boilerplate(
    name: str,
) -> None:
    messages = messages_of(name)
    notes = Extractive().write_notes(messages, "")
    assert estimate_tokens(notes.abbreviation) <= MAX_ABBREVIATION
    assert not [it for it in BOILERPLATE if it in notes.abbreviation + notes.title]
    assert [it for it in KEPT.get(name, ()) if it not in notes.abbreviation] == []
    spoken: dict[str, list[str]] = {}
    for message in messages:
        speaker = message.sender or ("User" if message.role is Role.USER else "Agent")
        spoken.setdefault(speaker, []).extend(split(message.content))
    labels = "|".join(map(re.escape, spoken))
    parts = re.split(rf"(?:^| )({labels})(?: \(open\))?: ", notes.abbreviation)
    assert parts[0] == ""
    for speaker, text in zip(parts[1::2], parts[2::2], strict=True):
        for sentence in sorted(spoken[speaker], key=len, reverse=True):
            text = text.replace(" ".join(sentence.split()), "")
        assert not text.strip(" .。"), speaker


def test_a_negation_before_the_end_of_a_request_stays_unless_the_title_is_a_noun(
    talk: Talk,
) -> None:
    turns = ("मोटोरोला तो चीनी कंपनी का है, नहीं चाहिए।", "तब सैमसंग ठीक रहेगा।")
    title = Extractive().write_notes(talk(*turns), "").title
    assert "नहीं" in title or title == "चीनी कंपनी"


@each(
    ("turns", "title"),
    [
        (("Hello!", "Hello! How can I help you today?"), "Hello"),
        (("Do not book the flight to Oslo yet.", "OK."), "Oslo, Flight"),
        (
            ("I'm not worried about the visa interview.", "OK."),
            "Visa Interview",
        ),
        (
            (
                "Good morning! How are you?",
                "Fine.",
                "Can you rename the export of the ledger?",
                "Yes.",
            ),
            "Rename the Export of the Ledger",
        ),
    ],
)
def test_a_title_reverses_no_sense_and_skips_small_talk(
    talk: Talk, turns: tuple[str, ...], title: str
) -> None:
    assert Extractive().write_notes(talk(*turns), "").title in (title, "Small Talk")


def test_a_title_follows_what_most_of_the_conversation_is_about(talk: Talk) -> None:
    later = [
        text
        for at in range(8)
        for text in (f"How much do pangolins eat in {at} weeks?", f"Pangolins eat {at} kilos.")
    ]
    title = Extractive().write_notes(talk("Can you rename this file?", "Done.", *later), "").title
    assert "Pangolins" in title


def test_what_is_open_is_said_until_somebody_answers_it(talk: Talk) -> None:
    turns = (
        "Which hotel in Ghent has a pool?",
        "The hotel Harmony has a pool and costs 140 euros.",
        "Let's book the hotel Harmony for two nights in May.",
        "Booked for 3 to 5 May. Which credit card should pay the deposit?",
    )
    abbreviation = Extractive().write_notes(talk(*turns), "").abbreviation
    assert "User: Let's book the hotel Harmony for two nights in May." in abbreviation
    assert abbreviation.endswith("Agent (open): Which credit card should pay the deposit?")
    answered = Extractive().write_notes(talk(*turns, "The Visa.", "Paid."), "").abbreviation
    assert "(open)" not in answered


def test_a_question_of_polite_japanese_needs_no_question_mark_to_be_open(talk: Talk) -> None:
    turns = ("子どもの遠足のお弁当のメニューを考えてください。", "デザートも必要ですか。")
    abbreviation = Extractive().write_notes(talk(*turns), "").abbreviation
    assert abbreviation.endswith("Agent (open): デザートも必要ですか。")


def test_a_korean_sentence_gets_a_full_stop_of_its_own_script(talk: Talk) -> None:
    turns = ("등록했는데 그래도 푸시가 안 돼요", "키를 에이전트에 추가해 보세요.")
    assert "안 돼요." in Extractive().write_notes(talk(*turns), "").abbreviation


def test_a_sentence_that_leans_on_another_is_told_only_with_it(talk: Talk) -> None:
    facts = [
        f"The reactor number {at} of plant {at % 7} was inspected by the team of engineer {at * 3}."
        for at in range(30)
    ]
    turns = [f"{fact} They found a crack in valve {at}." for at, fact in enumerate(facts)]
    abbreviation = Extractive().write_notes(talk(*turns), "").abbreviation
    assert abbreviation.count("They found") <= abbreviation.count("The reactor")


def test_a_title_is_no_word_to_one_of_those_who_speak() -> None:
    talk = (
        ("Caroline", "I signed up for pottery."),
        ("Melanie", "Glad the pottery relaxes your mind, Caroline."),
        ("Caroline", "Pottery calms me and the kids."),
        ("Melanie", "Pottery sounds lovely, Caroline."),
    )
    assert {*titled(people_talk(*talk)).lower().split()}.isdisjoint({"caroline", "melanie", "glad"})


def people_talk(*lines: tuple[str, str]) -> list[Message]:
    """Return a talk of two people, by their names."""
    roles = (Role.USER, Role.ASSISTANT)
    return [
        Message(roles[at % 2], text, sequence=at + 2, turn_number=at // 2 + 1, sender=speaker)
        for at, (speaker, text) in enumerate(lines)
    ]


def titled(messages: list[Message]) -> str:
    return Extractive().write_notes(messages, "").title


@each("name", {**GRADED, **DIALOGUES})
def test_a_title_has_two_to_six_words(name: str) -> None:
    title = titled(messages_of(name))
    assert 1 < len(title.split()) < 7 or (not title.isascii() and 2 < len(title) < 19)


def test_a_question_beside_the_subject_gives_no_title(talk: Talk) -> None:
    title = titled(
        talk(
            "I read that quantum computers break codes and want to understand what a qubit is.",
            "A qubit is a state of two levels. A quantum computer has many qubits.",
            "What about the weather in Leipzig?",
            "It rains in Leipzig until noon.",
            "Back to the quantum computers: how do the qubits stay cold?",
            "A quantum computer stands in a fridge that cools the qubits to 15 millikelvin.",
            "And who sells a quantum computer with that many qubits?",
            "IBM and others rent their quantum computers by the minute.",
        )
    )
    assert "Quantum" in title
    assert "Leipzig" not in title


def test_a_title_of_people_is_of_what_they_come_back_to_and_no_words_of_one_of_them() -> None:
    talk = (
        ("Nora", "We had the funniest afternoon, I have to tell you about the pottery class."),
        ("Ivan", "I am jealous, the pottery class sounds like just what I need after this week."),
        ("Nora", "Come along! There is a kiln in the courtyard and the glaze is included."),
        ("Ivan", "Then I will bring my own glaze for the kiln, if they let me."),
    )
    assert titled(people_talk(*talk)) == "Pottery Class, Glaze, Kiln"


PEOPLE = (
    ("Nora", "Hey Ivan! Good to see you! How have you been?"),
    ("Ivan", "Nora! Long time no chat. We adopted a puppy from a dog shelter on Friday."),
    ("Nora", "How lovely! That reminds me: did the tomato plants survive the hail?"),
    ("Ivan", "The garden is a mess, Nora, and the tomato plants are a sad reminder."),
    ("Nora", "The roses of the garden grow again. Take the picture of mine as a reminder."),
    ("Ivan", "You are the best! Thanks so much. See you soon!"),
)


def test_a_title_of_people_begins_with_what_was_named_first_and_says_pairs_of_words() -> None:
    title = titled(people_talk(*PEOPLE))
    assert title.startswith("Dog Shelter, Tomato Plants")
    assert "Reminds" not in title


def test_an_abbreviation_of_people_leaves_out_what_they_say_to_be_kind() -> None:
    abbreviation = Extractive().write_notes(people_talk(*PEOPLE), "").abbreviation
    assert abbreviation.startswith("Ivan: We adopted a puppy from a dog shelter on Friday.")
    kind = ("Good to see you", "Long time", "You are the best", "See you soon")
    assert not [it for it in kind if it in abbreviation]


def test_an_abbreviation_of_nothing_but_kindness_says_that(talk: Talk) -> None:
    texts = [text for _, text in (PEOPLE[0], PEOPLE[-1])]
    kind = people_talk(*(("Nora", texts[0]), ("Ivan", texts[1])))
    assert "Good to see you" in Extractive().write_notes(kind, "").abbreviation


def test_an_answer_has_its_question_beside_it_if_that_is_one_word(talk: Talk) -> None:
    abbreviation = Extractive().write_notes(talk("Weather?", "Sunny, 20 degrees."), "").abbreviation
    assert abbreviation == "User: Weather? Agent: Sunny, 20 degrees."
    later = talk("Hi!", "Hello!", "Weather?", "Sunny, 20 degrees.", "Why?", "High pressure.")
    abbreviation = Extractive().write_notes(later, "").abbreviation
    assert abbreviation == "User: Weather? Agent: Sunny, 20 degrees. High pressure."


def test_an_abbreviation_has_what_was_decided_last_and_what_came_of_it(talk: Talk) -> None:
    between = [
        text
        for at in range(30)
        for text in (
            f"What does supplier {at} of the Rotterdam depot charge for the copper pipes?",
            f"Supplier {at} charges {at * 3 + 40} euros for copper pipes, brass valves and solder.",
        )
    ]
    ending = ("Take the second offer then.", "The order left at noon.", "Thanks!", "Bye!")
    notes = Extractive().write_notes(talk(*between, *ending), "")
    assert "User: Take the second offer then. Agent: The order left at noon." in notes.abbreviation
