"""Recall of BuildContext through the running server: of this conversation and of others, by whole
turns and by source.
"""

from typing import Any

import pytest
from recollect.v1 import channel_service_pb2 as channel_api
from recollect.v1 import context_pb2
from recollect.v1 import conversation_service_pb2 as conversation_api
from recollect.v1.channel_pb2 import CliOrigin
from recollect.v1.channel_service_pb2_grpc import ChannelServiceStub
from recollect.v1.conversation_pb2 import Party
from recollect.v1.message_pb2 import Message, ToolCall
from recollect_server.context.following import question_of
from recollect_server.kernel.domain.message import Message as DomainMessage
from recollect_server.kernel.domain.message import Role

from tests.conftest import MovableClock, Start
from tests.context.conftest import COLD, allocation, built, places, said
from tests.server.conftest import Connect, Service, agent, tool, user

HOUR = 3_600_000


def long_conversation(service: Service, turns: int, special: int) -> str:
    """Return a conversation with one turn about a zebra among turns about other things."""
    here = service.create().id
    messages = []
    for turn in range(1, turns + 1):
        if turn == special:
            messages += [user("Our zebra is called Ottokar."), agent("A fine name for a zebra.")]
        else:
            messages += [user(f"Note item {turn}, please."), agent(f"Noted as entry {turn}.")]
    for start in range(0, len(messages), 500):
        service.append(here, *messages[start : start + 500])
    return here


@pytest.mark.parametrize("compressed", [0, 380])
def test_an_old_turn_of_the_conversation_itself_is_recalled_whole(
    service: Service, compressed: int
) -> None:
    here = long_conversation(service, 400, 140)
    if compressed:
        service.compress(here, compressed, "They noted many items.")
    answer = built(
        service, here, "What is the zebra called?", format=context_pb2.CONTEXT_FORMAT_XML
    )
    assert said(answer.cold)[:2] == ["Our zebra is called Ottokar.", "A fine name for a zebra."]
    zebra = answer.cold[0].message.sequence
    [source] = [it for it in answer.sources if zebra in it.sequences]
    assert source.turn_range.first <= 140 <= source.turn_range.last
    assert (source.conversation_id, source.abbreviation) == (here, "")
    assert source.tokens == 20  # a date and turns, no id and no title
    assert 'place="earlier in this conversation"' in answer.rendered
    shown = [it.message.sequence for it in (*answer.hot, *answer.warm, *answer.cold)]
    assert len(shown) == len(set(shown))
    assert answer.condensed_messages == 2 * compressed
    assert ("760 earlier messages condensed" in answer.rendered) == bool(compressed)


def test_what_was_said_later_of_the_same_is_recalled_with_it(service: Service) -> None:
    there = service.create().id
    dates = (
        "My dentist appointment is on 14 March.",
        "The dentist moved my appointment to 21 March.",
        "The dentist's office called again, it is 28 March now.",
    )
    for text in dates:
        service.append(there, user(text), agent("Noted."))
        for number in range(9):
            service.append(there, user(f"Convert {number} cups."), agent(f"{number} times 240 ml."))
    question, here = "When is my dentist appointment?", service.create().id
    service.conversation_of(*(f"Note item {number}, please." for number in range(500)))
    for form, mark in (
        (context_pb2.CONTEXT_FORMAT_XML, 'later="true"'),
        (context_pb2.CONTEXT_FORMAT_OPENAI_MESSAGES, 'later=\\"true\\"'),
        (context_pb2.CONTEXT_FORMAT_ANTHROPIC_MESSAGES, 'later=\\"true\\"'),
        (context_pb2.CONTEXT_FORMAT_RECALL_BLOCK, "(later) "),
    ):
        answer = built(service, here, question, format=form)
        places = [answer.rendered.index(text.split(",")[0]) for text in dates]
        assert places == sorted(places)
        assert answer.rendered[: places[0]].count(mark) == 0
        assert answer.rendered.count(mark) == 2  # the newest last
        assert {it.message.content for it in answer.cold if it.is_later} == {*dates[1:]}


