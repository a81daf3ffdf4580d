# Generated from proto and scripts/client_methods.toml by scripts/client_methods.py.
"""`client.channels`."""

from collections.abc import Iterable
from datetime import datetime

from recollect._async.invoker import Invoker
from recollect._shared import calls
from recollect._types.channel import (
    CommandReply,
    Origin,
    OwnerIdentity,
    Received,
)
from recollect._types.message_parts import Attachment


class Channels:
    """Calls that bring messages of any provider to their conversations and say who is an owner, at
    `client.channels`.

    What is the same in all methods: an argument that is `None` is left to the server's default;
    `timeout` bounds the call in seconds, retries included, instead of the client's own; and
    `request_id` makes a change exactly-once, as in `client.conversations`.
    """

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    async def receive(
        self,
        channel: str,
        provider_message_id: str,
        text: str = "",
        *,
        sender: str | None = None,
        attachments: Iterable[Attachment] = (),
        time: datetime | None = None,
        origin: Origin | None = None,
        sender_name: str | None = None,
        group_name: str | None = None,
        timeout: float | None = None,
    ) -> Received:
        """Receive one inbound message, exactly once by its provider's id on the channel, and return
        its outcome.

        An owner's message joins the conversation of the contact, group, thread or session that it
        came from, or is a slash command and answered. Anyone else's is kept apart, as an external
        communication. A repeat is answered as the first time, whatever else it says. `sender_name`
        is the sender's display name, for people; on e-mail the name in `sender` serves.
        `group_name` is that of the group that `origin` names: its conversation is called by the
        newest one.

        >>> origin = EmailOrigin(message_id="<2@mail>", in_reply_to="<1@mail>")
        >>> received = await client.channels.receive(
        ...     "email", "imap-7", "Paid.", sender="a@example.org", origin=origin
        ... )
        >>> if isinstance(received.outcome, StoredInConversation):
        ...     print(received.outcome.conversation.id)
        """
        return await self._invoker.run(
            calls.RECEIVE(
                channel=channel,
                provider_message_id=provider_message_id,
                sender=sender,
                text=text,
                attachments=attachments,
                time=time,
                origin=origin,
                sender_name=sender_name,
                group_name=group_name,
            ),
            timeout,
        )

    async def run_command(
        self,
        conversation_id: str,
        text: str,
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> CommandReply:
        """Run a slash command (`/new`, `/model haiku`, `/help`), as if it had come in over the
        conversation's channel.

        >>> reply = await client.channels.run_command(conversation_id, "/history 5")
        >>> print(reply.text)
        """
        return await self._invoker.run(
            calls.RUN_COMMAND(conversation_id=conversation_id, text=text, request_id=request_id),
            timeout,
        )

    async def add_owner_identity(
        self,
        channel: str,
        identity: str,
        *,
        person: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> OwnerIdentity:
        """Declare an address on a channel, in any usual form, an owner's. A channel without one has
        no owner.

        >>> added = await client.channels.add_owner_identity("whatsapp", "+1 555-000")
        >>> added.identity
        '1555000'
        """
        return await self._invoker.run(
            calls.ADD_OWNER_IDENTITY(
                channel=channel, identity=identity, person=person, request_id=request_id
            ),
            timeout,
        )

    async def remove_owner_identity(
        self,
        channel: str,
        identity: str,
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> OwnerIdentity:
        """Declare an address no longer an owner's. Stored messages stay. `NotFound` if it never was
        one.

        >>> await client.channels.remove_owner_identity("whatsapp", "+1 555-000")
        """
        return await self._invoker.run(
            calls.REMOVE_OWNER_IDENTITY(channel=channel, identity=identity, request_id=request_id),
            timeout,
        )

    async def list_owner_identities(
        self,
        *,
        channel: str | None = None,
        person: str | None = None,
        timeout: float | None = None,
    ) -> tuple[OwnerIdentity, ...]:
        """Return the owner's addresses, by channel, then address.

        >>> for identity in await client.channels.list_owner_identities(person="Alex"):
        ...     print(identity.channel, identity.identity)
        """
        return await self._invoker.run(
            calls.LIST_OWNER_IDENTITIES(channel=channel, person=person), timeout
        )

    async def link_identities(
        self,
        person: str,
        identities: Iterable[OwnerIdentity | tuple[str, str]],
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> tuple[OwnerIdentity, ...]:
        """Link several addresses to one person, so that a search for one finds the others, and
        return all of that person.

        >>> identities = [("whatsapp", "+1 555-000"), ("email", "alex@example.org")]
        >>> await client.channels.link_identities("Alex", identities)
        """
        return await self._invoker.run(
            calls.LINK_IDENTITIES(person=person, identities=identities, request_id=request_id),
            timeout,
        )

    async def unlink_identity(
        self,
        channel: str,
        identity: str,
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> OwnerIdentity:
        """Unlink an address from its person. It stays an owner's.

        >>> await client.channels.unlink_identity("email", "alex@example.org")
        """
        return await self._invoker.run(
            calls.UNLINK_IDENTITY(channel=channel, identity=identity, request_id=request_id),
            timeout,
        )
