"""Calls that are more than one call of the contract."""

from datetime import datetime

from recollect._async.invoker import Invoker
from recollect._shared import calls
from recollect._shared.history import FetchedPages
from recollect._types.context import Anchor
from recollect._types.recall import FetchedContext, TurnRange


async def fetch_context(
    invoker: Invoker,
    timeout: float | None,
    *,
    conversation_id: str,
    turn_range: TurnRange | tuple[int, int] | None,
    after_sequence: int | None,
) -> FetchedContext:
    """Return turns whose answers may be several."""
    pages = FetchedPages(turn_range, after_sequence, timeout)
    while True:
        call = calls.FETCH_CONTEXT(
            conversation_id=conversation_id,
            turn_range=pages.turn_range,
            after_sequence=pages.after_sequence,
        )
        context = pages.joined(await invoker.run(call, pages.time_left()))
        if pages.done:
            return context


async def list_anchors(
    invoker: Invoker,
    timeout: float | None,
    *,
    key: str | None,
    include_superseded: bool,
    as_of: datetime | None,
) -> tuple[Anchor, ...]:
    """Return the anchors of all pages."""
    anchors: tuple[Anchor, ...] = ()
    token = ""
    while True:
        call = calls.LIST_ANCHORS(
            key=key, include_superseded=include_superseded, as_of=as_of, page_token=token
        )
        more, token = await invoker.run(call, timeout)
        anchors += more
        if not token:
            return anchors
