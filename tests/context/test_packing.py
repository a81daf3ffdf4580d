"""Packing: within the budget, nothing twice, no half of a tool call, and a reason for what is left
out.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recollect_server.context.context import (
    USUAL_BUDGET,
    About,
    Budget,
    Candidate,
    Context,
    Limits,
    Packed,
    Source,
    Sources,
    Tier,
)
from recollect_server.context.excerpts import Passages
from recollect_server.context.packing import Preference, pack_hot, pack_warm
from recollect_server.context.recalled import Past, pack_cold
from recollect_server.context.relevance import overlap, words_of
from recollect_server.context.rendering import FORMS
from recollect_server.context.rendering.form import Form
from recollect_server.context.shortening import head_and_tail
from recollect_server.kernel.domain.message import Role, ToolCall, estimate_tokens
from recollect_server.kernel.domain.time import DAY
from recollect_server.text.languages import says_little, speaks_of_asker

from tests.cases import each
from tests.context.conftest import HERE, THERE, candidate

A_TOKEN = "word"  # noqa: S105 - four bytes
ABOUT = {HERE: About("Zebras", "web", 1, 2, "About zebras."), THERE: About("Okapis", "web", 1, 2)}


def turns_of(candidates: list[Candidate]) -> list[list[Candidate]]:
    """Return the candidates by turn, in the order of their first messages."""
    turns: dict[tuple[str, int], list[Candidate]] = {}
    for it in candidates:
        turns.setdefault((it.conversation_id, it.message.turn_number), []).append(it)
    return list(turns.values())


def sequences(candidates: list[Candidate]) -> list[int]:
    return [it.message.sequence for it in candidates]


@st.composite
def conversations(draw: st.DrawFn) -> list[Candidate]:
    """Draw turns of a user's words, tool calls with their results (one may be missing), and
    answers, of any length; some have a summary.
    """
    made: list[Candidate] = []

    def add(role: Role, turn: int, **fields: object) -> None:
        content = A_TOKEN * draw(st.integers(0, 60))
        relevance = draw(st.floats(0, 1))
        made.append(
            candidate(len(made) + 2, content, role, turn=turn, relevance=relevance, **fields)  # type: ignore[arg-type]
        )

    for turn in range(1, draw(st.integers(1, 9)) + 1):
        add(Role.USER, turn)
        for call in range(draw(st.integers(0, 2))):
            names = (f"{turn}-{call}-a", f"{turn}-{call}-b")[: draw(st.integers(1, 2))]
            add(Role.ASSISTANT, turn, calls=names)
            for name in names:
                if draw(st.integers(0, 9)):
                    add(Role.TOOL, turn, answers=name)
        add(Role.ASSISTANT, turn)
    short = draw(st.frozensets(st.integers(1, 9)))
    return [
        replace(it, summary="Of stones." if it.message.turn_number in short else "") for it in made
    ]


def packers() -> list[Callable[[list[Candidate], int], Packed]]:
    return [
        pack_hot,
        pack_warm,
        lambda candidates, budget: packed_cold(turns_of(candidates), budget),
    ]


def packed_cold(units: list[list[Candidate]], budget: int) -> Packed:
    return pack_cold(Past(units, about=ABOUT), budget, "", Form(), frozenset())[0]


@pytest.mark.parametrize("pack", packers(), ids=["hot", "warm", "cold"])
@given(offered=conversations(), budget=st.integers(0, 400))
def test_a_tier_stays_within_its_budget_and_packs_nothing_twice(
    pack: Callable[[list[Candidate], int], Packed], offered: list[Candidate], budget: int
) -> None:
    packed = pack(offered, budget)
    assert packed.used <= budget
    places = [it.place for it in packed.packed]
    assert len(places) == len(set(places))
    left_out = [(it.conversation_id, it.sequence) for it in packed.dropped]
    assert not set(places) & set(left_out)
    assert len(left_out) == len(set(left_out))
    assert all(it.reason for it in packed.dropped)
    assert packed.considered == len(offered)
    assert packed.left == budget - packed.used


@pytest.mark.parametrize("pack", packers()[:2], ids=["hot", "warm"])
@given(offered=conversations(), budget=st.integers(0, 400))
def test_a_tool_call_and_its_results_are_packed_together_or_not_at_all(
    pack: Callable[[list[Candidate], int], Packed], offered: list[Candidate], budget: int
) -> None:
    packed = pack(offered, budget).packed
    halves = {it.message.tool_call_id for it in offered} & {
        call.id for it in offered for call in it.message.tool_calls
    }
    calls = {call.id for it in packed for call in it.message.tool_calls}
    results = {it.message.tool_call_id for it in packed if it.message.role is Role.TOOL}
    assert calls & halves == results & halves
    assert sequences(packed) == sorted(sequences(packed))


@given(
    offered=conversations(),
    budget=st.integers(0, 900),
    form=st.sampled_from([FORMS[number] for number in (1, 2, 3, 4)]),
)
def test_hot_and_warm_are_one_run_of_the_conversation_with_its_newest_words(
    offered: list[Candidate], budget: int, form: Form
) -> None:
    offered = [replace(it, charge=form.own(it.message)) for it in offered]
    hot = pack_hot(offered, budget // 2, budget // 4, form=form)
    oldest = min((it.message.turn_number for it in hot.packed), default=99)
    older = [it for it in offered if it.message.turn_number < oldest]
    warm = pack_warm(
        older,
        max(0, budget - hot.used),
        0,
        Preference(1),
        form,
    )
    both = sequences([*warm.packed, *hot.packed])
    assert both == sorted(set(both))
    assert hot.used + warm.used <= budget
    context = Context(hot, warm, Packed(Tier.COLD))
    around = form.frame("context") + form.frame("conversation")
    assert estimate_tokens(form.render(context, "")) <= hot.used + warm.used + around
    newest = offered[-1].message.turn_number
    question = next(it for it in offered if it.message.turn_number == newest)
    if question.tokens <= budget // 4:
        assert question in hot.packed


@given(text=st.text(max_size=2000), length=st.integers(80, 500))
def test_a_long_text_has_its_head_and_tail_and_says_how_much_is_left_out(
    text: str, length: int
) -> None:
    shown = head_and_tail(text, length)
    if shown == text:
        return
    head, tail = re.split(r"\n… \d+ tokens left out …\n", shown)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) <= length < len(text)


@given(
    parts=st.lists(
        st.sampled_from(["zebra ", "hay. ", "One more word. ", "\n", "ß"]), max_size=300
    ),
    length=st.integers(80, 900),
)
def test_the_parts_of_a_shortened_text_stand_in_order_and_nothing_of_it_twice(
    parts: list[str], length: int
) -> None:
    text = "".join(parts)
    shown = head_and_tail(text, length, Passages(text, words_of("Does the zebra eat hay?")))
    at = 0
    *parts_before, last = re.split(r"\n… \d+ tokens left out …\n", shown)
    for part in parts_before:  # of a text that says a thing twice, the first place may be another
        at = text.index(part, at) + len(part)
    assert text.endswith(last)
    assert at <= len(text) - len(last)
    assert len(shown) <= max(len(text), length + 2 * len("\n… 100 tokens left out …\n") + 60)


def test_with_room_for_all_everything_is_packed() -> None:
    offered = [candidate(at, A_TOKEN * 10, turn=at // 2) for at in range(2, 12)]
    offered.append(
        candidate(12, A_TOKEN, Role.TOOL, turn=5, answers="no call of this conversation")
    )
    warm = pack_warm(offered, 100_000)
    assert (warm.packed == offered, warm.dropped) == (False, [])
    assert sequences(warm.packed) == sequences(offered)


def test_hot_keeps_the_users_words_and_shortens_the_long_answer() -> None:
    offered = [
        candidate(2, A_TOKEN * 30, turn=1),
        candidate(3, A_TOKEN * 10, turn=2),
        candidate(4, f"{A_TOKEN} " * 900, Role.ASSISTANT, turn=2),
    ]
    hot = pack_hot(offered, 100)
    assert [(it.message.sequence, it.is_excerpt) for it in hot.packed] == [(3, False), (4, True)]
    assert hot.used <= 100
    assert re.fullmatch(
        r"word word .* word\n… 10\d\d tokens left out …\nword .* word ",
        hot.packed[1].message.content,
    )
    # with what is lent and not needed by the other turn
    assert 290 <= pack_hot(offered, 100, 300).used <= 325
    # whole, with what the warm tier lends
    assert pack_hot(offered, 100, 2000).packed == offered[1:]


def test_hot_takes_five_whole_turns_and_closes_where_one_does_not_fit() -> None:
    offered = [candidate(turn + 1, A_TOKEN * 10, turn=turn) for turn in range(1, 9)]
    assert sequences(pack_hot(offered, 1000).packed) == [5, 6, 7, 8, 9]
    assert sequences(pack_hot(offered, 1000, turns_at_most=2).packed) == [8, 9]
    offered.insert(6, candidate(60, A_TOKEN * 100, Role.ASSISTANT, turn=6))
    assert sequences(pack_hot(offered, 60).packed) == [8, 9]


def test_an_oversized_tool_result_and_argument_are_shortened_with_their_call() -> None:
    offered = [
        candidate(2, "Write the report.", turn=1),
        candidate(3, "", Role.ASSISTANT, turn=1, calls=("c",)),
        candidate(4, "begin " + "x" * 90_000 + " exit status 1", Role.TOOL, turn=1, answers="c"),
        candidate(5, "It failed.", Role.ASSISTANT, turn=1),
    ]
    call = ToolCall(
        "c", "write", orjson.dumps({"path": "/report", "text": "y " * 9000, "mode": 7}).decode()
    )
    offered[1] = replace(offered[1], message=replace(offered[1].message, tool_calls=(call,)))
    hot = pack_hot(offered, 400)
    assert sequences(hot.packed) == [2, 3, 4, 5]
    assert (hot.used <= 400, hot.dropped) == (True, [])
    arguments = orjson.loads(hot.packed[1].message.tool_calls[0].arguments)
    assert (arguments["path"], arguments["mode"]) == ("/report", 7)
    assert "tokens left out" in arguments["text"]
    result = hot.packed[2].message.content
    assert (result[:6], result[-13:]) == ("begin ", "exit status 1")


def test_of_a_turn_with_very_many_calls_the_question_and_the_newest_stay() -> None:
    offered = [candidate(2, "Go through all files.", turn=1)]
    for at in range(60):
        offered += [
            candidate(3 + 2 * at, "", Role.ASSISTANT, turn=1, calls=(f"c{at}",)),
            candidate(4 + 2 * at, A_TOKEN * 100, Role.TOOL, turn=1, answers=f"c{at}"),
        ]
    hot = pack_hot(offered, 1000)
    packed = sequences(hot.packed)
    assert (packed[0], packed[-1], hot.used > 700) == (2, 122, True)
    assert packed[1:] == list(range(packed[1], 123))
    assert len(hot.dropped) == len(offered) - len(packed)


def order_of(budget: int, size: int = 20) -> list[int]:
    """Return the turns that the warm tier packs out of forty, with a budget in tokens for turns of
    `size`.
    """
    offered = [candidate(turn + 1, A_TOKEN * size, turn=turn) for turn in range(1, 41)]
    offered = [
        replace(it, summary="Of stones." if it.message.turn_number in (7, 12) else "")
        for it in offered
    ]
    return [it.message.turn_number for it in pack_warm(offered, budget, 0, Preference(1)).packed]


def test_the_newest_turns_come_first_then_the_first_and_summaries_of_older_ones() -> None:
    assert order_of(80) == [1, 12, 39, 40]
    assert order_of(160) == [1, 7, 12, 36, 37, 38, 39, 40]
    assert order_of(320) == [1, 7, 12, *range(28, 41)]
    assert order_of(800) == list(range(1, 41))


def test_a_last_turn_that_is_longer_than_its_share_is_shortened_to_what_others_leave() -> None:
    offered = [
        candidate(turn + 1, f"{A_TOKEN} " * 1000 if turn == 9 else A_TOKEN * 10, turn=turn)
        for turn in range(1, 10)
    ]
    packed = pack_warm(offered, 1000, 0, Preference(1)).packed
    assert packed[-1].is_excerpt
    assert 900 < sum(it.tokens for it in packed) <= 1000
    assert len(packed) == 9


def test_messages_are_recalled_in_their_order_and_a_shorter_one_still_fits() -> None:
    long, short = [candidate(2, A_TOKEN * 90)], [candidate(4, A_TOKEN * 5)]
    packed = packed_cold([long, short], 100)
    assert sequences(packed.packed) == [4]
    assert [it.sequence for it in packed.dropped] == [2]
    assert packed.used == 5 + packed.reserved
    assert sequences(packed_cold([long, short], 300).packed) == [2, 4]


def test_the_source_of_a_message_that_cannot_fit_is_not_priced() -> None:
    class PriceCounter(Form):
        priced = 0

        def source(self, source: Source) -> int:
            self.priced += 1
            return super().source(source)

    long = [[candidate(at, A_TOKEN * 500)] for at in range(10, 40)]
    form = PriceCounter()
    packed, _ = pack_cold(
        Past([[candidate(2, "x")], *long], about=ABOUT), 80, "", form, frozenset()
    )
    assert sequences(packed.packed) == [2]
    assert len(packed.dropped) == len(long)
    assert form.priced <= 2  # with its abbreviation and without


def test_what_is_shown_elsewhere_is_not_recalled() -> None:
    units = [[candidate(at, A_TOKEN)] for at in (2, 4)]
    past = Past(units, about=ABOUT)
    packed, about = pack_cold(past, 300, HERE, Form(), frozenset([(HERE, 2)]))
    assert (sequences(packed.packed), packed.dropped, [*about]) == ([4], [], [HERE])


def test_a_source_has_the_summary_of_a_turn_that_does_not_fit() -> None:
    first, second = (
        replace(candidate(at, A_TOKEN * 500, turn=1), summary="Of stones.") for at in (2, 3)
    )
    [short] = packed_cold([[first], [second]], 100).packed
    assert (short.message.content, short.is_summary) == ("(Summary of this turn) Of stones.", True)


def test_an_abbreviation_is_recalled_whole_or_not_at_all() -> None:
    past = Past([[candidate(2, "x")]], about=ABOUT)
    for budget, text in ((80, "About zebras."), (40, "")):
        packed, about = pack_cold(past, budget, "", Form(), frozenset())
        assert about[HERE].abbreviation == text
        assert packed.used <= budget


def test_a_conversation_whose_messages_do_not_fit_brings_nothing() -> None:
    units = [[candidate(2, "x", conversation=THERE)], [candidate(4, A_TOKEN * 500)]]
    packed, about = pack_cold(Past(units, about=ABOUT), 200, "", Form(), frozenset())
    alone, _ = pack_cold(Past(units[:1], about=ABOUT), 200, "", Form(), frozenset())
    assert [*about] == [THERE]
    assert packed.used == alone.used


def test_sources_are_chronological_and_their_messages_in_reading_order() -> None:
    mixed = [
        candidate(at, "x", conversation=there) for at in (300, 4, 3, 200) for there in (THERE, HERE)
    ]
    sources = Sources(ABOUT, HERE).of(mixed)
    assert [it.times[0] for it in sources] == sorted(it.times[0] for it in sources)
    assert [
        [it.message.sequence for it in source.messages] for source in sources if source.is_own
    ] == [[3, 4], [200], [300]]
    assert [source.turns for source in sources if not source.is_own] == [
        (3, 4),
        (200, 200),
        (300, 300),
    ]


def test_a_conversation_brings_its_abbreviation_once_and_the_one_that_goes_on_none() -> None:
    mixed = [candidate(at, "x") for at in (3, 300)]
    assert [it.abbreviation for it in Sources(ABOUT).of(mixed)] == ["About zebras.", ""]
    assert [it.abbreviation for it in Sources(ABOUT, HERE).of(mixed)] == ["", ""]


def test_turns_on_different_days_are_two_sources() -> None:
    first, second = candidate(2), candidate(3)
    later = replace(
        second, message=replace(second.message, timestamp=second.message.timestamp + DAY)
    )
    assert len(Sources(ABOUT).of([first, later])) == 2
    assert len(Sources(ABOUT).of([first, second])) == 1


@pytest.mark.parametrize(
    ("given_", "settled"),
    [
        (Budget(), Limits(1500, 2000, 900, 4400)),
        (Budget(total=500), Limits(250, 50, 200, 500, 62)),
        (Budget(total=2000), Limits(400, 320, 1280, 2000, 250)),
        (Budget(total=4399), Limits(1499, 1999, 901, 4399)),
        (Budget(hot=100), Limits(100, 2000, 900, 4400)),
        (Budget(hot=100, total=50), Limits(50, 22, 11, 50, 6)),
        (Budget(5000, 5000, 5000), Limits(5000, 5000, 5000, 15000)),
        (Budget(warm=0, cold=0, profile=0), Limits(1500, 0, 0, 4400, 0)),
    ],
)
def test_budgets_have_defaults(given_: Budget, settled: Limits) -> None:
    assert given_.settled(USUAL_BUDGET) == settled


def test_overlap_is_the_share_of_the_words_that_say_something() -> None:
    question = words_of("When do the disks fill up?")
    assert overlap(question, "The disks fill") == pytest.approx(2 / len(question))
    assert overlap(words_of("北京大学"), "我在北京大学读书") > overlap(words_of("北京大学"), "上海")
    assert overlap(frozenset(), "anything") == 0


@each(
    "message", ["Hi!", "hello there", "Thanks a lot"[:6], "ok, great", "Guten Morgen!", "yes", "👋"]
)
def test_small_talk_says_little(message: str) -> None:
    assert says_little(message)


@pytest.mark.parametrize(
    "message", ["Hi, why is the disk full?", "yes, delete the logs", "Paris", "北京"]
)
def test_what_asks_something_says_more(message: str) -> None:
    assert not says_little(message)


@each(
    "message",
    [
        "What is my name?",
        "Wie heißt meine Schwester?",
        "¿Cómo me llamo?",
        "Quel est mon prénom ?",
        "Come mi chiamo?",
        "私の名前は何ですか？",
        "내 이름이 뭐야?",
        "Jak ma na imię moja siostra?",
        "Qual é o meu nome?",
        "Как меня зовут?",
        "告诉我我的生日。",
    ],
)
def test_a_question_of_the_asker_is_known_in_eleven_languages(message: str) -> None:
    assert speaks_of_asker(message)


@each(
    "message",
    [
        "Tell me a joke.",
        "Erzähl mir einen Witz.",
        "Cuéntame un chiste.",
        "Raconte-moi une blague.",
        "Raccontami una barzelletta.",
        "面白い話をしてください。",
        "이 문제를 풀어 줘.",
        "Opowiedz jakiś dowcip.",
        "Conta uma piada.",
        "Расскажи мне анекдот.",
        "给我讲个笑话吧。",
    ],
)
def test_who_wants_to_be_told_something_does_not_ask_of_himself(message: str) -> None:
    assert not speaks_of_asker(message)
