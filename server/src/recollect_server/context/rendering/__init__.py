"""A context as a model reads it: pure functions from `context.context` to text, one module for each
form of the contract.

Messages are data: no text in a message can end an element, add a message, or pass for a line of the
form itself.
"""

from recollect_server.context.rendering.anthropic import AnthropicForm
from recollect_server.context.rendering.form import Form
from recollect_server.context.rendering.openai import OpenAiForm
from recollect_server.context.rendering.recall_block import RecallForm
from recollect_server.context.rendering.xml import XmlForm

_XML = XmlForm()
FORMS: dict[int, Form] = {
    0: _XML,
    1: Form(),
    2: _XML,
    3: OpenAiForm(),
    4: AnthropicForm(),
    5: RecallForm(),
}
"""By the contract's number."""
