"""A context as a model reads it: pure functions from `domain.context` to text, one module for each form of the contract.

Whatever was said is data: no text in a message can end an element, add a message, or pass for a line of ours.
"""

from collections.abc import Callable

from recollect_server.domain.context import Context
from recollect_server.domain.rendering.anthropic import anthropic_messages
from recollect_server.domain.rendering.openai import openai_messages
from recollect_server.domain.rendering.recall_block import recall_block
from recollect_server.domain.rendering.xml import xml_block

FORMS: dict[int, Callable[[Context, str], str]] = {
    0: lambda _context, _message: "",
    1: lambda _context, _message: "",
    2: lambda context, _message: xml_block(context),
    3: openai_messages,
    4: anthropic_messages,
    5: lambda context, _message: recall_block(context),
}
"""By the contract's number. Each is given the context and the message that is to be answered."""
