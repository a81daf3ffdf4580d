"""Takes in what comes over a channel: once, by its provider's id; from an owner to its
conversation, from anyone else apart.

The provider's id stands in the line that a message wrote, as a `requestId` made of channel, space
and id (a caller's own has no space). So a repeat is known for ever, also with a new index, and also
once the conversation is deleted: then a ledger has the id's hash. A repeat is the same message
whatever else it says: providers deliver again with other times, names and headers.
"""

from dataclasses import replace

import structlog

from recollect_server.domain.addresses import EMAIL, WEB
from recollect_server.domain.commands import Command, parse
from recollect_server.domain.conversation import Began, CommandRun, Continued, Conversation
from recollect_server.domain.errors import (
    ConversationNotFound,
    InvalidField,
    RequestIdReused,
    StorageUnavailable,
)
from recollect_server.domain.filters import Filter
from recollect_server.domain.frozen import frozen
from recollect_server.domain.ids import new_ulid
from recollect_server.domain.message import Message, Role
from recollect_server.domain.routing import (
    NO_HEADERS,
    EmailOrigin,
    Headers,
    Inbound,
    WebOrigin,
    headers_of,
    mail_number,
    party_of,
    place_of,
    provenance_of,
)
from recollect_server.domain.time import arrival
from recollect_server.services.channels.commands import (
    Beginning,
    CommandCall,
    Commands,
    Replied,
    claimed,
)
from recollect_server.services.channels.identities import Identities
from recollect_server.services.channels.rate_limit import RateLimiter
from recollect_server.services.conversations import check_writable
from recollect_server.services.external import external
from recollect_server.services.space.locks import Lock
from recollect_server.services.space.requests import key_of
from recollect_server.services.space.space import Space
from recollect_server.services.space.state import Committed, RequestKey, placed
from recollect_server.storage.index.columns import KnownRequest
from recollect_server.storage.logs.lines import contents_of, messages_of
from recollect_server.storage.logs.received import hash_of_delivery, key_of_delivery
from recollect_server.storage.logs.store import NO_CLAIM, Claim

log = structlog.get_logger("recollect.channels")

_WHATEVER = "delivery"  # in place of the hash of a payload


@frozen
class Stored:
    """An owner's message joined a conversation."""

    conversation: Conversation
    messages: list[Message]


Outcome = Stored | Replied | external.Received | None


@frozen
class Received:
    """Outcome of a message. `outcome` None: it was received before, in a conversation that is
    deleted since.
    """

    outcome: Outcome
    duplicate: bool


