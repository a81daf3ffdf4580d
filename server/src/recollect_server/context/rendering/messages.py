"""Common part of the two forms that are lists of messages for an API: the order of the parts, and
their size as JSON.
"""

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import orjson

from recollect_server.context.context import Context
from recollect_server.context.rendering.form import tokens_of
from recollect_server.context.rendering.spoken import (
    NO_RESULT,
    NOT_SHOWN,
    Called,
    SpokenStep,
    dated,
    left_out,
    said_by,
    steps,
    text_of,
    tool_name,
)
from recollect_server.context.rendering.xml import IN_CONTEXT, XmlForm, preface
from recollect_server.kernel.domain.message import Message, Role

RenderedMessage = dict[str, Any]
_ID = "call_99999"
"""An id as long as any that `steps` gives."""
_BEFORE = "(What was said before this is left out.)"


class MessagesForm(XmlForm):
    """A JSON array of messages: what is known as XML, the conversation, and the message that is to
    be answered.
    """

    preface_role: str
    """The role of the message that holds the XML."""
    begins_with_user = False
    """True if the first message must be the user's."""
    system_prompt = (
        "The first message may begin with an element `context`, which the user did not write."
        f" {IN_CONTEXT} The messages behind it are the conversation that you are in. A day in"
        " brackets before a user's message is the day on which it was written."
    )

    @abstractmethod
    def messages_of(self, step: SpokenStep) -> list[RenderedMessage]:
        """Return a step as messages of the API: for one with calls the message that has them, then
        their results.
        """

    def joined(self, messages: list[RenderedMessage]) -> list[RenderedMessage]:
        """Return the messages as the API takes them in a list."""
        return messages

    def render(self, context: Context, message: str) -> str:
        """Return the list, with the message to be answered at its end unless the conversation ends
        with it. Empty: `[]`.
        """
        rendered: list[RenderedMessage] = []
        if about := preface(context, marks=self.marks):
            rendered += self._preface(about)
        for step in steps(context.own, context.begins, context.now):
            if not rendered and self.begins_with_user and step.role is not Role.USER:
                rendered += self.messages_of(SpokenStep(Role.USER, _BEFORE))
            rendered += self.messages_of(step)
        if message.strip() and not is_said(context.own, message):
            rendered += self.messages_of(SpokenStep(Role.USER, message.rstrip()))
        return orjson.dumps(self.joined(rendered)).decode()

    @cached_property
    def gap(self) -> int:
        """The tokens that say how many turns are left out."""
        return _tokens(self.messages_of(SpokenStep(Role.USER, left_out(1_000_000))))

    @cached_property
    def half(self) -> int:
        """The tokens that say that a call has no result, or a result no call."""
        messages = self.messages_of(
            SpokenStep(Role.ASSISTANT, "", (Called(_ID, NOT_SHOWN, "{}", NO_RESULT),))
        )
        return max(_tokens(messages[:1]), _tokens(messages[1:]))

    def frame(self, part: str) -> int:
        """Return the tokens around a part: of the whole, also of the message that has the XML; of
        the conversation, of the list.
        """
        if part == "conversation":
            before = (
                _tokens(self.messages_of(SpokenStep(Role.USER, _BEFORE)))
                if self.begins_with_user
                else 0
            )
            return 1 + max(self.gap, before)
        return super().frame(part) + (_tokens(self._preface("")) if part == "context" else 0)

    def answer(self, message: str) -> int:
        """Return the tokens of the message to be answered."""
        return (
            _tokens(self.messages_of(SpokenStep(Role.USER, message.rstrip())))
            if message.strip()
            else 0
        )

    def own(self, message: Message) -> int:
        """Return the tokens of a message, as if several persons spoke."""
        if message.role is Role.TOOL:
            return _tokens(
                self.messages_of(
                    SpokenStep(Role.ASSISTANT, "", (Called(_ID, "", "", text_of(message)),))
                )[1:]
            )
        calls = tuple(
            Called(_ID, tool_name(call), call.arguments, "") for call in message.tool_calls
        )
        text = said_by(message)
        if text and message.role is Role.USER:
            text = dated(text, message.timestamp)
        return _tokens(self.messages_of(SpokenStep(message.role, text, calls))[:1])

    def _preface(self, about: str) -> list[RenderedMessage]:
        messages = self.messages_of(SpokenStep(Role.USER, about))
        return [it | {"role": self.preface_role} for it in messages]

    def _tokens(self, line: str) -> int:
        # without two quotation marks, and with a line end of two characters
        return tokens_of(len(orjson.dumps(line)))


def is_said(own: Sequence[Message], message: str) -> bool:
    """Return whether the conversation ends with the message that is to be answered."""
    return bool(own) and own[-1].role is Role.USER and own[-1].content.rstrip() == message.rstrip()


def _tokens(messages: list[RenderedMessage]) -> int:
    """Return the tokens of messages in a list, each with a comma behind it."""
    return tokens_of(len(orjson.dumps(messages)) - 1)
