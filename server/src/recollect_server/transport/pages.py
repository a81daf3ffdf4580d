"""Page tokens: where the next page begins, bound to the question it belongs to. Opaque to
callers.
"""

import base64
import binascii
import hashlib

from google.protobuf.message import Message as ProtoMessage

from recollect_server.domain.errors import InvalidPageToken

Place = tuple[int, str]
_USUAL, _MOST = 50, 500


def page_size(size: int) -> int:
    """Return the size of a page, limited to the maximum."""
    return min(size or _USUAL, _MOST)


def token_of(request: ProtoMessage, place: Place | None) -> str:
    """Return the token for the page after a place; empty for none."""
    if place is None:
        return ""
    text = f"{place[0]}.{place[1]}.{_seal(request, place)}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(request: ProtoMessage, token: str) -> Place | None:
    """Return the place that a token names; None without one. Raises InvalidPageToken."""
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
    if token != token_of(request, place) or abs(place[0]) >= 1 << 62:
        raise InvalidPageToken
    return place


def _seal(request: ProtoMessage, place: Place) -> str:
    """Return a hash of the request and the place: of the method's name and its filters, not of the
    page size.
    """
    bare = type(request)()
    bare.CopyFrom(request)
    for name in ("page_token", "page_size"):
        if name in request.DESCRIPTOR.fields_by_name:
            bare.ClearField(name)
    text = (
        f"{place[0]}.{place[1]}.{request.DESCRIPTOR.full_name}".encode()
        + bare.SerializeToString(deterministic=True)
    )
    return hashlib.sha256(text).hexdigest()[:16]
