"""Results and answers that come when a newer turn was opened meanwhile: they join the turn they
belong to.
"""

import random
from collections import defaultdict
from functools import partial
from pathlib import Path

import orjson
import pytest
from recollect.v1 import context_pb2
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect.v1.message_pb2 import Message, ToolCall
from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.kernel.index.messages import MessageTable

from tests.at_rest import problems
from tests.conftest import RunningServer, Start
from tests.server.conftest import (
    Connect,
    Service,
    agent,
    assert_refused,
    delete_index,
    failure_of,
    tool,
    transcript,
    user,
)


def calling(*names: str, content: str = "") -> Message:
    return agent(
        content, tool_calls=[ToolCall(id=name, name="look", arguments="{}") for name in names]
    )


def read(service: Service, conversation_id: str, **fields: int) -> list[tuple[int, str]]:
    """Return the turns and contents (of a call: its id) that Load returns."""
    loaded = service.load(conversation_id, max_tokens=1 << 30, **({"max_turns": 1000} | fields))
    return [(it.turn_number, it.content or it.tool_calls[0].id) for it in loaded.messages]


def built(service: Service, conversation_id: str, form: int) -> str:
    request = recall_api.BuildContextRequest(conversation_id=conversation_id, format=form)  # type: ignore[arg-type]
    return service.recall.BuildContext(request).rendered


def late_result(service: Service) -> str:
    """Create a conversation with a result that arrives after the answer to another user message."""
    conversation_id = service.create().id
    service.append(conversation_id, user("Is the disk full?"), calling("c1"))
    service.append(conversation_id, user("And what time is it?"), agent("Noon."))
    stored = service.append(conversation_id, tool("c1", "97 %"), request_id="late")
    assert (
        [it.turn_number for it in stored.messages],
        stored.turn_number,
        stored.conversation.turn_count,
    ) == ([1], 1, 2)
    return conversation_id


IN_ORDER = [
    (1, "Is the disk full?"),
    (1, "c1"),
    (1, "97 %"),
    (2, "And what time is it?"),
    (2, "Noon."),
]


def sound(server: RunningServer) -> None:
    """Verify finds nothing wrong in the folder of a stopped server."""
    assert server.stopped
    assert problems(server.folder) == []


