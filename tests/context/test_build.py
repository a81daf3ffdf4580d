"""BuildContext through the running server: which messages are hot, warm and cold, and what is said
of the others.
"""

import functools
import re
from random import Random
from typing import Any
from xml.etree import ElementTree

import orjson
import pytest
from recollect import Client
from recollect.v1 import context_pb2
from recollect.v1 import recall_service_pb2 as api
from recollect.v1.message_pb2 import ToolCall
from recollect_server.kernel.domain.message import estimate_tokens

from tests.anchors.conftest import set_anchor
from tests.conftest import RunningServer, Start
from tests.context.conftest import COLD, HERE, HOT, WARM, allocation, built, places, said
from tests.server.conftest import Connect, Service, agent, at_once, failure_of, tool, user

DAY = 86_400_000
XML = context_pb2.CONTEXT_FORMAT_XML
OPENAI = context_pb2.CONTEXT_FORMAT_OPENAI_MESSAGES
LIKELY, NONE = context_pb2.RECALL_DIAL_LIKELY, context_pb2.RECALL_DIAL_NONE


def test_the_last_five_turns_are_hot_and_the_earlier_ones_warm(service: Service) -> None:
    conversation = service.conversation_of(*(f"turn {number}" for number in range(1, 13)))
    answer = built(service, conversation, "What now?")
    assert said(answer.hot) == [f"turn {number}" for number in range(8, 13)]
    assert said(answer.warm) == [f"turn {number}" for number in range(1, 8)]
    assert (said(answer.cold), answer.rendered, list(answer.dropped)) == ([], "", [])
    assert [each.tier for each in answer.allocation] == [HOT, WARM, COLD]
    hot, warm, cold = answer.allocation
    assert (hot.budget, hot.considered, hot.packed, hot.used) == (
        1500,
        5,
        5,
        sum(it.tokens for it in answer.hot),
    )
    assert (warm.budget, warm.packed) == (4400 - hot.used, 7)  # nothing is recalled
    assert cold.note == ""


def test_how_many_turns_are_hot_and_looked_at_are_settings(
    start_server: Start, connect: Connect
) -> None:
    service = connect(start_server(context_hot_turns=7, context_warm_turns=10))
    conversation = service.conversation_of(*(f"turn {number}" for number in range(1, 201)))
    for _ in range(2):  # from the disk, then from memory
        answer = built(service, conversation)
        assert [it.message.turn_number for it in answer.hot] == list(range(194, 201))
        assert [it.message.turn_number for it in answer.warm][-2:] == [192, 193]
        assert len(answer.warm) <= 10 + 12  # the last ones, and evenly spaced ones