class Receiving:
    """The work of Receive and RunCommand. Raises the errors of `domain.errors`; safe to call from
    any thread.
    """

    def __init__(
        self,
        space: Space,
        identities: Identities,
        commands: Commands,
        senders: RateLimiter,
        external_: external.External,
    ) -> None:
        self._space = space
        self._external = external_
        self._identities = identities
        self._commands = commands
        self._senders = senders

    def receive(self, inbound: Inbound) -> Received:
        """Store an inbound message whose sender is normalised, and return the outcome."""
        request = RequestKey(
            key_of_delivery(inbound.channel, inbound.provider_message_id), _WHATEVER
        )
        outcome: Outcome
        with self._space.exclusive(request=request.id):
            previous = self._known(request)
            if previous is None:
                if not self._identities.is_owner(inbound.channel, inbound.sender):
                    return self._receive_external(inbound)
                if before := self._delivered_elsewhere(inbound, request):
                    return before
                command = None if inbound.attachments else parse(inbound.text)
                headers = _headers(inbound)
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
        return Received(outcome, duplicate=previous is not None)

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
                if isinstance(before, Stored):
                    raise RequestIdReused(request.id)  # by a message that was redacted since
                if not isinstance(before, Replied):  # deleted since
                    raise ConversationNotFound(previous.conversation_id)
                replied = before
            elif (
                request
                and self._space.index.routing.delivered_elsewhere(
                    hash_of_delivery(request.id), "", ""
                )[0]
            ):
                raise ConversationNotFound(conversation_id)
            else:
                replied = self._run_in(
                    conversation_id, CommandCall(command, text, request), channel
                )
        self._commands.finish(replied.run, replied.conversation.id)
        return replied

    # Third parties --------------------------------------------------------------------------------

    def _receive_external(self, inbound: Inbound) -> Received:
        if not self._space.index.routing.delivered_elsewhere(
            "", inbound.channel, inbound.provider_message_id
        )[1]:
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
        return Received(received, received.duplicate)

    def _delivered_elsewhere(self, inbound: Inbound, request: RequestKey) -> Received | None:
        """Return the outcome of an owner's message that is deleted since, or that came before the
        sender was known as an owner.
        """
        key = hash_of_delivery(request.id)
        forgotten, outside = self._space.index.routing.delivered_elsewhere(
            key, inbound.channel, inbound.provider_message_id
        )
        if outside and (
            received := self._external.delivered(inbound.channel, inbound.provider_message_id)
        ):
            return Received(received, duplicate=True)
        return Received(None, duplicate=True) if forgotten else None

    # Repeats --------------------------------------------------------------------------------------

    def _known(self, request: RequestKey) -> KnownRequest | None:
        """Return the earlier record of this request, if it was carried out. Its pending writes are
        flushed first, if the disk accepts them now.
        """
        self._space.flush_request(request.id)
        return self._space.requests.find(request)

    def _again(self, previous: KnownRequest) -> Stored | Replied | None:
        try:
            messages, conversation = self._space.requests.replay(
                previous, self._space.read(previous.conversation_id)
            )
            if messages:
                return Stored(conversation, messages)
            lines, conversation = self._space.requests.replay_lines(previous)
        except ConversationNotFound:
            return None
        runs = [content for content in contents_of(lines) if isinstance(content, CommandRun)]
        return Replied(runs[-1].reply, conversation, runs[-1]) if runs else None

    # Messages -------------------------------------------------------------------------------------

    def _store(self, inbound: Inbound, headers: Headers, request: RequestKey) -> Stored:
        places = claimed(inbound.channel, party_of(inbound), headers.ids)
        claim = NO_CLAIM
        while True:
            threads = self._threads(headers)
            conversation_id = min(threads) if threads else self._route(inbound)
            if conversation_id is not None:
                try:
                    stored = self._append(conversation_id, inbound, headers, request)
                except ConversationNotFound:
                    if _is_named(inbound):
                        raise  # else it is being deleted just now
                else:
                    self._join(threads - {conversation_id}, conversation_id)
                    return stored
            if claim is not NO_CLAIM or (claim := self._space.claim(places)) is NO_CLAIM:
                return self._begin(inbound, headers, request, claim)

    def _append(
        self, conversation_id: str, inbound: Inbound, headers: Headers, request: RequestKey
    ) -> Stored:
        with self._space.writing(conversation_id) as state:
            check_writable(state.conversation, [inbound.channel])
            message = _message(inbound, headers, state.conversation.channel)
            return _stored(
                self._space.append(state, placed(state, [message], self._space.clock()), request)
            )

    def _begin(
        self, inbound: Inbound, headers: Headers, request: RequestKey, claim: Claim
    ) -> Stored:
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

    def _route(self, inbound: Inbound) -> str | None:
        """Return the conversation that a message joins where no thread decides it."""
        if inbound.channel == WEB:
            if _is_named(inbound):
                assert isinstance(inbound.origin, WebOrigin)
                return inbound.origin.conversation_id
            newest = self._space.index.conversations.select(Filter(channels=(WEB,)), 1)
            return newest[0].conversation.id if newest else None
        place = place_of(inbound.channel, party_of(inbound))
        return self._space.routes.pinned(place) if place.known else None

    def _threads(self, headers: Headers) -> set[str]:
        """Return the conversations of an e-mail's thread, by the ids that its headers name; none on
        other channels. Several if these threads turn out to be one only now.
        """
        return self._space.routes.threads(map(mail_number, headers.ids)) if headers.ids else set()

    def _ordered(self, inbound: Inbound, headers: Headers, command: Command | None) -> Lock:
        """Return the lock that orders the messages of a place, for a `with`.

        On e-mail a message is ordered by the ids that it names. A command there may end any thread.
        """
        if inbound.channel != EMAIL:
            return self._space.exclusive(place=place_of(inbound.channel, party_of(inbound)).name)
        return self._space.exclusive(all_mails=command is not None, mails=headers.ids)

    def _join(self, others: set[str], conversation_id: str) -> None:
        """Join threads that turn out to be one: later messages for the others go to
        `conversation_id`, the conversation that began first.
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
        claim = self._space.claim(claimed(inbound.channel, party_of(inbound), headers.ids))
        threads = self._threads(headers)
        said_in = min(threads) if threads else self._route(inbound)
        beginning = _beginning(inbound)
        if said_in is not None:
            try:
                conversation = self._space.read(said_in).conversation
                check_writable(conversation, [inbound.channel])
                if conversation.channel == inbound.channel:
                    beginning = replace(beginning, party=conversation.party)
            except ConversationNotFound:
                if _is_named(inbound):
                    raise
                said_in = None
        call = CommandCall(command, inbound.text, request, headers.ids, claim)
        return self._commands.run(call, said_in, beginning)

    def _run_in(self, conversation_id: str, call: CommandCall, speaks_from: str) -> Replied:
        conversation = self._space.read(conversation_id).conversation
        check_writable(conversation, [speaks_from])
        channel, place = conversation.channel, place_of(conversation.channel, conversation.party)
        beginning = Beginning(
            channel, conversation.participants, conversation.party, place.known or channel == EMAIL
        )
        is_email = channel == EMAIL
        with self._space.exclusive(all_mails=is_email, place="" if is_email else place.name):
            places = claimed(channel, conversation.party, call.mail)
            call = replace(call, claim=self._space.claim(places))
            in_use = (
                self._space.routes.pinned(place)
                if place.known
                else self._space.routes.successor(conversation_id)
            )
            # it keeps its place: a new one begins beside it
            if in_use not in (None, conversation_id):
                beginning = replace(beginning, pinned=False)
            return self._commands.run(call, conversation_id, beginning)


def _is_named(inbound: Inbound) -> bool:
    return isinstance(inbound.origin, WebOrigin) and bool(inbound.origin.conversation_id)


def _headers(inbound: Inbound) -> Headers:
    return headers_of(inbound.origin) if isinstance(inbound.origin, EmailOrigin) else NO_HEADERS


def _beginning(inbound: Inbound) -> Beginning:
    participants = (inbound.sender,) if inbound.sender else ("user",)
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


def _stored(done: Committed) -> Stored:
    return Stored(done.state.conversation, messages_of(done.lines))
