"""Kinds of logs, and the kinds of their changes."""

from enum import StrEnum

from recollect_server.kernel.domain.ids import (
    is_communication_id,
    is_conversation_id,
    is_thread_log,
)

LEDGER = "ledger"
"""Kind of the logs of which a space has one each."""


class Kind(StrEnum):
    """Kind of log of which a space has many."""

    CONVERSATION = "conversations"
    COMMUNICATION = "external"
    THREAD = "threads"


IS_NAME = {
    Kind.CONVERSATION: is_conversation_id,
    Kind.COMMUNICATION: is_communication_id,
    Kind.THREAD: is_thread_log,
}
"""Functions that tell whether a text is the name of a log of a kind."""


def kind_of(log: str) -> str:
    """Return the kind of a log by its name. Raises ValueError for a text that is not one: it could
    be a path.
    """
    for kind, is_name in IS_NAME.items():
        if is_name(log):
            return kind.value
    if log.isidentifier():
        return LEDGER
    raise ValueError("not the name of a log")


class Action(StrEnum):
    """Kind of change of a log."""

    APPEND = "append"
    """Lines were added behind `start`."""
    REPLACE = "replace"
    """It has other lines."""
    REDACT = "redact"
    """Lines have lost their text, and kept their places; one was added behind `start`."""
    DELETE = "delete"
    """It is gone. Its lines can be read until each process has dropped them, but for one that was
    silent for half a minute.
    """
