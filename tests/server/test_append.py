"""Appends: whole or not at all, exactly once, in order, whoever calls at the same time."""

from collections.abc import Callable
from typing import Any

import apsw
import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.conversation_pb2 import Party
from recollect.v1.message_pb2 import Message, ToolCall
from recollect_server.kernel.domain.time import DAY
from recollect_server.kernel.index import migrations
from recollect_server.kernel.index.file import seal

from tests.cases import each
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import (
    UNKNOWN,
    Connect,
    Service,
    agent,
    at_once,
    code_of,
    delete_index,
    failure_of,
    kept_by,
    tool,
    transcript,
    user,
)
from tests.streaming.checkers import place


def without_duplicate(answer: api.AppendTurnResponse) -> api.AppendTurnResponse:
    """Return the answer without the fields that mark a repeated one."""
    bare = api.AppendTurnResponse()
    bare.CopyFrom(answer)
    bare.ClearField("duplicate")
    return bare


def test_a_batch_lands_whole_and_in_order(service: Service) -> None:
    conversation_id = service.create().id
    call = ToolCall(id="c", name="clock", arguments="{}")
    answer = service.append(
        conversation_id,
        user("time?"),
        agent("", tool_calls=[call]),
        tool("c", "noon"),
        agent("Noon."),
    )
    assert [message.sequence for message in answer.messages] == [2, 3, 4, 5]
    assert list(answer.messages) == list(service.load(conversation_id).messages)
    assert answer.conversation == service.get(conversation_id)
    assert answer.cursor
    assert not answer.duplicate


@each(
    "last",
    [
        Message(content="no role"),
        user(""),
        user("nul \0"),
        tool("never called"),
        agent("x", cost=-1.0),
    ],
)
def test_a_batch_with_one_bad_message_stores_none_of_it(
    service: Service, server: RunningServer, last: Message
) -> None:
    conversation_id = service.conversation_of("before")
    before = kept_by(service, server)
    failure = failure_of(
        lambda: service.append(conversation_id, *(user(f"message {n}") for n in range(50)), last)
    )
    assert failure.code == "INVALID_ARGUMENT"
    assert failure.fields[0].startswith("messages[50].")
    assert kept_by(service, server) == before


def test_a_thousand_messages_are_one_batch(service: Service) -> None:
    conversation_id = service.create().id
    answer = service.append(conversation_id, *(user(f"number {n}") for n in range(1000)))
    assert (answer.turn_number, len(answer.messages)) == (1000, 1000)
    assert service.search("997").hits[0].turn_number == 998


def test_an_answered_append_is_found_at_once(service: Service) -> None:
    conversation_id = service.create().id
    for number in range(20):
        service.append(conversation_id, user(f"the password is zebra{number}"))
        assert service.search(f"zebra{number}").hits[0].turn_number == number + 1


def test_without_a_request_id_every_call_is_a_new_one(service: Service) -> None:
    conversation_id = service.create().id
    for _ in range(2):
        assert not service.append(conversation_id, user("again")).duplicate
    assert service.get(conversation_id).turn_count == 2


