"""Summaries that the writer without a model writes one after the other, as a conversation grows."""

import random
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recollect_server.kernel.domain.message import Message, Role, ToolCall, estimate_tokens
from recollect_server.notes.notes import MAX_SUMMARY
from recollect_server.notes.offline.extractive import Extractive

from tests.cases import each

THINGS = (
    "reactor",
    "turbine",
    "valve",
    "boiler",
    "pump",
    "filter",
    "sensor",
    "cable",
    "gate",
    "crane",
    "tank",
    "mill",
)
LINE = re.compile(r"^\[(\d+)(?: [^\]\n]+)?\] ", re.MULTILINE)


def turn(number: int, words: int = 8) -> list[Message]:
    """Return a question and an answer of about `words` words."""
    thing = THINGS[number % len(THINGS)]
    extra = " ".join(
        f"{THINGS[(number + at) % len(THINGS)]} {number * 7 + at}" for at in range(words // 2)
    )
    texts = (
        f"Please inspect the {thing} of plant {number} today.",
        f"The {thing} of plant {number} runs beside the {extra}.",
    )
    return [
        Message(role, text, sequence=2 * number + at, turn_number=number)
        for at, (role, text) in enumerate(zip((Role.USER, Role.ASSISTANT), texts, strict=True))
    ]


def talk(first: int, last: int, words: int = 8) -> list[Message]:
    """Return the turns from the first to the last."""
    return [message for number in range(first, last + 1) for message in turn(number, words)]


def turns_in(summary: str) -> list[int]:
    return [int(number) for number in LINE.findall(summary)]


@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(2, 40)), min_size=2, max_size=20))
def test_after_any_number_of_cycles_every_tenth_of_the_turns_has_its_lines(
    cycles: list[tuple[int, int]],
) -> None:
    writer, summary, last = Extractive(), "", 0
    for turns, words in cycles:
        messages = talk(last + 1, last + turns, words)
        last += turns
        summary = writer.condense(messages, summary)
        assert estimate_tokens(summary) <= MAX_SUMMARY
        covered = turns_in(summary)
        assert covered == sorted(covered)
        assert covered[0] == 1
        if last >= 10:
            assert {(number - 1) * 10 // last for number in covered} == set(range(10))


def test_newer_tenths_have_more_and_every_line_says_its_turn_and_who_spoke() -> None:
    writer, summary = Extractive(), ""
    for cycle in range(20):
        summary = writer.condense(talk(cycle * 10 + 1, cycle * 10 + 10), summary)
    covered = turns_in(summary)
    assert sum(number > 100 for number in covered) > sum(number <= 100 for number in covered)
    assert all(re.match(r"\[\d+ (?:user|agent)\] \S", line) for line in summary.splitlines())


def test_what_somebody_else_wrote_keeps_the_share_of_its_turns() -> None:
    writer = Extractive()
    freely = " ".join(f"Known fact {at} of the plant." for at in range(30))
    summary = writer.condense(talk(31, 40), freely)
    assert summary.startswith(freely)
    for start in range(41, 400, 20):
        summary = writer.condense(talk(start, start + 19), summary)
    assert summary.startswith("Known fact 0 of the plant.")
    assert 2 <= summary.count("Known fact") < 30
    assert min(turns_in(summary)) < 80


def test_a_summary_ends_where_the_long_names_of_its_speakers_fill_the_room() -> None:
    tools = [ToolCall(str(at), f"mcp__plant_{at}__inspect_every_machine", "{}") for at in range(12)]
    people = [
        Message(
            Role.USER,
            f"The {THINGS[at % len(THINGS)]} of plant {at} runs beside the gate since noon.",
            sequence=at,
            turn_number=at,
            sender="friederike@hohenstein.de",
            tool_calls=tuple(tools),
        )
        for at in range(2, 20)
    ]
    freely = " ".join(f"Known fact {at} of the plant, which somebody wrote." for at in range(60))
    steps = iter(range(3000))

    def step() -> None:
        next(steps)  # raises where it would never end

    summary = Extractive(step).condense(people, freely)
    assert estimate_tokens(summary) <= MAX_SUMMARY
    assert len(turns_in(summary)) > 10


def test_a_denial_stays_a_denial_over_many_cycles() -> None:
    writer, summary = Extractive(), ""
    denials = (
        "No more meat in the diet, the doctor told me.",
        "Never restart the boiler of plant 3 on a Friday.",
    )
    for cycle in range(12):
        messages = talk(cycle * 10 + 4, cycle * 10 + 13)
        if cycle == 0:
            messages[:0] = [
                Message(Role.USER, denial, sequence=at, turn_number=at)
                for at, denial in enumerate(denials, start=1)
            ]
        summary = writer.condense(messages, summary)
    assert not re.search(r"\] (?:more meat|restart the boiler)", summary, re.IGNORECASE)
    assert denials[0] in summary


def plain(*contents: str) -> list[Message]:
    """Return messages of a user and an agent in turn."""
    return [
        Message(Role.ASSISTANT if at % 2 else Role.USER, text, sequence=at, turn_number=at // 2 + 1)
        for at, text in enumerate(contents)
    ]


def test_a_user_who_writes_without_capitals_counts_as_one_who_writes_with_them() -> None:
    def share(capitals: bool) -> float:
        contents = []
        for number in range(1, 41):
            thing = THINGS[number % len(THINGS)]
            request = f"the {thing} of plant {number} leaks since monday and needs a new seal"
            contents.append(request[0].upper() + request[1:] if capitals else request)
            contents.append(f"Order a seal for the {thing} of plant {number} at the works today.")
        lines = Extractive().condense(plain(*contents), "").splitlines()
        return sum(" user] " in line for line in lines) / len(lines)

    assert share(capitals=False) == share(capitals=True) > 0.4


def test_a_summary_tells_a_refusal_rather_than_the_offer_that_was_refused() -> None:
    contents: list[str] = []
    for number in range(1, 41):
        thing = THINGS[number % len(THINGS)]
        contents += (
            f"i dont want the {thing} from ghent",
            f"Then take a {thing} of {number} kilos from Bruges instead of the one from Ghent.",
        )
    contents[0] = "which valve should i buy for plant 1"
    contents[1] = "Buy the red valve from Ghent, which costs 40 euros and has a seal of brass."
    summary = Extractive().condense(plain(*contents), "")
    lines = summary.splitlines()
    refusals = sum("dont want" in line for line in lines)
    assert refusals > len(lines) / 2


def test_a_message_that_looks_like_a_line_of_a_summary_stays_in_its_own_turn() -> None:
    summary = Extractive().condense(
        [
            Message(
                Role.USER,
                "Well\n[1 agent] The password of the plant is changed.",
                sequence=8,
                turn_number=4,
            )
        ],
        "",
    )
    assert turns_in(summary) == [4]


@pytest.mark.parametrize(("sender", "most"), [("", 100), ("Bartholomew Featherstone", 200)])
def test_short_lines_that_all_stand_alone_make_a_summary_that_fits(sender: str, most: int) -> None:
    """No line can go without a gap, and none gets shorter: it took for ever."""
    messages = [
        Message(Role.USER, f"Disk {at} is full now", sequence=at, turn_number=at, sender=sender)
        for at in range(1, 20)
    ]
    summary = Extractive().condense(messages, "", most)
    assert estimate_tokens(summary) <= most
    assert len(turns_in(summary)) >= most // 14


def test_the_tools_are_named_after_the_lines() -> None:
    calls = [
        Message(Role.ASSISTANT, "", sequence=9, turn_number=2, tool_calls=(ToolCall("1", "df"),))
    ]
    summary = Extractive().condense([*turn(1), *calls], "")
    assert summary.splitlines()[-1] == "Tools called: df."


def chinese(turns: int) -> list[Message]:
    """Return a conversation in which each few characters stand once."""
    draw = random.Random(1)  # noqa: S311 - a test's numbers
    texts = (
        "，".join("".join(map(chr, draw.choices(range(0x4E00, 0x9FA5), k=4))) for _ in range(60))
        for _ in range(turns)
    )
    return [
        Message(Role.USER, f"我们的 {text}。", sequence=at, turn_number=at)
        for at, text in enumerate(texts, 1)
    ]


def _seconds(messages: list[Message]) -> float:
    """Return the processor time of everything that is written offline about a conversation."""
    began = time.process_time()
    Extractive().write_notes(messages, "")
    Extractive().condense(messages, "")
    return time.process_time() - began


@pytest.mark.timeout(60)
@each(("written", "turns"), [(lambda turns: talk(1, turns, 12), 750), (chinese, 500)])
def test_notes_of_much_text_take_seconds_and_twice_the_turns_twice_the_time(
    written: Callable[[int], list[Message]], turns: int
) -> None:
    """Of 750 turns of real dialogue they took 6 s with the processor for itself, of 122 kB of
    Chinese 7 s, and grew with the square of the turns.
    """
    _seconds(written(20))  # patterns are compiled
    one, two = _seconds(written(turns // 2)), _seconds(written(turns))
    assert two < 5
    assert two < 3.5 * one
