"""`client.channels` against the real server."""

from datetime import UTC, datetime
from typing import Any

import pytest
from recollect import (
    AsyncClient,
    Attachment,
    Client,
    CliOrigin,
    CommandReply,
    Direction,
    DiscordOrigin,
    EmailOrigin,
    ErrorReason,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    OwnerIdentity,
    ReceivedExternal,
    ResourceExhausted,
    StoredInConversation,
    Trust,
    WebOrigin,
    WhatsappOrigin,
)

from tests.conftest import RunningServer

ORIGINS: list[tuple[str, Any, str]] = [
    ("whatsapp", WhatsappOrigin(group_id="1@g.us"), "1@g.us"),
    (
        "email",
        EmailOrigin(message_id="<1@x>", in_reply_to="<0@x>", references=("<0@x>",), subject="Hi"),
        "0@x",
    ),
    ("discord", DiscordOrigin(channel_id="5"), "discord:channel:5"),
    ("cli", CliOrigin(session_name="work"), "cli:work"),
    ("web", WebOrigin(), ""),
]


@pytest.mark.parametrize(
    ("channel", "origin", "place"), ORIGINS, ids=[channel for channel, _, _ in ORIGINS]
)
def test_a_message_of_every_origin_is_received(
    client: Client, channel: str, origin: Any, place: str
) -> None:
    sender = "alex@example.org" if channel == "email" else "1555000"
    client.channels.add_owner_identity(channel, sender)
    file, time = Attachment("image/png", "https://example.org/1"), datetime(2026, 9, 1, tzinfo=UTC)
    received = client.channels.receive(
        channel, "1", "Hello", sender=sender, attachments=[file], time=time, origin=origin
    )
    assert isinstance(received.outcome, StoredInConversation)
    (message,) = received.outcome.messages
    assert (message.content, message.sender, message.attachments, message.timestamp) == (
        "Hello",
        sender,
        (file,),
        time,
    )
    party = received.outcome.conversation.party
    assert place in ("", party and party.thread_id, party and party.group_id)
    assert client.channels.receive(channel, "1", "Hello", sender=sender, origin=origin).duplicate


def test_a_command_is_answered(client: Client) -> None:
    first = client.channels.receive("cli", "1", "Hello").outcome
    second = client.channels.receive("cli", "2", "/model haiku").outcome
    assert isinstance(first, StoredInConversation)
    assert isinstance(second, CommandReply)
    assert (second.text, second.conversation.id) == (
        "The model is haiku from here on.",
        first.conversation.id,
    )
    third = client.channels.run_command(first.conversation.id, "/new")
    assert (third.conversation.model, client.conversations.get(first.conversation.id).pinned) == (
        "haiku",
        False,
    )
    client.conversations.delete(first.conversation.id)
    assert client.channels.receive("cli", "1", "Hello").outcome is None


def test_a_stranger_is_kept_apart(client: Client) -> None:
    received = client.channels.receive("whatsapp", "1", "Who are you?", sender="+2")
    assert isinstance(received.outcome, ReceivedExternal)
    communication, message, escalation = (
        received.outcome.communication,
        received.outcome.message,
        received.outcome.escalation,
    )
    assert (communication.party, communication.trust, communication.open_escalations) == (
        "2",
        Trust.UNTRUSTED,
        1,
    )
    assert (message.text, message.direction, message.provider_message_id) == (
        "Who are you?",
        Direction.INBOUND,
        "1",
    )
    assert escalation is not None
    assert (escalation.sequence, escalation.answer, escalation.resolve_time) == (
        message.sequence,
        "",
        None,
    )
    assert list(client.conversations.list()) == []


def test_identities_are_kept(client: Client) -> None:
    phone = client.channels.add_owner_identity("whatsapp", "+1 555-000", person="Alex")
    assert phone == OwnerIdentity("whatsapp", "1555000", "Alex")
    mail = client.channels.add_owner_identity("email", "A@b.c")
    linked = client.channels.link_identities("Alex", [mail, ("whatsapp", "1555000")])
    assert (
        linked
        == client.channels.list_owner_identities(person="Alex")
        == (OwnerIdentity("email", "a@b.c", "Alex"), phone)
    )
    assert client.channels.unlink_identity("email", "a@b.c") == mail
    assert client.channels.remove_owner_identity("email", "a@b.c") == mail
    assert client.channels.list_owner_identities(channel="email") == ()
    with pytest.raises(NotFound) as raised:
        client.channels.remove_owner_identity("email", "a@b.c")
    assert (raised.value.reason, raised.value.metadata["name"]) == (
        ErrorReason.NOT_FOUND,
        "email a@b.c",
    )


def test_what_is_refused_says_why(client: Client, server: RunningServer) -> None:
    client.channels.add_owner_identity("whatsapp", "1")
    outcome = client.channels.receive("whatsapp", "1", "Hello", sender="1").outcome
    assert isinstance(outcome, StoredInConversation)
    with pytest.raises(FailedPrecondition) as read_only:
        client.channels.receive(
            "web", "1", "Hi", origin=WebOrigin(conversation_id=outcome.conversation.id)
        )
    assert read_only.value.reason == ErrorReason.CONVERSATION_READ_ONLY
    for number in range(20):
        client.channels.receive("whatsapp", f"s{number}", "Spam", sender="666")
    with (
        Client(server.target, retry=None) as impatient,
        pytest.raises(ResourceExhausted) as limited,
    ):
        impatient.channels.receive("whatsapp", "too many", "Spam", sender="666")
    assert (limited.value.reason, limited.value.metadata["sender"]) == (
        ErrorReason.RATE_LIMITED,
        "666",
    )
    assert limited.value.retry_delay == pytest.approx(1.0)
    for faulty, field in (
        ({"origin": DiscordOrigin(dm_user_id="1", channel_id="2")}, "discord"),
        ({"origin": "web"}, "origin"),
        ({"attachments": Attachment("a/b", "x")}, "attachments"),
        ({"attachments": ["x"]}, "attachments[0]"),
        ({"sender": "\ud800"}, "sender"),
    ):
        with pytest.raises(InvalidArgument) as raised:
            client.channels.receive("discord", "1", "Hi", **faulty)
        assert raised.value.violations[0].field == field
    with pytest.raises(InvalidArgument, match=r"identities\[0\]"):
        client.channels.link_identities("Alex", ["whatsapp"])  # type: ignore[list-item]


async def test_the_async_client_receives_too(server: RunningServer) -> None:
    async with AsyncClient(server.target) as client:
        await client.channels.add_owner_identity("discord", "77")
        received = await client.channels.receive(
            "discord", "1", "Hello", sender="77", origin=DiscordOrigin(thread_id="5")
        )
        assert isinstance(received.outcome, StoredInConversation)
        reply = await client.channels.run_command(received.outcome.conversation.id, "/history")
        assert reply.text.endswith("77: Hello")
        assert await client.channels.link_identities("Sam", [("discord", "77")])
        assert await client.channels.list_owner_identities(person="Sam") == (
            OwnerIdentity("discord", "77", "Sam"),
        )
        assert (await client.channels.unlink_identity("discord", "77")).person == ""
        assert (await client.channels.remove_owner_identity("discord", "77")).identity == "77"
