"""Conversations: begin, write, read, name, list and fork them. Each answer of a tool in a batch
joins the turn of its call.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import structlog

from recollect_server.kernel.domain.conversation import (
    ANYBODY,
    CALLER,
    Began,
    Content,
    Continued,
    Conversation,
    MetaUpdated,
    Party,
    TitleAssigned,
    TurnMemory,
    fold,
    merged,
)
from recollect_server.kernel.domain.errors import (
    ConversationNotFound,
    ConversationReadOnly,
    DataUnavailable,
    IndexUnavailable,
    InvalidField,
    RequestIdReused,
    StorageUnavailable,
    TurnOutOfDate,
)
from recollect_server.kernel.domain.filters import Filter, Page, PageEnd
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.ids import Kind, new_ulid
from recollect_server.kernel.domain.message import Message, Role, reading_order
from recollect_server.kernel.domain.time import arrival
from recollect_server.kernel.index.columns import KnownRequest
from recollect_server.kernel.log.entries import message_fields
from recollect_server.kernel.log.lines import messages_of
from recollect_server.kernel.space.conversation_logs import Committed, ConversationState, placed
from recollect_server.kernel.space.logs import RequestKey
from recollect_server.kernel.space.requests import key_of
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import turns_of
from recollect_server.notes.table import notes_of
from recollect_server.people.communication_table import external_of
from recollect_server.people.routing import Place, place_of
from recollect_server.people.routing_table import Routes
from recollect_server.text.addresses import EMAIL, normal_address, spellings

_MAX_COPIED = 1000  # messages of a fork, as of any write
_MAX_ORIGINS = 100  # of a fork of a fork of a fork


def lines_of_fork(
    space: Space, origin: Conversation, fork_id: str, through: int, max_bytes: int
) -> list[Content]:
    """Return the lines of a new conversation that copies another one up to a turn (0: the newest).
    The copies have no usage and no cost: those were spent once. A title that the server wrote is
    copied with all turns only. Hold the lock of the other one.

    Raises InvalidField, StorageUnavailable.
    """
    if not 0 <= through <= origin.turn_count:
        raise InvalidField.of(
            "through_turn", f"is {through}; the newest turn is {origin.turn_count}"
        )
    if origin.channel == EMAIL:
        raise InvalidField.of(
            "conversation_id",
            "is on e-mail, where the ids of its messages lead replies to it alone",
        )
    last = through or origin.turn_count
    now = space.clock()
    began = Began(
        fork_id,
        origin.channel,
        now,
        origin.participants,
        model=origin.model,
        origin_id=origin.id,
        origin_turn=last,
        earlier_origins=_earlier_origins(origin, last),
    )
    contents: list[Content] = [began, *_copies(space, origin.id, last, max_bytes, now)]
    by = origin.title_record
    # an automatic title may name what only later turns of the origin say
    is_of_copy = last == origin.turn_count or origin.manually_named or by.writer == CALLER
    if origin.title and is_of_copy:
        contents.append(TitleAssigned(origin.title, origin.topics, now, by.writer, by.model))
    return contents


def _earlier_origins(origin: Conversation, last: int) -> tuple[tuple[str, int], ...]:
    """Return what the turns of an origin up to the last one were copied of."""
    if not origin.origin_id:
        return ()
    chain = ((origin.origin_id, origin.origin_turn), *origin.earlier_origins)
    return tuple((name, min(last, turn)) for name, turn in chain[:_MAX_ORIGINS])


def _copies(
    space: Space, conversation_id: str, last: int, max_bytes: int, now: int
) -> list[Message | TurnMemory]:
    """Return the messages of a conversation up to a turn, as those of a new one, and what is
    recorded of these turns.
    """
    messages: list[Message] = []
    memories: dict[int, tuple[TurnMemory, int]] = {}  # with the bytes of its line, by turn
    too_much = InvalidField.of(
        "through_turn",
        f"is after more than {_MAX_COPIED} messages or {max_bytes} bytes; fork at an earlier one",
    )
    size = 0
    for line in space.store.read(conversation_id):
        message = line.entry.content if line.entry else None
        if isinstance(message, TurnMemory):
            memories[message.turn] = message, line.length
        if not isinstance(message, Message) or message.turn_number > last:
            continue
        messages.append(message)
        size += line.length
        if len(messages) > _MAX_COPIED or size > max_bytes:
            raise too_much
    messages.sort(key=reading_order)
    # dense: a damaged line may have been all of a turn
    turns = {
        turn: number
        for number, turn in enumerate(sorted({it.turn_number for it in messages}), start=1)
    }
    recorded = {turn: it for turn, it in memories.items() if turn in turns and it[0].is_set}
    if size + sum(length for _, length in recorded.values()) > max_bytes:
        raise too_much
    copies = (
        replace(
            message,
            sequence=number,
            turn_number=turns[message.turn_number],
            usage=None,
            cost=None,
        )
        for number, message in enumerate(messages, start=2)
    )
    return [
        *copies,
        *(replace(it, turn=turns[turn], time=now) for turn, (it, _) in recorded.items()),
    ]


log = structlog.get_logger("recollect.conversations")

_MAX_METADATA = 64 << 10  # bytes of a conversation's metadata as JSON


@frozen
class AppendResult:
    """Messages that an append stored, or had stored before."""

    conversation: Conversation
    messages: list[Message]
    cursor: str
    duplicate: bool


class Conversations:
    """The conversations of a space. Raises the errors of `kernel.domain.errors`; safe to call from
    any thread.
    """

    def __init__(self, space: Space, routes: Routes) -> None:
        self._space = space
        self._routes = routes

    # Reading --------------------------------------------------------------------------------------

    def get(self, conversation_id: str) -> Conversation:
        return self._space.read(conversation_id).conversation

    def page(self, chosen: Filter, size: int, after: PageEnd | None) -> Page[Conversation]:
        """Return a page of the conversations that match, newest update first."""
        rows = self._space.index.conversations.select(chosen, size + 1, after)
        page = Page.of([it.state for it in rows], size, lambda it: (it.update_time, it.id))
        return replace(page, entries=[self._space.current(it) for it in page.entries])

    # Writing --------------------------------------------------------------------------------------

    def create(
        self,
        *,
        channel: str,
        participants: tuple[str, ...],
        party: Party,
        model: str,
        create_time: int | None,
        conversation_id: str = "",
        request_id: str,
        messages: list[Message] | None = None,
        pinned: bool = False,
    ) -> AppendResult:
        """Begin a conversation with its first messages, if it has any, in one write: all or none.

        It has the given id or, if that is empty, a new one; raise ConversationExists if the id is
        taken. `pinned` gives it the place of its party (see `people.routing.pinned_party`); who was
        pinned there is not any more.
        """
        messages = messages or []
        payload: dict[str, Any] = {
            "channel": channel,
            "participants": participants,
            "party": [party.contact, party.group_id, party.thread_id, party.subject],
            "model": model,
            "created": create_time,
        }
        if conversation_id:
            payload["id"] = conversation_id
        if messages:
            payload["messages"] = [message_fields(message) for message in messages]
        if party.contact_name:
            payload["contact_name"] = party.contact_name
        # Not the group's name: that changes, and a newer export has the newer one.
        if pinned:
            payload["pinned"] = True
        request = key_of("Create", request_id, payload)
        place = place_of(channel, party)
        self._space.free(request, conversation_id)
        with self._space.exclusive(
            request=request_id, place=place.name if pinned and place.known else ""
        ):
            if request and (previous := self._begun(request)):
                repeated = self._repeated(previous, None)
                if pinned and place.known:
                    # others took the place since
                    begun_id = repeated.conversation.id
                    before = {it for it in self._routes.all_pinned(place) if it < begun_id}
                    self._unpin_others(place, begun_id, before)
                return repeated
            now = self._space.clock()
            time = now if create_time is None else create_time
            if create_time is None and not conversation_id:  # an import keeps what it has
                party = self._with_known_name(channel, party)
            given, conversation_id = conversation_id, conversation_id or f"conv-{new_ulid()}"
            arrived = arrival(time, 0, now)
            began = Began(
                conversation_id,
                channel,
                time,
                participants or (ANYBODY,),
                party,
                model,
                pinned,
                arrived,
            )
            empty = fold(None, began)
            assert empty is not None
            check_writable(empty, [message.channel for message in messages])
            state = ConversationState(empty, 0, 1, None, indexed=True)
            first = placed(state, with_turns(self._space, state, messages), now)
            others = self._routes.all_pinned(place) if pinned and place.known else set()
            done = self._space.begin([began, *first], request, is_named=bool(given))
            self._unpin_others(place, conversation_id, others)
        return self._appended(done)

    def fork(
        self, conversation_id: str, through: int, max_bytes: int, request_id: str
    ) -> AppendResult:
        """Begin a conversation as a copy of another one up to a turn (0: the newest), in one write:
        all or none. The copies have no usage and no cost: those were spent once.
        """
        request = key_of("Fork", request_id, {"id": conversation_id, "through": through})
        with self._space.exclusive(request=request_id):
            if request and (previous := self._begun(request)):
                return self._repeated(previous, None)
            fork_id = f"conv-{new_ulid()}"

            def lines(origin: Conversation) -> list[Content]:
                return lines_of_fork(self._space, origin, fork_id, through, max_bytes)

            done = self._space.copy(conversation_id, fork_id, lines, request)
        return self._appended(done)

    def _with_known_name(self, channel: str, party: Party) -> Party:
        """Return a party whom an agent writes to first, by the name that it had last on the
        channel, where the caller gives none.
        """
        if not party.contact or party.contact_name:
            return party
        addresses = spellings(channel, normal_address(channel, party.contact))
        index = self._space.index
        with suppress(IndexUnavailable):
            for address in addresses:
                chosen = Filter(channels=(channel,), party=Party(contact=address))
                for row in index.conversations.select(chosen, 1):
                    if name := row.state.party.contact_name:
                        return replace(party, contact_name=name)
            if stored := external_of(index).with_party(channel, addresses):
                return replace(party, contact_name=stored.state.party_name)
        return party

    def _unpin_others(self, place: Place, conversation_id: str, others: set[str]) -> None:
        """Unpin those that had the place of a conversation before it, and queue their notes.

        What fails here is done by a repeat of the request; until then the newest pinned one takes
        what comes in.
        """
        for other in sorted(others):
            try:
                with self._space.writing(other) as state:
                    pinned = state.conversation
                    if not pinned.pinned or place_of(pinned.channel, pinned.party) != place:
                        continue
                    self._space.append(state, [Continued(conversation_id, self._space.clock())])
                if state.number is not None:
                    notes_of(self._space.index).want(state.number, None)
            except (ConversationNotFound, DataUnavailable) as error:
                log.warning("conversation_still_pinned", conversation=other, reason=str(error))

    def append(
        self,
        conversation_id: str,
        messages: list[Message],
        *,
        request_id: str,
        expected_turn: int | None,
        draft_id: str,
        in_reply_to_turn: int | None = None,
    ) -> AppendResult:
        """Append messages as the caller gave them (sequence and turn 0, timestamp 0 for now), all
        or none.

        Assistant messages belong to turn `in_reply_to_turn`, or to the newest; tool results to the
        turn of their calls.
        """
        payload: dict[str, Any] = {
            "id": conversation_id,
            "draft": draft_id,
            "messages": list(map(message_fields, messages)),
        }
        if in_reply_to_turn is not None:
            payload["in_reply_to_turn"] = in_reply_to_turn
        request = key_of("AppendTurn", request_id, payload)
        with self._space.writing(conversation_id, request=request_id) as state:
            if request and (previous := self._space.requests.find(request, conversation_id)):
                return self._repeated(previous, state)
            if expected_turn is not None and expected_turn != state.conversation.turn_count:
                if self._space.pending_messages(conversation_id):
                    raise StorageUnavailable(
                        f"the transcript cannot be written yet: {self._space.held_because()}. Messages"
                        " are held that may open a turn"
                    )
                raise TurnOutOfDate(expected_turn, state.conversation.turn_count)
            if state.conversation.pinned:
                check_writable(state.conversation, [message.channel for message in messages])
            joined = with_turns(self._space, state, messages, in_reply_to_turn)
            lines = placed(state, joined, self._space.clock())
            done = self._space.append(state, lines, request, draft_id=draft_id)
        return AppendResult(done.state.conversation, lines, done.cursor, duplicate=False)

    def _appended(self, done: Committed) -> AppendResult:
        """Return the answer to a write that was carried out."""
        return AppendResult(
            done.state.conversation,
            messages_of(done.lines),
            done.cursor,
            duplicate=False,
        )

    def _begun(self, request: RequestKey) -> KnownRequest | None:
        """Return the same request if it began a conversation before. Raises RequestIdReused."""
        previous = self._space.requests.find(request, wrote_to=Kind.CONVERSATION)
        if previous and previous.first_sequence > 1:
            raise RequestIdReused(request.id)  # by a message that was redacted since
        return previous

    def _repeated(self, request: KnownRequest, state: ConversationState | None) -> AppendResult:
        """Return the answer to a request that was carried out before (see `Requests.replay`)."""
        messages, conversation = self._space.requests.replay(request, state)
        cursor = self._space.cursor_of_request(request)
        return AppendResult(conversation, messages, cursor, duplicate=True)

    def rename(self, conversation_id: str, title: str, request_id: str) -> Conversation:
        """Set a title that the server never replaces."""
        request = key_of("Rename", request_id, {"id": conversation_id, "title": title})
        return self._space.record(
            conversation_id,
            lambda _: [MetaUpdated(self._space.clock(), title=title, manually_named=True)],
            request,
        )

    def set_model(self, conversation_id: str, model: str, request_id: str) -> Conversation:
        request = key_of("SetModel", request_id, {"id": conversation_id, "model": model})
        return self._space.record(
            conversation_id, lambda _: [MetaUpdated(self._space.clock(), model=model)], request
        )

    def set_topics(
        self, conversation_id: str, topics: tuple[str, ...], request_id: str
    ) -> Conversation:
        """Set topics that automatic notes leave; none leaves them to those again."""
        request = key_of("SetTopics", request_id, {"id": conversation_id, "topics": topics})
        return self._space.record(
            conversation_id, lambda _: [MetaUpdated(self._space.clock(), topics=topics)], request
        )

    def archive(self, conversation_id: str, *, archived: bool, request_id: str) -> Conversation:
        """Take a conversation out of lists, or put it back."""
        request = key_of("Archive", request_id, {"id": conversation_id, "archived": archived})

        def event(state: ConversationState) -> list[Content]:
            if state.conversation.archived == archived and not request_id:
                return []  # unchanged: there is nothing to publish
            return [MetaUpdated(self._space.clock(), archived=archived)]

        return self._space.record(conversation_id, event, request)

    def update_metadata(
        self, conversation_id: str, changes: dict[str, Any], request_id: str
    ) -> Conversation:
        """Set values of a conversation's metadata by key; a value of None removes its key."""
        request = key_of("UpdateMetadata", request_id, {"id": conversation_id, "metadata": changes})

        def event(state: ConversationState) -> list[Content]:
            after = merged(state.conversation.metadata, changes)
            if (size := len(orjson.dumps(after))) > _MAX_METADATA:
                raise InvalidField.of(
                    "metadata",
                    f"would be {size} bytes as JSON with what is there; at most {_MAX_METADATA} are allowed",
                )
            return [MetaUpdated(self._space.clock(), metadata=changes)]

        return self._space.record(conversation_id, event, request)