def test_what_is_left_of_a_budget_holds_what_stands_around_a_hit(service: Service) -> None:
    there = service.create().id
    service.append(there, user("Which museum shall we see in Basel?"), agent("Noted."))
    service.append(there, user("The boiler needs a new valve."), agent("I see."))
    service.append(there, user("Tinguely it is, on Sunday."), agent("Have fun."))
    service.conversation_of(*(f"Note item {number}, please." for number in range(900)))
    here = service.create().id
    answer = built(service, here, "Which museum in Basel did we choose?")
    [first, *around] = answer.cold
    assert first.message.content == "Which museum shall we see in Basel?"
    assert "Tinguely it is, on Sunday." in [it.message.content for it in around]
    assert {it.conversation_id for it in answer.cold} == {there}
    # nothing around a hit takes the place of another hit, nor is it given where a caller wants less
    service.conversation_of("The museum in Basel is closed on Mondays.")
    small = built(service, here, "Which museum in Basel did we choose?", total=90)
    assert {"museum" in it.message.content for it in small.cold} == {True}
    likely = built(service, here, "Which museum in Basel?", recall=context_pb2.RECALL_DIAL_LIKELY)
    assert all("museum" in it.message.content for it in likely.cold)


def test_nothing_is_marked_as_later_for_a_word_by_chance(service: Service) -> None:
    there = service.create().id
    for text in (
        "Melanie's appointment is on 14 March.",
        "Is her appointment far from the station?",
        "At the market I met Tom, who sells cheese, honey, bread, candles and baskets, had no other"
        " appointment, hummed an old tune and wrapped five pears in blue paper.",
        "Melanie sings.",
    ):
        service.append(there, user(text, sender="Melanie"), agent("Noted."))
    service.conversation_of(*(f"Note item {number}, please." for number in range(500)))
    answer = built(service, service.create().id, "When is the appointment of Melanie?")
    assert len([it for it in answer.cold if it.message.sender]) == 4
    assert not any(it.is_later for it in answer.cold)


def test_that_a_question_was_asked_before_is_no_answer_to_it(service: Service) -> None:
    service.append(service.create().id, user("My blood type is AB negative."), agent("Noted."))
    question = "What is my blood type?"
    for _ in range(3):
        there = service.create().id
        service.append(there, user(question), agent("I don't know that. You have not said so."))
    donor = service.create().id
    service.append(donor, user(question), agent("Your donor card said AB."))
    service.append(donor, user("Please, what is my blood type?"), agent("I don't know."))
    service.conversation_of(*(f"Note item {number}, please." for number in range(500)))
    recalled = said(built(service, service.create().id, f"{question} ", total=1000).cold)
    assert {"My blood type is AB negative.", question, "Your donor card said AB."} <= {*recalled}
    assert recalled.count(question) == 1
    assert "I don't know that. You have not said so." not in recalled


def test_a_question_that_leans_on_the_one_before_is_looked_for_with_it(service: Service) -> None:
    service.conversation_of("In 2015 I spent October in Kyoto with my sister.")
    service.conversation_of("We met in 2019, that was nice.")
    service.conversation_of(*(f"Note item {number}, please." for number in range(500)))
    here = service.create().id
    service.append(here, user("Where did I travel with my sister?"), agent("To Kyoto, with her."))
    said_then = "In 2015 I spent October in Kyoto with my sister."
    assert said(built(service, here, "When was that?").cold)[0] == said_then
    rewritten = built(service, here, "And?", query="When did I visit Kyoto?")
    assert said(rewritten.cold)[0] == said_then
    service.append(here, user("When was that?"))  # which is answered where no message is given
    appended = built(service, here, format=context_pb2.CONTEXT_FORMAT_OPENAI_MESSAGES)
    assert said(appended.cold)[0] == said_then
    assert appended.rendered.count("When was that?") == 1


