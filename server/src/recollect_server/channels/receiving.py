"""Takes in what comes over a channel: once, by its sender, place and provider's id; from an owner
to its conversation, from anyone else apart.

The three stand in the line that a message wrote, as its `requestId` (see `key_of_delivery`). So a
repeat is known for ever, also with a new index, and also once the conversation is deleted: then a
ledger has their hash. A repeat is the same message whatever else it says: providers deliver again
with other times, names and headers. Its answer shows no words that its caller did not send.
"""

from dataclasses import replace

import structlog

from recollect_server.channels.commands import Beginning, CommandCall, Commands, Replied, claimed
from recollect_server.channels.parsing import Command, parse
from recollect_server.channels.rate_limit import RateLimiter
from recollect_server.conversations.service import check_writable
from recollect_server.kernel.domain.conversation import (
    ANYBODY,
    Began,
    CommandRun,
    Content,
    Continued,
    Conversation,
    MetaUpdated,
    Party,
)
from recollect_server.kernel.domain.errors import (
    ConversationFull,
    ConversationNotFound,
    InvalidField,
    RequestIdReused,
    StorageUnavailable,
)
from recollect_server.kernel.domain.filters import Filter
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.ids import Kind, new_ulid
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.domain.time import arrival
from recollect_server.kernel.index.columns import KnownRequest
from recollect_server.kernel.log.lines import contents_of, messages_of
from recollect_server.kernel.log.store import NO_CLAIM, Claim
from recollect_server.kernel.space.conversation_logs import Committed, placed
from recollect_server.kernel.space.locks import Lock
from recollect_server.kernel.space.logs import RequestKey
from recollect_server.kernel.space.requests import key_of
from recollect_server.kernel.space.space import Space
from recollect_server.people import communication_service as external
from recollect_server.people.identities import Identities
from recollect_server.people.received import (
    former_key_of_delivery,
    hash_of_delivery,
    key_of_delivery,
)
from recollect_server.people.routing import (
    NO_HEADERS,
    EmailOrigin,
    Headers,
    Inbound,
    Place,
    WebOrigin,
    delivery_place,
    headers_of,
    mail_number,
    party_of,
    place_of,
    places_of,
    provenance_of,
    with_group_name,
)
from recollect_server.people.routing_table import Routes, routing_of
from recollect_server.text.addresses import EMAIL, OWNERS_ALONE, WEB, normal_address, spellings

log = structlog.get_logger("recollect.channels")

_WHATEVER = "delivery"  # in place of the hash of a payload


@frozen
class StoredMessages:
    """An owner's message joined a conversation."""

    conversation: Conversation
    messages: list[Message]


Outcome = StoredMessages | Replied | external.Received | None


@frozen
class ReceiveResult:
    """Outcome of a message. `outcome` None: it was received before, in a conversation or a
    communication that is deleted since.
    """

    outcome: Outcome
    duplicate: bool


