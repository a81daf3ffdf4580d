"""Every field of the contract is in the client's types, and every field of a type is sent."""

import dataclasses
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import recollect
from google.protobuf.message import Message as Proto
from recollect import Message, Party
from recollect._shared import calls
from recollect._shared.read import reading
from recollect._shared.rpc import Method
from recollect.v1 import (
    anchor_pb2,
    channel_pb2,
    conversation_pb2,
    external_communication_pb2,
    message_pb2,
    update_pb2,
)

from tests.cases import each
from tests.fields import choices, filled_proto, without_each

READERS: dict[type[Proto], Callable[[Any], object]] = {
    message_pb2.Message: reading(recollect.Message),
    conversation_pb2.Conversation: reading(recollect.Conversation),
    anchor_pb2.Anchor: reading(recollect.Anchor),
    channel_pb2.OwnerIdentity: reading(recollect.OwnerIdentity),
    external_communication_pb2.ExternalCommunication: reading(recollect.ExternalCommunication),
    external_communication_pb2.ExternalMessage: reading(recollect.ExternalMessage),
    external_communication_pb2.Escalation: reading(recollect.Escalation),
    external_communication_pb2.CommunicationUpdate: reading(recollect.CommunicationUpdate),
    update_pb2.Update: reading(recollect.Update),
    **{
        it.response: it.read
        for it in vars(calls).values()
        if isinstance(it, Method) and "Stream" not in it.path
    },
}
# What the client leaves of an answer.
UNREAD = {
    "CreateResponse": {"messages", "cursor", "duplicate"},
    "ForkResponse": {"cursor", "duplicate"},
    "RecentResponse": {"has_more"},
}


@each("kind", READERS)
def test_the_client_reads_every_field_of_an_answer(kind: type[Proto]) -> None:
    unread: set[str] = set()
    for choice in choices(kind()):
        if choice == "heartbeat":
            continue  # the client delivers none
        message = filled_proto(kind(), choice=choice)
        whole = read_by(READERS[kind], message)
        unread |= {
            path
            for path, less in without_each(message)
            if path not in choices(message) and read_by(READERS[kind], less) == whole
        }
    assert {it for it in unread if it.rpartition(".")[0] not in unread} == UNREAD.get(
        kind.DESCRIPTOR.name, set()
    )


def read_by(reader: Callable[[Any], Any], message: Proto) -> object:
    """Return what a reader makes of a message; the error of one that needs the field."""
    try:
        answer = reader(message)
    except recollect.InternalError as error:
        return str(error)
    return tuple(answer) if isinstance(answer, Iterator) else answer


def test_the_client_sends_every_field_of_a_message() -> None:
    message = Message(
        role=recollect.Role.ASSISTANT,
        content="content",
        timestamp=datetime(2026, 2, 14, 12, tzinfo=UTC),
        thinking_text="thinking",
        usage=recollect.Usage(1, 2),
        cost=0.5,
        channel="web",
        sender="alex",
        sender_name="Alex",
        tool_calls=(recollect.ToolCall("id", "name", "{}"),),
        tool_call_id="call",
        attachments=(recollect.Attachment("image/png", "file:///a.png", 3),),
        metadata={"key": 1},
        redaction=recollect.Redaction("token"),
    )
    assert unsent(message, lambda it: calls.APPEND_TURN(messages=[it], request_id="one")) == {
        "sequence",
        "turn_number",
        "redaction",
    }


def test_the_client_sends_every_field_of_a_party() -> None:
    party = Party(
        contact="contact",
        group_id="group",
        thread_id="thread",
        subject="subject",
        contact_name="Contact",
        group_name="Group",
    )

    def call(it: Party) -> Any:
        return calls.CREATE(party=it, request_id="one")

    assert unsent(party, call) == set()


def unsent(value: Any, call: Callable[[Any], Any]) -> set[str]:
    """Return the fields of a value of which the request of a call says nothing."""
    whole = call(value).request
    names: set[str] = set()
    for field in dataclasses.fields(value):
        if callable(field.default_factory):
            default = field.default_factory()
        elif field.default is not dataclasses.MISSING:
            default = field.default
        else:
            continue  # it cannot be left out
        if call(dataclasses.replace(value, **{field.name: default})).request == whole:
            names.add(field.name)
    return names


OF_A_NEWER_SERVER = b"\xc2\x3e\x03new"
"""Field 1000 of a message, which this contract has not."""


def test_fields_and_kinds_of_update_of_a_newer_server_are_passed_over() -> None:
    message = filled_proto(message_pb2.Message())
    newer = message_pb2.Message.FromString(message.SerializeToString() + OF_A_NEWER_SERVER)
    assert reading(recollect.Message)(newer) == reading(recollect.Message)(message)
    update = update_pb2.Update(conversation_id="conv-a", cursor="c")
    newer_update = update_pb2.Update.FromString(update.SerializeToString() + OF_A_NEWER_SERVER)
    read = reading(recollect.Update)(newer_update)
    assert (read.conversation_id, read.cursor) == ("conv-a", "c")
    assert not read.kind


def test_a_value_of_a_newer_server_is_an_error_that_says_so() -> None:
    message = filled_proto(message_pb2.Message())
    message.role = 99
    with pytest.raises(
        recollect.InternalError, match="role 99, which this client is too old to know"
    ):
        reading(recollect.Message)(message)
