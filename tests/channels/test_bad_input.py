"""Bad input over channels: refused by the field's name, and nothing is written."""

from typing import Any

from recollect.v1 import channel_service_pb2 as api
from recollect.v1.channel_pb2 import (
    CliOrigin,
    DiscordOrigin,
    EmailOrigin,
    OwnerIdentity,
    WebOrigin,
    WhatsappOrigin,
)
from recollect.v1.message_pb2 import Attachment

from tests.cases import each
from tests.channels.conftest import ALEX, Post
from tests.conftest import MovableClock, RunningServer
from tests.server.conftest import failure_of, kept_by, moment

GOOD: dict[str, Any] = {
    "channel": "whatsapp",
    "provider_message_id": "1",
    "sender": ALEX,
    "text": "Hello",
}
MAIL: dict[str, Any] = GOOD | {"channel": "email", "sender": "alex@example.org"}
DAY = 86_400_000

MESSAGES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    (GOOD | {"channel": ""}, ("channel",)),
    (GOOD | {"channel": "What's App"}, ("channel",)),
    (GOOD | {"channel": "a" * 33}, ("channel",)),
    (GOOD | {"provider_message_id": ""}, ("provider_message_id",)),
    (GOOD | {"provider_message_id": "x" * 999}, ("provider_message_id",)),
    (GOOD | {"provider_message_id": "a\0b"}, ("provider_message_id",)),
    (GOOD | {"sender": ""}, ("sender",)),
    (GOOD | {"sender": " \t"}, ("sender",)),
    (GOOD | {"sender": "()"}, ("sender",)),
    (GOOD | {"sender": "+1\0"}, ("sender",)),
    (GOOD | {"sender": "1" * 321}, ("sender",)),
    (MAIL | {"sender": "Alex", "email": EmailOrigin(message_id="<a@x>")}, ("sender",)),
    (GOOD | {"text": ""}, ("text",)),
    (GOOD | {"text": "a\0b"}, ("text",)),
    (GOOD | {"text": "x" * (1 << 20)}, ("text",)),
    (GOOD | {"attachments": [Attachment(uri="x")]}, ("attachments[0].media_type",)),
    (GOOD | {"attachments": [Attachment(media_type="a/b")]}, ("attachments[0].uri",)),
    (GOOD | {"attachments": [Attachment(media_type="a/b", uri="x")] * 65}, ("attachments",)),
    (GOOD | {"time": moment(0)}, ("time",)),
    (GOOD | {"time": moment(1_790_000_000_000 + DAY + 1000)}, ("time",)),
    (GOOD | {"email": EmailOrigin(message_id="<a@x>")}, ("email",)),
    (GOOD | {"discord": DiscordOrigin(channel_id="1")}, ("discord",)),
    (GOOD | {"cli": CliOrigin()}, ("cli",)),
    (GOOD | {"web": WebOrigin()}, ("web",)),
    (GOOD | {"channel": "matrix", "whatsapp": WhatsappOrigin()}, ("whatsapp",)),
    (GOOD | {"whatsapp": WhatsappOrigin(group_id="1" * 321)}, ("whatsapp.group_id",)),
    (GOOD | {"whatsapp": WhatsappOrigin(group_id="a\0")}, ("whatsapp.group_id",)),
    (MAIL, ("email",)),
    (MAIL | {"email": EmailOrigin()}, ("email.message_id",)),
    (MAIL | {"email": EmailOrigin(message_id="<>")}, ("email.message_id",)),
    (MAIL | {"email": EmailOrigin(message_id="<a@x> <b@x>")}, ("email.message_id",)),
    (MAIL | {"email": EmailOrigin(message_id="x" * 999)}, ("email.message_id",)),
    (
        MAIL | {"email": EmailOrigin(message_id="<a@x>", in_reply_to="x" * 999)},
        ("email.in_reply_to",),
    ),
    (
        MAIL | {"email": EmailOrigin(message_id="<a@x>", references=["<b@x>"] * 101)},
        ("email.references",),
    ),
    (
        MAIL | {"email": EmailOrigin(message_id="<a@x>", references=["<b@x>", "\0"])},
        ("email.references[1]",),
    ),
    (MAIL | {"email": EmailOrigin(message_id="<a@x>", subject="x" * 999)}, ("email.subject",)),
    (GOOD | {"channel": "discord", "discord": DiscordOrigin()}, ("discord",)),
    (
        GOOD | {"channel": "discord", "discord": DiscordOrigin(channel_id=" ")},
        ("discord.channel_id",),
    ),
    (
        GOOD | {"channel": "discord", "discord": DiscordOrigin(thread_id="1" * 321)},
        ("discord.thread_id",),
    ),
    (GOOD | {"channel": "cli", "cli": CliOrigin(session_name="x" * 129)}, ("cli.session_name",)),
    (GOOD | {"channel": "cli", "cli": CliOrigin(session_name=" work")}, ("cli.session_name",)),
    (
        GOOD | {"channel": "web", "web": WebOrigin(conversation_id="../../etc/passwd")},
        ("web.conversation_id",),
    ),
    (
        {"channel": "X", "email": EmailOrigin()},
        ("channel", "provider_message_id", "sender", "text", "email"),
    ),
]