class Receiving:
    """The work of Receive and RunCommand. Raises the errors of `kernel.domain.errors`; safe to call
    from any thread.
    """

    def __init__(
        self,
        space: Space,
        routes: Routes,
        identities: Identities,
        commands: Commands,
        senders: RateLimiter,
        external_: external.External,
    ) -> None:
        self._space = space
        self._routes = routes
        self._external = external_
        self._identities = identities
        self._commands = commands
        self._senders = senders

    def receive(self, inbound: Inbound) -> ReceiveResult:
        """Store an inbound message whose sender is normalised, and return the outcome."""
        sender = spellings(inbound.channel, inbound.sender)[0]
        place, delivered = delivery_place(inbound), inbound.provider_message_id
        request = RequestKey(key_of_delivery(inbound.channel, sender, place, delivered), _WHATEVER)
        outcome: Outcome
        with self._space.exclusive(request=request.id):
            previous = self._known(request) or self._known_before(inbound)
            if previous is None:
                if not self._identities.is_owner(inbound.channel, inbound.sender):
                    return self._receive_external(inbound)
                if before := self._delivered_elsewhere(inbound, request):
                    return before
                command = None if inbound.attachments else parse(inbound.text)
                headers = self._headers(inbound)
                with self._ordered(inbound, headers, command):
                    outcome = (
                        self._run(inbound, headers, command, request)
                        if command
                        else self._store(inbound, headers, request)
                    )
            else:
                outcome = self._again(previous)
        if isinstance(outcome, Replied):
            self._commands.finish(outcome.run, outcome.conversation.id)
        if previous is not None:
            outcome = _as_sent(outcome, inbound)
        return ReceiveResult(outcome, duplicate=previous is not None)

    def run_command(
        self, conversation_id: str, text: str, request_id: str, channel: str = ""
    ) -> Replied:
        """Run a command as if it had come in over the conversation's channel. `channel` is where
        its caller speaks from; empty: anywhere.
        """
        command = parse(text)
        if command is None:
            raise InvalidField.of(
                "text", "is no command: one line of / and a word, as /new or /help"
            )
        request = key_of("RunCommand", request_id, {"id": conversation_id, "text": text})
        with self._space.exclusive(request=request_id):
            if request and (previous := self._known(request)):
                before = self._again(previous)
                if isinstance(before, StoredMessages):
                    raise RequestIdReused(request.id)  # by a message that was redacted since
                if not isinstance(before, Replied):  # deleted since
                    raise ConversationNotFound(previous.conversation_id)
                replied = before
            elif request and routing_of(self._space.index).is_forgotten(
                hash_of_delivery(request.id)
            ):
                raise ConversationNotFound(conversation_id)
            else:
                replied = self._run_in(
                    conversation_id, CommandCall(command, text, request), channel
                )
        self._commands.finish(replied.run, replied.conversation.id)
        return replied

    # Third parties --------------------------------------------------------------------------------

    def _receive_external(self, inbound: Inbound) -> ReceiveResult:
        if not self._delivered_outside(inbound) and not self._is_forgotten_outside(inbound):
            # a repeat is the provider's doing, not the sender's
            self._senders.admit(inbound.channel, inbound.sender)
        received = self._external.receive(
            inbound.channel,
            inbound.sender,
            inbound.provider_message_id,
            inbound.text,
            inbound.attachments,
            inbound.time,
            provenance_of(inbound),
        )
        is_repeat = received is None or received.duplicate
        return ReceiveResult(_as_sent(received, inbound), is_repeat)

    def _delivered_outside(self, inbound: Inbound) -> external.Received | None:
        origin = provenance_of(inbound)
        return self._external.delivered(
            inbound.channel, inbound.sender, origin.group, inbound.provider_message_id
        )

    def _is_forgotten_outside(self, inbound: Inbound) -> bool:
        group, delivered = provenance_of(inbound).group, inbound.provider_message_id
        return self._external.is_forgotten(inbound.channel, inbound.sender, group, delivered)

    def _delivered_elsewhere(self, inbound: Inbound, request: RequestKey) -> ReceiveResult | None:
        """Return the outcome of an owner's message that is deleted since, or that came before the
        sender was known as an owner.
        """
        if received := self._delivered_outside(inbound):
            return ReceiveResult(_as_sent(received, inbound), duplicate=True)
        # what was deleted in a version before is known by channel and id alone
        former = former_key_of_delivery(inbound.channel, inbound.provider_message_id)
        is_forgotten = routing_of(self._space.index).is_forgotten
        own = any(is_forgotten(hash_of_delivery(key)) for key in (request.id, former))
        if own or self._is_forgotten_outside(inbound):
            return ReceiveResult(None, duplicate=True)
        return None

    # Repeats --------------------------------------------------------------------------------------

    def _known(self, request: RequestKey) -> KnownRequest | None:
        """Return the earlier record of this request, if it was carried out. Its pending writes are
        flushed first, if the disk accepts them now.
        """
        self._space.flush_request(request.id)
        return self._space.requests.find(request, wrote_to=Kind.CONVERSATION)

    def _known_before(self, inbound: Inbound) -> KnownRequest | None:
        """Return the earlier record of an owner's message that a version before stored under its
        channel and id alone, if sender and place are the same.
        """
        former = former_key_of_delivery(inbound.channel, inbound.provider_message_id)
        earlier = self._known(RequestKey(former, _WHATEVER))
        outcome = self._again(earlier) if earlier else None
        if outcome is None:
            return None
        channel, senders = inbound.channel, outcome.conversation.participants
        if isinstance(outcome, StoredMessages):
            senders = tuple(it.sender for it in outcome.messages)
        addresses = spellings(channel, inbound.sender)
        is_senders = channel in OWNERS_ALONE or any(
            normal_address(channel, it) in addresses for it in senders
        )
        return earlier if is_senders and self._is_held_at(outcome.conversation, inbound) else None

    def _is_held_at(self, conversation: Conversation, inbound: Inbound) -> bool:
        """Return whether a conversation is one of the place where a message was written."""
        channel = inbound.channel
        if channel == WEB:
            return not _is_named(inbound) or delivery_place(inbound) == conversation.id
        return channel == EMAIL or (
            channel == conversation.channel
            and self._place(inbound) == self._places(channel, conversation.party)[0]
        )

    def _again(self, previous: KnownRequest) -> StoredMessages | Replied | None:
        try:
            messages, conversation = self._space.requests.replay(
                previous, self._space.read(previous.conversation_id)
            )
            if messages:
                return StoredMessages(conversation, messages)
            lines, conversation = self._space.requests.wrote(previous)
        except ConversationNotFound:
            return None
        runs = [content for content in contents_of(lines) if isinstance(content, CommandRun)]
        return Replied(runs[-1].reply, conversation, runs[-1]) if runs else None

    # Messages -------------------------------------------------------------------------------------

    def _store(self, inbound: Inbound, headers: Headers, request: RequestKey) -> StoredMessages:
        places = claimed(self._place(inbound), headers.ids)
        claim, full = NO_CLAIM, list[str]()
        while True:
            if conversations := self._conversations_of(inbound, headers):
                try:
                    stored = self._append(conversations[0], inbound, headers, request)
                except (ConversationNotFound, ConversationFull) as error:
                    if _is_named(inbound):
                        raise
                    # else it is being deleted just now, or another one goes on for it
                    full = conversations if isinstance(error, ConversationFull) else []
                else:
                    self._join(conversations[1:], conversations[0])
                    return stored
            if claim is not NO_CLAIM or (claim := self._space.claim(places)) is NO_CLAIM:
                stored = self._begin(inbound, headers, request, claim)
                self._join(full, stored.conversation.id)
                return stored

    def _append(
        self, conversation_id: str, inbound: Inbound, headers: Headers, request: RequestKey
    ) -> StoredMessages:
        with self._space.writing(conversation_id) as state:
            check_writable(state.conversation, [inbound.channel])
            message = _message(inbound, headers, state.conversation.channel)
            now = self._space.clock()
            contents: list[Content] = [*placed(state, [message], now)]
            party = state.conversation.party
            if (named := with_group_name(party, inbound)) != party:
                contents.append(MetaUpdated(now, group_name=named.group_name))
            return _stored(self._space.append(state, contents, request))

    def _begin(
        self, inbound: Inbound, headers: Headers, request: RequestKey, claim: Claim
    ) -> StoredMessages:
        conversation_id, now = f"conv-{new_ulid()}", self._space.clock()
        how = _beginning(inbound)
        began = Began(
            conversation_id, how.channel, now, how.participants, how.party, pinned=how.pinned
        )
        message = replace(
            _message(inbound, headers, how.channel),
            timestamp=inbound.time or now,
            sequence=2,
            turn_number=1,
        )
        message = replace(message, arrived=arrival(message.timestamp, 0, now))
        return _stored(self._space.begin([began, message], request, claim=claim))

    # Where to -------------------------------------------------------------------------------------

    def _conversations_of(self, inbound: Inbound, headers: Headers) -> list[str]:
        """Return the conversation that a message joins, and behind it those that turn out to be one
        with it only now; none if it begins one.

        Of an e-mail's threads, by the ids that its headers name, it joins the one that began first;
        of those of one person's addresses the newest.
        """
        if inbound.channel == WEB:
            if _is_named(inbound):
                assert isinstance(inbound.origin, WebOrigin)
                return [inbound.origin.conversation_id]
            newest = self._space.index.conversations.select(Filter(channels=(WEB,)), 1)
            return [it.state.id for it in newest]
        if headers.ids:
            return sorted(self._routes.threads(map(mail_number, headers.ids)))
        return self._pinned(self._places(inbound.channel, party_of(inbound)))

    def _pinned(self, places: tuple[Place, ...]) -> list[str]:
        """Return the conversations that are pinned at places of one person, newest first."""
        pinned = {self._routes.pinned(place) for place in places if place.known}
        return sorted((it for it in pinned if it is not None), reverse=True)

    def _places(self, channel: str, party: Party) -> tuple[Place, ...]:
        """Return the places of a party: where it is a contact, those of all addresses of that
        person on the channel, in one order whichever of them is asked for.
        """
        if not party.contact or channel == EMAIL:
            return (place_of(channel, party),)
        return places_of(channel, party, self._identities.addresses(channel, party.contact))

    def _place(self, inbound: Inbound) -> Place:
        """Return the place whose name stands for all places of a message's sender."""
        return self._places(inbound.channel, party_of(inbound))[0]

    def _headers(self, inbound: Inbound) -> Headers:
        if not isinstance(inbound.origin, EmailOrigin):
            return NO_HEADERS

        def is_address(name: str) -> bool:
            address = normal_address(EMAIL, name)
            return address == inbound.sender or self._identities.is_owner(EMAIL, address)

        return headers_of(inbound.origin, is_address)

    def _ordered(self, inbound: Inbound, headers: Headers, command: Command | None) -> Lock:
        """Return the lock that orders the messages of a place, for a `with`.

        On e-mail a message is ordered by the ids that it names. A command there may end any thread.
        """
        if inbound.channel != EMAIL:
            return self._space.exclusive(place=self._place(inbound).name)
        return self._space.exclusive(all_mails=command is not None, mails=headers.ids)

    def _join(self, others: list[str], conversation_id: str) -> None:
        """Join conversations that turn out to be one: later messages for the others go to
        `conversation_id`.
        """
        for other in others:
            try:
                with self._space.writing(other) as state:
                    self._space.append(state, [Continued(conversation_id, self._space.clock())])
            except (ConversationNotFound, StorageUnavailable) as error:
                # the next message that names both does it
                log.warning("threads_not_joined", conversation=other, reason=str(error))

    # Commands -------------------------------------------------------------------------------------

    def _run(
        self, inbound: Inbound, headers: Headers, command: Command, request: RequestKey
    ) -> Replied:
        claim = self._space.claim(claimed(self._place(inbound), headers.ids))
        conversations = self._conversations_of(inbound, headers)
        said_in = conversations[0] if conversations else None
        beginning = _beginning(inbound)
        if said_in is not None:
            try:
                conversation = self._space.read(said_in).conversation
                check_writable(conversation, [inbound.channel])
                if conversation.channel == inbound.channel:
                    party = with_group_name(conversation.party, inbound)
                    beginning = replace(beginning, party=party)
            except ConversationNotFound:
                if _is_named(inbound):
                    raise
                said_in = None
        call = CommandCall(command, inbound.text, request, headers.ids, claim)
        return self._commands.run(call, said_in, beginning)

    def _run_in(self, conversation_id: str, call: CommandCall, speaks_from: str) -> Replied:
        conversation = self._space.read(conversation_id).conversation
        check_writable(conversation, [speaks_from])
        channel = conversation.channel
        places = self._places(channel, conversation.party)
        place = places[0]
        beginning = Beginning(
            channel, conversation.participants, conversation.party, place.known or channel == EMAIL
        )
        is_email = channel == EMAIL
        with self._space.exclusive(all_mails=is_email, place="" if is_email else place.name):
            call = replace(call, claim=self._space.claim(claimed(place, call.mail)))
            successor = self._routes.successor
            pinned = self._pinned(places) if place.known else [successor(conversation_id)]
            in_use = pinned[0] if pinned else None
            # it keeps its place: a new one begins beside it
            if in_use not in (None, conversation_id):
                beginning = replace(beginning, pinned=False)
            return self._commands.run(call, conversation_id, beginning)


