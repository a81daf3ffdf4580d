"""Every field of a message, of a conversation and of a communication survives every layer: a new
one that a layer drops fails here.
"""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from recollect.v1 import channel_service_pb2 as channels
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import external_communication_service_pb2 as external_api
from recollect.v1.channel_service_pb2_grpc import ChannelServiceStub
from recollect.v1.external_communication_pb2 import ExternalMessage as ProtoExternalMessage
from recollect.v1.external_communication_service_pb2_grpc import ExternalCommunicationServiceStub
from recollect.v1.message_pb2 import ROLE_ASSISTANT, ROLE_TOOL
from recollect.v1.message_pb2 import Message as ProtoMessage
from recollect.v1.update_pb2 import Update
from recollect_server.kernel.domain.conversation import (
    Abbreviated,
    Began,
    Compressed,
    Conversation,
    MetaUpdated,
    Party,
    SplitSuggested,
    TitleAssigned,
)
from recollect_server.kernel.domain.message import Message, Redaction, Role, ToolCall, Usage
from recollect_server.kernel.index import columns
from recollect_server.kernel.index.columns import Columns, dump_json
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.lines import Entry, Line, decode, encode, encoded
from recollect_server.kernel.log.redaction import erased
from recollect_server.people import communication_table as external
from recollect_server.people.communication import (
    CommunicationBegan,
    Direction,
    EscalationOpened,
    EscalationResolved,
    ExternalMessage,
    Trust,
    TrustSet,
)
from recollect_server.run.features import FEATURES

from tests.cases import each
from tests.conftest import RunningServer
from tests.fields import SEQUENCE, filled, filled_proto, unset
from tests.server.conftest import Connect, Service, user

ASSIGNED = {"sequence", "turn_number"}  # fields of the contract that the server sets
REDACTION = "redaction"  # set by the server too, of a message without text (`test_redact.py`)
CONVERSATION = "conv-01HQ0000000000000000000000"
COMMUNICATION = "ext-01HQ0000000000000000000000"
ESCALATION = "esc-01HQ0000000000000000000000"
TIME = 1_700_000_000_123
# only notes that failed have the one, and titles of the owner, which no model wrote, the other
# lists leave out those that have the third, and messages end the fourth
ABSENT = {"notes.failure", "manually_named", "archived", "unindexed"}
DECLARATIONS = [
    it for module in (columns, external) for it in vars(module).values() if type(it) is Columns
]


def updates(service: Service) -> Iterator[Update]:
    """Yield what a stream delivers, from its snapshot on."""
    call = service.conversations.StreamUpdates(api.StreamUpdatesRequest(), timeout=30)
    for response in call:
        yield from (response.update, *response.following)


def of_kind(stream: Iterator[Update], kind: str) -> Iterator[Any]:
    """Yield the updates of a kind, without their envelope."""
    return (getattr(it, kind) for it in stream if it.HasField(kind))  # type: ignore[arg-type]


# Storage ------------------------------------------------------------------------------------------


def test_the_index_keeps_every_field_of_a_conversation(tmp_path: Path) -> None:
    conversation = filled(Conversation)
    index = Index(tmp_path, FEATURES.tables)
    line = Line(1, 0, 10, Entry(Began(conversation.id, conversation.channel, 1)))
    number, _ = index.add(None, None, conversation, [line], time=1, failed=pytest.fail)
    stored = index.conversations.find(conversation.id)
    assert stored is not None
    assert stored.state == conversation
    assert index.conversations.by_number({number}) == {number: conversation}
    index.close()


@each("declared", DECLARATIONS)
def test_the_columns_of_a_table_have_every_field_of_its_rows(declared: Columns[Any]) -> None:
    row = filled(declared.kind)
    # A conversation's come as JSON, which turns arrays into text.
    own = [dump_json(it) if type(it) in (tuple, dict) else it for it in declared.values(row)]
    others = [_at(row, column.path) for column in declared.columns if column.expression]
    assert declared.reader()((*own, *others)) == row


@pytest.mark.parametrize("kind", [Message, ExternalMessage])
def test_a_transcript_keeps_every_field_of_a_message(kind: type[Message | ExternalMessage]) -> None:
    message = dataclasses.replace(filled(kind), redaction=None)  # else it has no text
    assert decode(encode(Entry(message)).rstrip(b"\n"), SEQUENCE).content == message


def test_a_transcript_keeps_the_place_of_a_redacted_message_and_who_redacted_it() -> None:
    redaction = filled(Redaction)
    for message in (
        Message(Role.USER, "", TIME, SEQUENCE, 2, redaction=redaction),
        ExternalMessage(Direction.INBOUND, "", TIME, SEQUENCE, redaction=redaction),
    ):
        assert decode(encode(Entry(message)).rstrip(b"\n"), SEQUENCE).content == message


