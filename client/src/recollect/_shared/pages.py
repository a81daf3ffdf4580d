"""The pages of a list, one after the other."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from recollect._shared.fill import fill
from recollect._shared.rpc import Call

Item = TypeVar("Item", covariant=True)
P = TypeVar("P", bound="Page[Any]")


class Page(Protocol[Item]):
    """A page of a list."""

    @property
    def next_page_token(self) -> str:
        """Asks for the page that follows. Empty: there is none."""

    def __iter__(self) -> Iterator[Item]: ...


def next_page(call: Call[P], page: P) -> Call[P] | None:
    """Return the call for the page after this one; None after the last."""
    if not page.next_page_token:
        return None
    request = type(call.request)()
    request.CopyFrom(call.request)
    return replace(call, request=fill(request, page_token=page.next_page_token))