def test_the_budgets_of_a_call_that_gives_none_are_settings(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(context_hot_tokens=100, context_warm_tokens=60, context_cold_tokens=40)
    service = connect(server)
    conversation = service.create().id

    def budgets(**given: int) -> list[int]:
        answer = built(service, conversation, "turn", **given)
        return [allocation(answer, tier).budget for tier in (HOT, WARM, COLD)]

    assert budgets() == [100, 200, 200]  # what a tier leaves, others have
    assert budgets(total=400) == [200, 400, 400]
    with Client(server.target) as client:
        client.admin.set_setting("context_tokens", "150")
    assert budgets() == [75, 150, 150]


def test_an_empty_conversation_has_an_empty_context(service: Service) -> None:
    answer = built(service, service.create().id, "Hello, is there anything?")
    assert (said(answer.hot), said(answer.warm), said(answer.cold), list(answer.degraded)) == (
        [],
        [],
        [],
        [],
    )
    assert allocation(answer, WARM).note == "there are no earlier turns"


def test_hot_follows_appends_deletes_compressions_and_restarts(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation = service.conversation_of("one", "two")
    assert said(built(service, conversation).hot) == ["one", "two"]
    service.append(conversation, agent("and"))
    service.append(conversation, user("three"), agent("four"))
    assert said(built(service, conversation).hot) == ["one", "two", "and", "three", "four"]
    for number in range(9):
        service.append(conversation, user(f"more {number}"))
        assert said(built(service, conversation).hot)[-1] == f"more {number}"
    assert said(built(service, conversation).hot) == [f"more {number}" for number in range(4, 9)]
    service.compress(conversation, 10, "All of that.")
    assert said(built(service, conversation).hot) == ["more 7", "more 8"]
    server.stop()
    again = connect(start_server())
    assert said(built(again, conversation).hot) == ["more 7", "more 8"]
    again.delete(conversation)
    assert failure_of(lambda: built(again, conversation)).reason == "CONVERSATION_NOT_FOUND"


def test_whoever_builds_while_others_append_sees_all_that_was_acknowledged(
    service: Service,
) -> None:
    here = service.conversation_of("turn 0")
    acknowledged = [2]
    complete: list[bool] = []

    def call(caller: int) -> None:
        for number in range(25):
            if caller % 2:
                answer = service.append(here, user(f"turn {caller} {number}"))
                acknowledged.append(answer.messages[-1].sequence)
            else:
                newest = max(acknowledged)
                hot = [it.message.sequence for it in built(service, here).hot]
                complete.append(
                    hot[-1] >= newest
                    and hot == list(range(hot[0], hot[-1] + 1))
                    and len(hot) == min(5, hot[-1] - 1)
                )

    at_once(6, call)
    assert len(complete) == 75
    assert all(complete)


def test_what_a_summary_covers_is_stood_for_by_it(service: Service) -> None:
    conversation = service.conversation_of(*(f"turn {number}" for number in range(1, 21)))
    service.compress(conversation, 12, "They counted to twelve.")
    answer = built(service, conversation, "Go on counting.")
    assert answer.compression_summary == "They counted to twelve."
    assert said(answer.warm) + said(answer.hot) == [f"turn {number}" for number in range(13, 21)]
    assert "summary" in allocation(answer, WARM).note
    assert allocation(answer, WARM).used == sum(it.tokens for it in answer.warm) + 6


def test_a_summary_longer_than_the_budget_is_cut_to_it(service: Service) -> None:
    conversation = service.conversation_of("one", "two")
    service.compress(conversation, 1, "x" * 8000)
    answer = built(service, conversation, total=300)
    assert sum(each.used for each in answer.allocation) <= 300
    assert answer.compression_summary.endswith("…")
    assert "is cut to the budget" in allocation(answer, WARM).note


def test_of_a_long_conversation_the_first_turn_and_the_last_ones_are_warm(
    service: Service,
) -> None:
    conversation = service.conversation_of(*(f"turn {number}" for number in range(1, 201)))
    answer = built(service, conversation, "What now?", hot=100, warm=250)
    turns = [it.message.turn_number for it in answer.warm]
    assert turns == [1, *range(turns[1], 196)]
    assert 10 < len(turns) < 40
    assert answer.warm[0].reason == "the first turn"
    assert said(answer.hot) == [f"turn {number}" for number in range(196, 201)]
    # what is looked at follows the budget
    whole = built(service, conversation, "What now?")
    assert len([*whole.hot, *whole.warm]) == 200


def test_turns_stay_whole_and_in_order_where_long_answers_do_not_all_fit_the_hot_budget(
    service: Service,
) -> None:
    conversation = service.create().id
    for number in range(1, 4):
        service.append(
            conversation, user(f"Question {number}"), agent(f"Answer {number} " + "x" * 2700)
        )
    answer = built(service, conversation)
    assert [text.split(" x")[0] for text in said(answer.warm)] == ["Question 1", "Answer 1"]
    assert [text.split(" x")[0] for text in said(answer.hot)] == [
        "Question 2",
        "Answer 2",
        "Question 3",
        "Answer 3",
    ]


def test_a_very_long_answer_is_shortened_beside_the_users_words(service: Service) -> None:
    conversation = service.create().id
    service.append(conversation, user("Tell me about pangolins."), agent("pangolin " * 3000))
    service.append(conversation, user("Shorter, please."), agent("They eat ants."))
    answer = built(service, conversation)
    assert said(answer.hot) == ["Shorter, please.", "They eat ants."]
    question, long = said(answer.warm)
    assert question == "Tell me about pangolins."
    assert re.fullmatch(r"pangolin .*\n… \d+ tokens left out …\npangolin .*", long)
    assert (list(answer.dropped), answer.rendered_tokens <= 4400) == ([], True)


def test_a_long_newest_turn_hides_no_earlier_one_that_there_is_room_for(service: Service) -> None:
    conversation = service.conversation_of("the first turn", "the second turn", "word " * 240)
    answer = built(service, conversation, hot=305, warm=40, cold=5, total=350)
    assert said(answer.hot) == ["word " * 240]
    assert said(answer.warm) == ["the first turn", "the second turn"]


def test_the_newest_turn_takes_of_the_warm_budget_what_it_needs_to_be_whole(
    service: Service,
) -> None:
    conversation = service.create().id
    service.append(conversation, user("Tell me."), agent("ant " * 1800))
    answer = built(service, conversation)
    assert said(answer.hot) == ["Tell me.", "ant " * 1800]
    assert (allocation(answer, HOT).budget, allocation(answer, WARM).budget) == (1810, 4400 - 1810)
    set_by_caller = built(service, conversation, hot=500)
    assert allocation(set_by_caller, HOT).used <= 500
    assert said(set_by_caller.hot)[0] == "Tell me."
    assert "tokens left out" in said(set_by_caller.hot)[1]


CLAUSES = (
    "The tenant informs every person who lives in the flat about this rule of the house."
    " Costs that arise from this paragraph are listed in the yearly statement."
    " Any change of it requires the written consent of both parties."
    " It applies to the whole building, to the yard and to all of its common areas."
)
FORMATS = [
    context_pb2.CONTEXT_FORMAT_XML,
    context_pb2.CONTEXT_FORMAT_OPENAI_MESSAGES,
    context_pb2.CONTEXT_FORMAT_ANTHROPIC_MESSAGES,
    context_pb2.CONTEXT_FORMAT_RECALL_BLOCK,
]


def lease(facts: dict[int, str]) -> str:
    """Return a document of some 3,000 words, with facts in some of its paragraphs."""
    return "Lease of the flat at Lindenallee 14.\n\n" + "\n\n".join(
        f"Paragraph {at}. {CLAUSES} {facts.get(at, '')}" for at in range(1, 56)
    )


@pytest.mark.parametrize("later", [0, 2, 9], ids=["last turn", "two turns later", "nine later"])
@pytest.mark.parametrize("total", [1000, 2000, 4400])
def test_a_long_message_is_shortened_around_what_is_asked_of_it(
    service: Service, later: int, total: int
) -> None:
    facts = {
        19: "The notice period of the tenant is eleven weeks.",
        28: "A room may be sublet for 95 days.",
        37: "The rent rises by 1.7 percent every second January.",
    }
    questions = {
        19: "What notice period does the tenant have?",
        28: "For how many days may I sublet a room?",
        37: "By how much does the rent rise?",
    }
    here = service.create().id
    document = service.turn(here, lease(facts), "I have read it.").messages[0].sequence
    for number in range(later):
        service.turn(here, f"Where is harbour {number}?", "At the sea, beside the old mill. " * 6)
    for at, question in questions.items():
        for form in (context_pb2.CONTEXT_FORMAT_UNSPECIFIED, *FORMATS):
            answer = built(service, here, question, total=total, format=form)
            shown = [*answer.hot, *answer.warm, *answer.cold]
            [excerpt] = [it for it in shown if it.message.sequence == document]
            assert excerpt.is_excerpt == ("…" in excerpt.message.content)
            assert excerpt.message.content.count(facts[at]) == 1
            assert answer.rendered_tokens <= total


@pytest.mark.parametrize("total", [800, 2000, 4000])
def test_what_one_tier_leaves_a_turn_that_was_shortened_has(service: Service, total: int) -> None:
    for later in (0, 1):
        here = service.create().id
        service.turn(here, "What does the lease say?", lease({}))
        for _ in range(later):
            service.turn(here, "Thank you.", "You're welcome.")
        for form in (context_pb2.CONTEXT_FORMAT_UNSPECIFIED, *FORMATS):
            answer = built(service, here, "Write a poem.", total=total, format=form)
            assert not answer.cold
            charged = sum(it.used for it in answer.allocation)
            assert total - 200 < charged <= total, (later, form)
    limited = built(service, here, "Write a poem.", hot=200, total=total)
    assert allocation(limited, HOT).used <= 200


def test_a_passage_that_head_or_tail_show_is_not_shown_twice(service: Service) -> None:
    here = service.create().id
    service.turn(here, lease({1: "The zebra eats hay.", 55: "It sleeps in the cellar."}))
    plain = [said(built(service, here, text).hot) for text in ("", "Who is the bassoonist?")]
    assert plain[0] == plain[1]
    for question in ("What does the zebra eat?", "Where does it sleep, in the cellar?"):
        assert said(built(service, here, question).hot) == plain[0]


def test_an_oversized_tool_result_is_shortened_with_its_call(service: Service) -> None:
    conversation = service.create().id
    call = ToolCall(id="c", name="df", arguments="{}")
    service.append(
        conversation,
        user("Look."),
        agent("", tool_calls=[call]),
        tool("c", "x" * 20_000),
        agent("It is full."),
    )
    answer = built(service, conversation)
    assert [it.message.sequence for it in answer.hot] == [2, 3, 4, 5]
    assert "tokens left out" in said(answer.hot)[2]
    assert not answer.dropped


def test_calls_of_one_id_in_a_turn_keep_their_results_under_ids_of_their_own(
    service: Service,
) -> None:
    here = service.create().id
    calls_made = [ToolCall(id="c", name="look", arguments=f'{{"at": {at}}}') for at in (1, 2, 3)]
    service.append(here, user("Look."), agent("", tool_calls=calls_made[:1]))
    waiting = failure_of(lambda: service.append(here, agent("", tool_calls=calls_made[1:2])))
    assert waiting.fields == ("messages[0].tool_calls[0].id",)
    service.append(here, tool("c", "found 1"))
    for at, call in enumerate(calls_made[1:], start=2):
        service.append(here, agent("", tool_calls=[call]), tool("c", f"found {at}"))
    service.append(here, agent("That is all."))
    answer = built(service, here, format=context_pb2.CONTEXT_FORMAT_OPENAI_MESSAGES)
    results = {
        it["tool_call_id"]: it["content"]
        for it in orjson.loads(answer.rendered)[2:]
        if it["role"] == "tool"
    }
    calls = {
        call["id"]: call["function"]["arguments"]
        for it in orjson.loads(answer.rendered)
        for call in it.get("tool_calls", ())
    }
    assert [(json[-2], results[id_]) for id_, json in calls.items()] == [
        (str(at), f"found {at}") for at in (1, 2, 3)
    ]
    xml = built(service, here, format=context_pb2.CONTEXT_FORMAT_XML).rendered
    assert (xml.count("<call "), xml.count(" note="), xml.count(" result=")) == (3, 0, 0)


def test_a_call_without_a_result_stays_in_the_context_with_its_text(service: Service) -> None:
    conversation = service.create().id
    call = ToolCall(id="c", name="send_mail", arguments='{"to": "Alex"}')
    service.append(conversation, user("Write to Alex."), agent("I send it now.", tool_calls=[call]))
    for form in (
        context_pb2.CONTEXT_FORMAT_XML,
        context_pb2.CONTEXT_FORMAT_OPENAI_MESSAGES,
        context_pb2.CONTEXT_FORMAT_ANTHROPIC_MESSAGES,
    ):
        rendered = built(service, conversation, "Did you?", format=form).rendered
        assert "I send it now." in rendered
        assert "(called, no result yet)" in rendered
    block = built(
        service, conversation, "Did you?", format=context_pb2.CONTEXT_FORMAT_RECALL_BLOCK
    ).rendered
    assert (
        block
        == 'Tools called in this conversation that gave no result yet:\n- send_mail {"to": "Alex"}'
    )


SCRIPTS = [
    "The logs fill the disk, so rotate them. ",
    "日志把磁盘写满了，所以要轮转。",
    '🦓🦓 <b>&amp;</b> "quoted"\n\n',
    "x",
]


def test_what_is_rendered_stays_within_the_budget_in_every_form(service: Service) -> None:
    random = Random(17)  # noqa: S311 - the same conversations each time
    for number in range(6):
        service.conversation_of(f"logs disk {SCRIPTS[number % 4] * 30}", f"磁盘 {number}")
        set_anchor(service, f"key-{number}", SCRIPTS[number % 4] * 20)
    for _ in range(6):
        here = service.create().id
        for turn in range(random.choice([1, 3, 30])):
            script = random.choice(SCRIPTS)
            call = ToolCall(
                id=f"c{turn}",
                name="look",
                arguments='{"path": "%s"}' % ("y" * random.choice([3, 900])),
            )
            messages = [user(script * random.randint(1, 40)), agent("Looking", tool_calls=[call])]
            messages += (
                [tool(f"c{turn}", script * random.choice([1, 500]))]
                if random.random() < 0.8
                else []
            )
            service.append(here, *messages, agent(script * random.choice([1, 10, 400])))
        if random.random() < 0.5:
            service.append(here, user("Why do the logs fill the disk?"))
        for form in range(1, 6):
            for total in (100, 200, 1000, 4400):
                answer = built(
                    service, here, "Why do the logs fill the disk?", format=form, total=total
                )
                assert answer.rendered_tokens <= total
                if form > 1:
                    assert answer.rendered_tokens == estimate_tokens(answer.rendered)
                places = [it.message.sequence for it in (*answer.warm, *answer.hot)]
                assert places == sorted(places)
                assert answer.hot or total == 100, (form, total, here)
                if form in (2, 3, 4) and total == 4400:
                    assert answer.rendered_tokens > 0.8 * total or not answer.dropped


def test_all_that_is_stored_is_given_where_it_fits(service: Service) -> None:
    there = service.conversation_of("I'm allergic to peanuts.", "It rains.")
    here = service.conversation_of(*("zebra here" for _ in range(3)))
    service.conversation_of("Nothing of interest.")
    for message in ("What should I cook tonight?", "Where is the qwertyuiop?"):
        answer = built(service, here, message, format=XML)
        assert sorted(said(answer.cold)) == [
            "I'm allergic to peanuts.",
            "It rains.",
            "Nothing of interest.",
        ]
        assert answer.sources[0].conversation_id == there  # by time
        assert 'certainty="low"' not in answer.rendered
        everything = places([*answer.hot, *answer.warm, *answer.cold])
        assert len(everything) == len(set(everything))
    assert said(built(service, here, "What should I cook?", recall=NONE).cold) == []


def test_what_ranks_first_is_recalled_until_the_budget_is_used(service: Service) -> None:
    fill(service, 60)
    there = service.conversation_of("The zebra lives in Ghent.")
    here = service.conversation_of("Hello you.")
    answer = built(service, here, "Where does the zebra live?", total=600, format=XML)
    assert answer.cold[0].message.content == "The zebra lives in Ghent."
    assert "fits the message" in answer.cold[0].reason
    # what is unsure is given too, and says so
    unsure = built(service, here, "Which item came behind entry 7?", total=600, format=XML)
    assert 400 < unsure.rendered_tokens <= 600
    assert True in {it.is_unsure for it in unsure.sources}
    assert unsure.rendered.count('certainty="low"') == sum(it.is_unsure for it in unsure.sources)
    likely = built(service, here, "Where does the zebra live?", total=600, recall=LIKELY)
    assert {it.conversation_id for it in likely.cold} == {there}
    none = built(service, here, "Which item is on an entry of Oslo?", total=600, recall=LIKELY)
    assert said(none.cold) == []
    assert "nothing scores 0.3 or more" in allocation(none, COLD).note
    off = built(service, here, "Where does the zebra live?", total=600, recall=NONE)
    assert (said(off.cold), allocation(off, COLD).note) == (
        [],
        "not asked: the caller wants nothing recalled",
    )


def test_a_context_is_the_same_whatever_was_looked_at(service: Service) -> None:
    fill(service, 60)
    there = service.conversation_of("The zebra of the park lives in Ghent.")
    service.conversation_of("The zebra of the circus lives in Ghent.")
    here = service.conversation_of("Hello you.")
    question = "Which zebra lives in Ghent, and which item is on it?"
    first = built(service, here, question, total=600, format=XML)
    service.search("zebra park")
    service.recall.FetchContext(api.FetchContextRequest(conversation_id=there))
    assert built(service, here, question, total=600, format=XML) == first


def test_a_context_is_built_for_a_conversation_that_does_not_exist_yet(service: Service) -> None:
    service.conversation_of("The zebra lives in Ghent.")
    answer = built(service, "", "Where does the zebra live?", format=OPENAI)
    assert said(answer.cold) == ["The zebra lives in Ghent."]
    assert (said(answer.hot), said(answer.warm), list(answer.degraded)) == ([], [], [])
    assert orjson.loads(answer.rendered)[-1]["content"] == "Where does the zebra live?"
    failure = failure_of(lambda: built(service, ""))
    assert (failure.reason, failure.fields) == ("INVALID_FIELD", ("message",))


def test_a_tier_without_a_budget_has_nothing(service: Service) -> None:
    service.conversation_of("The zebra lives in Ghent.")
    here = service.conversation_of(*(f"turn {number}" for number in range(1, 13)))
    answer = built(service, here, "Where does the zebra live?", warm=0, cold=0)
    assert (len(answer.hot), said(answer.warm), said(answer.cold)) == (5, [], [])


def fill(service: Service, count: int) -> None:
    """Store more than a small budget holds."""
    for number in range(count):
        service.conversation_of(f"Note item {number}, please.", f"Noted as entry {number}.")


def test_the_own_conversation_does_not_stand_in_the_way_of_others(service: Service) -> None:
    there = service.conversation_of("The zebra lives in Ghent.")
    here = service.create().id
    service.append(here, *(user(f"zebra zebra zebra {number}") for number in range(300)))
    assert there in {
        it.conversation_id for it in built(service, here, "Where does the zebra live?").cold
    }


@pytest.mark.parametrize(
    ("message", "budget", "note"),
    [
        ("Hello!", {}, "not asked: the message is small talk"),
        ("thanks", {}, "not asked: the message is small talk"),
        ("Where is the zebra?", {"total": 10}, "which hold nothing"),
    ],
)
def test_cold_is_asked_only_when_it_can_help_and_says_why_not(
    service: Service, message: str, budget: dict[str, int], note: str
) -> None:
    service.conversation_of("The zebra lives in Ghent, hello, thanks.")
    here = service.conversation_of("hello there")
    answer = built(service, here, message, **budget)
    assert said(answer.cold) == []
    assert note in allocation(answer, COLD).note
    service.append(here, agent("Hi!"))
    note = "not asked: there is no message to answer"
    assert allocation(built(service, here), COLD).note == note


def test_unused_budget_is_handed_down_and_the_total_holds(service: Service) -> None:
    for number in range(60):
        service.conversation_of(f"The zebra of Ghent eats hay in garden {number}. " + "x" * 360)
    here = service.conversation_of("one")
    question = "Which garden does the zebra of Ghent eat hay in?"
    answer = built(service, here, question)
    assert allocation(answer, COLD).budget == 4400 - 5
    assert 3000 < sum(each.used for each in answer.allocation) <= 4400
    small = built(service, here, "zebra", total=500)
    assert (allocation(small, COLD).budget, sum(each.used for each in small.allocation) <= 500) == (
        495,
        True,
    )
    tight = built(service, here, "zebra", cold=100, warm=1, hot=1)
    assert allocation(tight, COLD).budget == 102


def test_of_very_many_anchors_the_surest_are_in_the_context(service: Service) -> None:
    for number in range(12):
        set_anchor(service, f"key{number}", "x" * 400, confidence=0.5)
    set_anchor(service, "name", "Alex", confidence=0.9)
    answer = built(service, service.conversation_of("one"))
    assert ("name" in [anchor.key for anchor in answer.anchors], len(answer.anchors)) == (True, 6)
    assert "anchors are left out: 7" in allocation(answer, WARM).note


def test_every_form_is_rendered(service: Service) -> None:
    there = service.conversation_of("The zebra lives in Ghent.")
    service.rename(there, "A <zebra>")
    set_anchor(service, "name", "Alex")
    here = service.create().id
    service.append(here, user("Hi"), agent("Hello!"))

    def rendered(form: int) -> str:
        return built(service, here, "Where does the zebra live?", format=form).rendered

    xml = rendered(context_pb2.CONTEXT_FORMAT_XML)
    assert 'title="A &lt;zebra&gt;"' in xml
    openai = orjson.loads(rendered(context_pb2.CONTEXT_FORMAT_OPENAI_MESSAGES))
    assert [it["role"] for it in openai] == ["system", "user", "assistant", "user"]
    assert "The zebra lives in Ghent." in openai[0]["content"]
    anthropic = orjson.loads(rendered(context_pb2.CONTEXT_FORMAT_ANTHROPIC_MESSAGES))
    assert [it["role"] for it in anthropic] == ["user", "assistant", "user"]
    block = rendered(context_pb2.CONTEXT_FORMAT_RECALL_BLOCK).splitlines()
    assert block[:2] == ["What is known about the user:", "- name: Alex"]
    assert block[3].endswith(f', "A <zebra>" ({there}), turn 1:')
    assert block[4] == "  user: The zebra lives in Ghent."
    assert rendered(context_pb2.CONTEXT_FORMAT_PARTS) == ""
    assert rendered(0) == xml


def test_a_system_prompt_tells_what_stands_in_each_form_and_never_changes(service: Service) -> None:
    there = service.conversation_of("The zebra lives in Ghent.")
    set_anchor(service, "name", "Alex")
    for form, names in {
        context_pb2.CONTEXT_FORMAT_UNSPECIFIED: ["`context`", "`recalled`", "`conversation`"],
        context_pb2.CONTEXT_FORMAT_XML: ["`context`", "`recalled`", "`conversation`"],
        context_pb2.CONTEXT_FORMAT_OPENAI_MESSAGES: ["`context`", "`recalled`"],
        context_pb2.CONTEXT_FORMAT_ANTHROPIC_MESSAGES: ["`context`", "`recalled`"],
        context_pb2.CONTEXT_FORMAT_RECALL_BLOCK: [
            '"What is known about the user:"',
            '"What was said before and may help"',
        ],
        context_pb2.CONTEXT_FORMAT_PARTS: [],
    }.items():
        answer = built(service, service.create().id, "Where does the zebra live?", format=form)
        prompt = answer.system_prompt
        assert prompt == built(service, there, format=form).system_prompt
        assert [
            it for it in names if it not in prompt or it.strip('`"') not in answer.rendered
        ] == []
        assert bool(prompt) == bool(names)


def test_a_question_of_the_asker_recalls_what_that_person_said(service: Service) -> None:
    there = service.create().id
    for name, day in (("Ben", "3 March"), ("Caroline", "9 April"), ("Ben", "12 June")):
        said_by = user(f"I adopted a puppy on {day}.", sender=name)
        service.append(there, said_by, agent("Congratulations!"))
    question = "When did I adopt a puppy?"
    here = service.create(participants=["Ben", "Caroline"]).id
    for name in ("Caroline", "Ben"):
        answer = built(service, here, question, sender=name, total=150, format=OPENAI)
        assert answer.cold[0].message.sender == name
        assert orjson.loads(answer.rendered)[-1]["content"] == f"{name}: {question}"
    service.append(here, user(question, sender="Caroline"))
    assert built(service, here, total=150, format=OPENAI).cold[0].message.sender == "Caroline"
    (alone,) = orjson.loads(
        built(service, service.create().id, "Hi", sender="Ben", format=OPENAI).rendered
    )
    assert alone["content"] == "Hi"


def test_a_caller_includes_and_excludes_turns_and_sources(service: Service) -> None:
    zoo = service.create().id
    for text in ("The zebra lives in Ghent.", "The ibex lives in Bern.", "The okapi is ill."):
        service.append(zoo, user(text), agent("Noted."))
    other = service.conversation_of("The zebra of the circus lives in Paris.")
    here = service.create().id
    for number in range(1, 9):
        service.append(here, user(f"Question {number}"), agent(f"Answer {number}"))
    new = service.create().id
    second = [{"conversation_id": zoo, "turn_range": {"first": 2, "last": 2}}]
    included = built(service, here, include=second)
    assert said(included.cold) == ["The ibex lives in Bern.", "Noted."]
    assert included.cold[0].reason == "the caller included it"
    assert [list(it.sequences) for it in included.sources] == [[4, 5]]
    answer = built(
        service,
        here,
        "Where does the zebra live?",
        include=second,
        exclude=[{"conversation_id": other}],
    )
    assert {it.conversation_id for it in answer.cold} == {zoo}
    assert said(answer.cold).count("The ibex lives in Bern.") == 1
    assert "The zebra lives in Ghent." in said(answer.cold)
    first = [{"conversation_id": zoo, "turn_range": {"first": 1, "last": 1}}]
    others = [*first, {"conversation_id": other}]
    without = built(service, here, "Is the zebra in Ghent?", exclude=others)
    assert not [it for it in said(without.cold) if "zebra" in it]
    both = built(service, here, include=second, exclude=[{"conversation_id": zoo}])
    assert said(both.cold) == []
    own = [
        {"conversation_id": here, "turn_range": {"first": first, "last": last}}
        for first, last in ((2, 3), (5, 8))
    ]
    cut = built(service, here, exclude=own, format=XML)
    assert {it.message.turn_number for it in (*cut.warm, *cut.hot)} == {1, 4}
    many = [{"conversation_id": service.conversation_of(f"Note {number}")} for number in range(10)]
    assert len(built(service, here, include=many).sources) == 10
    small = built(
        service, here, include=[{"conversation_id": zoo}], total=130, cold=110, format=XML
    )
    assert 0 < len(small.cold) < 6
    assert small.rendered_tokens <= 130
    assert {it.reason for it in small.dropped if it.conversation_id == zoo} != set()
    question, tight = "Where does the zebra live?", {"cold": 20, "hot": 20, "warm": 20}
    first_of_all = built(service, new, question, include=second, total=60, **tight)
    assert "The ibex lives in Bern." in said(first_of_all.cold)
    assert [it.reason for it in first_of_all.dropped] != []  # what is recalled gives way
    nowhere = built(service, here, include=[{"conversation_id": HERE}])
    assert said(nowhere.cold) == []
    cases: list[tuple[dict[str, Any], str]] = [
        ({"include": [{"conversation_id": "x"}]}, "include[0].conversation_id"),
        (
            {"exclude": [{"conversation_id": zoo, "turn_range": {"first": 3, "last": 2}}]},
            "exclude[0].turn_range.last",
        ),
        (
            {"include": [{"conversation_id": zoo, "turn_range": {"first": 1, "last": 201}}]},
            "include[0].turn_range",
        ),
        ({"sender": "a\nb"}, "sender"),
    ]
    for wrong, field in cases:
        failure = failure_of(functools.partial(built, service, here, **wrong))
        assert failure.fields == (field,)


def test_marks_say_tier_relevance_and_the_source_of_an_anchor(service: Service) -> None:
    there = service.conversation_of("The zebra lives in Ghent.")
    set_anchor(service, "home", "Ghent", (there, 2))
    here = service.create().id
    service.append(here, user("Hi"), agent("Hello!"))
    question = "Where does the zebra live?"
    plain = built(service, here, question, format=XML)
    answer = built(service, here, question, format=XML, marks=True)
    root = ElementTree.fromstring(answer.rendered)  # noqa: S314 - made here
    marked = [
        (it.get("tier", ""), float(it.get("relevance", ""))) for it in root.iter() if it.get("tier")
    ]
    packed = [("cold", it) for it in answer.cold] + [("hot", it) for it in answer.hot]
    assert marked == [(tier, round(it.relevance, 2)) for tier, it in packed]
    assert [it.get("source") for it in root.iter("anchor")] == [f"{there}:2"]
    assert "tier=" not in plain.rendered
    assert (
        answer.rendered_tokens - plain.rendered_tokens
        <= sum(it.used for it in answer.allocation) - sum(it.used for it in plain.allocation) + 12
    )
    openai = orjson.loads(built(service, here, question, format=OPENAI, marks=True).rendered)
    assert 'tier="cold"' in openai[0]["content"]
