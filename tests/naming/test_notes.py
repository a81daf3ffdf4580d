"""Rules of notes alone: their form, and when they are due."""

from dataclasses import replace

import pytest
from recollect_server.kernel.domain.conversation import (
    Abbreviated,
    Began,
    Conversation,
    MetaUpdated,
    Split,
    TitleAssigned,
    fold,
)
from recollect_server.kernel.domain.message import Message, Role, estimate_tokens
from recollect_server.notes.notes import (
    FoundAnchor,
    Notes,
    WrongNotes,
    clipped,
    notes_due,
    notes_of,
    title_due,
    title_of,
    topic_of,
)

from tests.cases import each

NOTES = Notes("Disk of the server is full; logs rotate daily from now on.")


@each(
    ("written", "title"),
    [
        ("server monitoring setup", "Server Monitoring Setup"),
        ('"Rotation of the Logs."', "Rotation of the Logs"),
        ("moving to  PostgreSQL", "Moving to PostgreSQL"),
        ("iOS release-notes", "iOS Release-Notes"),
        ("slow server, full disk,", "Slow Server, Full Disk"),
        ("the end of the affair", "The End of the Affair"),
        ("北京大学入学", "北京大学入学"),
        ("Monitoring", ""),
        (
            "Why the Nightly Backup of the Database Fails on the Second Disk",
            "Why the Nightly Backup",
        ),
        (
            "如何在上海的莘庄附近租一套靠近地铁并且可以养猫的两居室的房子",
            "如何在上海的莘庄附近租一套靠近地铁并",
        ),
        ("wie repariere ich das Ventil", "Wie repariere ich das Ventil"),
        ("comment réparer une fuite", "Comment réparer une fuite"),
        ("", ""),
        (f"{'a' * 50} {'b' * 50}", ""),
    ],
)
def test_a_title_has_two_to_six_words_in_the_case_of_its_language_or_is_none(
    written: str, title: str
) -> None:
    assert title_of(written) == title


@pytest.mark.parametrize(
    ("written", "topic"),
    [
        ("Server Monitoring", "server-monitoring"),
        ("log_rotation!", "log-rotation"),
        ("C++", "c"),
        ("...", ""),
        ("x" * 99, ""),
    ],
)
def test_a_topic_is_kebab_case(written: str, topic: str) -> None:
    assert topic_of(written) == topic


def test_a_long_text_is_cut_at_a_sentence_and_one_without_sentences_at_a_word() -> None:
    sentences = "We ship on Friday. " * 60
    assert clipped(sentences, 200).endswith("Friday.")
    assert 150 < estimate_tokens(clipped(sentences, 200)) <= 200
    assert clipped("word " * 300, 200).endswith("word…")
    assert estimate_tokens(clipped("京" * 2000, 200)) <= 200
    assert clipped("short", 200) == "short"


def test_notes_without_an_abbreviation_are_refused() -> None:
    with pytest.raises(WrongNotes):
        notes_of(replace(NOTES, abbreviation=" \n"), [])


def test_an_abbreviation_of_a_few_words_is_one() -> None:
    assert notes_of(Notes("Said hello."), []).abbreviation == "Said hello."


def test_topics_are_kept_once_each_and_not_too_many() -> None:
    draft = replace(
        NOTES, topics=("Logs", "logs", "!", *(f"topic {number}" for number in range(9)))
    )
    assert notes_of(draft, []).topics == ("logs", "topic-0", "topic-1", "topic-2", "topic-3")


def test_an_anchor_comes_from_a_message_that_there_is_and_its_newest_value_holds() -> None:
    anchors = (
        FoundAnchor("Name", "Alex", 0.9, 2),
        FoundAnchor("name", " Alexandra  B. ", 7.0, 4),
        FoundAnchor("home", "Ghent", 0.5, 99),
        FoundAnchor("diet", "vegan", 0.5, 2),
        FoundAnchor("diet", " ", 0.5, 4),
        FoundAnchor("x" * 70, "long", 0.5, 2),
    )
    assert notes_of(replace(NOTES, anchors=anchors), [2, 4]).anchors == (
        FoundAnchor("name", "Alexandra B.", 1.0, 4),
        FoundAnchor("diet", "", 0.5, 4),
    )


def test_a_split_has_two_titles_at_least() -> None:
    one = replace(NOTES, split=Split("two things", ("Holiday Plans", "x")))
    two = replace(NOTES, split=Split(" two  things ", ("holiday plans", "disk space")))
    assert notes_of(one, []).split is None
    assert notes_of(two, []).split == Split("two things", ("Holiday Plans", "Disk Space"))


def conversation(turns: int) -> Conversation:
    state = fold(None, Began("conv-x", "web", 0))
    for turn in range(1, turns + 1):
        state = fold(
            state, Message(Role.USER, "Hello", timestamp=turn, sequence=turn + 1, turn_number=turn)
        )
    assert state is not None
    return state


def after(
    state: Conversation, *events: TitleAssigned | MetaUpdated | Abbreviated | Message
) -> Conversation:
    for event in events:
        folded = fold(state, event)
        assert folded is not None
        state = folded
    return state


def test_a_title_comes_after_the_fifth_user_message_idle_or_not() -> None:
    assert not title_due(conversation(4), 0, idle=True, every_turns=10)
    assert title_due(conversation(5), 0, idle=False, every_turns=10)


def test_another_title_comes_ten_turns_after_the_last_and_only_on_idle() -> None:
    named = after(conversation(15), TitleAssigned("Server Setup", (), 0))
    assert title_due(named, 5, idle=True, every_turns=10)
    assert not title_due(named, 5, idle=False, every_turns=10)
    assert not title_due(named, 6, idle=True, every_turns=10)
    assert title_due(named, 6, idle=True, every_turns=9)
    assert not title_due(named, 5, idle=True, every_turns=0)


def test_a_title_that_a_person_gave_stays() -> None:
    named = after(conversation(50), MetaUpdated(0, title="Mine", manually_named=True))
    assert not title_due(named, 0, idle=True, every_turns=10)


def test_notes_are_due_until_the_newest_turn_is_in_them_whole() -> None:
    written = after(conversation(3), Abbreviated("Notes", 0))
    assert notes_due(conversation(1))
    assert not notes_due(written)
    answered = after(written, Message(Role.ASSISTANT, "Hi", timestamp=9, sequence=6, turn_number=3))
    assert notes_due(answered)
    assert not notes_due(after(answered, Abbreviated("More notes", 0)))
