"""Bare calls for the tests of anchors."""

from typing import Any

from recollect.v1 import recall_service_pb2 as api
from recollect.v1.anchor_pb2 import Anchor, AnchorSource
from recollect_server.kernel.domain.conversation import AnchorSet
from recollect_server.kernel.log.lines import Entry, encode

from tests.conftest import RunningServer
from tests.server.conftest import Service, connect, service, transcript
from tests.server_cli.conftest import _logs_apart

__all__ = ["_logs_apart", "connect", "service"]


def set_anchor(
    service: Service, key: str, value: str, source: tuple[str, int] | None = None, **fields: Any
) -> Anchor:
    """Set an anchor; `source` is a conversation and a line."""
    request = api.SetAnchorRequest(key=key, value=value, **fields)
    if source:
        request.source.CopyFrom(AnchorSource(conversation_id=source[0], sequence=source[1]))
    return service.recall.SetAnchor(request).anchor


def forget_anchor(service: Service, key: str, **fields: Any) -> list[Anchor]:
    return list(service.recall.DeleteAnchor(api.DeleteAnchorRequest(key=key, **fields)).anchors)


def anchors(
    service: Service, key: str = "", *, superseded: bool = False, as_of: int | None = None
) -> list[Anchor]:
    """Return the anchors; as they stood at a time in milliseconds, if one is given."""
    request = api.ListAnchorsRequest(key=key, include_superseded=superseded)
    if as_of is not None:
        request.as_of.FromMilliseconds(as_of)
    return list(service.recall.ListAnchors(request).anchors)


def values(
    service: Service, key: str = "", *, superseded: bool = False, as_of: int | None = None
) -> list[tuple[str, str]]:
    """Return the key and value of each anchor."""
    chosen = anchors(service, key, superseded=superseded, as_of=as_of)
    return [(anchor.key, anchor.value) for anchor in chosen]


def found(
    service: Service, server: RunningServer, key: str, value: str, confidence: float, time: int
) -> str:
    """Return a conversation whose line 2 has an anchor as the writer of notes adds it. A server
    reads it at its next start.
    """
    conversation = service.conversation_of(f"Something about my {key}.")
    with transcript(server, conversation).open("ab") as file:
        file.write(encode(Entry(AnchorSet(key, value, confidence, 2, time))))
    return conversation