def test_a_question_that_leans_on_a_long_message_is_looked_for_with_its_end() -> None:
    end = "Where did I travel with my sister?"
    question = question_of(
        "When was that?", [DomainMessage(Role.USER, f"Begin. {'zebra ' * 200}{end}", 0)]
    )
    assert question.startswith("zebra zebra ")
    assert question.endswith(f"{end}\nWhen was that?")
    assert len(question) <= 320
    short = question_of("When was that?", [DomainMessage(Role.USER, end, 0)])
    assert short == f"{end}\nWhen was that?"


@pytest.mark.parametrize(
    ("message", "end"),
    [
        pytest.param(f"{'云南旅行' * 100}预算 3000 元", f"{'云南旅行' * 73}预算 3000 元"[-300:], id="Chinese"),
        pytest.param(f"https://example.com/{'a' * 400} ok", f"{'a' * 297} ok", id="address"),
        pytest.param(f"{'x ' * 99}{'zebra ' * 50}\n\n", f"{'zebra ' * 50}"[:-1], id="at a word"),
        pytest.param(f"{'zebra' * 9}\n{'otter' * 57} ok", f"{'otter' * 57} ok", id="line"),
        pytest.param("\U0001f468\u200d\U0001f469" * 150 + "x", "\U0001f468\u200d\U0001f469" * 99 + "x", id="emoji"),
        pytest.param("x" + "\U0001f1e6\U0001f1f9" * 160 + "x", "\U0001f1e6\U0001f1f9" * 149 + "x", id="flags"),
        pytest.param("xe\u0301" + "e\u0301" * 160 + "x", "e\u0301" * 149 + "x", id="accents"),
        pytest.param("\U0001f44d\U0001f3fd" * 160 + "x", "\U0001f44d\U0001f3fd" * 149 + "x", id="skin"),
    ],
)  # fmt: skip
def test_the_end_of_a_long_message_is_cut_before_a_word_or_a_character(
    message: str, end: str
) -> None:
    question = question_of("When was that?", [DomainMessage(Role.USER, message, 0)])
    assert question == f"{end}\nWhen was that?"


def test_what_the_context_shows_already_is_not_recalled(service: Service) -> None:
    here = service.create().id
    service.append(here, user("Our zebra is called Ottokar."), agent("A fine name."))
    answer = built(service, here, "What is the zebra called?")
    assert (said(answer.hot), said(answer.cold), list(answer.sources)) == (
        ["Our zebra is called Ottokar.", "A fine name."],
        [],
        [],
    )


def test_a_turn_that_forks_have_copies_of_is_in_a_context_once(service: Service) -> None:
    first = long_conversation(service, 40, 20)
    fork = service.conversations.Fork(conversation_api.ForkRequest(conversation_id=first))
    second = fork.conversation.id
    fork = service.conversations.Fork(
        conversation_api.ForkRequest(conversation_id=second, through_turn=30)
    )
    third, elsewhere = fork.conversation.id, service.create().id
    for name in (first, second, third, elsewhere):
        service.append(name, user(f"We go on with {name}."), agent("Good."))
        answer = built(service, name, "What is the zebra called?")
        texts = said((*answer.hot, *answer.warm, *answer.cold))
        assert texts.count("Our zebra is called Ottokar.") == 1
        assert texts.count("Note item 7, please.") <= 1
        # What a conversation has itself is not recalled from a copy.
        zebras = [it for it in answer.cold if "zebra" in it.message.content]
        assert name == elsewhere or {it.conversation_id for it in zebras} <= {name}