def check_writable(conversation: Conversation, channels: Iterable[str]) -> None:
    """Raise ConversationReadOnly if the conversation is pinned and one of the channels (empty: its
    own) differs from its channel.
    """
    if conversation.pinned and any(
        channel not in ("", conversation.channel) for channel in channels
    ):
        raise ConversationReadOnly(conversation.id, conversation.channel)


def with_turns(
    space: Space,
    state: ConversationState,
    messages: list[Message],
    in_reply_to_turn: int | None = None,
) -> list[Message]:
    """Return the messages with the turns of those that join an earlier one than the newest.

    Raises InvalidField for a tool result whose call was not made, or was answered; for a call
    whose id one of its turn has that waits; and for a turn that is not there.
    """
    newest = state.conversation.turn_count
    if in_reply_to_turn is not None and not 1 <= in_reply_to_turn <= newest:
        there = f"has turns 1 to {newest}" if newest else "has no turn yet"
        raise InvalidField.of(
            "in_reply_to_turn", f"is {in_reply_to_turn}, and the conversation {there}"
        )
    with_tools = [it for it in messages if it.tool_calls or it.role is Role.TOOL]
    if in_reply_to_turn is None and not with_tools:
        return messages
    calls = _Calls(state, partial(_calls_of, space, state))
    joined: list[Message] = []
    for index, message in enumerate(messages):
        if message.role is Role.USER or newest == 0:
            newest += 1
            calls.begin(newest)
        turn = in_reply_to_turn or newest
        for place, call in enumerate(message.tool_calls):
            if not calls.make(turn, call.id):
                raise InvalidField.of(
                    f"messages[{index}].tool_calls[{place}].id",
                    f"is {call.id!r}, which another call of this turn has that waits for its result",
                )
        if message.role is Role.TOOL:
            turn_of_call = calls.answer(message.tool_call_id, newest, in_reply_to_turn)
            if turn_of_call is None:
                raise InvalidField.of(
                    f"messages[{index}].tool_call_id",
                    f"is {message.tool_call_id!r}, and no tool call of that id waits for a result",
                )
            turn = turn_of_call
        joined.append(message if turn == newest else replace(message, turn_number=turn))
    return joined


