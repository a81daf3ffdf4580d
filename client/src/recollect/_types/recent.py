"""A page of recent conversations, and the marks of words in snippets."""

from collections.abc import Iterable
from typing import Self

from recollect._types.recall import RecentConversation

MATCH_START = "\ue000"
"""Stands in a snippet before words that match."""
MATCH_END = "\ue001"
"""Stands in a snippet after words that match."""


class RecentPage(tuple[RecentConversation, ...]):
    """The answer of `recall.recent`: a tuple of the conversations, in the order asked for."""

    has_more: bool = False
    """True if some were left out because the answer would be too large: ask for those after the
    last one.
    """

    @classmethod
    def of(cls, entries: Iterable[RecentConversation], *, has_more: bool) -> Self:
        """Return the page of these conversations."""
        page = cls(entries)
        page.has_more = has_more
        return page
