"""The pages of a list, one after the other."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar


class Page(Protocol):
    """A page of a list."""

    @property
    def next_page_token(self) -> str:
        """Asks for the page that follows. Empty: there is none."""


P = TypeVar("P", bound=Page)


def pages(get_page: Callable[[str], P]) -> Iterator[P]:
    """Yield the pages that a call returns for page tokens; an empty token asks for the first."""
    token = ""
    while True:
        page = get_page(token)
        yield page
        token = page.next_page_token
        if not token:
            return