def _as_sent(outcome: Outcome, inbound: Inbound) -> Outcome:
    """Return the outcome of a repeat without texts that its caller did not send: where its words or
    files are others, the message is not shown.
    """
    match outcome:
        case StoredMessages(messages=messages):
            shown = [
                it
                for it in messages
                if it.redaction
                or (it.content, it.attachments) == (inbound.text, inbound.attachments)
            ]
            return replace(outcome, messages=shown)
        case Replied(run=run) if run.text != inbound.text:
            return replace(outcome, text="")
        case external.Received(message=message) if (message.text, message.attachments) != (
            inbound.text,
            inbound.attachments,
        ):
            return external.without_text(outcome)
        case _:
            return outcome


def _is_named(inbound: Inbound) -> bool:
    return isinstance(inbound.origin, WebOrigin) and bool(inbound.origin.conversation_id)


def _beginning(inbound: Inbound) -> Beginning:
    participants = (inbound.sender,) if inbound.sender else (ANYBODY,)
    return Beginning(inbound.channel, participants, party_of(inbound), inbound.channel != WEB)


def _message(inbound: Inbound, headers: Headers, channel: str) -> Message:
    """Return the owner's message as it is stored in a conversation of a channel."""
    return Message(
        Role.USER,
        inbound.text,
        timestamp=inbound.time or 0,
        channel="" if inbound.channel == channel else inbound.channel,
        sender=inbound.sender,
        attachments=inbound.attachments,
        metadata=headers.metadata,
        sender_name=inbound.sender_name,
    )


def _stored(done: Committed) -> StoredMessages:
    return StoredMessages(done.state.conversation, messages_of(done.lines))