def test_a_repeated_request_is_answered_as_the_first_time_and_stores_nothing(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of("earlier")
    first = service.append(conversation_id, user("once"), agent("yes"), request_id="r1")
    service.turn(conversation_id, "later")
    service.rename(conversation_id, "Named Later")
    files = kept_by(service, server)
    again = service.append(conversation_id, user("once"), agent("yes"), request_id="r1")
    assert again.duplicate
    assert without_duplicate(again) == without_duplicate(first)
    assert kept_by(service, server) == files


@pytest.mark.parametrize("index_lost", [False, True])
def test_a_repeated_request_is_known_after_a_restart_and_without_the_index_it_was_made_with(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    index_lost: bool,
) -> None:
    conversation_id = service.conversation_of("earlier")
    first = service.append(conversation_id, user("once"), agent("yes"), request_id="r1")
    service.turn(conversation_id, "later")
    server.stop()
    if index_lost:
        delete_index(server)
    server.clock.move(8 * DAY)  # longer than updates are kept
    again_service = connect(start_server())
    again = again_service.append(conversation_id, user("once"), agent("yes"), request_id="r1")
    assert again.duplicate
    assert (again.messages, again.conversation, again.turn_number) == (
        first.messages,
        first.conversation,
        2,
    )
    assert index_lost or again.cursor == first.cursor
    assert again_service.get(conversation_id).message_count == 5
    failure = failure_of(
        lambda: again_service.append(conversation_id, user("other"), request_id="r1")
    )
    assert (failure.code, failure.reason) == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")


def test_every_change_is_exactly_once_and_answered_as_it_was(
    service: Service, server: RunningServer
) -> None:
    created = service.create("cli", model="m", request_id="create")
    assert service.create("cli", model="m", request_id="create") == created
    conversation_id = created.id
    service.append(conversation_id, user("one"))

    def model() -> object:
        request = api.SetModelRequest(
            conversation_id=conversation_id, model="opus", request_id="model"
        )
        return service.conversations.SetModel(request).conversation

    changes: list[Callable[[], object]] = [
        lambda: service.rename(conversation_id, "Title", request_id="rename"),
        model,
        lambda: service.compress(conversation_id, 1, "sum", request_id="compress"),
        lambda: service.abbreviate(conversation_id, "notes", ["tea"], request_id="abbreviate"),
    ]
    first = [change() for change in changes]
    service.append(conversation_id, user("two"))
    files = kept_by(service, server)
    assert [change() for change in changes] == first
    assert service.create("cli", model="m", request_id="create") == created
    assert kept_by(service, server) == files


def test_another_payload_under_a_used_request_id_is_refused(
    service: Service, server: RunningServer
) -> None:
    conversation_id, other = service.create().id, service.create().id
    service.append(conversation_id, user("once"), request_id="r1")
    files = kept_by(service, server)
    calls: list[Callable[[], object]] = [
        lambda: service.append(conversation_id, user("Once"), request_id="r1"),
        lambda: service.append(conversation_id, user("once"), user("once"), request_id="r1"),
        lambda: service.append(conversation_id, user("once", sender="ana"), request_id="r1"),
        lambda: service.append(other, user("once"), request_id="r1"),
        lambda: service.append(conversation_id, user("once"), request_id="r1", draft_id="d"),
        lambda: service.rename(conversation_id, "Title", request_id="r1"),
        lambda: service.create(request_id="r1"),
        lambda: service.delete(conversation_id, request_id="r1"),
        lambda: service.compress(conversation_id, 1, "s", request_id="r1"),
        lambda: service.abbreviate(conversation_id, "notes", request_id="r1"),
    ]
    for call in calls:
        failure = failure_of(call)
        assert (failure.code, failure.reason) == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")
        assert failure.metadata == {"request_id": "r1"}
    assert kept_by(service, server) == files


def test_a_refused_request_leaves_its_id_free(service: Service) -> None:
    conversation_id = service.create().id
    failure_of(lambda: service.append(conversation_id, user("a"), expected_turn=5, request_id="r1"))
    failure_of(lambda: service.append(conversation_id, tool("x"), request_id="r1"))
    failure_of(lambda: service.append(UNKNOWN, user("a"), request_id="r1"))
    answer = service.append(conversation_id, user("b"), request_id="r1")
    assert (answer.duplicate, answer.messages[0].sequence) == (False, 2)


def test_the_id_of_a_deleted_conversations_request_is_free_again(service: Service) -> None:
    first = service.create(request_id="r1")
    service.delete(first.id)
    assert service.create(request_id="r1").id != first.id


@pytest.mark.files
def test_32_callers_with_one_request_id_store_one_turn(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.create().id
    request = [user("once"), agent("and for all")]
    answers = at_once(32, lambda _: service.append(conversation_id, *request, request_id="r1"))
    assert sorted(answer.duplicate for answer in answers) == [False] + [True] * 31
    assert (
        len({without_duplicate(answer).SerializeToString(deterministic=True) for answer in answers})
        == 1
    )
    assert service.get(conversation_id).message_count == 2
    assert transcript(server, conversation_id).read_bytes().count(b"\n") == 3


def test_32_callers_with_one_request_id_create_one_conversation(service: Service) -> None:
    made = at_once(32, lambda _: service.create(request_id="r1").id)
    assert len(set(made)) == 1
    assert [conversation.id for conversation in service.listed().conversations] == made[:1]


def test_16_callers_on_one_conversation_lose_nothing_and_number_the_turns(service: Service) -> None:
    conversation_id = service.create().id

    def talk(caller: int) -> list[int]:
        return [
            service.turn(conversation_id, f"caller {caller} says {n}").turn_number
            for n in range(10)
        ]

    numbers = at_once(16, talk)
    assert sorted(number for own in numbers for number in own) == list(range(1, 161))
    assert all(own == sorted(own) for own in numbers)
    messages = service.load(conversation_id, max_turns=1000, max_tokens=1_000_000).messages
    assert [message.turn_number for message in messages] == [
        number for turn in range(1, 161) for number in (turn, turn)
    ]
    assert [message.sequence for message in messages] == list(range(2, 322))
    texts = {message.content for message in messages}
    assert texts >= {f"caller {caller} says {n}" for caller in range(16) for n in range(10)}
    assert service.get(conversation_id).message_count == 320


def test_16_callers_on_16_conversations_do_not_mix(service: Service) -> None:
    def talk(caller: int) -> str:
        return service.conversation_of(*(f"caller{caller:02} number {n}" for n in range(5)))

    for caller, conversation_id in enumerate(at_once(16, talk)):
        texts = [message.content for message in service.load(conversation_id).messages]
        assert texts == [f"caller{caller:02} number {n}" for n in range(5)]
        assert service.found(f"caller{caller:02}") == [conversation_id]


def test_a_write_based_on_an_older_turn_is_refused(service: Service, server: RunningServer) -> None:
    conversation_id = service.create().id
    service.append(conversation_id, user("one"), expected_turn=0)
    service.append(conversation_id, user("two"), expected_turn=1)
    files = kept_by(service, server)
    for expected in (0, 1, 3):
        failure = failure_of(
            lambda expected=expected: service.append(  # type: ignore[misc]
                conversation_id, user("x"), expected_turn=expected
            )
        )
        assert (failure.code, failure.reason) == ("ABORTED", "TURN_OUT_OF_DATE")
        assert failure.metadata == {"expected_turn": str(expected), "turn_count": "2"}
    assert kept_by(service, server) == files


NAMES: list[tuple[dict[str, Any], list[Message], str]] = [
    ({}, [], ""),
    ({}, [user("Hi there!")], "Hi there"),
    ({}, [user("Hi Alex, can you book a table for two?")], "Can you book a table for two?"),
    ({}, [user("hello"), agent("Hello! How can I help?"), user("thanks")], "hello"),
    ({}, [user("hey"), user("Which pump fits the boiler? It drips.")], "Which pump fits the boiler?"),
    (
        {},
        [user("hi, can you help me?"), agent("Sure."), user("The parcel from Leipzig never came.")],
        "The parcel from Leipzig never came",
    ),
    ({}, [user("Is it done? Restart the proxy in Leipzig.")], "Restart the proxy in Leipzig"),
    ({}, [user("What time is it?"), agent("It is noon in Leipzig.")], "What time is it?"),
    ({}, [agent("Good morning!"), user("Where is my parcel?")], "Where is my parcel?"),
    (
        {},
        [
            user("Hey Nora! Good to see you! How have you been?", sender="Ivan"),
            agent("Ivan! Great to hear from you. I just joined a pottery class.", sender="Nora"),
            user("The kiln of my uncle is for sale, by the way.", sender="Ivan"),
        ],
        "I just joined a pottery class",
    ),
    (
        {},
        [user("Guess what, great news: we finally adopted a puppy from the shelter!", sender="Ivan")],
        "We finally adopted a puppy from the shelter",
    ),
    (
        {},
        [user("[image: a boat at a pier]", sender="Ivan"), user("Not bad, Ivan!", sender="Nora")],
        "Not bad, Ivan",
    ),
    (
        {},
        [user("Not on Friday, the venue is booked.", sender="Ivan")],
        "Not on Friday, the venue is booked",
    ),
    (
        {},
        [
            user("Bonjour ! Comment vas-tu ?", sender="Ivan"),
            user("Le four de la poterie est en panne.", sender="Nora"),
        ],
        "Le four de la poterie est en panne",
    ),
    (
        {},
        [user("你好，今天好吗？", sender="Ivan"), user("陶艺班的窑炉坏了。", sender="Nora")],
        "陶艺班的窑炉坏了",
    ),
    ({}, [agent("The build is done. It took a minute.")], "The build is done"),
    (
        {},
        [user("2026-11-25T03:00:00Z level=error msg=x\n"), user("Why does it say that?")],
        "Why does it say that?",
    ),
    ({}, [user('```json\n{"a": 1}\n```\n\n## Explain **this** to [me](https://x.example)')],
     "Explain this to me"),
    (
        {},
        [user("Please plan the trip for us, with a stop at the river and one in the hills.")],
        "Please plan the trip for us, with a stop at the river…",
    ),
    (
        {},
        [user("We paint the wooden benches of the old harbour in greenish blue, and not in yellow.")],
        "We paint the wooden benches of the old harbour in greenish…",
    ),
    ({}, [user("请帮我写一封信给房东，说明厨房的水龙头一直在漏水，需要尽快修理一下可以吗")],
     "请帮我写一封信给房东，说明厨房的水龙头一直在漏水，需要…"),
    ({}, [user("x" * 500)], "x" * 63 + "…"),
    (
        {"channel": "email", "party": Party(contact="a@b.example", subject="Re: AW: The  boiler")},
        [user("It drips.")],
        "The boiler",
    ),
    ({"channel": "email", "party": Party(contact="a@b.example")}, [user("It drips.")],
     "a@b.example (Email)"),
    (
        {"channel": "whatsapp", "party": Party(contact="491701", contact_name="Hanan")},
        [user("It drips.")],
        "Hanan (WhatsApp)",
    ),
    ({"channel": "irc", "party": Party(group_id="#boilers")}, [], "#boilers (irc)"),
    ({"party": Party(contact="alex")}, [user("It drips again.")], "It drips again"),
]  # fmt: skip
"""Conversations, and what they are called without a title."""


def test_a_conversation_has_one_name_from_its_first_message_on(
    service: Service, start_server: Start, server: RunningServer, connect: Connect
) -> None:
    ids: list[str] = []
    for fields, messages, name in NAMES:
        ids.append(service.create(**fields).id)
        answers = [service.append(ids[-1], it).conversation for it in messages]
        assert (answers[-1] if answers else service.get(ids[-1])).name == name
    names = {it.id: it.name for it in service.listed(page_size=100).conversations}
    assert [names[it] for it in ids] == [name for *_, name in NAMES]
    # What rows show is what a filter finds, in whatever case.
    for text, count in (("WHATSAPP", 1), ("boiler", 3), ("Fits The Boiler?", 1), ("drips.", 0)):
        assert len(service.listed(query=text).conversations) == count, text

    pump = ids[4]
    copy = service.conversations.Fork(api.ForkRequest(conversation_id=pump)).conversation
    assert copy.name == "Which pump fits the boiler?"
    redacted = service.conversations.RedactMessage(
        api.RedactMessageRequest(conversation_id=pump, sequence=3)
    )
    assert redacted.conversation.name == service.get(pump).name == "hey"
    assert service.rename(pump, "The pump").name == "The pump"
    assert service.search("drips").results[0].conversation_name in names.values()
    before = {it.id: it.name for it in service.listed(page_size=100).conversations}
    assert before[copy.id] == "Which pump fits the boiler?"
    server.stop()
    delete_index(server)
    again = connect(start_server())
    assert {it.id: it.name for it in again.listed(page_size=100).conversations} == before


def test_an_upgrade_names_conversations_by_the_rule_of_now(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    made = service.conversation_of("Good to see you! The kiln of the pottery is broken.")
    server.stop()
    steps = migrations.MIGRATIONS.index(migrations._names_of_content)
    with apsw.Connection(str(server.folder / "conversations.db")) as before:
        before.execute("UPDATE conversations SET request = 'Good to see you', request_rank = 3")
        before.pragma("user_version", migrations.OLDEST + steps)
    before.close()
    seal(server.folder)  # as a server of before closed it
    again = connect(start_server())
    assert again.get(made).name == "The kiln of the pottery is broken"


def test_of_16_callers_that_expect_the_same_turn_one_writes(service: Service) -> None:
    conversation_id = service.conversation_of("one")

    def write(caller: int) -> str:
        return code_of(
            lambda: service.append(conversation_id, user(f"caller {caller}"), expected_turn=1)
        )

    assert sorted(at_once(16, write)) == ["ABORTED"] * 15 + ["OK"]
    assert service.get(conversation_id).turn_count == 2


def test_a_repeated_request_is_answered_whatever_turn_it_expected(service: Service) -> None:
    conversation_id = service.create().id
    service.append(conversation_id, user("one"), expected_turn=0, request_id="r1")
    assert service.append(conversation_id, user("one"), expected_turn=0, request_id="r1").duplicate


def test_cursors_grow_with_every_change(service: Service, clock: MovableClock) -> None:
    conversation_id = service.create().id
    cursors = [service.append(conversation_id, user("x")).cursor for _ in range(5)]
    places = [place(cursor) for cursor in cursors]
    assert places == sorted(set(places))
    assert len({epoch for epoch, _ in places}) == 1