def _calls_of(space: Space, state: ConversationState, turn: int) -> dict[str, bool]:
    """Return the tool calls of a turn, and whether each waits for its result."""
    calls: dict[str, bool] = {}
    written = turns_of(space, state, turn, turn, is_locked=True).messages
    for message in [
        *written,
        *(m for m in space.pending_messages(state.conversation.id) if m.turn_number == turn),
    ]:
        calls.update((call.id, True) for call in message.tool_calls)
        if message.tool_call_id:
            calls[message.tool_call_id] = False
    return calls


class _Calls:
    """The tool calls of a conversation and whether each waits for its result, while a batch is
    placed behind its end.

    Exact for the turns that are asked for by number, which are read; for other turns what the
    conversation notes of them.
    """

    def __init__(self, state: ConversationState, read: Callable[[int], dict[str, bool]]) -> None:
        self._read = read
        self._noted = state.conversation.open_calls
        self._turns: dict[int, dict[str, bool]] = {}

    def begin(self, turn: int) -> None:
        """Note that a turn begins, without any call."""
        self._turns[turn] = {}

    def make(self, turn: int, call_id: str) -> bool:
        """Note a call. Return False if one of that id waits for its result in the turn."""
        calls = self._of(turn)
        if calls.get(call_id):
            return False
        calls[call_id] = True
        return True

    def answer(self, call_id: str, newest: int, named: int | None) -> int | None:
        """Note the result of a call, and return its turn: the named one, or else the newest with
        such a call; None: no turn.
        """
        noted = {turn for turn, name in self._noted if name == call_id}
        turns = [
            *([named] if named else []),
            newest,
            *sorted(noted | self._turns.keys(), reverse=True),
        ]
        turn_of_call = next((turn for turn in turns if self._of(turn).get(call_id)), None)
        if turn_of_call is not None:
            self._of(turn_of_call)[call_id] = False
        return turn_of_call

    def _of(self, turn: int) -> dict[str, bool]:
        if turn not in self._turns:
            self._turns[turn] = self._read(turn)
        return self._turns[turn]
