"""The calls of RecallService."""

from collections.abc import Iterable
from datetime import datetime

from recollect._shared import read
from recollect._shared.calls import parts
from recollect._shared.fill import fill, invalid
from recollect._shared.rpc import Call, Method
from recollect._types.recall import (
    DateRange,
    FetchedContext,
    RecentOrder,
    RecentPage,
    SearchAnswer,
    TurnRange,
)
from recollect.v1 import recall_service_pb2 as pb

_SERVICE = pb.DESCRIPTOR.services_by_name["RecallService"]
_SEARCH = Method(_SERVICE, "Search", pb.SearchRequest, pb.SearchResponse)
_FETCH_CONTEXT = Method(_SERVICE, "FetchContext", pb.FetchContextRequest, pb.FetchContextResponse)
_RECENT = Method(_SERVICE, "Recent", pb.RecentRequest, pb.RecentResponse)

_ORDERS = {
    RecentOrder.NEWEST_FIRST: pb.RECENT_ORDER_NEWEST_FIRST,
    RecentOrder.OLDEST_FIRST: pb.RECENT_ORDER_OLDEST_FIRST,
}


def search(
    query: str,
    limit: int | None,
    channel: str | None,
    date_range: DateRange | None,
    conversation_id: str | None,
    topics: Iterable[str] | None,
    participants: Iterable[str] | None,
    min_score: float | None,
    explain: bool,
) -> Call[pb.SearchRequest, pb.SearchResponse, SearchAnswer]:
    """Return the call of Search."""
    request = fill(
        pb.SearchRequest(),
        query=query,
        limit=limit,
        channel=channel,
        date_range=parts.date_range(date_range),
        conversation_id=conversation_id,
        topics=topics,
        participants=participants,
        min_score=min_score,
        explain=explain,
    )
    return Call(_SEARCH, request, read.search_answer)


def fetch_context(
    conversation_id: str, turn_range: TurnRange | tuple[int, int] | None, after_sequence: int | None
) -> Call[pb.FetchContextRequest, pb.FetchContextResponse, FetchedContext]:
    """Return the call of FetchContext."""
    request = fill(
        pb.FetchContextRequest(),
        conversation_id=conversation_id,
        turn_range=parts.turn_range(turn_range),
        after_sequence=after_sequence,
    )
    return Call(_FETCH_CONTEXT, request, read.fetched_context)


def recent(
    limit: int | None,
    before: datetime | None,
    after: datetime | None,
    channel: str | None,
    order: RecentOrder | None,
) -> Call[pb.RecentRequest, pb.RecentResponse, RecentPage]:
    """Return the call of Recent."""
    if order is not None and order not in _ORDERS:
        raise invalid("order", f"must be one of {', '.join(_ORDERS)}, not {order!r}")
    request = fill(
        pb.RecentRequest(),
        limit=limit,
        before=before,
        after=after,
        channel=channel,
        order=None if order is None else _ORDERS[order],
    )
    return Call(_RECENT, request, read.recent)
