"""The ends of a command: its exit code and the sentence that says why, in one table for all."""

import re

import click

from recollect import errors
from recollect._shared import startup
from recollect.errors import RecollectError

OK = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
NOT_REACHABLE = 4
REFUSED = 5
INCOMPLETE = 6
INTERRUPTED = startup.INTERRUPTED
CLOSED_PIPE = 141

MEANINGS = {
    OK: "done",
    FAILED: "failed: a fault of the server, damaged data, a file that cannot be read or written",
    USAGE: "wrong usage: an unknown flag, or a value that the server refuses",
    NOT_FOUND: "no such conversation (or anchor, owner, communication, escalation, token, space),"
    " or it was deleted",
    NOT_REACHABLE: "no server answers, or not in time",
    REFUSED: "the server refuses it as things stand now",
    INCOMPLETE: "done, but something was left out; each is named on standard error",
    INTERRUPTED: "ended with Ctrl-C",
    CLOSED_PIPE: "whoever read the output closed it, as `head` does",
}

_BY_ERROR: dict[type[RecollectError], int] = {
    errors.InvalidArgument: USAGE,
    errors.NotFound: NOT_FOUND,
    errors.Unavailable: NOT_REACHABLE,
    errors.TlsMismatch: NOT_REACHABLE,
    errors.DeadlineExceeded: NOT_REACHABLE,
    errors.Cancelled: NOT_REACHABLE,
    errors.AlreadyExists: REFUSED,
    errors.TurnOutOfDate: REFUSED,
    errors.FailedPrecondition: REFUSED,
    errors.PermissionDenied: REFUSED,
    errors.Unauthenticated: REFUSED,
    errors.ResourceExhausted: REFUSED,
    errors.LimitExceeded: REFUSED,
    errors.Unimplemented: REFUSED,
}


def code_of(error: RecollectError) -> int:
    """Return the exit code for a failed call."""
    return _BY_ERROR.get(type(error), FAILED)


def sentence_of(error: RecollectError, address: str) -> str:
    """Return the sentence about a failed call, on one line."""
    if type(error) is errors.Unavailable and error.reason is None:
        return (
            f"no Recollect server answers on {address}: start one with `recollect-server"
            " serve`, or name it with --address"
        )
    text = "; ".join(map(_of_field, error.violations)) or str(error)
    if reason := error.metadata.get("held_because"):
        text = f"it is kept on the server and written as soon as there is room ({reason})"
    if isinstance(error, errors.Unauthenticated):
        text = f"{text} (recollect sends the token in RECOLLECT_TOKEN)"
    return " ".join(text.split())


_LISTS = {
    "conversation_id": "recollect list",
    "communication_id": "recollect communications list",
    "escalation_id": "recollect escalations list",
}
"""The command that shows the ids of a field."""


_PARAMETERS = {
    "updated_after": "since",
    "updated_before": "until",
    "after": "since",
    "before": "until",
    "date_range.start": "since",
    "date_range.end": "until",
    "max_turns": "turns",
    "page_size": "limit",
    "content": "words",
    "text": "words",
    "message": "words",
    "summary": "words",
    "turn_number": "turn",
    "through_turn": "through",
    "from_conversation_id": "left",
    "to_conversation_id": "conversation",
    "thread_id": "names",
    "token_id": "ids",
    "spaces": "for_spaces",
    "metadata": "values",
}
"""Names that commands have for what fields of the contract hold, where they differ."""

_QUERIES = {"query": ("words", "name")}
"""Likewise, of a field for which commands have different names."""

_OTHERS = re.compile(r"(?<=is not after )[a-z_.]+")
"""Another field that a description names."""


def _of_field(violation: errors.FieldViolation) -> str:
    """Return what is wrong with a field, and which command has what it should be."""
    field = re.sub(r"\[\d+\]", "", violation.field)
    description = _OTHERS.sub(lambda it: _typed(it[0]) or it[0], violation.description)
    if description.startswith("is not conv-"):  # commands complete the end of one
        description = "is neither the id of a conversation nor the end of one"
    text = f"{_typed(field) or violation.field} {description}"
    command = _LISTS.get(re.sub("^(from|to)_", "", field.replace("_ids", "_id")))
    return f"{text}: `{command}` shows them" if command else text


def _typed(field: str) -> str:
    """Return the option or the argument of the running command that a field comes from; empty: it
    has none.
    """
    context = click.get_current_context(silent=True)
    first, last = field.partition(".")[0], field.rpartition(".")[2]
    base = re.sub("_ids?$", "", last)
    names = {first, last, f"{last}s", base, f"{base}s", *_QUERIES.get(last, ())}
    names |= {_PARAMETERS.get(it, it) for it in (field, first, last)}
    for it in context.command.params if context else ():
        if it.name in names:
            if isinstance(it, click.Option):
                return it.opts[0]
            typed = it.human_readable_name.strip("[].")
            return last.upper() if last.upper() in typed.split() else typed
    return ""


class Ended(click.ClickException):
    """Ends the command with this sentence and this code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code