@each(("fields", "named"), MESSAGES)
def test_a_message_that_is_wrong_is_refused(
    server: RunningServer,
    post: Post,
    clock: MovableClock,
    fields: dict[str, Any],
    named: tuple[str, ...],
) -> None:
    assert clock.now == 1_790_000_000_000
    files = kept_by(post, server)
    failure = failure_of(lambda: post.stub.Receive(api.ReceiveRequest(**fields)))
    assert (failure.code, failure.reason, failure.fields) == (
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        named,
    )
    assert kept_by(post, server) == files


def test_what_is_just_allowed_is_taken(post: Post, clock: MovableClock) -> None:
    longest = {
        "provider_message_id": "x" * 998,
        "time": moment(clock.now + DAY),
        "attachments": [Attachment(media_type="a/b", uri="x")] * 64,
    }
    assert post.stub.Receive(api.ReceiveRequest(**GOOD | longest)).conversation.messages
    references = [f"<{number}{'x' * 980}@x>" for number in range(100)]
    origin = EmailOrigin(
        message_id="x" * 998, in_reply_to="y" * 998, references=references, subject="x" * 998
    )
    assert post.stub.Receive(api.ReceiveRequest(**MAIL | {"email": origin})).conversation.messages
    assert post.mail("Again", "<z@x>", references[-1]).conversation.conversation.turn_count == 2


IDENTITY: dict[str, str] = {"channel": "whatsapp", "identity": "+2"}
IDENTITIES: list[tuple[dict[str, str], tuple[str, ...]]] = [
    (IDENTITY | {"channel": ""}, ("channel",)),
    (IDENTITY | {"channel": "A"}, ("channel",)),
    (IDENTITY | {"identity": ""}, ("identity",)),
    (IDENTITY | {"identity": "()"}, ("identity",)),
    (IDENTITY | {"identity": "1" * 321}, ("identity",)),
    (IDENTITY | {"identity": "+1\0"}, ("identity",)),
    ({"channel": "email", "identity": "alex"}, ("identity",)),
    (IDENTITY | {"request_id": "a b"}, ("request_id",)),
]


@each(("fields", "named"), IDENTITIES)
def test_an_identity_that_is_wrong_is_refused(
    server: RunningServer, post: Post, fields: dict[str, str], named: tuple[str, ...]
) -> None:
    files = kept_by(post, server)
    calls = (
        lambda: post.stub.AddOwnerIdentity(api.AddOwnerIdentityRequest(**fields)),
        lambda: post.stub.RemoveOwnerIdentity(api.RemoveOwnerIdentityRequest(**fields)),
        lambda: post.stub.UnlinkIdentity(api.UnlinkIdentityRequest(**fields)),
    )
    for call in calls:
        failure = failure_of(call)
        assert (failure.code, failure.fields) == ("INVALID_ARGUMENT", named)
    assert kept_by(post, server) == files


def test_links_that_are_wrong_are_refused(server: RunningServer, post: Post) -> None:
    files = kept_by(post, server)
    alex = OwnerIdentity(channel="whatsapp", identity=ALEX)
    for fields, named in (
        ({"person": "", "identities": [alex]}, ("person",)),
        ({"person": " ", "identities": [alex]}, ("person",)),
        ({"person": "x" * 257, "identities": [alex]}, ("person",)),
        ({"person": "Alex", "identities": []}, ("identities",)),
        ({"person": "Alex", "identities": [alex] * 65}, ("identities",)),
        (
            {"person": "Alex", "identities": [alex, OwnerIdentity(channel="email", identity="x")]},
            ("identities[1].identity",),
        ),
        (
            {"person": "Alex", "identities": [OwnerIdentity(identity="x")]},
            ("identities[0].channel",),
        ),
    ):
        assert (
            failure_of(
                lambda fields=fields: post.stub.LinkIdentities(api.LinkIdentitiesRequest(**fields))  # type: ignore[misc]
            ).fields
            == named
        )
    assert failure_of(lambda: post.own("whatsapp", ALEX, "x" * 257)).fields == ("person",)
    assert failure_of(lambda: post.identities(channel="A")).fields == ("channel",)
    assert failure_of(lambda: post.identities(person="\0")).fields == ("person",)
    assert kept_by(post, server) == files
