"""The work of ExternalCommunicationService, and what becomes of a third party's message.

`people.communication` says what trust means. One question waits for a party at the most: an owner
wants to be asked once, not once a line.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from recollect_server.kernel.domain.conversation import opening_of
from recollect_server.kernel.domain.errors import (
    CommunicationNotFound,
    EscalationClosed,
    EscalationNotFound,
    RecollectError,
    StorageUnavailable,
    TrustRequired,
)
from recollect_server.kernel.domain.filters import Page, PageEnd
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.ids import Kind, is_escalation_id, new_ulid
from recollect_server.kernel.domain.live import Holder, Live
from recollect_server.kernel.domain.message import Attachment
from recollect_server.kernel.domain.time import UNLIMITED, Deadline, arrival
from recollect_server.kernel.erase.bulk_removal import BulkReceipt, delete_matching, deleted_once
from recollect_server.kernel.erase.redaction import LacksLines
from recollect_server.kernel.index.derived import Stored
from recollect_server.kernel.index.messages import Place, newest_within
from recollect_server.kernel.log.store import NO_CLAIM, Claim
from recollect_server.kernel.space.logs import RequestKey
from recollect_server.kernel.space.requests import key_of
from recollect_server.people.communication import (
    DIRECT,
    Communication,
    CommunicationBegan,
    CommunicationFilter,
    CommunicationSearch,
    Direction,
    Escalation,
    EscalationOpened,
    EscalationResolved,
    ExternalContent,
    ExternalMessage,
    Provenance,
    Trust,
    TrustSet,
    may_acknowledge,
    question_about,
    refusal,
)
from recollect_server.people.communication_logs import CommunicationStore
from recollect_server.people.communication_table import external_of
from recollect_server.people.received import hash_of_delivery, key_of_partys_delivery, name_of_party
from recollect_server.people.routing_table import routing_of
from recollect_server.text.addresses import spellings
from recollect_server.text.analysis import tokenizer_of
from recollect_server.text.snippets import CHUNK, PassageFinder, plain


@frozen
class Received:
    """Outcome of a third party's message."""

    communication: Communication
    """As it is now."""
    message: ExternalMessage
    """As stored."""
    escalation: Escalation | None
    """The one that the message opened, as it is now; None if it opened none."""
    duplicate: bool
    """True if the provider had delivered it before."""
    acknowledgement: str = ""
    """Text that may be sent to the party now; empty: none."""


@frozen
class ExchangeDone:
    """Result of the redaction of a third party's message: what is left of it and of the escalation
    that it opened, and the communication behind it.
    """

    communication: Communication
    message: ExternalMessage
    escalation: Escalation | None
    time: int
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Match:
    """A message that a search found."""

    communication: Communication
    message: ExternalMessage
    """Without its text."""
    snippet: str
    score: float
    """Of the best 1, of the others less."""


@dataclass(frozen=True, slots=True)
class GroupSaid:
    """Message of a third party in a group."""

    communication: Communication
    message: ExternalMessage


@dataclass(frozen=True, slots=True)
class MessagePage:
    """A communication with a page of its messages, newest first."""

    communication: Communication
    messages: list[ExternalMessage]
    next: PageEnd | None


