"""Parts of files: messages that hold the bytes of a file of the message before them, as
`adapters.files` writes them. They are not to be shown.
"""

from recollect._types.message import Message

PART = "recollectPart"


def is_part(message: Message) -> bool:
    """Return whether a message is a part of a file."""
    return PART in message.metadata
