"""The profile of a context: what users said of themselves and how they want to be answered, found
by the real models, through the running server.
"""

import functools
from contextlib import closing, suppress
from xml.etree import ElementTree

import apsw
import grpc
import orjson
import pytest
from recollect.v1 import context_pb2
from recollect.v1 import conversation_service_pb2 as conversation_api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect.v1.context_pb2 import ProfileStatement
from recollect_server.kernel.index.index import Index
from recollect_server.recall.embedding.statements import StatementFinder
from recollect_server.recall.embedding.texts import Text, TextReader

from tests.conftest import MovableClock, RunningServer, Start
from tests.context.conftest import built
from tests.server.conftest import Connect, Service, agent, failure_of, user
from tests.waiting import until, until_embedded

XML, RECALL = context_pb2.CONTEXT_FORMAT_XML, context_pb2.CONTEXT_FORMAT_RECALL_BLOCK
INSTRUCTION = context_pb2.STATEMENT_KIND_INSTRUCTION
TASKS = (
    "How does a heat pump work?",
    "Write three sentences about the Silk Road.",
    "Give me a checklist for a tax return.",
)

GERMAN_TASKS = (
    "Wie funktioniert eigentlich eine Wärmepumpe im Winter?",
    "Schreib mir bitte drei Sätze über die Seidenstraße.",
    "Welche Unterlagen brauche ich für die Steuererklärung?",
)


@pytest.fixture
def server(start_server: Start) -> RunningServer:
    return start_server(embedder="onnx")


@pytest.fixture
def service(server: RunningServer, connect: Connect) -> Service:
    return connect(server)


def texts(service: Service, **fields: object) -> list[str]:
    """Return the statements of a context for a conversation that does not exist yet."""
    answer = built(service, "", "What should I do tonight?", **fields)
    return [it.text for it in answer.profile]


def know(service: Service, server: RunningServer, *expected: str) -> None:
    """Wait until the profile has these statements."""
    until_embedded(service, server)
    until(lambda: {*expected} <= {*texts(service)})


@pytest.mark.parametrize(
    ("said_by_user", "statements"),
    [
        (
            "Hi, I'm Priya and I live in Leeds. Can you explain recursion?",
            ["Hi, I'm Priya and I live in Leeds."],
        ),
        (
            "Ich heiße Tobias und wohne in Erfurt. Wie spät ist es in Tokio?",
            ["Ich heiße Tobias und wohne in Erfurt."],
        ),
        ("我对海鲜过敏，住在苏州。请问法国的首都是哪里？", ["我对海鲜过敏，住在苏州。"]),
        (
            "From now on always answer me in French. What is a monad?",
            ["From now on always answer me in French."],
        ),
    ],
)
def test_what_a_user_says_of_themself_is_in_every_context(
    service: Service, server: RunningServer, said_by_user: str, statements: list[str]
) -> None:
    there = service.create().id
    service.append(there, user(said_by_user), agent("I live in a data centre. I am an assistant."))
    # the model of other languages reads a space once several texts are in another
    for task in GERMAN_TASKS if "Ich" in said_by_user else TASKS:
        service.conversation_of(task)
    know(service, server, *statements)
    answer = built(service, service.create().id, "Thanks!", format=XML)
    assert [it.text for it in answer.profile] == statements
    assert {(it.conversation_id, it.sequence) for it in answer.profile} == {(there, 2)}
    root = ElementTree.fromstring(answer.rendered)  # noqa: S314 - made here
    assert [it.text for it in root.findall("profile/*")] == statements
    assert root.find("recalled") is None  # small talk recalls nothing


def test_what_somebody_else_wrote_is_no_statement_of_the_user(
    service: Service, server: RunningServer
) -> None:
    fact = "I am allergic to peanuts."
    others = (
        f"---------- Forwarded message from Kim Roe ----------\n{fact}",
        f"What does my neighbour want?\n\nHello, I'm Paul Green. {fact}",
        f"Write a short story in the first person. My name is Jack. {fact}",
        f"Ana: {fact}\nBob: I live in Rome.",
    )
    service.conversation_of("I live in Porto.", *others)
    know(service, server, "I live in Porto.")
    assert texts(service) == ["I live in Porto."]


def profile(service: Service, as_of: int | None = None) -> list[ProfileStatement]:
    """Return the profile; that of a time in milliseconds, if one is given."""
    request = recall_api.GetProfileRequest()
    if as_of is not None:
        request.as_of.FromMilliseconds(as_of)
    return list(service.recall.GetProfile(request).statements)