@pytest.mark.parametrize(
    ("kind", "lasting"),
    [
        (
            Message,
            {
                "role",
                "timestamp",
                "turn_number",
                "usage",
                "cost",
                "channel",
                "tool_call_id",
                "arrived",
            },
        ),
        (
            ExternalMessage,
            {
                "direction",
                "timestamp",
                "provider_message_id",
                "scope",
                "acknowledgement",
                "arrived",
            },
        ),
    ],
)
def test_a_redaction_keeps_no_field_but_those_that_say_so(
    kind: type[Message | ExternalMessage], lasting: set[str]
) -> None:
    """A new field is erased until its declaration says that it is nobody's text."""
    message = dataclasses.replace(filled(kind), redaction=None)
    lines, raw = encoded([Entry(message)], SEQUENCE - 1)
    [left] = erased(lines, [raw[0].rstrip(b"\n")], [SEQUENCE], filled(Redaction))
    after = decode(left.rstrip(b"\n"), SEQUENCE).content
    assert isinstance(after, kind)
    same = {
        it.name
        for it in dataclasses.fields(kind)
        if getattr(after, it.name) == getattr(message, it.name)
    }
    assert same == lasting | {"sequence"}
    # what is left of the others names the places that lines give back, and quotes nothing
    assert not after.attachments
    assert b"a sender" not in left
    assert b"a content" not in left
    assert b"a text" not in left


# Conversations through the server -----------------------------------------------------------------


def test_a_server_answers_with_every_field_of_a_message_that_was_sent(
    service: Service,
) -> None:
    call = filled_proto(ProtoMessage(), *ASSIGNED, REDACTION, "role", "tool_call_id")
    call.role = ROLE_ASSISTANT
    result = ProtoMessage(role=ROLE_TOOL, tool_call_id=call.tool_calls[0].id, content="a result")
    sent = (call, result)
    given = {field.name for message in sent for field, _ in message.ListFields()}
    assert given | ASSIGNED | {REDACTION} == {
        field.name for field in ProtoMessage.DESCRIPTOR.fields
    }
    conversation_id = service.conversation_of("one")
    watching = updates(service)
    next(of_kind(watching, "conversation_loaded"))
    answered = service.append(conversation_id, user("two"), *sent)
    created = service.conversations.Create(
        api.CreateRequest(channel="web", messages=[user("two"), *sent])
    )
    places = {
        "AppendTurn": answered.messages,
        "Load": service.load(conversation_id).messages,
        "FetchContext": service.context(conversation_id).messages,
        "StreamUpdates": next(of_kind(watching, "conversation_updated")).messages,
        "its snapshot": next(of_kind(updates(service), "conversation_loaded")).messages,
        "Create": created.messages,
    }
    for place, messages in places.items():
        for expected, message in zip(sent, list(messages)[-2:], strict=True):
            for field, value in expected.ListFields():
                assert getattr(message, field.name) == value, (place, field.name)
            for name in ASSIGNED:
                assert getattr(message, name), (place, name)


@pytest.fixture
def stored(start_server: Callable[..., RunningServer], tmp_path: Path) -> RunningServer:
    """Start a server whose logs have every kind of entry, all fields filled."""
    usage, calls = Usage(3, 4), (ToolCall("a", "search"),)
    messages = [
        Message(Role.USER, "hello there", TIME, 2, 1, sender="alex", channel="discord"),
        Message(Role.ASSISTANT, "found it", TIME, 3, 1, usage=usage, cost=0.5, tool_calls=calls),
        Message(Role.USER, "hello again", TIME, 4, 2, sender="alex"),
    ]
    party = Party("contact", "group", "thread", "subject", "Contact", "Group")
    conversation = [
        Began(
            CONVERSATION,
            "discord",
            TIME,
            ("alex",),
            party,
            "haiku",
            pinned=True,
            origin_id=CONVERSATION,
            origin_turn=1,
        ),
        *messages,
        TitleAssigned("Title", ("a topic",), TIME, "anthropic", "haiku"),
        Compressed(1, "A summary.", TIME),
        Abbreviated("Notes.", TIME, ("a topic",), "anthropic", "haiku"),
        SplitSuggested("A reason.", ("One", "Another"), TIME),
        MetaUpdated(TIME, topics=("a topic",), metadata={"key": [1, "two"]}),
    ]
    inbound = dataclasses.replace(
        filled(ExternalMessage), timestamp=TIME, sequence=2, redaction=None
    )
    communication = [
        CommunicationBegan(COMMUNICATION, "whatsapp", "1555000", TIME),
        inbound,
        TrustSet(Trust.KNOWN, ("a-scope",), TIME),
        EscalationOpened(ESCALATION, 2, "A question?", TIME),
        EscalationResolved(ESCALATION, "An answer.", TIME),
        EscalationOpened(ESCALATION[:-1] + "1", 2, "Another question?", TIME),
        dataclasses.replace(inbound, sequence=7, provider_message_id="another"),
    ]
    for folder, name, contents in (
        ("conversations", CONVERSATION, conversation),
        ("external", COMMUNICATION, communication),
    ):
        path = tmp_path / "data" / "default" / folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"".join(map(encode, map(Entry, contents))))
    return start_server(data_dir=tmp_path / "data")


