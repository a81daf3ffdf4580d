"""Forks: the lines of a conversation that begins as a copy of another one."""

from dataclasses import replace

from recollect_server.kernel.domain.conversation import (
    CALLER,
    Began,
    Content,
    Conversation,
    TitleAssigned,
    TurnMemory,
)
from recollect_server.kernel.domain.errors import InvalidField
from recollect_server.kernel.domain.message import Message, reading_order
from recollect_server.kernel.space.space import Space
from recollect_server.text.addresses import EMAIL

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
