"""A token for one conversation names no other; a token of a channel speaks from there."""

from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from recollect.v1 import channel_pb2, conversation_pb2, conversation_service_pb2
from recollect.v1 import channel_service_pb2 as channels
from recollect_server.access.principal import ALL_SCOPES, Scope
from recollect_server.contract.gate import OWN

from tests.cases import each
from tests.credentials.conftest import CONVERSATION, Caller, Callers
from tests.credentials.contract import METHODS
from tests.server.conftest import failure_of, user

api = conversation_service_pb2
EVERY = tuple(sorted(ALL_SCOPES - {Scope.ANY}))
OTHER = "conv-01HQ0000000000000000000001"


@pytest.fixture
def confined(callers: Callers) -> Caller:
    """Return a caller with all scopes, for a conversation that is there beside another one."""
    brain = callers.of("admin")
    for name in (CONVERSATION, OTHER):
        create(brain, conversation_id=name, messages=[user("zebra")])
    return callers.of("custom", scopes=EVERY, conversation_id=CONVERSATION)


def create(caller: Caller, channel: str = "web", **fields: Any) -> conversation_pb2.Conversation:
    request = api.CreateRequest(channel=channel, **fields)
    made: conversation_pb2.Conversation = caller.call(
        "ConversationService.Create", request
    ).conversation
    return made


def naming(described: Descriptor) -> dict[str, FieldDescriptor]:
    """Return the fields of a message that name conversations, by their names."""
    return {
        it.name: it
        for it in described.fields
        if it.name.endswith(("conversation_id", "conversation_ids"))
    }


@each("name", METHODS)
def test_it_names_no_other_conversation_in_any_field_of_any_call(
    name: str, guarded: Callers
) -> None:
    confined = guarded.of("custom", scopes=EVERY, conversation_id=CONVERSATION)
    described = METHODS[name].input_type
    fields = naming(described)
    path = name.replace(".", "/")
    if path not in OWN:
        assert confined.outcome(name) == "PERMISSION_DENIED"
        return
    assert set(fields) == set(OWN[path])
    for field in fields.values():
        request = GetMessageClass(described)()
        for it in fields.values():
            value = OTHER if it is field else CONVERSATION
            if it.is_repeated:
                getattr(request, it.name).extend([CONVERSATION, value])
            else:
                setattr(request, it.name, value)
        failure = failure_of(lambda r=request: confined.call(name, r))  # type: ignore[misc]
        assert (failure.code, failure.reason) == ("PERMISSION_DENIED", "PERMISSION_DENIED")
        assert field.name in failure.text
        assert failure.metadata["method"] == path


def test_no_message_within_a_request_names_a_conversation_behind_the_gates_back() -> None:
    for path in OWN:
        described = METHODS.get(path.replace("/", "."))
        for field in described.input_type.fields if described else ():
            if field.message_type is not None:
                assert naming(field.message_type) == {}, (path, field.name)


def test_it_works_in_its_own_conversation(callers: Callers) -> None:
    project = callers.of("project", conversation_id=CONVERSATION)
    create(callers.of("brain"), conversation_id=OTHER, messages=[user("zebra")])
    assert create(project, conversation_id=CONVERSATION).id == CONVERSATION
    appended = project.call(
        "ConversationService.AppendTurn",
        api.AppendTurnRequest(conversation_id=CONVERSATION, messages=[user("mine")]),
    )
    assert appended.turn_number == 1
    listed = project.call("ConversationService.List").conversations
    assert [it.id for it in listed] == [CONVERSATION]
    loaded = project.call("ConversationService.Load", api.LoadRequest(channel="web"))
    assert [it.content for it in loaded.messages] == ["mine"]
    switched = project.call(
        "ConversationService.Switch", api.SwitchRequest(to_conversation_id=CONVERSATION)
    )
    assert switched.conversation.id == CONVERSATION
    failure = failure_of(lambda: project.call("RecallService.Search"))
    assert failure.metadata["scope"] == "recall"


def test_it_may_make_no_conversation_but_its_own(callers: Callers) -> None:
    project = callers.of("project", conversation_id=CONVERSATION)
    create(callers.of("brain"), "cli", pinned=True)
    for request in (
        api.CreateRequest(channel="web"),
        api.CreateRequest(channel="web", conversation_id=OTHER),
        api.CreateRequest(channel="cli", conversation_id=CONVERSATION, pinned=True),
    ):
        outcome = project.outcome("ConversationService.Create", request)
        assert outcome == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    "request_",
    [
        api.StreamUpdatesRequest(),
        api.StreamUpdatesRequest(load_channel="web", list_channels=["web"]),
        api.StreamUpdatesRequest(conversation_ids=[CONVERSATION]),
        api.StreamUpdatesRequest(load_conversation_id=CONVERSATION),
    ],
    ids=["unset", "channels", "named", "loaded"],
)
def test_its_stream_has_its_own_conversation_alone(
    request_: api.StreamUpdatesRequest, confined: Caller, callers: Callers
) -> None:
    stream = confined.begin("ConversationService.StreamUpdates", request_)
    first, second = next(stream).update, next(stream).update
    assert [it.id for it in first.conversation_list.conversations] == [CONVERSATION]
    assert second.conversation_loaded.conversation.id == CONVERSATION
    admin = callers.of("admin")
    for name in (OTHER, CONVERSATION):
        admin.call(
            "ConversationService.AppendTurn",
            api.AppendTurnRequest(conversation_id=name, messages=[user("more")]),
        )
    assert next(stream).update.conversation_id == CONVERSATION
    stream.cancel()