def test_a_late_tool_result_joins_the_turn_of_its_call_wherever_it_is_read(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation_id = late_result(service)

    def look(at: Service) -> None:
        assert read(at, conversation_id) == IN_ORDER
        assert read(at, conversation_id, before_turn=2) == IN_ORDER[:3]
        assert read(at, conversation_id, max_turns=1) == IN_ORDER[3:]
        assert [
            (it.turn_number, it.content or "c1") for it in at.context(conversation_id).messages
        ] == IN_ORDER
        assert at.search("97").hits[0].turn_number == 1

    look(service)
    lines = [
        orjson.loads(line) for line in transcript(server, conversation_id).read_bytes().splitlines()
    ]
    # the log is in the order of arrival
    assert [line.get("turnNumber") for line in lines] == [None, 1, 1, 2, 2, 1]
    again = service.append(conversation_id, tool("c1", "97 %"), request_id="late")
    assert (again.duplicate, again.turn_number) == (True, 1)
    server.stop()
    sound(server)
    delete_index(server)
    restarted = start_server()
    look(connect(restarted))
    again = connect(restarted).append(conversation_id, tool("c1", "97 %"), request_id="late")
    assert (again.duplicate, again.turn_number) == (True, 1)
    restarted.stop()
    sound(restarted)


@pytest.mark.parametrize(
    "form",
    [context_pb2.CONTEXT_FORMAT_OPENAI_MESSAGES, context_pb2.CONTEXT_FORMAT_ANTHROPIC_MESSAGES],
)
@pytest.mark.parametrize("warm", [False, True])
def test_a_context_shows_a_late_result_behind_its_call(
    service: Service, form: int, warm: bool
) -> None:
    conversation_id = service.create().id
    service.append(conversation_id, user("Is the disk full?"), calling("c1"))
    service.append(conversation_id, user("And what time is it?"), agent("Noon."))
    if warm:  # the newest turns are in memory then
        built(service, conversation_id, 0)
    service.append(conversation_id, tool("c1", "97 %"), agent("It is 97 % full."))
    rendered = orjson.loads(built(service, conversation_id, form))
    assert [it["role"] for it in rendered] == (
        ["user", "assistant", "tool", "user", "assistant", "assistant"]
        if form == context_pb2.CONTEXT_FORMAT_OPENAI_MESSAGES
        else ["user", "assistant", "user", "assistant"]
    )
    assert "97 %" in orjson.dumps(rendered[2]).decode()


def test_a_late_answer_names_its_turn(service: Service) -> None:
    conversation_id = service.create().id
    service.append(conversation_id, user("one"), calling("c1"))
    service.append(conversation_id, user("two"), agent("2"))
    stored = service.append(
        conversation_id, tool("c1", "result"), agent("1"), in_reply_to_turn=1, expected_turn=2
    )
    assert [it.turn_number for it in stored.messages] == [1, 1]
    service.append(conversation_id, agent("2 again"))
    assert read(service, conversation_id) == [
        (1, "one"),
        (1, "c1"),
        (1, "result"),
        (1, "1"),
        (2, "two"),
        (2, "2"),
        (2, "2 again"),
    ]
    assert service.append(conversation_id, user("three"), expected_turn=2).turn_number == 3


def test_a_turn_that_is_named_is_part_of_what_a_request_id_names(service: Service) -> None:
    conversation_id = service.conversation_of("one", "two")
    stored = service.append(conversation_id, agent("1"), in_reply_to_turn=1, request_id="r")
    again = service.append(conversation_id, agent("1"), in_reply_to_turn=1, request_id="r")
    assert (again.duplicate, list(again.messages)) == (True, list(stored.messages))
    for other in (2, None):
        request = api.AppendTurnRequest(
            conversation_id=conversation_id,
            messages=[agent("1")],
            in_reply_to_turn=other,
            request_id="r",
        )
        failure = failure_of(partial(service.conversations.AppendTurn, request))
        assert failure.reason == "REQUEST_ID_REUSED"


@pytest.mark.parametrize(
    ("turns", "fields", "messages"),
    [
        (0, {"in_reply_to_turn": 1}, [agent("x")]),
        (2, {"in_reply_to_turn": 3}, [agent("x")]),
        (2, {"in_reply_to_turn": 0}, [agent("x")]),
        (2, {"in_reply_to_turn": -1}, [agent("x")]),
        (2, {"in_reply_to_turn": 1}, [agent("x"), user("y")]),
    ],
)
def test_a_turn_that_cannot_be_answered_is_refused(
    service: Service,
    server: RunningServer,
    turns: int,
    fields: dict[str, int],
    messages: list[Message],
) -> None:
    conversation_id = service.conversation_of(*map(str, range(turns)))
    assert_refused(
        service,
        server,
        lambda: service.append(conversation_id, *messages, **fields),
        "in_reply_to_turn",
    )


def test_of_calls_of_one_id_the_newest_is_answered_unless_the_turn_is_named(
    service: Service,
) -> None:
    conversation_id = service.create().id
    for number in range(4):
        service.append(conversation_id, user(str(number)), calling("c"))
    assert service.append(conversation_id, user("and"), tool("c")).turn_number == 4
    assert service.append(conversation_id, tool("c", "a"), in_reply_to_turn=1).turn_number == 1
    assert (
        service.append(conversation_id, tool("c", "b"), tool("c", "c"), in_reply_to_turn=1)
        .messages[0]
        .turn_number
        == 3
    )
    failure = failure_of(lambda: service.append(conversation_id, tool("c")))
    assert failure.fields == ("messages[0].tool_call_id",)
    service.append(conversation_id, calling("c"), in_reply_to_turn=2)
    failure = failure_of(lambda: service.append(conversation_id, calling("c"), in_reply_to_turn=2))
    assert failure.fields == ("messages[0].tool_calls[0].id",)


def test_a_call_is_answered_late_in_its_own_request_too(service: Service) -> None:
    conversation_id = service.create().id
    service.append(
        conversation_id, user("one"), calling("c"), user("two"), tool("c", "result"), agent("2")
    )
    assert read(service, conversation_id) == [
        (1, "one"),
        (1, "c"),
        (1, "result"),
        (2, "two"),
        (2, "2"),
    ]


def test_the_last_256_unanswered_calls_can_be_answered_and_all_of_a_turn_that_is_named(
    service: Service,
) -> None:
    conversation_id = service.create().id
    for turn in range(3):
        service.append(
            conversation_id, user("go"), calling(*(f"{turn}-{number}" for number in range(100)))
        )
    assert service.append(conversation_id, user("and"), tool("0-44")).turn_number == 1
    assert failure_of(lambda: service.append(conversation_id, tool("0-43"))).fields == (
        "messages[0].tool_call_id",
    )
    assert service.append(conversation_id, tool("0-43"), in_reply_to_turn=1).turn_number == 1


def test_what_joins_a_turn_that_a_summary_covers_is_in_the_history(service: Service) -> None:
    conversation_id = service.create().id
    service.append(conversation_id, user("one"), calling("c1"))
    service.append(conversation_id, user("two"))
    service.compress(conversation_id, 1, "The disk was asked about.")
    service.append(conversation_id, tool("c1", "97 %"))
    assert read(service, conversation_id) == [(2, "two")]
    assert read(service, conversation_id, before_turn=2) == [(1, "one"), (1, "c1"), (1, "97 %")]


def test_a_late_message_does_not_count_the_lines_of_other_turns_as_damaged(
    service: Service, server: RunningServer
) -> None:
    conversation_id = late_result(service)
    path = transcript(server, conversation_id)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"Noon.", b"Moon."))
    service.listed()
    damaged = [
        service.load(conversation_id, **fields).damaged_lines
        for fields in ({}, {"before_turn": 2}, {"max_turns": 1})
    ]
    assert damaged == [1, 0, 1]


KINDS = ["user", "user", "call", "answer", "late answer", "result", "result", "batch"]
LONG_TURNS = ["user", *["call", "answer", "late answer", "result"] * 4]


