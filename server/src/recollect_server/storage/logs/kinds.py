"""Kinds of logs of which a space has many, and the kinds of their changes."""

from enum import StrEnum


class Kind(StrEnum):
    """Kind of log of which a space has many."""

    CONVERSATION = "conversations"
    COMMUNICATION = "external"
    THREAD = "threads"


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