def test_a_cursor_of_another_caller_shows_it_nothing_more(
    confined: Caller, callers: Callers
) -> None:
    admin = callers.of("admin")
    stream = admin.begin("ConversationService.StreamUpdates", api.StreamUpdatesRequest())
    cursor = [next(stream).update.cursor for _ in range(2)][-1]
    stream.cancel()
    for name in (OTHER, CONVERSATION):
        admin.call(
            "ConversationService.AppendTurn",
            api.AppendTurnRequest(conversation_id=name, messages=[user("missed")]),
        )
    resumed = confined.begin(
        "ConversationService.StreamUpdates", api.StreamUpdatesRequest(cursor=cursor)
    )
    assert next(resumed).update.conversation_id == CONVERSATION
    resumed.cancel()


# Channels -----------------------------------------------------------------------------------------


def pinned(callers: Callers) -> str:
    """Return the conversation of an owner on WhatsApp."""
    admin = callers.of("admin")
    admin.call(
        "ChannelService.AddOwnerIdentity",
        channels.AddOwnerIdentityRequest(channel="whatsapp", identity="+1555000"),
    )
    received = admin.call("ChannelService.Receive", inbound("whatsapp"))
    name: str = received.conversation.conversation.id
    return name


def inbound(channel: str, delivery: str = "1") -> channels.ReceiveRequest:
    request = channels.ReceiveRequest(
        channel=channel, provider_message_id=delivery, sender="+1555000", text="hello"
    )
    if channel == "whatsapp":
        request.whatsapp.CopyFrom(channel_pb2.WhatsappOrigin())
    return request


@pytest.mark.parametrize("channel", ["", "web", "whatsapp"])
def test_an_append_into_a_conversation_pinned_elsewhere_is_refused_whatever_it_says(
    channel: str, callers: Callers
) -> None:
    """By who calls, not by goodwill."""
    name = pinned(callers)
    request = api.AppendTurnRequest(conversation_id=name, messages=[user("hi", channel=channel)])
    web = callers.of("brain", channel="web")
    failure = failure_of(lambda: web.call("ConversationService.AppendTurn", request))
    assert (failure.code, failure.reason) == ("FAILED_PRECONDITION", "CONVERSATION_READ_ONLY")
    assert failure.metadata == {"conversation_id": name, "channel": "whatsapp"}
    draft = api.PublishDeltaRequest(conversation_id=name, draft_id="d", text="hi")
    assert web.outcome("ConversationService.PublishDelta", draft) == "CONVERSATION_READ_ONLY"
    command = channels.RunCommandRequest(conversation_id=name, text="/clear confirm")
    assert web.outcome("ChannelService.RunCommand", command) == "CONVERSATION_READ_ONLY"
    assert web.call("ConversationService.Get", api.GetRequest(conversation_id=name))


def test_a_caller_of_the_channel_and_one_of_none_append_there(callers: Callers) -> None:
    name = pinned(callers)
    request = api.AppendTurnRequest(conversation_id=name, messages=[user("hi")])
    for caller in (callers.of("brain", channel="whatsapp"), callers.of("brain")):
        assert caller.outcome("ConversationService.AppendTurn", request) == "OK"


def test_what_is_appended_elsewhere_counts_as_coming_from_the_callers_channel(
    callers: Callers,
) -> None:
    made = create(callers.of("brain"), "web")
    request = api.AppendTurnRequest(
        conversation_id=made.id, messages=[user("hi"), user("ho", channel="email")]
    )
    appended = callers.of("brain", channel="cli").call("ConversationService.AppendTurn", request)
    assert [it.channel for it in appended.messages] == ["cli", "cli"]


def test_a_caller_of_a_channel_receives_and_begins_on_it_alone(callers: Callers) -> None:
    gateway = callers.of("gateway", channel="whatsapp")
    pinned(callers)
    assert gateway.outcome("ChannelService.Receive", inbound("whatsapp", "2")) == "OK"
    assert gateway.outcome("ChannelService.Receive", inbound("cli", "3")) == "PERMISSION_DENIED"
    web = callers.of("brain", channel="web")
    request = api.CreateRequest(channel="whatsapp", messages=[user("hi")])
    assert web.outcome("ConversationService.Create", request) == "PERMISSION_DENIED"
    made = create(web, "web", messages=[user("hi", channel="whatsapp")])
    loaded = web.call("ConversationService.Load", api.LoadRequest(conversation_id=made.id))
    assert [it.channel for it in loaded.messages] == [""]
