"""The turns of a batch's messages: each answer of a tool joins the turn of its call."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from recollect_server.domain.errors import InvalidField
from recollect_server.domain.message import Message, Role
from recollect_server.services.space.space import Space
from recollect_server.services.space.state import ConversationState
from recollect_server.services.turns import turns_of


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