def test_a_turn_is_in_a_context_once_though_a_fork_between_its_copies_is_deleted(
    service: Service,
) -> None:
    first = long_conversation(service, 40, 20)
    fork = service.conversations.Fork(conversation_api.ForkRequest(conversation_id=first))
    second = fork.conversation.id
    fork = service.conversations.Fork(conversation_api.ForkRequest(conversation_id=second))
    third, elsewhere = fork.conversation.id, service.create().id
    service.delete(second)
    for name in (first, third, elsewhere):
        service.append(name, user(f"We go on with {name}."), agent("Good."))
        answer = built(service, name, "What is the zebra called?")
        texts = said((*answer.hot, *answer.warm, *answer.cold))
        assert texts.count("Our zebra is called Ottokar.") == 1


def test_what_a_fork_went_on_with_is_recalled_beside_its_origin(service: Service) -> None:
    first = long_conversation(service, 40, 20)
    fork = service.conversations.Fork(conversation_api.ForkRequest(conversation_id=first))
    second = fork.conversation.id
    service.append(second, user("The zebra Ottokar moved to Lisbon."), agent("Noted."))
    service.append(first, user("Note item 41, please."), agent("Noted as entry 41."))
    answer = built(service, first, "Where did the zebra Ottokar move?")
    assert "The zebra Ottokar moved to Lisbon." in said(answer.cold)


def test_what_makes_room_for_recall_can_be_recalled(start_server: Start, connect: Connect) -> None:
    service = connect(start_server(embedder="off"))
    here = service.create().id
    filling = "It rained all day and the children stayed inside to play with their trains. "
    for turn in range(1, 10):
        zebra = user(f"The zebra of the circus {turn} eats hay. {4 * filling}")
        service.append(here, zebra, agent("A zebra likes hay."))
    for turn in range(10, 31):
        answer = 6 * filling if turn == 13 else f"Noted as entry {turn}. {filling}"
        text = "Our zebra is called Ottokar." if turn == 13 else f"Note item {turn}, please."
        service.append(here, user(text), agent(answer))
    service.compress(here, 10, "They spoke of the circus.")
    for total in (800, 1000, 1200, 1600):
        shown = built(service, here, "What is our zebra called?", total=total)
        texts = said([*shown.hot, *shown.warm, *shown.cold])
        assert texts.count("Our zebra is called Ottokar.") == 1, total


def test_a_long_message_is_excerpted_around_the_words_of_the_question(service: Service) -> None:
    there = service.create().id
    filling = "It rained again and nothing happened all day long. "
    long = filling * 200 + "The zebra Ottokar moved to Ghent. " + filling * 200
    service.append(there, user("Tell me all."), agent(long))
    answer = built(
        service, service.conversation_of("Hello you."), "Where did the zebra Ottokar move?"
    )
    [excerpt] = [it for it in answer.cold if it.is_excerpt]
    assert "The zebra Ottokar moved to Ghent." in excerpt.message.content
    assert (excerpt.message.content[0], excerpt.message.content[-1]) == ("…", "…")
    assert excerpt.tokens <= 310


def test_a_recalled_conversation_brings_its_title_and_its_abbreviation_once(
    service: Service,
) -> None:
    there = service.create().id
    service.append(
        there,
        user("Our zebra is called Ottokar."),
        agent("Fine."),
        user("The zebra eats hay."),
        agent("As they do."),
    )
    service.rename(there, "The zebra")
    service.abbreviate(there, "They spoke of a zebra.")
    here = service.conversation_of("Hello you.")
    answer = built(
        service, here, "What does the zebra Ottokar eat?", format=context_pb2.CONTEXT_FORMAT_XML
    )
    assert answer.rendered.count("<session_summary>They spoke of a zebra.</session_summary>") == 1
    assert answer.rendered.count('title="The zebra"') == 1
    assert sum(each.used for each in answer.allocation) <= 4400


