"""Errors in the words of the tools."""

from recollect import NotFound, RecollectError, Unavailable

_FIELDS = {
    "conversation_id": "conversationId",
    "request_id": "requestId",
    "turn_range.first": "turnRange.from",
    "turn_range.last": "turnRange.to",
    "turn_range": "turnRange",
    "date_range.start": "dateRange.from",
    "date_range.end": "dateRange.to",
    "date_range": "dateRange",
    "after": "dateRange.from",
    "before": "dateRange.to",
    "as_of": "asOf",
    "source.conversation_id": "source.conversationId",
}
"""The contract's names, in those of the tools."""


class WrongArgument(Exception):
    """An argument is not what the tool takes. The text names it."""


def sentence(error: RecollectError, target: str) -> str:
    """Return what is wrong, with the fields as the tools name them."""
    if type(error) is Unavailable and error.reason is None:
        return f"no Recollect server answers on {target}: start one with `recollect-server serve`"
    if isinstance(error, NotFound):
        return f"conversationId: {error}"
    violations = (f"{_FIELDS.get(it.field, it.field)}: {it.description}" for it in error.violations)
    return "; ".join(violations) or str(error).replace("request_id", "requestId")
