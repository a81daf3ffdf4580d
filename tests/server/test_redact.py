"""RedactMessage: the text of a message is gone from every byte, and its place stays."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from recollect import Client, ReceivedExternal
from recollect.v1 import channel_service_pb2 as channel_api
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import external_communication_service_pb2 as external_api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect.v1.anchor_pb2 import AnchorSource
from recollect.v1.channel_service_pb2_grpc import ChannelServiceStub
from recollect.v1.external_communication_pb2 import TRUST_BLOCKED
from recollect.v1.external_communication_service_pb2_grpc import ExternalCommunicationServiceStub
from recollect.v1.message_pb2 import Attachment, Message, ToolCall

from tests.at_rest import problems
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import (
    Connect,
    Service,
    agent,
    code_of,
    delete_index,
    failure_of,
    files_with,
    moment,
    tool,
    transcript,
    user,
)
from tests.server.test_damage import flipped

SECRETS = [
    "quixotriple", "wimblezark", "florbtangle", "snorquibble", "grumpfelix", "zanthquork", "plimborax", "drofwhistle",
]  # fmt: skip


def redact(service: Service, conversation_id: str, **fields: Any) -> api.RedactMessageResponse:
    request = api.RedactMessageRequest(conversation_id=conversation_id, **fields)
    return service.conversations.RedactMessage(request)


def secret_turn(service: Service, conversation_id: str) -> list[Message]:
    """Append a turn of three messages with a secret word in each of their fields."""
    words = iter(SECRETS)
    question = user(
        f"My password is {next(words)}, zebra",
        sender=next(words),
        sender_name=next(words),
        attachments=[Attachment(media_type="a/b", uri=next(words))],
    )
    question.metadata.update({"k": next(words)})
    call = ToolCall(id="c", name=next(words), arguments=next(words))
    answer = agent("", thinking_text=next(words), tool_calls=[call], cost=0.5)
    done = service.append(
        conversation_id, question, answer, tool("c", SECRETS[0]), request_id="secret"
    )
    return list(done.messages)


@pytest.mark.files
def test_a_transcript_that_grew_by_hand_is_redacted_once_its_lines_are_taken_in(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of("My password is quixotriple")
    other = service.conversation_of("zebra")
    path = transcript(server, conversation_id)
    line = b'{"type":"turn","role":"user","content":"by hand","timestamp":"2026-01-01T00:00:00Z"}\n'
    path.write_bytes(grown := path.read_bytes() + line)
    failure = failure_of(lambda: redact(service, conversation_id, sequence=2))
    assert (failure.code, failure.reason) == ("UNAVAILABLE", "INDEX_UNAVAILABLE")
    assert path.read_bytes() == grown
    assert redact(service, conversation_id, sequence=2).messages[0].content == "[redacted]"
    assert line in path.read_bytes()
    assert files_with(server.data_dir, "quixotriple") == []
    texts = [it.content for it in service.load(conversation_id).messages]
    assert texts[0] == "[redacted]"
    assert "by hand" in texts
    assert service.found("zebra") == [other]


@pytest.mark.files
@pytest.mark.parametrize("where", [{"sequence": 2}, {"turn_number": 1}], ids=["line", "turn"])
def test_in_a_transcript_that_was_emptied_there_is_no_message_to_redact(
    service: Service, server: RunningServer, where: dict[str, int]
) -> None:
    conversation_id = service.conversation_of("My password is quixotriple")
    transcript(server, conversation_id).write_bytes(b"")
    failure = failure_of(lambda: redact(service, conversation_id, **where))
    assert (failure.code, failure.fields) == ("INVALID_ARGUMENT", tuple(where))


def test_no_byte_of_any_file_has_the_text_of_a_redacted_turn(
    service: Service, server: RunningServer, clock: MovableClock
) -> None:
    others = [service.conversation_of(f"other {number} with zebra") for number in range(3)]
    conversation_id = service.conversation_of("Good morning")
    before = secret_turn(service, conversation_id)
    service.turn(conversation_id, "And now something else", "Gladly, about otters.")
    service.abbreviate(conversation_id, f"notes {SECRETS[0]}", [f"about-{SECRETS[1]}"])
    service.compress(conversation_id, 2, f"summary {SECRETS[2]}")
    service.conversations.Rename(
        api.RenameRequest(conversation_id=conversation_id, title=f"On {SECRETS[3]}", automatic=True)
    )
    service.recall.SetAnchor(
        recall_api.SetAnchorRequest(
            key="password",
            value=SECRETS[4],
            source=AnchorSource(conversation_id=conversation_id, sequence=before[0].sequence),
        )
    )
    torn = transcript(server, conversation_id).with_suffix(".jsonl.torn")
    torn.write_text(SECRETS[0])
    usage = service.get(conversation_id).cost_total
    there = files_with(server.data_dir, *SECRETS)
    assert len({line.split(": ")[1] for line in there}) == len(SECRETS)
    clock.move(5000)
    done = redact(service, conversation_id, turn_number=2, request_id="r")
    assert files_with(server.data_dir, *SECRETS) == []
    assert [it.content for it in done.messages] == ["[redacted]"] * 3
    assert done.redact_time == moment(clock.now)
    after = service.load(conversation_id, max_tokens=100_000).messages
    assert [it.sequence for it in after if it.turn_number == 2] == [it.sequence for it in before]
    assert list(done.messages) == [it for it in after if it.HasField("redaction")]
    for tombstone, message in zip(done.messages, before, strict=True):
        assert (tombstone.role, tombstone.timestamp) == (message.role, message.timestamp)
        assert tombstone.redaction.time == moment(clock.now)
    assert [it.id for it in done.messages[1].tool_calls] == [done.messages[2].tool_call_id]
    conversation = service.get(conversation_id)
    assert conversation == done.conversation
    assert (conversation.title, conversation.abbreviation, list(conversation.topics)) == (
        "",
        "",
        [],
    )
    assert (conversation.compressed_through, conversation.cost_total) == (0, usage)
    assert (conversation.turn_count, conversation.message_count) == (3, 6)
    assert set(service.found("zebra")) == set(others)
    assert service.found("otters") == [conversation_id]


@pytest.mark.files
@pytest.mark.parametrize("by", [{"turn_number": 2}, {"sequence": 4}], ids=["turn", "message"])
def test_what_people_said_of_a_redacted_answer_goes_with_it(
    start_server: Start, connect: Connect, by: dict[str, int]
) -> None:
    server = start_server()
    service = connect(server)
    name = service.conversation_of("Good morning")
    service.turn(name, "My password is zebra", "It is short.")
    stays: dict[str, Any] = {
        "page.feedback": True,
        "page.feedback.1": {"rating": "up", "comment": "kind"},
        "step.2": "two",
        "feedback.22": "another turn",
    }
    goes = {"page.feedback.2": {"rating": "down", "comment": "quixotriple"}, "feedback.2": 1}
    updates: list[dict[str, Any]] = [
        {"page.feedback.2": {"comment": "wimblezark"}},  # which the next one replaces
        stays | goes,
        {"other.feedback.2": "florbtangle"},
        {"other.feedback.2": None},
    ]
    for number, values in enumerate(updates):
        change = api.UpdateMetadataRequest(conversation_id=name, request_id=f"said-{number}")
        change.metadata.update(values)
        service.conversations.UpdateMetadata(change)
    assert {it.split(": ")[1] for it in files_with(server.data_dir, *SECRETS)} == {*SECRETS[:3]}
    done = redact(service, name, **by)
    assert files_with(server.data_dir, *SECRETS) == []
    for _ in ("running", "new index"):
        assert dict(service.get(name).metadata) == dict(done.conversation.metadata)
        assert {**service.get(name).metadata}.keys() == stays.keys()
        assert service.get(name).metadata["feedback.22"] == "another turn"
        server.stop()
        delete_index(server)
        server = start_server()
        service = connect(server)
    assert files_with(server.data_dir, *SECRETS) == []


def test_the_request_id_of_a_redacted_message_is_not_free_for_another_call(
    service: Service, server: RunningServer
) -> None:
    """Its hash is gone, so that what it was is told by what it wrote."""
    name, other = service.conversation_of("Good morning"), service.conversation_of("zebra")
    service.append(name, user("quixotriple"), request_id="q")
    redact(service, name, turn_number=2)
    channels = ChannelServiceStub(service.channel)
    external = ExternalCommunicationServiceStub(service.channel)
    command = channel_api.RunCommandRequest(conversation_id=name, text="/new", request_id="q")
    contact = external_api.RegisterContactRequest(
        channel="whatsapp", party="+436601234567", trust=TRUST_BLOCKED, request_id="q"
    )
    for call in (
        lambda: redact(service, name, sequence=2, request_id="q"),
        lambda: service.append(other, user("lemon"), request_id="q"),
        lambda: service.rename(other, "Title", request_id="q"),
        lambda: service.delete(other, request_id="q"),
        lambda: service.create(request_id="q"),
        lambda: service.conversations.Fork(api.ForkRequest(conversation_id=name, request_id="q")),
        lambda: service.conversations.DeleteMany(
            api.DeleteManyRequest(channels=["cli"], request_id="q")
        ),
        lambda: service.conversations.Switch(
            api.SwitchRequest(from_conversation_id=name, to_conversation_id=other, request_id="q")
        ),
        lambda: channels.RunCommand(command),
        lambda: external.RegisterContact(contact),
    ):
        assert failure_of(call).reason == "REQUEST_ID_REUSED"
    assert [it.content for it in service.load(other).messages] == ["zebra"]
    assert service.get(other).title == ""


def test_a_repeat_answers_the_same_and_brings_nothing_back(
    start_server: Start, connect: Connect
) -> None:
    """Of the redaction, and of the append that brought the message; also with a new index."""
    server = start_server()
    service = connect(server)
    conversation_id = service.conversation_of("Good morning")
    before = secret_turn(service, conversation_id)
    first = redact(service, conversation_id, sequence=before[0].sequence, request_id="r")
    redact(service, conversation_id, turn_number=2)
    assert not first.duplicate
    again: list[Any] = []
    for _ in range(2):
        repeat = redact(service, conversation_id, sequence=before[0].sequence, request_id="r")
        assert repeat.duplicate
        repeat.duplicate = False
        assert repeat == first
        appended = service.append(
            conversation_id, user("Something else altogether"), request_id="secret"
        )
        again.append(appended)
        assert appended.duplicate
        assert [it.content for it in appended.messages] == ["[redacted]"] * 3
        assert redact(service, conversation_id, sequence=before[1].sequence).duplicate
        server.stop()
        delete_index(server)
        server = start_server()
        service = connect(server)
    assert files_with(server.data_dir, *SECRETS) == []
    assert len(service.load(conversation_id).messages) == 4


@pytest.mark.files
@pytest.mark.parametrize("is_reread", [False, True], ids=["running", "new index"])
def test_a_repeat_names_the_line_of_a_tombstone_that_was_damaged_since(
    start_server: Start, connect: Connect, is_reread: bool
) -> None:
    """The request is known, and no message is left to answer it with."""
    server = start_server()
    service = connect(server)
    conversation_id = service.conversation_of("Good morning", "My password is quixotriple")
    redact(service, conversation_id, sequence=3, request_id="r")
    path = transcript(server, conversation_id)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = flipped(lines[2])
    path.write_bytes(b"".join(lines))
    if is_reread:
        server.stop()
        delete_index(server)
        service = connect(start_server())
    for request_id in ("r", "another", ""):
        failure = failure_of(
            partial(redact, service, conversation_id, sequence=3, request_id=request_id)
        )
        assert (failure.code, failure.fields) == ("INVALID_ARGUMENT", ("sequence",))
        assert "is 3, a line that is damaged" in failure.text
        assert failure.text.endswith("only a delete removes it")
    assert path.read_bytes() == b"".join(lines)


@pytest.mark.files
@pytest.mark.parametrize("is_reread", [False, True], ids=["running", "new index"])
def test_a_repeat_answers_by_the_tombstones_where_its_own_line_was_damaged_since(
    start_server: Start, connect: Connect, is_reread: bool
) -> None:
    server = start_server()
    service = connect(server)
    conversation_id = service.conversation_of("Good morning", "My password is quixotriple")
    first = redact(service, conversation_id, sequence=3, request_id="r")
    service.append(conversation_id, agent("Noted."))
    path = transcript(server, conversation_id)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[-2] = flipped(lines[-2])
    path.write_bytes(b"".join(lines))
    if is_reread:
        server.stop()
        delete_index(server)
        service = connect(start_server())
    again = redact(service, conversation_id, sequence=3, request_id="r")
    assert again.duplicate
    assert again.messages == first.messages
    assert path.read_bytes() == b"".join(lines)


@pytest.mark.files
def test_a_repeat_whose_own_line_was_damaged_since_redacts_nothing_more(
    service: Service, server: RunningServer
) -> None:
    """The turn goes on behind its redaction, so its number names more than it did."""
    conversation_id = service.conversation_of("Good morning", "My password is quixotriple")
    redact(service, conversation_id, turn_number=2, request_id="r")
    service.append(conversation_id, agent("Noted."))
    assert [it.turn_number for it in service.load(conversation_id).messages] == [1, 2, 2]
    path = transcript(server, conversation_id)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[-2] = flipped(lines[-2])
    path.write_bytes(b"".join(lines))
    again = failure_of(partial(redact, service, conversation_id, turn_number=2, request_id="r"))
    assert again.reason == "REQUEST_ID_REUSED"
    assert path.read_bytes() == b"".join(lines)


def test_no_repeat_or_late_call_brings_an_anchor_of_a_redacted_message_back(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of("Good morning", f"It is {SECRETS[0]}")
    source = AnchorSource(conversation_id=conversation_id, sequence=3)
    request = recall_api.SetAnchorRequest(
        key="password", value=SECRETS[0], source=source, request_id="a"
    )
    service.recall.SetAnchor(request)
    redact(service, conversation_id, sequence=3)
    for request_id in ("a", "late"):
        request.request_id = request_id
        failure = failure_of(lambda: service.recall.SetAnchor(request))
        assert (failure.code, failure.fields) == ("INVALID_ARGUMENT", ("source.sequence",))
    assert files_with(server.data_dir, SECRETS[0]) == []


def test_what_cannot_be_redacted_is_refused_by_the_field_and_changes_nothing(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of("one")
    before = transcript(server, conversation_id).read_bytes()
    for fields, field in (
        ({"sequence": 1}, "sequence"),
        ({"sequence": 3}, "sequence"),
        ({"sequence": 1 << 60}, "sequence"),
        ({"sequence": -1}, "sequence"),
        ({"turn_number": 2}, "turn_number"),
        ({}, "sequence"),
        ({"sequence": 2, "turn_number": 1}, "sequence"),
        ({"sequence": 2, "request_id": "a b"}, "request_id"),
    ):
        failure = failure_of(partial(redact, service, conversation_id, **fields))
        assert failure.reason == "INVALID_FIELD"
        assert field in failure.fields
    assert transcript(server, conversation_id).read_bytes() == before


def test_shortest_messages_and_plain_lines_have_room_for_their_tombstones(
    start_server: Start, connect: Connect
) -> None:
    server = start_server()
    service = connect(server)
    conversation_id = service.conversation_of("x")
    service.append(conversation_id, agent("", tool_calls=[ToolCall(id="c", name="l")]), tool("c"))
    server.stop()
    with transcript(server, conversation_id).open("a") as file:
        file.write(
            '{"type":"turn","role":"user","content":"y","timestamp":"2026-01-01T00:00:00Z","turnNumber":2}\n'
        )
    server = start_server()
    service = connect(server)
    size = len(service.load(conversation_id).messages)
    redact(service, conversation_id, turn_number=1)
    done = redact(service, conversation_id, turn_number=2)
    assert len(service.load(conversation_id).messages) == size == 4
    assert [it.content for it in done.messages] == ["[redacted]"]
    assert '"y"' not in transcript(server, conversation_id).read_text()
    server.stop()
    assert transcript(server, conversation_id).read_text().count('"content"') == 0
    assert len(connect(start_server()).load(conversation_id).messages) == 4


def test_a_context_shows_that_a_message_was_redacted_and_a_fork_keeps_its_copy(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of("Good morning", SECRETS[0])
    fork = service.conversations.Fork(api.ForkRequest(conversation_id=conversation_id))
    done = redact(service, conversation_id, turn_number=2)
    assert list(done.copied_in) == [fork.conversation.id]
    assert list(redact(service, fork.conversation.id, turn_number=2).copied_in) == [conversation_id]
    assert files_with(server.data_dir, SECRETS[0]) == []
    built = service.recall.BuildContext(
        recall_api.BuildContextRequest(conversation_id=conversation_id, message="And now?")
    )
    assert "[redacted]" in str(built)
    again = service.conversations.Fork(api.ForkRequest(conversation_id=conversation_id))
    copies = service.load(again.conversation.id).messages
    assert [it.HasField("redaction") for it in copies] == [False, True]


def test_a_command_that_quoted_a_message_quotes_it_no_more(
    service: Service, server: RunningServer
) -> None:
    channels = ChannelServiceStub(service.channel)
    conversation_id = service.create("cli", pinned=True).id
    service.append(conversation_id, user(f"It is {SECRETS[0]}"))
    command = partial(
        channels.RunCommand,
        channel_api.RunCommandRequest(
            conversation_id=conversation_id, text="/history 5", request_id="h"
        ),
    )
    assert SECRETS[0] in str(command())
    redact(service, conversation_id, sequence=2)
    assert files_with(server.data_dir, SECRETS[0]) == []
    assert SECRETS[0] not in str(command())


def test_a_redacted_conversation_is_deleted_with_every_row_of_it(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of("My password is quixotriple")
    redact(service, conversation_id, sequence=2)
    service.delete(conversation_id)
    index = server.app.spaces.open_now()[0]._space.index
    with index.reading() as connection:
        for query in (
            "SELECT count(*) FROM messages",
            "SELECT count(*) FROM turns_fts_docsize",
            "SELECT count(*) FROM deletions",
        ):
            assert connection.execute(query).get == 0, query
        # nothing of it is taken for damage, which would have the next start make the index anew
        query = "SELECT count(*) FROM identity WHERE name = 'rebuild_wanted'"
        assert connection.execute(query).get == 0


def overtaken(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]
) -> None:
    """Let the next redaction be overtaken: it reads the transcript before it holds the
    conversation's lock.
    """
    redactions = server.app.spaces.open_now()[0]._space.redactions
    read_ahead = redactions._read_ahead

    def read_and_be_overtaken(name: str) -> object:
        read = read_ahead(name)
        monkeypatch.undo()
        meanwhile()
        return read

    monkeypatch.setattr(redactions, "_read_ahead", read_and_be_overtaken)


def test_what_is_written_and_redacted_after_a_redaction_has_read_stays_so(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation_id = service.conversation_of("My password is quixotriple")
    service.append(conversation_id, user("My number is wimblezark"), agent("I forget florbtangle"))

    def meanwhile() -> None:
        redact(service, conversation_id, sequence=3)
        service.append(conversation_id, user("And then came snorquibble"))

    overtaken(server, monkeypatch, meanwhile)
    redact(service, conversation_id, sequence=2)
    texts = [it.content for it in service.load(conversation_id).messages]
    assert texts == [
        "[redacted]",
        "[redacted]",
        "I forget florbtangle",
        "And then came snorquibble",
    ]
    assert service.found("snorquibble") == [conversation_id]
    assert files_with(server.data_dir, "quixotriple", "wimblezark") == []
    server.stop()
    assert problems(server.folder) == []


def test_a_redaction_that_an_unindexing_overtakes_leaves_no_word(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation_id = service.conversation_of("My password is quixotriple", "Thank you, wimblezark")
    space = server.app.spaces.open_now()[0]._space
    overtaken(
        server, monkeypatch, lambda: space.unindexing.unindex(conversation_id, lambda _: True)
    )
    redact(service, conversation_id, sequence=2)
    assert files_with(server.data_dir, "quixotriple") == []
    assert service.found("wimblezark") == []
    service.append(conversation_id, user("And then came snorquibble"))
    while space.unindexing.settle():
        pass
    assert service.found("wimblezark") == service.found("snorquibble") == [conversation_id]
    assert files_with(server.data_dir, "quixotriple") == []
    server.stop()
    assert problems(server.folder) == []


def test_a_redaction_that_a_delete_overtakes_finds_nothing(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation_id = service.conversation_of("My password is quixotriple")
    overtaken(server, monkeypatch, lambda: service.delete(conversation_id))
    assert code_of(lambda: redact(service, conversation_id, sequence=2)) == "NOT_FOUND"
    assert list(server.data_dir.rglob(f"{conversation_id}*")) == []
    assert files_with(server.data_dir, "quixotriple") == []
    server.stop()
    assert problems(server.folder) == []


def test_a_communication_is_removed_by_hand_as_the_guide_says(
    start_server: Start, connect: Connect
) -> None:
    server = start_server()
    with Client(server.target) as client:
        received = client.channels.receive("discord", "1", "My number is quixotriple", sender="eve")
        assert isinstance(received.outcome, ReceivedExternal)
        name = received.outcome.communication.id
        stays = connect(server).conversation_of("zebra")
        server.stop()
        (server.data_dir / "default" / "external" / f"{name}.jsonl").unlink()
        delete_index(server)
    again = start_server(data_dir=server.data_dir)
    with Client(again.target) as client:
        assert list(client.external.list_communications()) == []
        assert client.recall.search("zebra").results[0].conversation_id == stays
    assert files_with(server.data_dir, "quixotriple") == []
    again.stop()
    assert problems(server.folder) == []
