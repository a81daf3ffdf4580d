"""Cursors and page tokens as callers see them: opaque, and bound to the space that they are of.

A page token is bound to its question too.
"""

import base64
import binascii
import hashlib
import re

from google.protobuf.message import Message as ProtoMessage

from recollect_server.domain.errors import InvalidField, InvalidPageToken

PagePlace = tuple[int, str]
_USUAL, _MOST = 50, 500


def page_size(size: int) -> int:
    """Return the size of a page, limited to the maximum."""
    return min(size or _USUAL, _MOST)


def _tag_of(space: str) -> str:
    return f"{hashlib.sha256(space.encode()).hexdigest()[:10]}."


_EMPTY = _tag_of("")
_TAG = re.compile(r"^[0-9a-f]{10}\.")


class CursorSeal:
    """Binds the cursors and page tokens of one space to it, so that no other space accepts them."""

    def __init__(self, space: str, *, is_default: bool) -> None:
        """Those of the default space look as they did before there were others."""
        self._own = _tag_of(space)
        self._tag = "" if is_default else self._own
        self._is_empty = not space

    def cursor(self, position: str) -> str:
        """Return the cursor of a position; empty for none."""
        return f"{self._tag}{position}" if position else ""

    def position(self, cursor: str) -> str:
        """Return the position of a cursor; empty for none. Raises InvalidField.

        A cursor of the empty space, which stands in for one that does not exist, leads into every
        space, and every cursor into the empty one: a stream goes on where a space is made or gone.
        """
        if cursor.startswith(_EMPTY) or self._is_empty:
            return _TAG.sub("", cursor)
        if cursor and not cursor.startswith(self._own) and self._tag:
            raise InvalidField.of("cursor", "is not a cursor that this space gave out")
        return cursor.removeprefix(self._own)

    def page_token(self, request: ProtoMessage, place: PagePlace | None) -> str:
        """Return the token for the page after a place; empty for none."""
        if place is None:
            return ""
        text = f"{place[0]}.{place[1]}.{self._hash(request, place)}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def place(self, request: ProtoMessage, token: str) -> PagePlace | None:
        """Return the place that a page token names; None without one. Raises InvalidPageToken."""
        if not token:
            return None
        try:
            text = base64.b64decode(
                token + "=" * (-len(token) % 4), altchars=b"-_", validate=True
            ).decode()
            time, name, _ = text.split(".")
            place = int(time), name
        except (binascii.Error, ValueError):
            raise InvalidPageToken from None
        if token != self.page_token(request, place) or abs(place[0]) >= 1 << 62:
            raise InvalidPageToken
        return place

    def _hash(self, request: ProtoMessage, place: PagePlace) -> str:
        """Return a hash of the space, the request and the place: of the method's name and its
        filters, not of the page size.
        """
        bare = type(request)()
        bare.CopyFrom(request)
        for name in ("page_token", "page_size"):
            if name in request.DESCRIPTOR.fields_by_name:
                bare.ClearField(name)
        text = (
            f"{self._tag}{place[0]}.{place[1]}.{request.DESCRIPTOR.full_name}".encode()
            + bare.SerializeToString(deterministic=True)
        )
        return hashlib.sha256(text).hexdigest()[:16]