class External:
    """Messages of third parties, and replies to them. Raises the errors of `kernel.domain.errors`;
    safe to call from any thread.
    """

    def __init__(self, store: CommunicationStore, acknowledgement: Live[str] | None = None) -> None:
        """`acknowledgement` is the one text that an untrusted party may have before the owner
        answers; empty: none.
        """
        self._store = store
        self._acknowledgement = acknowledgement or Holder("")
        self._space = store.space

    # What comes in --------------------------------------------------------------------------------

    def receive(
        self,
        channel: str,
        party: str,
        provider_message_id: str,
        text: str,
        attachments: tuple[Attachment, ...],
        time: int | None,
        origin: Provenance = DIRECT,
    ) -> Received | None:
        """Store a message of a third party exactly once by channel, party, group and provider's id,
        and ask the owner if trust requires it. Return None if it was received before, in a
        communication that is deleted since.

        `party` is normalised by the caller; `time` is in milliseconds, None for now. The arguments
        are validated already. Raises DataUnavailable: then the message may be
        stored or not, and the provider delivers it again.
        """
        with self._space.exclusive(
            delivery=f"{channel} {provider_message_id}", party=name_of_party(channel, party)
        ):
            self._store.catch_up()
            before = self.delivered(channel, party, origin.group, provider_message_id)
            if before is not None:
                return before
            if self.is_forgotten(channel, party, origin.group, provider_message_id):
                return None
            now = self._space.clock()
            message = ExternalMessage(
                direction=Direction.INBOUND,
                text=text,
                timestamp=now if time is None else time,
                attachments=attachments,
                provider_message_id=provider_message_id,
                origin=origin,
            )
            stored, claim = self._with_party(channel, party)
            delivery = key_of_partys_delivery(channel, party, origin.group, provider_message_id)
            claim = replace(claim, request=f"delivery {delivery}")
            name = stored.state.id if stored else f"ext-{new_ulid()}"
            with self._space.exclusive(conversation=name):
                if stored is None:
                    began = CommunicationBegan(name, channel, party, message.timestamp)
                    communication = Communication(name, channel, party, began.time, began.time)
                    return self._received(communication, None, [began], message, 2, now, claim)
                # somebody may have written to it before the lock was ours
                stored = self._still_there(name)
                return self._received(
                    stored.state, stored, [], message, stored.lines + 1, now, claim
                )

    def delivered(
        self, channel: str, party: str, group: str, provider_message_id: str
    ) -> Received | None:
        """Return the outcome of a message when its provider delivered it; None if it was not
        received as a third party's, from there.

        Raises DataUnavailable.
        """
        self._store.catch_up()
        row = external_of(self._space.index).delivered(
            channel, spellings(channel, party), group, provider_message_id
        )
        if row is None:
            return None
        name, place = row
        try:
            messages = self._store.messages(name, [place])
            communication = self._store.find(name).state
        except CommunicationNotFound:
            raise _being_deleted(name) from None
        # its line is damaged
        lost = ExternalMessage(Direction.INBOUND, "", 0, place[0], (), provider_message_id)
        escalation = external_of(self._space.index).escalation_about(name, place[0])
        message = messages[0] if messages else lost
        return Received(
            communication,
            message,
            escalation,
            duplicate=True,
            acknowledgement=self._offered(communication, message),
        )

    def is_forgotten(self, channel: str, party: str, group: str, provider_message_id: str) -> bool:
        """Return whether a message was received as a third party's, from there, in a communication
        that is deleted since.
        """
        key = key_of_partys_delivery(channel, party, group, provider_message_id)
        return routing_of(self._space.index).is_forgotten(hash_of_delivery(key))

    def _received(
        self,
        communication: Communication,
        stored: Stored[Communication] | None,
        contents: list[ExternalContent],
        message: ExternalMessage,
        sequence: int,
        now: int,
        claim: Claim,
    ) -> Received:
        arrived = arrival(message.timestamp, communication.update_time if stored else 0, now)
        message = replace(message, sequence=sequence, arrived=arrived)
        escalation: Escalation | None = None
        contents.append(message)
        if communication.trust is Trust.UNTRUSTED and not communication.open:
            opened = EscalationOpened(
                f"esc-{new_ulid()}", sequence, question_about(communication, message), now
            )
            escalation = Escalation(opened.id, communication.id, sequence, opened.question, now)
            contents.append(opened)
        after = self._store.write(communication.id, stored, contents, claim=claim)
        offered = self._offered(after, message)
        return Received(after, message, escalation, duplicate=False, acknowledgement=offered)

    def _offered(self, communication: Communication, message: ExternalMessage) -> str:
        """Return the acknowledgement if the party may have it for this message. A group is not
        acknowledged: others read it.
        """
        return (
            self._acknowledgement.now
            if may_acknowledge(communication) and not message.origin.group
            else ""
        )

    # Reading --------------------------------------------------------------------------------------

    def page(
        self, chosen: CommunicationFilter, size: int, after: PageEnd | None
    ) -> Page[Communication]:
        """Return a page of the communications that match, newest update first."""
        self._store.catch_up()
        rows = external_of(self._space.index).select(chosen, size + 1, after)
        return Page.of([it.state for it in rows], size, lambda it: (it.update_time, it.id))

    def history(
        self, communication_id: str, size: int, after: PageEnd | None, max_bytes: int
    ) -> MessagePage:
        """Return a communication with a page of its messages, newest first, within `size` and
        `max_bytes`, but at least one.
        """
        self._store.catch_up()
        stored = self._store.find(communication_id)
        places = external_of(self._space.index).places(
            stored.number, after[0] if after else 1 << 62, size + 1
        )
        fitting = newest_within(places[-size:], max_bytes)
        more = len(places) > len(fitting)
        places = fitting
        messages = self._store.messages(communication_id, places)
        return MessagePage(stored.state, messages[::-1], (places[0][0], "") if more else None)

    def escalations(
        self, communication_id: str, size: int, after: PageEnd | None, *, resolved: bool
    ) -> Page[Escalation]:
        """Return a page of escalations, oldest first, of one communication (unset: of all);
        `resolved` includes resolved ones.
        """
        self._store.catch_up()
        number = self._store.find(communication_id).number if communication_id else None
        rows = external_of(self._space.index).escalations(
            number, size + 1, after, resolved=resolved
        )
        return Page.of(rows, size, lambda it: (it.create_time, it.id))

    def search(
        self, query: CommunicationSearch, limit: int, deadline: Deadline = UNLIMITED
    ) -> tuple[list[Match], int]:
        """Find the messages that fit some words best, and count those that match.

        Raises CommunicationNotFound, DataUnavailable, CallerGone,
        DeadlineExceeded.
        """
        self._store.catch_up()
        if query.communication_id:
            self._store.find(query.communication_id)
        index = self._space.index
        with index.until(deadline):
            hits = external_of(index).search(query, limit)
        stems, prefixes = (
            {term.stem for term in hits.terms if term.prefix == prefix} for prefix in (False, True)
        )
        only_stops = all(term.is_stop for term in hits.terms)
        passages = PassageFinder(
            stems, prefixes, tokenizer_of(index), deadline, only_stops=only_stops
        )
        best = max((score for _, _, score in hits.hits), default=0.0) or 1.0
        matches: list[Match] = []
        for communication, place, score in hits.hits:
            for message in self._messages_at(communication.id, place):
                shown = _snippet(passages, message)
                # Without its text: a hundred long ones are more than an answer may keep in memory.
                matches.append(Match(communication, replace(message, text=""), shown, score / best))
        return matches, hits.total

    def in_group(self, channel: str, group: str, limit: int, max_text: int) -> list[GroupSaid]:
        """Return the newest messages that third parties wrote in a group, newest first; none of
        blocked ones.

        Texts are cut to `max_text` characters.

        Raises DataUnavailable.
        """
        self._store.catch_up()
        rows = external_of(self._space.index).in_group(channel, group, limit)
        return [
            GroupSaid(communication, replace(message, text=_cut(message.text, max_text)))
            for communication, place in rows
            for message in self._messages_at(communication.id, place)
            if message.redaction is None
        ]

    def _messages_at(self, communication_id: str, place: Place) -> list[ExternalMessage]:
        """Return the message at a place, unless it is damaged or deleted."""
        try:
            return self._store.messages(communication_id, [place])
        except CommunicationNotFound:
            return []

    # What the owner does --------------------------------------------------------------------------

    def set_trust(
        self, communication_id: str, trust: Trust, scopes: tuple[str, ...], request_id: str
    ) -> Communication:
        """Set the trust in a party, and its scopes. Blocking closes what waits for the owner
        without an answer.
        """
        payload = {"id": communication_id, "trust": trust.value, "scopes": scopes}
        request = key_of("SetTrust", request_id, payload)
        with self._space.exclusive(request=request_id):
            self._store.catch_up()
            if request and (before := self._before(request)):
                return before[0]
            with self._space.exclusive(conversation=communication_id):
                return self._trust(self._store.find(communication_id), trust, scopes, request)

    def register(
        self, channel: str, party: str, trust: Trust, scopes: tuple[str, ...], request_id: str
    ) -> Communication:
        """Set how far a party is trusted, whether or not it has written yet. `party` is normalised
        by the caller.
        """
        payload = {"channel": channel, "party": party, "trust": trust.value, "scopes": scopes}
        request = key_of("RegisterContact", request_id, payload)
        with self._space.exclusive(request=request_id, party=name_of_party(channel, party)):
            self._store.catch_up()
            if request and (before := self._before(request)):
                return before[0]
            stored, claim = self._with_party(channel, party)
            name = stored.state.id if stored else f"ext-{new_ulid()}"
            with self._space.exclusive(conversation=name):
                if stored is None:
                    now = self._space.clock()
                    contents: list[ExternalContent] = [
                        CommunicationBegan(name, channel, party, now),
                        TrustSet(trust, scopes, now),
                    ]
                    return self._store.write(name, None, contents, request, claim)
                return self._trust(self._still_there(name), trust, scopes, request)

    def _with_party(self, channel: str, party: str) -> tuple[Stored[Communication] | None, Claim]:
        """Return the communication with a party; None with the claim of who begins it."""
        find, claim = external_of(self._space.index).with_party, NO_CLAIM
        addresses = spellings(channel, party)
        stored = find(channel, addresses)
        if stored is None and self._space.is_shared:
            claim = self._space.claim([f"party {name_of_party(channel, party)}"])
            self._store.catch_up()
            stored = find(channel, addresses)
        return stored, (NO_CLAIM if stored else claim)

    def _still_there(self, communication_id: str) -> Stored[Communication]:
        """Return a communication that was there just now. Raises StorageUnavailable if it is
        deleted since: the repeat of the call begins another one.
        """
        try:
            return self._store.find(communication_id)
        except CommunicationNotFound:
            raise _being_deleted(communication_id) from None

    def _trust(
        self,
        stored: Stored[Communication],
        trust: Trust,
        scopes: tuple[str, ...],
        request: RequestKey | None,
    ) -> Communication:
        now = self._space.clock()
        contents: list[ExternalContent] = [TrustSet(trust, scopes, now)]
        if trust is Trust.BLOCKED:
            contents += [EscalationResolved(name, "", now) for name in stored.state.open]
        return self._store.write(stored.state.id, stored, contents, request)

    def record_reply(
        self, communication_id: str, text: str, scope: str, request_id: str
    ) -> tuple[Communication, ExternalMessage]:
        """Record a reply that was sent, with its scope (empty: none given). Raises TrustRequired if
        trust does not allow it.
        """
        request = key_of(
            "RecordReply", request_id, {"id": communication_id, "text": text, "scope": scope}
        )
        with self._space.exclusive(request=request_id):
            self._store.catch_up()
            if request and (before := self._before(request, Kind.COMMUNICATION)):
                communication, messages = before
                return communication, messages[0]
            with self._space.exclusive(conversation=communication_id):
                stored = self._store.find(communication_id)
                communication = stored.state
                why = refusal(communication, scope)
                acknowledges = (
                    bool(why)
                    and text == self._acknowledgement.now
                    and may_acknowledge(communication)
                )
                if why and not acknowledges:
                    raise TrustRequired(communication_id, communication.trust.value, why)
                now = self._space.clock()
                reply = ExternalMessage(
                    Direction.OUTBOUND,
                    text,
                    now,
                    stored.lines + 1,
                    scope=scope,
                    acknowledgement=acknowledges,
                    arrived=arrival(now, communication.update_time, now),
                )
                return self._store.write(communication_id, stored, [reply], request), reply

    def resolve_escalation(self, escalation_id: str, answer: str, request_id: str) -> Escalation:
        """Record the owner's answer. Repeating it changes nothing; another answer raises
        EscalationClosed.
        """
        request = key_of("ResolveEscalation", request_id, {"id": escalation_id, "answer": answer})
        with self._space.exclusive(request=request_id):
            self._store.catch_up()
            if request and self._space.requests.find(request):
                return self._escalation(escalation_id)
            communication_id = self._escalation(escalation_id).communication_id
            with self._space.exclusive(conversation=communication_id):
                escalation = self._escalation(escalation_id)
                if escalation.resolve_time is not None:
                    if escalation.answer == answer:
                        return escalation
                    raise EscalationClosed(escalation_id)
                stored = self._store.find(communication_id)
                resolved = EscalationResolved(escalation_id, answer, self._space.clock())
                self._store.write(communication_id, stored, [resolved], request)
                return self._escalation(escalation_id)

    def redact(
        self, communication_id: str, sequence: int, by: str, request_id: str
    ) -> ExchangeDone:
        """Remove the text of the message of a line for good, and of the question that quotes it."""
        request = key_of(
            "RedactExternalMessage", request_id, {"id": communication_id, "sequence": sequence}
        )
        self._store.catch_up()
        try:
            done = self._space.redactions.redact(
                communication_id, sequence=sequence, by=by, request=request
            )
        except LacksLines:
            self._space.overlay.note_lag(communication_id)
            raise
        escalation = external_of(self._space.index).escalation_about(communication_id, sequence)
        return ExchangeDone(done.state, done.messages[0], escalation, done.time, done.duplicate)

    def channels(self) -> list[str]:
        """Return the channels that have communications."""
        self._store.catch_up()
        return external_of(self._space.index).channels()

    def delete_many(
        self,
        chosen: CommunicationFilter,
        limit: int,
        request_id: str,
        *,
        dry_run: bool,
        deleting: Callable[..., None],
    ) -> BulkReceipt:
        """Delete the communications that match, the longest unchanged first, at most `limit`, as
        `Removals.delete_many` does conversations.
        """
        space = self._space

        def page(place: PageEnd | None, size: int) -> list[PageEnd]:
            rows = external_of(space.index).select(chosen, size, place, newest_first=False)
            return [(it.state.update_time, it.state.id) for it in rows]

        def begin(names: Sequence[str]) -> Mapping[str, RecollectError]:
            return {} if dry_run else space.deletions.begin_each(names, 0, deleting=deleting)

        # as the caller named them: who is meant may change, as by the delete itself
        named = asdict(replace(chosen, identities=()))
        request = key_of(
            "DeleteCommunications",
            request_id,
            {"chosen": named, "limit": limit, "dry_run": dry_run},
        )
        self._store.catch_up()
        return deleted_once(
            space,
            request,
            "DeleteCommunications",
            lambda: delete_matching(space, limit, page, begin, dry_run=dry_run),
        )

    def _escalation(self, escalation_id: str) -> Escalation:
        escalation = (
            external_of(self._space.index).escalation(escalation_id)
            if is_escalation_id(escalation_id)
            else None
        )
        if escalation is None:
            raise EscalationNotFound(escalation_id)
        return escalation

    def _before(
        self, request: RequestKey, wrote_to: Kind | None = None
    ) -> tuple[Communication, list[ExternalMessage]] | None:
        """Return the communication, and what was written, as the same request left them if it was
        carried out before. Raises RequestIdReused.
        """
        record = self._space.requests.find(request, wrote_to=wrote_to)
        return (
            self._store.as_it_was(record.conversation_id, record.last_sequence) if record else None
        )


def without_text(received: Received) -> Received:
    """Return the outcome of a repeated delivery without the stored text, for a caller whose repeat
    had another text: it must not learn what was stored.
    """
    message = received.message
    if message.redaction:
        return received  # nothing of the words is left
    bare = ExternalMessage(
        message.direction,
        "",
        message.timestamp,
        message.sequence,
        provider_message_id=message.provider_message_id,
    )
    return replace(received, message=bare, escalation=None)


def _being_deleted(communication_id: str) -> StorageUnavailable:
    return StorageUnavailable(f"{communication_id} is being deleted: repeat the call")


def _snippet(passages: PassageFinder, message: ExternalMessage) -> str:
    """Return the part of a message that has the words; its subject goes before a text that has none
    of them.
    """
    content = message.text
    if (passage := passages.best(content)) is not None:
        return passage.rendered(content)
    mail = message.origin.email
    content = f"{mail.subject}\n{message.text}" if mail and mail.subject else message.text
    passage = passages.best(content[:CHUNK])
    return passage.rendered(content) if passage else opening_of(plain(content))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
