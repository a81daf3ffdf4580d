"""Every field of a message and of a conversation survives every layer: a new one that a layer drops
fails here.
"""

import dataclasses
import types
from enum import StrEnum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from google.protobuf.message import Message as Proto
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from recollect.v1.message_pb2 import ROLE_ASSISTANT, ROLE_TOOL
from recollect.v1.message_pb2 import Message as ProtoMessage
from recollect_server.domain.conversation import Began, Conversation
from recollect_server.domain.external import ExternalMessage
from recollect_server.domain.message import Message
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.record import Entry, decode, encode

from tests.server.conftest import Service, user

ASSIGNED = {"sequence", "turn_number"}  # fields of the contract that the server sets
SEQUENCE = 7


def filled(kind: Any, name: str = "") -> Any:
    """Return a value of a type in which no field has its default."""
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(
            **{
                field.name: filled(hints[field.name], field.name)
                for field in dataclasses.fields(kind)
            }
        )
    if origin in (Union, types.UnionType):
        return filled(arguments[0], name)
    if origin is tuple:
        return (
            (filled(arguments[0], name),)
            if arguments[-1] is Ellipsis
            else tuple(filled(it, name) for it in arguments)
        )
    if origin is dict:
        return {name: 1}
    if issubclass(kind, StrEnum):
        return list(kind)[-1]
    return {str: f"a {name}", int: SEQUENCE, float: 0.5, bool: True}[kind]


def filled_proto(message: Proto, *without: str) -> Any:
    """Fill every field of a message of the contract but those of these names."""
    if isinstance(message, Timestamp):
        message.FromMilliseconds(1_700_000_000_123)
    elif isinstance(message, Struct):
        message.update({"key": [1, "two"]})
    else:
        for field in message.DESCRIPTOR.fields:
            if field.name in without:
                continue
            if field.message_type is not None:
                value = getattr(message, field.name)
                filled_proto(value.add() if field.is_repeated else value)
            elif field.enum_type is not None:
                setattr(message, field.name, field.enum_type.values[-1].number)
            else:
                values = {field.CPPTYPE_STRING: f"a-{field.name}", field.CPPTYPE_DOUBLE: 0.5}
                setattr(message, field.name, values.get(field.cpp_type, 9))
    return message


def test_the_index_keeps_every_field_of_a_conversation(tmp_path: Path) -> None:
    expected = filled(Conversation)
    index = Index(tmp_path)
    line = Line(1, 0, 10, Entry(Began(expected.id, expected.channel, 1)))
    number, _ = index.add(None, None, expected, [line], time=1, failed=pytest.fail)
    stored = index.conversations.find(expected.id)
    assert stored is not None
    assert stored.conversation == expected
    assert index.conversations.by_number({number}) == {number: expected}
    index.close()


@pytest.mark.parametrize("kind", [Message, ExternalMessage])
def test_a_transcript_keeps_every_field_of_a_message(kind: type[Message | ExternalMessage]) -> None:
    message = filled(kind)
    assert decode(encode(Entry(message)).rstrip(b"\n"), SEQUENCE).content == message


def test_a_server_answers_with_every_field_of_a_message_that_was_sent(service: Service) -> None:
    call = filled_proto(ProtoMessage(), *ASSIGNED, "role", "tool_call_id")
    call.role = ROLE_ASSISTANT
    result = ProtoMessage(role=ROLE_TOOL, tool_call_id=call.tool_calls[0].id, content="found")
    given = {field.name for message in (call, result) for field, _ in message.ListFields()}
    assert given | ASSIGNED == {field.name for field in ProtoMessage.DESCRIPTOR.fields}
    conversation_id = service.told("one")
    service.append(conversation_id, user("two"), call, result)
    stored = list(service.load(conversation_id).messages)[-2:]
    for sent, loaded in zip((call, result), stored, strict=True):
        for field, value in sent.ListFields():
            assert getattr(loaded, field.name) == value, field.name