@pytest.mark.parametrize(
    ("form", "title"),
    [
        (context_pb2.CONTEXT_FORMAT_XML, 'title="'),
        (context_pb2.CONTEXT_FORMAT_RECALL_BLOCK, '"Our zebra Ottokar'),
    ],
)
def test_what_a_recalled_message_says_is_not_said_again_by_its_title_and_abbreviation(
    service: Service, form: context_pb2.ContextFormat, title: str
) -> None:
    said_there = (
        "Our zebra Ottokar eats hay, carrots and the leaves of the old apple tree every day."
    )
    there = service.create().id
    service.append(there, user(said_there), agent("A fine diet."), user("So long."), agent("Bye."))
    here = service.conversation_of("Hello you.")

    def rendered(abbreviation: str) -> str:
        service.abbreviate(there, abbreviation)
        answer = built(service, here, "What does the zebra Ottokar eat?", format=form)
        assert {it.title for it in answer.sources} == {
            "Our zebra Ottokar eats hay, carrots and the leaves of the old…"
        }
        assert answer.rendered.count(said_there) == 1
        assert title not in answer.rendered
        return answer.rendered

    assert "summary" not in rendered(f"User: {said_there}")
    assert "Agent: They then spoke of hay." in rendered(
        f"User: {said_there} Agent: They then spoke of hay."
    )


def test_an_abbreviation_names_one_speaker_of_a_sentence_though_another_one_is_shown(
    service: Service,
) -> None:
    diet = "The zebra Ottokar eats hay, carrots and the leaves of the old apple tree every day."
    there = service.create().id
    service.append(there, user(diet, sender="Tim"), agent("A fine diet."))
    for _ in range(8):
        service.append(there, user("Hello all.", sender="Mary"), agent("Fine."))
    service.append(there, user("I know a vet in town.", sender="John"))
    service.abbreviate(there, f"Tim: {diet} John: I know a vet in town.")
    here = service.conversation_of("Hello you.")
    form = context_pb2.CONTEXT_FORMAT_XML
    text = built(service, here, "What does the zebra Ottokar eat?", format=form, total=200).rendered
    assert diet in text
    assert "<session_summary>John: I know a vet in town.</session_summary>" in text


def test_a_new_conversation_has_the_abbreviation_of_the_one_before_it_on_its_channel(
    service: Service, clock: MovableClock
) -> None:
    there = service.conversation_of("The boat leaks.")
    service.abbreviate(there, "They spoke of a boat.")
    clock.move(HOUR)
    answer = built(
        service, service.create().id, "Hello!", format=context_pb2.CONTEXT_FORMAT_RECALL_BLOCK
    )
    [last] = answer.sources
    assert (last.conversation_id, last.is_last_conversation, list(last.sequences)) == (
        there,
        True,
        [],
    )
    assert "the conversation before this one" in answer.rendered
    assert "  summary: They spoke of a boat." in answer.rendered
    first = {"conversation_id": there, "turn_range": {"first": 1, "last": 1}}
    cases: list[tuple[dict[str, Any], int]] = [({"conversation_id": there}, 0), (first, 1)]
    for excluded, count in cases:  # its abbreviation is of all its turns
        new = service.create().id
        assert len(built(service, new, "Hello!", exclude=[excluded]).sources) == count
    later = service.conversation_of(*(f"turn {number}" for number in range(5)))
    assert not built(service, later, "Hello!").sources


def test_no_other_persons_conversation_and_none_of_long_ago_is_the_one_before(
    service: Service, clock: MovableClock
) -> None:
    def last(message: Message, answered: Message, pause: int, **places: Party) -> bool:
        """Return whether a conversation that began `pause` after another one has its notes."""
        clock.move(10 * HOUR)
        there = service.create("whatsapp", party=places.get("there")).id
        service.append(there, message)
        service.abbreviate(there, "They spoke of a boat.")
        clock.move(pause)
        later = service.create("whatsapp", party=places.get("here")).id
        service.append(later, answered)
        return [it.is_last_conversation for it in built(service, later, "Hello!").sources] == [True]

    def by(sender: str) -> Message:
        return user("Hello.", sender=sender)

    ann, bob, nobody = by("ann"), by("bob"), user("Hello.")
    of_ann, of_bob = Party(contact="ann"), Party(contact="bob")
    assert last(nobody, nobody, HOUR)
    assert not last(nobody, nobody, HOUR + 1)
    assert last(ann, ann, 1)
    assert not last(ann, bob, 1)
    assert not last(nobody, ann, 1)
    assert not last(ann, nobody, 1)
    assert last(nobody, nobody, 1, there=of_ann, here=of_ann)
    assert not last(nobody, nobody, 1, there=of_ann, here=of_bob)
    assert not last(nobody, nobody, 1, there=of_ann)
    assert not last(nobody, nobody, -1)  # that one goes on while this one has begun


