"""Fixtures for the tests of channels: a provider that delivers, and an owner who reads over the
web.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import pytest
from recollect.v1 import channel_service_pb2 as channel_api
from recollect.v1.channel_pb2 import (
    CliOrigin,
    DiscordOrigin,
    EmailOrigin,
    OwnerIdentity,
    WebOrigin,
    WhatsappOrigin,
)
from recollect.v1.channel_service_pb2_grpc import ChannelServiceStub
from recollect.v1.conversation_pb2 import Conversation
from recollect.v1.conversation_service_pb2 import DeleteResponse

from tests.conftest import RunningServer
from tests.server.conftest import Service

ALEX, ALEX_MAIL, SAM, STRANGER = (
    "+1 555-000",
    '"Alex" <Alex@Example.org>',
    "1555111@s.whatsapp.net",
    "+49 170 999",
)

Response = channel_api.ReceiveResponse


class Post(Service):
    """Bare calls of a running server, over channels too. Every delivery has a new id unless the
    test gives one.
    """

    numbers = itertools.count(1)

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.stub = ChannelServiceStub(self.channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def delete(self, conversation_id: str, **fields: Any) -> DeleteResponse:
        """Delete a conversation, pinned or not, as most are pinned here."""
        return super().delete(conversation_id, **({"force": True} | fields))

    def deliver(
        self, channel: str, text: str, sender: str = "", *, delivery: str = "", **fields: Any
    ) -> Response:
        """Deliver one message over a channel."""
        delivery = delivery or f"delivery-{next(self.numbers):05}"
        request = channel_api.ReceiveRequest(
            channel=channel, provider_message_id=delivery, sender=sender, text=text, **fields
        )
        return self.stub.Receive(request)

    def whatsapp(self, text: str, sender: str = ALEX, group: str = "", **fields: Any) -> Response:
        return self.deliver(
            "whatsapp", text, sender, whatsapp=WhatsappOrigin(group_id=group), **fields
        )

    def mail(
        self,
        text: str,
        message_id: str,
        answers: str = "",
        references: Sequence[str] = (),
        *,
        subject: str = "",
        sender: str = ALEX_MAIL,
        **fields: Any,
    ) -> Response:
        origin = EmailOrigin(
            message_id=message_id, in_reply_to=answers, references=references, subject=subject
        )
        return self.deliver("email", text, sender, email=origin, **fields)

    def discord(
        self,
        text: str,
        sender: str = "77",
        *,
        delivery: str = "",
        group_name: str = "",
        **place: str,
    ) -> Response:
        origin = DiscordOrigin(**place)
        return self.deliver(
            "discord", text, sender, delivery=delivery, group_name=group_name, discord=origin
        )

    def cli(self, text: str, session: str = "", **fields: Any) -> Response:
        return self.deliver("cli", text, cli=CliOrigin(session_name=session), **fields)

    def web(self, text: str, conversation_id: str = "", **fields: Any) -> Response:
        return self.deliver("web", text, web=WebOrigin(conversation_id=conversation_id), **fields)

    def command(
        self, conversation_id: str, text: str, request_id: str = ""
    ) -> channel_api.RunCommandResponse:
        request = channel_api.RunCommandRequest(
            conversation_id=conversation_id, text=text, request_id=request_id
        )
        return self.stub.RunCommand(request)

    def own(
        self, channel: str, identity: str, person: str = "", request_id: str = ""
    ) -> OwnerIdentity:
        request = channel_api.AddOwnerIdentityRequest(
            channel=channel, identity=identity, person=person, request_id=request_id
        )
        return self.stub.AddOwnerIdentity(request).identity

    def disown(self, channel: str, identity: str, request_id: str = "") -> OwnerIdentity:
        request = channel_api.RemoveOwnerIdentityRequest(
            channel=channel, identity=identity, request_id=request_id
        )
        return self.stub.RemoveOwnerIdentity(request).identity

    def link(
        self, person: str, *identities: tuple[str, str], request_id: str = ""
    ) -> list[OwnerIdentity]:
        named = [
            OwnerIdentity(channel=channel, identity=identity) for channel, identity in identities
        ]
        request = channel_api.LinkIdentitiesRequest(
            person=person, identities=named, request_id=request_id
        )
        return list(self.stub.LinkIdentities(request).identities)

    def unlink(self, channel: str, identity: str, request_id: str = "") -> OwnerIdentity:
        request = channel_api.UnlinkIdentityRequest(
            channel=channel, identity=identity, request_id=request_id
        )
        return self.stub.UnlinkIdentity(request).identity

    def identities(self, **fields: str) -> list[tuple[str, str, str]]:
        answer = self.stub.ListOwnerIdentities(channel_api.ListOwnerIdentitiesRequest(**fields))
        return [(it.channel, it.identity, it.person) for it in answer.identities]

    def said(self, conversation_id: str) -> list[str]:
        """Return the texts of a conversation, oldest first."""
        return [
            message.content
            for message in self.load(conversation_id, max_turns=1000, max_tokens=1 << 30).messages
        ]

    def everything(self) -> dict[str, list[str]]:
        """Return the texts of all conversations."""
        return {it.id: self.said(it.id) for page in self.pages() for it in page}


def home(response: Response) -> str:
    """Return the conversation that a message joined, or that is in use after a command."""
    return here(response).id


def here(response: Response) -> Conversation:
    kind = response.WhichOneof("outcome")
    assert kind in ("conversation", "command_reply"), kind
    return (
        response.conversation.conversation
        if kind == "conversation"
        else response.command_reply.conversation
    )


def reply(response: Response) -> str:
    assert response.WhichOneof("outcome") == "command_reply"
    return response.command_reply.text


Reach = Callable[[RunningServer], Post]
"""Type of the fixture `reach`."""


@pytest.fixture
def reach() -> Iterator[Reach]:
    """Connect to servers, restarted ones too."""
    posts: list[Post] = []

    def to(server: RunningServer) -> Post:
        posts.append(Post(server.target))
        return posts[-1]

    yield to
    for post in posts:
        post.channel.close()


@pytest.fixture
def post(server: RunningServer, reach: Reach) -> Post:
    """Return the channels of `server`, where Alex is the owner by telephone and by mail."""
    it = reach(server)
    it.own("whatsapp", ALEX)
    it.own("email", ALEX_MAIL)
    return it
