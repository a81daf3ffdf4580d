"""Bounds and values that several groups of handlers check."""

from recollect.v1 import conversation_pb2

MAX_NAME = 128
"""Characters of the name of a model, or of a draft."""
MAX_TURNS = 1000
MAX_CONVERSATIONS = 1000
"""Conversations that a request names."""
ARCHIVED: dict[int, bool | None] = {
    conversation_pb2.ARCHIVE_FILTER_UNSPECIFIED: False,
    conversation_pb2.ARCHIVE_FILTER_ARCHIVED: True,
    conversation_pb2.ARCHIVE_FILTER_ALL: None,
}
