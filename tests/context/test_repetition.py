"""Repetition in a context: titles and abbreviations beside the messages that say the same."""

from recollect_server.text.repetition import (
    abbreviation_beside,
    sentences_of,
    spoken,
    spoken_together,
    title_beside,
)

from tests.cases import each

SAID = spoken_together(
    map(
        spoken,
        [
            "Please plan the trip to Kyoto, in *May*, for two.",
            "Agreed: we fly on 3 May. No hotel yet.",
            "Next week please.",
        ],
    )
)


@each(
    ("title", "shown"),
    [
        ("Plan the trip to Kyoto in May", ""),
        ("Please plan the trip to Kyoto, in Ma…", ""),
        ("Trip to Kyoto", "Trip to Kyoto"),  # a short one is a name
        ("Next week, please.", ""),  # but not where it is all of a message
        ("Next week", "Next week"),
        ("Plan the trip to Kyoto in June", "Plan the trip to Kyoto in June"),
        ("Plan the trip to Kyoto in M", "Plan the trip to Kyoto in M"),
    ],
)
def test_a_title_that_a_message_begins_with_is_left_out(title: str, shown: str) -> None:
    assert title_beside(title, SAID) == shown


@each(
    ("abbreviation", "shown"),
    [
        ("", ""),
        ("They planned a trip.", "They planned a trip."),
        ("User: Please plan the trip to Kyoto in May for two. Agent: We fly on 3 May.", ""),
        (
            "User: Please plan the trip to Kyoto in May for two. Rain is fine. Agent: It is booked.",
            "User: Rain is fine. Agent: It is booked.",
        ),
        (
            "… trip to Kyoto in May for two. Agent: It is booked. We fly on 3 May. All is well.",
            "Agent: It is booked. … All is well.",
        ),
        ("Ann: Please plan the trip to Kyoto. Rain is fine.", "Ann: Rain is fine."),
        ("Costs: We fly on 3 May. Rain is fine.", "Costs: We fly on 3 May. Rain is fine."),
        ("Agent: It is booked. User: No hotel yet.", "Agent: It is booked. …"),
        ("User: No hotel. It is booked.", "User: No hotel. It is booked."),  # too short to tell
    ],
)
def test_sentences_that_messages_have_are_left_out_of_an_abbreviation(
    abbreviation: str, shown: str
) -> None:
    assert abbreviation_beside(sentences_of(abbreviation), SAID, {"Ann"}) == shown


def test_sentences_of_other_scripts_are_found() -> None:
    texts = ["Wir treffen uns am 3. Mai in Wien.", "斑马 住在 根特 动物园。"]
    words = spoken_together(map(spoken, texts))
    assert abbreviation_beside(sentences_of("Wir treffen uns am 3. Mai in Wien."), words) == ""
    assert (
        abbreviation_beside(sentences_of("斑马 住在 根特 动物园。很好 很好 很好 很好。"), words)
        == "很好 很好 很好 很好。"
    )