def test_the_title_of_the_conversation_before_is_not_said_again_by_its_abbreviation(
    service: Service, clock: MovableClock
) -> None:
    there = service.conversation_of("The boat leaks.")
    service.rename(there, "The old boat at the quay leaks")
    service.abbreviate(there, "User: the old boat at the quay leaks. Agent: Call the yard.")
    clock.move(HOUR)
    here = service.create().id
    for form in (context_pb2.CONTEXT_FORMAT_RECALL_BLOCK, context_pb2.CONTEXT_FORMAT_XML):
        rendered = built(service, here, "Hello!", format=form).rendered
        assert "the conversation before this one" in rendered
        assert rendered.lower().count("the old boat at the quay leaks") == 1
    service.rename(there, "Repairs in the yard of Ghent")
    assert "Repairs in the yard of Ghent" in built(service, here, "Hello!", format=form).rendered


def test_what_ranks_first_has_the_longest_excerpts(start_server: Start, connect: Connect) -> None:
    service = connect(start_server(embedder="off"))
    filling = "It rained again and nothing happened all day long. "
    for number in range(5):
        zebra = f"The zebra Ottokar {number} moved to Ghent. "
        service.conversation_of(filling * 100 + zebra * (6 - number) + filling * 100)
    here = service.conversation_of("Hello you.")
    packed = built(service, here, "Where did the zebra Ottokar move?", total=4000).cold
    assert all(250 < it.tokens <= 310 for it in packed[:3])
    assert all(50 < it.tokens <= 85 for it in packed[3:])
    assert len(packed) == 5


def test_an_excerpt_shows_the_word_that_is_rare_among_all_messages(
    start_server: Start, connect: Connect
) -> None:
    service = connect(start_server(embedder="off", excerpt_tokens=60))
    here = service.create().id
    for number in range(40):
        service.conversation_of(f"Mate, here is plan number {number}.")
    rain = "It rained and everybody stayed indoors all day. " * 12
    there = service.conversation_of(
        f"We can plan it again, mate. {rain}The Niyama resort has it. {rain}"
    )
    service.conversation_of(*(f"Note item {number}, please." for number in range(500)))
    answer = built(service, here, "Mate, what is the plan for Niyama?")
    [excerpt] = [it for it in answer.cold if it.conversation_id == there]
    assert excerpt.is_excerpt
    assert "Niyama" in excerpt.message.content


@pytest.mark.parametrize(
    ("opening", "title"),
    [
        (
            "A note of the old gardener about beasts, plants and all the other inhabitants of",
            "plants…",
        ),
        ("Abbas " * 20, "Abbas…"),
        ("園" * 100, "園…"),
    ],
)
def test_a_title_that_is_cut_ends_with_a_whole_word(
    service: Service, opening: str, title: str
) -> None:
    others = [f"Note item {number}, please." for number in range(200)]
    service.conversation_of(f"{opening} his garden.", *others, "The zebra Ottokar eats hay.")
    form, here = context_pb2.CONTEXT_FORMAT_XML, service.conversation_of("Hello you.")
    answer = built(service, here, "What does Ottokar eat?", format=form, total=300)
    assert "Ottokar eats hay" in answer.rendered
    assert f'{title}" date="' in answer.rendered