def test_a_server_answers_with_every_field_of_a_conversation(
    stored: RunningServer, connect: Connect
) -> None:
    service = connect(stored)
    conversation = service.get(CONVERSATION)
    assert unset(conversation) == ABSENT
    stream = updates(service)
    [listed] = next(of_kind(stream, "conversation_list")).conversations
    loaded = next(of_kind(stream, "conversation_loaded"))
    appended = service.append(CONVERSATION, user("more", sender="alex"))
    assert unset(appended.conversation) == ABSENT
    assert listed == loaded.conversation == conversation
    assert loaded.compression_summary == "A summary."
    update = next(of_kind(stream, "conversation_updated"))
    now = service.get(CONVERSATION)
    assert update.conversation == appended.conversation == now
    assert [service.load(CONVERSATION).conversation, *service.listed().conversations] == [now, now]
    [recent] = service.recent().conversations
    assert recent.conversation == now
    assert service.rename(CONVERSATION, "Another").manually_named


def test_a_search_answers_with_every_field_of_its_hits(
    stored: RunningServer, connect: Connect
) -> None:
    answer = connect(stored).search("hello", explain=True, moment=True)
    first_word = {"snippet_matches.start"}  # which begins at 0
    # the first message of its conversation, with an agent's behind it
    assert unset(answer.hits[0]) == first_word | {"before", "after.sender"}
    assert unset(answer.results[0]) == {"snippet_from_notes"} | first_word  # of a message
    assert connect(stored).search("title", explain=True).results[0].snippet_from_notes


# Third parties through the server -----------------------------------------------------------------


def test_a_server_answers_with_every_field_of_a_communication(
    stored: RunningServer, connect: Connect
) -> None:
    service = ExternalCommunicationServiceStub(connect(stored).channel)
    answer = service.GetCommunication(
        external_api.GetCommunicationRequest(communication_id=COMMUNICATION)
    )
    assert unset(answer.communication) == set()
    for message in answer.messages:
        assert unset(message) == {REDACTION}
    [listed] = service.ListCommunications(external_api.ListCommunicationsRequest()).communications
    stream = service.StreamCommunicationUpdates(external_api.StreamCommunicationUpdatesRequest())
    [shown] = next(stream).update.communication_list.communications
    assert answer.communication == listed == shown
    request = external_api.ListEscalationsRequest(include_resolved=True)
    resolved, waiting = service.ListEscalations(request).escalations
    assert (unset(resolved), unset(waiting)) == (set(), {"answer", "resolve_time"})
    [match, _] = service.SearchCommunications(
        external_api.SearchCommunicationsRequest(query="text")
    ).matches
    assert unset(match) == set()
    assert match.communication == listed
    service.RecordReply(
        external_api.RecordReplyRequest(
            communication_id=COMMUNICATION, text="A reply.", scope="a-scope"
        )
    )
    update = next(it for it in stream if it.update.HasField("communication_message")).update
    stream.cancel()
    assert unset(update.communication_message.communication) == set()
    reply = service.GetCommunication(
        external_api.GetCommunicationRequest(communication_id=COMMUNICATION)
    ).messages[0]
    assert update.communication_message.message == reply
    assert reply.scope == "a-scope"


def test_a_server_keeps_every_field_of_what_a_third_party_sends(
    server: RunningServer, connect: Connect
) -> None:
    service = ChannelServiceStub(connect(server).channel)
    origins = {"whatsapp": "group_id", "email": "", "discord": "thread_id"}
    outbound = {"scope", "acknowledgement"}  # of the owner's side
    given: set[str] = set()
    for at, (channel, choice) in enumerate(origins.items()):
        request = filled_proto(channels.ReceiveRequest(), choice=channel)
        if channel == "discord":
            request.discord.thread_id = "a-thread_id"
        request.channel = channel
        request.sender = "a@example.org" if channel == "email" else "1555000"
        request.time.FromMilliseconds(server.clock.now - at)
        message = service.Receive(request).external.message
        assert message.text == request.text
        assert message.timestamp == request.time
        assert message.attachments == request.attachments
        assert message.provider_message_id == request.provider_message_id
        assert message.sender_name == request.sender_name
        if choice:
            assert f"a-{choice}" in getattr(message, choice)
        else:
            assert unset(message.email) == set()
        given |= {field.name for field, _ in message.ListFields()}
    assert given | outbound | {REDACTION} == {
        field.name for field in ProtoExternalMessage.DESCRIPTOR.fields
    }


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = getattr(value, name)
    return value
