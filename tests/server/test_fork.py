"""Fork: a copy up to a turn, whole or not there, that goes its own way."""

from threading import Thread
from typing import Any

import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.message_pb2 import ToolCall
from recollect_server.kernel.space.conversation_logs import Committed
from recollect_server.kernel.space.writes import Writes

from tests.conftest import RunningServer, Start
from tests.server.conftest import (
    Connect,
    Service,
    agent,
    delete_index,
    failure_of,
    tool,
    transcript,
    user,
)
from tests.server.test_redact import redact
from tests.waiting import until


def fork(service: Service, conversation_id: str, **fields: Any) -> api.ForkResponse:
    return service.conversations.Fork(api.ForkRequest(conversation_id=conversation_id, **fields))


def texts(service: Service, conversation_id: str) -> list[tuple[int, str]]:
    messages = service.load(conversation_id, max_turns=1000).messages
    return [(message.turn_number, message.content) for message in messages]


def test_a_late_result_is_copied_in_its_turn_and_calls_may_still_be_answered(
    service: Service,
) -> None:
    call = ToolCall(id="a", name="search")
    origin = service.create().id
    service.append(origin, user("one"), agent("", tool_calls=[call]))
    service.append(origin, user("two"), agent("", tool_calls=[ToolCall(id="b", name="find")]))
    service.append(origin, tool("a", "a late result"))
    copy = fork(service, origin).conversation
    assert texts(service, copy.id) == texts(service, origin)
    assert service.append(copy.id, tool("b", "a result")).turn_number == 2
    assert [it.sequence for it in service.load(copy.id).messages[:3]] == [2, 3, 4]


def test_a_fork_is_found_and_survives_its_origin_and_its_index(
    start_server: Start, connect: Connect
) -> None:
    server: RunningServer = start_server()
    service = connect(server)
    origin = service.conversation_of("The zanzibarian pangolin.", "Then another.")
    copy = fork(service, origin, through_turn=1).conversation
    assert copy.origin.conversation_id == origin
    service.delete(origin)
    assert service.found("zanzibarian") == [copy.id]
    server.stop()
    delete_index(server)
    again = connect(start_server())
    assert again.get(copy.id) == copy
    assert again.found("zanzibarian") == [copy.id]


def test_a_fork_takes_over_no_automatic_title_of_turns_that_it_does_not_have(
    start_server: Start, connect: Connect
) -> None:
    service = connect(start_server(abbreviator="extractive"))
    turns = ["Plan a trip to Ghent.", *["Book a cabin on the ferry to Bergen."] * 5]
    origin = service.conversation_of(*turns)
    title = until(lambda: service.get(origin).title)
    assert title == "Bergen, Cabin, Ferry"
    assert fork(service, origin).conversation.title == title
    early = fork(service, origin, through_turn=1).conversation
    assert (early.title, list(early.topics)) == ("", [])
    service.rename(origin, "North and south")
    assert fork(service, origin, through_turn=1).conversation.title == "North and south"


def test_what_is_too_long_is_refused_and_nothing_is_stored(
    service: Service, server: RunningServer
) -> None:
    origin = service.create().id
    for _ in range(2):
        service.append(origin, *[user("words")] * 501)
    before = sorted(server.folder.glob("conv-*"))
    failure = failure_of(lambda: fork(service, origin))
    assert (failure.code, failure.fields) == ("INVALID_ARGUMENT", ("through_turn",))
    assert sorted(server.folder.glob("conv-*")) == before
    assert fork(service, origin, through_turn=1000).conversation.message_count == 1000


def test_an_email_conversation_is_not_forked(service: Service) -> None:
    origin = service.conversation_of("one", channel="email")
    failure = failure_of(lambda: fork(service, origin))
    assert (failure.code, failure.fields) == ("INVALID_ARGUMENT", ("conversation_id",))


@pytest.mark.parametrize("index", ["kept", "made anew"])
def test_a_redaction_names_every_copy_though_one_between_is_deleted(
    index: str, start_server: Start, connect: Connect
) -> None:
    server = start_server()
    service = connect(server)
    first = service.conversation_of("secretword", "butter", "honey")
    second = fork(service, first, through_turn=2).conversation.id
    service.append(second, user("hiddenword"))
    third = fork(service, second).conversation.id
    fourth = fork(service, third, through_turn=1).conversation.id
    fifth = fork(service, first, through_turn=1).conversation.id
    service.delete(second)
    sixth = fork(service, third).conversation.id
    if index == "made anew":
        server.stop()
        delete_index(server)
        service = connect(start_server())
    copies = {first, third, fourth, fifth, sixth}
    for name in copies:
        answer = redact(service, name, sequence=2)
        assert set(answer.copied_in) == copies - {name}
    assert service.found("secretword") == []
    assert set(redact(service, sixth, turn_number=3).copied_in) == {third}
    assert set(redact(service, first, turn_number=3).copied_in) == set()


def test_a_redaction_names_a_fork_that_is_made_while_it_comes(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = service.conversation_of("secretword", "butter")
    begin = Writes.begin
    answers: list[api.RedactMessageResponse] = []
    redaction = Thread(target=lambda: answers.append(redact(service, origin, sequence=2)))

    def be_overtaken(writes: Writes, *arguments: Any) -> Committed:
        monkeypatch.undo()
        redaction.start()
        redaction.join(1)  # it waits for the fork, or has removed the text by then
        return begin(writes, *arguments)

    monkeypatch.setattr(Writes, "begin", be_overtaken)
    copy = fork(service, origin).conversation.id
    redaction.join()
    assert service.found("secretword") == list(answers[0].copied_in)
    assert texts(service, copy)[1] == (2, "butter")


def test_subscribers_see_a_fork_begin(service: Service, server: RunningServer) -> None:
    origin = service.conversation_of("one")
    stream = service.conversations.StreamUpdates(api.StreamUpdatesRequest(), timeout=30)
    next(stream), next(stream)
    copy = fork(service, origin).conversation
    assert next(stream).update.conversation_created.conversation.id == copy.id
    stream.cancel()
    assert transcript(server, copy.id).read_bytes().count(b"\n") == 2