def test_a_short_rest_is_not_cut_off(start_server: Start, connect: Connect) -> None:
    service = connect(start_server(excerpt_tokens=600, embedder="off"))
    texts: dict[str, str] = {}
    for sentences in range(50, 80):
        text = f"The zebra Ottokar moved. It rained {sentences} times. " + "It rained. " * sentences
        texts[service.conversation_of(text)] = text
    here = service.conversation_of("Hello you.")
    answer = built(service, here, "Where did Ottokar move?", total=2000)
    lengths = {
        it.conversation_id: (it.is_excerpt, len(it.message.content), len(texts[it.conversation_id]))
        for it in answer.cold
    }
    assert len(lengths) > 5
    assert sum(is_excerpt for is_excerpt, _, _ in lengths.values()) > 2
    assert all(shown < 0.92 * whole for is_excerpt, shown, whole in lengths.values() if is_excerpt)


@pytest.mark.parametrize("total", [80, 300, 700])
def test_what_is_shown_is_not_named_as_left_out_and_nothing_is_named_twice(
    start_server: Start, connect: Connect, total: int
) -> None:
    service = connect(start_server(embedder="off"))
    tell_of_zebras(service)
    here = long_conversation(service, 40, 12)
    for question in ("What is our zebra of the circus called?", "Which item was entry 31?"):
        answer = built(service, here, question, total=total, explain=True)
        shown = places((*answer.hot, *answer.warm, *answer.cold))
        left_out = [(it.conversation_id, it.sequence) for it in answer.dropped]
        assert shown
        assert left_out
        assert not set(shown) & set(left_out)
        assert len(left_out) == len(set(left_out))


def test_a_message_that_is_recalled_for_its_turn_is_considered_once(
    start_server: Start, connect: Connect
) -> None:
    service = connect(start_server(embedder="off"))
    tell_of_zebras(service)
    here = service.conversation_of("Hello you.")
    answer = built(service, here, "What is our zebra of the circus called?", explain=True)
    low = [it for it in answer.dropped if it.tier == COLD]
    cold = allocation(answer, COLD)
    assert cold.packed == len(answer.cold) > 0
    assert cold.considered == cold.packed + len(low)


def tell_of_zebras(service: Service) -> None:
    """Store turns of which one message answers a question and others hardly have its words."""
    there = service.create().id
    for place, name in (("garden", "Ottokar"), ("park", "Emma"), ("circus", "Leo")):
        service.append(
            there,
            user(f"What is the zebra of the {place} called?"),
            agent("Let me see. " * 9, tool_calls=[ToolCall(id="call", name="look")]),
            tool("call", f"The zebra of the {place} is called {name}."),
            agent("Now you know, and the zebra does too."),
        )


def test_the_length_of_an_excerpt_is_a_setting(start_server: Start, connect: Connect) -> None:
    service = connect(start_server(excerpt_tokens=20, embedder="off"))
    for _ in range(4):
        service.conversation_of("The zebra of Ghent. " * 400)
    answer = built(service, service.conversation_of("Hello you."), "zebra of Ghent")
    assert all(it.is_excerpt and len(it.message.content) <= 80 for it in answer.cold)
    assert allocation(answer, COLD).packed == 4


def test_no_summary_of_the_conversation_before_follows_a_command(service: Service) -> None:
    receive = ChannelServiceStub(service.channel).Receive

    def sent(text: str) -> channel_api.ReceiveResponse:
        return receive(
            channel_api.ReceiveRequest(
                channel="cli", text=text, cli=CliOrigin(), provider_message_id=text
            )
        )

    there = sent("The boat leaks.").conversation.conversation.id
    service.abbreviate(there, "They spoke of a boat.")
    new = sent("/new").command_reply.conversation.id
    assert new != there
    for text in ("Hello", "Good morning"):
        assert not [it for it in built(service, new, "Hi!").sources if it.is_last_conversation]
        assert sent(text).conversation.conversation.id == new