def interleaved(
    service: Service,
    conversation_id: str,
    chance: random.Random,
    kinds: list[str] = KINDS,
    most: int = 14,
) -> list[tuple[int, str]]:
    """Append at random, and return what must be read, by a model that keeps a list for each
    turn.
    """
    turns: dict[int, list[str]] = defaultdict(list)
    open_calls: list[tuple[int, str]] = []
    for number in range(chance.randint(3, most)):
        newest, text = len(turns), f"m{number}"
        match chance.choice(kinds):
            case "user":
                service.append(conversation_id, user(text))
                turns[newest + 1].append(text)
            case "call" if newest:
                service.append(conversation_id, calling(text))
                turns[newest].append(text)
                open_calls.append((newest, text))
            case "answer" if newest:
                service.append(conversation_id, agent(text), request_id=f"{conversation_id}-{text}")
                turns[newest].append(text)
            case "late answer" if newest:
                turn = chance.randint(1, newest)
                service.append(conversation_id, agent(text), in_reply_to_turn=turn)
                turns[turn].append(text)
            case "result" if open_calls:
                turn, name = open_calls.pop(chance.randrange(len(open_calls)))
                service.append(conversation_id, tool(name, text))
                turns[turn].append(text)
            case "batch" if open_calls:
                turn, name = open_calls.pop(chance.randrange(len(open_calls)))
                service.append(
                    conversation_id, user(f"{text} u"), tool(name, text), agent(f"{text} a")
                )
                turns[newest + 1].append(f"{text} u")
                turns[turn].append(text)
                turns[newest + 1].append(f"{text} a")
    return [(turn, text) for turn in sorted(turns) for text in turns[turn]]


def test_any_interleaving_is_read_as_the_model_says(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    expected: dict[str, list[tuple[int, str]]] = {}
    for seed in range(25):
        conversation_id = service.create().id
        expected[conversation_id] = interleaved(service, conversation_id, random.Random(seed))  # noqa: S311

    def look(at: Service) -> None:
        for conversation_id, model in expected.items():
            newest = max((turn for turn, _ in model), default=0)
            assert at.get(conversation_id).turn_count == newest
            assert read(at, conversation_id) == model
            pages = [
                read(at, conversation_id, before_turn=turn + 1, max_turns=1)
                for turn in range(1, newest + 1)
            ]
            assert [message for page in pages for message in page] == model

    look(service)
    server.stop()
    sound(server)
    delete_index(server)
    restarted = start_server()
    look(connect(restarted))
    restarted.stop()
    sound(restarted)


@pytest.mark.parametrize("indexed", [True, False])
def test_bounded_pages_of_any_interleaving_have_every_message_once_in_reading_order(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch, indexed: bool
) -> None:
    service = connect(start_server(max_answer_bytes=1024))
    rng = random.Random(7)  # noqa: S311 - a test's numbers
    expected: dict[str, list[tuple[int, str]]] = {}
    for _ in range(6):
        conversation_id = service.create().id
        expected[conversation_id] = interleaved(service, conversation_id, rng, LONG_TURNS, 60)
    if not indexed:

        def refuse(*_: object, **__: object) -> None:
            raise IndexUnavailable("a test says so")

        monkeypatch.setattr(MessageTable, "tail", refuse)
        monkeypatch.setattr(MessageTable, "page_of_turns", refuse)
    cut = 0
    for conversation_id, model in expected.items():
        pages = [service.load(conversation_id, max_turns=1000)]
        while pages[0].has_more:
            line, turn = pages[0].cut_before_sequence, pages[0].messages[0].turn_number
            cut += line > 0
            bound = {"before_sequence": line} if line else {"before_turn": turn}
            pages.insert(0, service.load(conversation_id, max_turns=1000, **bound))
        assert [
            (it.turn_number, it.content or it.tool_calls[0].id)
            for page in pages
            for it in page.messages
        ] == model
        fetched: list[Message] = []
        more = bool(model)
        while more:
            request = recall_api.FetchContextRequest(conversation_id=conversation_id)
            request.turn_range.first, request.turn_range.last = 1, 200
            request.after_sequence = fetched[-1].sequence if fetched else 0
            page = service.recall.FetchContext(request)
            fetched += page.messages
            more = page.has_more
        assert [(it.turn_number, it.content or it.tool_calls[0].id) for it in fetched] == model
    assert cut


def test_watchers_are_told_a_late_message_with_its_turn(service: Service) -> None:
    conversation_id = service.create().id
    service.append(conversation_id, user("one"), calling("c1"))
    stream = service.conversations.StreamUpdates(
        api.StreamUpdatesRequest(conversation_ids=[conversation_id]), timeout=20
    )
    loaded = [next(stream).update for _ in range(2)][1].conversation_loaded
    assert len(loaded.messages) == 2
    service.append(conversation_id, user("two"))
    service.append(conversation_id, tool("c1", "late"))
    updates = [next(stream).update.conversation_updated for _ in range(2)]
    assert [(it.messages[0].turn_number, it.conversation.turn_count) for it in updates] == [
        (2, 2),
        (1, 2),
    ]
    stream.cancel()
