"""Names of conversations: `conv-` and a ULID in Crockford's base 32, and nothing else."""

import re

# A ULID holds 128 bits in 26 characters of 5, so the first is at most 7. No such name can leave a folder.
_CONVERSATION_ID = re.compile(r"conv-[0-7][0-9A-HJKMNP-TV-Z]{25}", re.ASCII)


def is_conversation_id(text: str) -> bool:
    """Whether the text is the name of a conversation, existing or not."""
    return _CONVERSATION_ID.fullmatch(text) is not None
