"""A form of the contract: how a context is written, and how many tokens each part of it takes
there.

What a form charges for the parts of a context is together never less than what its text takes, so
that a budget spent by these charges holds for the text.
"""

from functools import cached_property

from recollect_server.anchors.log import Anchor
from recollect_server.context.context import Context, GroupMessage, Source
from recollect_server.kernel.domain.message import (
    BYTES_PER_TOKEN,
    Attachment,
    Message,
    estimate_tokens,
    message_tokens,
)
from recollect_server.recall.model.statement import ProfileStatement
from recollect_server.text.text import one_line

_FRAME = 4
"""Tokens that a message of parts is charged beside its words: a caller that sends it to a model
adds as much to say who speaks.
"""


def tokens_of(size: int) -> int:
    """Return the estimated tokens of so many bytes, rounded up."""
    return -(-size // BYTES_PER_TOKEN)


def attachment_line(file: Attachment) -> str:
    """Return the line that stands for a file in the forms that have only text."""
    return f"[attachment: {one_line(f'{file.media_type} {file.uri}')}]"


class Form:
    """The parts alone: nothing is rendered, and the caller reads the fields. The base of the forms
    that render.
    """

    has_text = False
    """True if anything is rendered."""
    system_prompt = ""
    """Explanation of the text for the model; the same whatever the context is."""

    def __init__(self, *, marks: bool = False) -> None:
        """Write the tier, the relevance and the source into elements of XML, with `marks`."""
        self.marks = marks

    @cached_property
    def marked(self) -> "Form":
        """The same form with marks."""
        return type(self)(marks=True)

    @cached_property
    def gap(self) -> int:
        """The tokens that it takes to say that turns are left out between two others."""
        return 0

    @cached_property
    def half(self) -> int:
        """The tokens that it takes to say that a tool call has no result, or that the call of a
        result is not shown.
        """
        return 0

    def render(self, context: Context, message: str) -> str:  # noqa: ARG002 - the other forms need it
        """Return the context as text, with the message that is to be answered where the form has
        it.
        """
        return ""

    def frame(self, part: str) -> int:  # noqa: ARG002
        """Return the tokens that surround a part: `context`, `profile`, `anchors`, `summary`,
        `recalled`, `group` or `conversation`.
        """
        return 0

    def answer(self, message: str) -> int:  # noqa: ARG002
        """Return the tokens that the message to be answered takes; 0 where it is not rendered."""
        return 0

    def own(self, message: Message) -> int:
        """Return the tokens that a message of the conversation itself takes."""
        files = sum(estimate_tokens(attachment_line(file)) for file in message.attachments)
        return _FRAME + message_tokens(message) + files

    def anchor(self, anchor: Anchor) -> int:
        return estimate_tokens(f"{anchor.key}: {anchor.value}")

    def statement(self, it: ProfileStatement) -> int:
        return estimate_tokens(it.text)

    def summary(self, text: str) -> int:
        """Return the tokens that a summary takes, or a part of it."""
        return estimate_tokens(text)

    def recalled(self, message: Message, *, is_later: bool = False) -> int:  # noqa: ARG002
        """Return the tokens that a recalled message takes, with the mark of a later one."""
        return self.own(message)

    def source(self, source: Source) -> int:
        """Return the tokens that a source takes beside its messages."""
        return source.tokens

    def group_message(self, it: GroupMessage) -> int:
        """Return the tokens that a message of another member of the group takes."""
        return it.tokens