def leave_out(service: Service, it: ProfileStatement, request_id: str = "") -> None:
    service.recall.RemoveProfileStatement(
        recall_api.RemoveProfileStatementRequest(
            conversation_id=it.conversation_id,
            sequence=it.sequence,
            start=it.start,
            request_id=request_id,
        )
    )


def test_a_statement_is_left_out_with_its_copies_until_it_is_said_again(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    allergy, other = "I'm allergic to peanuts.", "I live in Porto."
    there = service.conversation_of(f"Hello. {allergy} {other}")
    clock.move(1000)
    know(service, server, allergy, other)
    [it] = [one for one in profile(service) if one.text == allergy]
    assert (it.conversation_id, it.sequence, it.start) == (there, 2, len("Hello. "))
    wrong = ProfileStatement(conversation_id=there, sequence=2, start=1)
    assert failure_of(lambda: leave_out(service, wrong)).reason == "NOT_FOUND"
    leave_out(service, it, "r1")
    leave_out(service, it, "r1")  # the answer was lost
    leave_out(service, it)
    assert texts(service) == [one.text for one in profile(service)] == [other]
    fork = service.conversations.Fork(conversation_api.ForkRequest(conversation_id=there))
    until_embedded(service, server)
    assert [one.text for one in profile(service)] == [other]
    assert service.load(fork.conversation.id).messages[0].content.endswith(other)
    server.stop()
    again = start_server(embedder="onnx")
    assert [one.text for one in profile(connect(again))] == [other]
    clock.move(1000)
    connect(again).conversation_of(allergy)
    until(lambda: {it.text for it in profile(connect(again))} == {allergy, other})


def test_a_statement_left_out_is_there_once_the_same_message_is_said_again(
    service: Service, server: RunningServer, clock: MovableClock
) -> None:
    home = "I live in Porto."
    service.conversation_of(home)
    know(service, server, home)
    leave_out(service, profile(service)[0])
    assert profile(service) == []
    clock.move(1000)
    there = service.conversation_of(home)  # its vectors and statements are known already
    until(lambda: [it.conversation_id for it in profile(service)] == [there])
    assert texts(service) == [home]


def test_a_statement_is_there_though_a_conversation_with_the_same_message_is_deleted_just_then(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, other = "I live in Porto.", "I am allergic to peanuts."
    find_some, at = StatementFinder.find_some, TextReader.at
    monkeypatch.setattr(StatementFinder, "find_some", lambda *_: False)
    for _ in range(2):
        service.conversation_of(home)
    until_embedded(service, server)

    def delete_and_read(self: TextReader, index: Index, name: str, line: int) -> Text | None:
        monkeypatch.undo()
        service.delete(name)
        return at(self, index, name, line)

    monkeypatch.setattr(TextReader, "at", delete_and_read)
    monkeypatch.setattr(StatementFinder, "find_some", find_some)
    service.conversation_of(other)
    know(service, server, other)
    assert {*texts(service)} == {home, other}


def test_the_profile_of_a_moment_has_what_was_said_until_then(
    service: Service, server: RunningServer, clock: MovableClock
) -> None:
    allergy, work, later = "I'm allergic to peanuts.", "I work as a bus driver.", "I live in Porto."
    service.conversation_of(f"{allergy} {work}")
    first = clock.now
    clock.move(1000)
    service.conversation_of(f"Hello. {allergy} {later}")
    know(service, server, allergy, work, later)
    assert {it.text for it in profile(service, first)} == {allergy, work}
    assert profile(service, first - 1) == []
    assert profile(service, clock.now) == profile(service)
    # what is left out with its copies is gone from before it was too
    [it] = [one for one in profile(service) if one.text == allergy]
    assert it.time.ToMilliseconds() == clock.now
    leave_out(service, it)
    assert {it.text for it in profile(service, first)} == {work}
    assert {it.text for it in profile(service)} == {work, later}


def test_a_profile_without_the_model_says_why_it_is_empty(
    start_server: Start, connect: Connect
) -> None:
    service = connect(start_server())
    answer = service.recall.GetProfile(recall_api.GetProfileRequest())
    assert (list(answer.statements), "switched off" in answer.degraded) == ([], True)


def test_instructions_come_first_and_the_newest_of_a_kind_before_older_ones(
    service: Service, server: RunningServer, clock: MovableClock
) -> None:
    words = (
        "My sister Wanda lives in Gdynia.",
        "I work as a bus driver.",
        "I now work as a locksmith.",
        "Never use emojis when you answer me.",
    )
    for text in words:
        service.conversation_of(text)
        clock.move(1000)
    know(service, server, *words)
    answer = built(service, "", "Hello there, what's up with owls?", format=RECALL)
    assert answer.profile[0].text == words[3]
    assert answer.profile[0].kind == INSTRUCTION
    places = [answer.rendered.index(it) for it in (words[3], words[2], words[1])]
    assert places == sorted(places)
    marked = built(service, "", "What do owls eat?", format=XML, marks=True).rendered
    first = answer.profile[0]
    assert f'source="{first.conversation_id}:{first.sequence}"' in marked


def test_what_is_to_be_done_now_is_no_statement_of_somebody_who_works_with_an_agent(
    service: Service, server: RunningServer
) -> None:
    lasting = (
        "I'm Ilse, and I keep the books of a bakery in Ghent.",
        "Always name the account numbers when I ask about bookings.",
    )
    service.conversation_of(
        " ".join((
            lasting[0],
            "I'm trying to match the bank statement with the receipts of May, can you help me?",
            "I want to make sure that the totals agree before the audit.",
            "Every time I import the file, it fails at line 12.",
        ))
    )  # fmt: skip
    service.conversation_of(
        " ".join((
            "I've decided to split the freight over three invoices, is that correct?",
            lasting[1],
            "I need to close this month by Friday, so keep the list short.",
        ))
    )  # fmt: skip
    know(service, server, *lasting)
    assert {*texts(service)} == {*lasting}
    [instruction] = [
        it for it in built(service, "", "How do I book freight?").profile if it.kind == INSTRUCTION
    ]
    assert instruction.text == lasting[1]


def test_what_is_said_of_the_work_at_hand_is_no_statement_and_a_wish_that_stays_is(
    service: Service, server: RunningServer
) -> None:
    lasting = "I repair violins for a living."
    standing = "Old bean, whenever you give me a menu, add the wine."
    service.conversation_of("We can always repaint the hull later, skipper.")
    service.conversation_of("You're always quick on the draw.")
    service.conversation_of("I'm not ready to move on until the varnish is dry.")
    service.conversation_of(lasting)
    service.conversation_of(f"{standing} What goes with trout?")
    know(service, server, lasting, standing)
    assert {*texts(service)} == {lasting, standing}


def test_what_people_write_to_each_other_is_no_instruction_for_the_agent(
    service: Service, server: RunningServer
) -> None:
    moved = "We moved to Tartu in March because my wife teaches at the university."
    service.conversation_of(f"{moved} Your letters are the best part of the week.")
    service.conversation_of("Thank you for the curry! I'll return the favour.")
    know(service, server, moved)
    assert texts(service) == [moved]


def test_words_of_others_and_code_are_no_statements(
    service: Service, server: RunningServer
) -> None:
    service.conversation_of("I have two cats.")
    service.append(
        service.create().id,
        user(
            "Please fix this:\n```\n# I live in Paris and my name is Bob\nprint(1)\n```\n"
            "> I am a dentist from Oslo and I hate garlic.\n"
            'Shorten this: "Dear team, I am a pensioner. My son Detlef lives in Bonn. I have asthma."'
        ),
        agent("My name is Claude and I love poems."),
    )
    know(service, server, "I have two cats.")
    assert texts(service) == ["I have two cats."]


def test_what_is_redacted_deleted_or_in_a_fork_leaves_the_profile_and_stands_once(
    service: Service, server: RunningServer
) -> None:
    first = service.conversation_of("I'm allergic to walnuts.", "My daughter is called Ida.")
    second = service.conversation_of("I drive an old Saab.")
    know(service, server, "I'm allergic to walnuts.", "I drive an old Saab.")
    service.conversations.Fork(conversation_api.ForkRequest(conversation_id=first))
    until_embedded(service, server)
    assert sorted(texts(service)) == [
        "I drive an old Saab.",
        "I'm allergic to walnuts.",
        "My daughter is called Ida.",
    ]
    service.delete(second)
    assert "I drive an old Saab." not in texts(service)
    request = conversation_api.RedactMessageRequest(conversation_id=first, sequence=2)
    copies = service.conversations.RedactMessage(request).copied_in
    for copy in copies:
        request = conversation_api.RedactMessageRequest(conversation_id=copy, sequence=2)
        service.conversations.RedactMessage(request)
    assert texts(service) == ["My daughter is called Ida."]


def test_what_is_redacted_leaves_the_profile_though_its_vectors_cannot_be_removed(
    service: Service, server: RunningServer
) -> None:
    there = service.conversation_of("I'm allergic to walnuts.", "My daughter is called Ida.")
    know(service, server, "I'm allergic to walnuts.", "My daughter is called Ida.")
    [vectors] = server.folder.rglob("vectors.db")
    with closing(apsw.Connection(str(vectors))) as another:
        another.execute("BEGIN IMMEDIATE")
        request = conversation_api.RedactMessageRequest(conversation_id=there, sequence=2)
        with suppress(grpc.RpcError):  # it may say so
            service.conversations.RedactMessage(request)
        assert "I'm allergic to walnuts." not in texts(service)


def test_a_small_budget_has_instructions_first_and_says_what_was_left_out(
    service: Service, server: RunningServer
) -> None:
    instruction = "Always answer me in short bullet points."
    friends = (f"My friend number {number} is called Tom{number}." for number in range(9))
    statements = [instruction, *friends]
    for text in statements:
        service.conversation_of(text)
    know(service, server, instruction)
    until(lambda: len(texts(service)) == len(statements))
    answer = built(service, "", "What is a fjord?", profile=40, format=XML)
    assert answer.profile[0].text == instruction
    assert len(answer.profile) + answer.profile_left_out == len(statements)
    assert 0 < len(answer.profile) < len(statements)
    none = built(service, "", "What is a fjord?", profile=0, format=XML)
    assert (list(none.profile), none.profile_left_out) == ([], 0)
    assert "<profile>" not in none.rendered


def test_of_many_instructions_those_that_govern_the_answer_get_room_first(
    service: Service, server: RunningServer, clock: MovableClock
) -> None:
    recipes = "Whenever I ask about recipes, leave out nuts."
    sneakers = "Always mention the materials when I ask about sneakers."
    others = (
        "Always answer me in short bullet points.",
        "Never use emojis when you answer me.",
        "From now on always answer me in British English.",
        "Never use exclamation marks.",
        "Always use metric units.",
        "Always end your answers with a question to me.",
    )
    task = "I'm trying to ensure that all my recipes follow best practices."  # may be one
    statements = [recipes, sneakers, *others, task]
    for text in statements:
        service.conversation_of(text)
        clock.move(1000)
    know(service, server, *statements)
    for question, governing in (
        ("What is a fjord?", set()),
        ("Is there a simple recipe for soup?", {recipes}),
        ("Are these sneakers any good?", {sneakers}),
    ):
        answer = built(service, "", question, profile=60, format=XML)
        given = {it.text for it in answer.profile}
        assert 0 < len(given) < len(statements)
        assert given & {recipes, sneakers, task} == governing, question


def test_the_profile_is_found_again_by_a_new_index_and_new_vectors(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    service.conversation_of("I'm a vegetarian and I hate cilantro.")
    know(service, server, "I'm a vegetarian and I hate cilantro.")
    server.stop()
    for name in ("conversations.db", "vectors.db"):
        for path in server.folder.rglob(f"{name}*"):
            path.unlink()
    again = start_server(embedder="onnx")
    know(connect(again), again, "I'm a vegetarian and I hate cilantro.")
    assert texts(connect(again)) == ["I'm a vegetarian and I hate cilantro."]


def is_silent(service: Service, conversation_id: str, message: str) -> bool:
    return not built(service, conversation_id, message).cold


def test_small_talk_recalls_nothing_and_a_question_does(
    service: Service, server: RunningServer
) -> None:
    service.conversation_of("The spare key hangs behind the boiler.")
    until_embedded(service, server)
    here = service.create().id
    for message in ("Great, let's do that.", "Can you make it shorter?", "Ok, sounds good."):
        until(functools.partial(is_silent, service, here, message))
        assert is_silent(service, here, message)
    openai = context_pb2.CONTEXT_FORMAT_OPENAI_MESSAGES
    answer = built(service, here, "Where is the spare key?", format=openai)
    assert "behind the boiler" in orjson.loads(answer.rendered)[0]["content"]
