"""ConversationService: live updates and drafts."""

from functools import partial

from recollect.v1 import conversation_service_pb2 as api

from recollect_server.services.streaming.live import LiveUpdates
from recollect_server.services.streaming.snapshot import Choice
from recollect_server.services.streaming.watching import Interest
from recollect_server.transport.checks import MAX_FILTER, Checks
from recollect_server.transport.conversations.bounds import MAX_CONVERSATIONS, MAX_NAME, MAX_TURNS
from recollect_server.transport.handling import Call, Send
from recollect_server.transport.pages import Seal
from recollect_server.transport.streams import Streams

_MAX_BATCH = 1000


class StreamingHandlers:
    """The handlers of the calls about live updates."""

    def __init__(self, live: LiveUpdates, streams: Streams, seal: Seal) -> None:
        self._live = live
        self._streams = streams
        self._seal = seal

    def StreamUpdates(self, request: api.StreamUpdatesRequest, call: Call, send: Send) -> None:
        """Open a stream of live updates."""
        checks = Checks()
        checks.count("conversation_ids", request.conversation_ids, MAX_CONVERSATIONS)
        for index, name in enumerate(request.conversation_ids[:MAX_CONVERSATIONS]):
            checks.conversation_id(f"conversation_ids[{index}]", name)
        checks.channels("channels", request.channels)
        checks.not_negative("max_turns", request.max_turns)
        checks.not_negative("max_batch", request.max_batch)
        _check_choice(checks, request)
        checks.done()
        choice = Choice(
            request.load_channel, request.load_conversation_id, tuple(sorted(request.list_channels))
        )
        interest = Interest(frozenset(request.conversation_ids), frozenset(request.channels))
        turns, batch = (
            min(request.max_turns, MAX_TURNS),
            min(max(request.max_batch, 1), _MAX_BATCH),
        )
        cursor = self._seal.position(request.cursor)
        subscribe = partial(self._live.subscribe, interest, choice, cursor, turns)
        self._streams.open(self._live, subscribe, batch, call, send, resumed=bool(request.cursor))

    def PublishDelta(
        self, request: api.PublishDeltaRequest, call: Call
    ) -> api.PublishDeltaResponse:
        """Publish more text of an unfinished answer."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.text("draft_id", request.draft_id, least=1, most=MAX_NAME)
        checks.not_negative("offset", request.offset)
        checks.no_nul("text", request.text)
        if not request.text and not request.done:
            checks.refuse("text", "is empty, and the draft is not done")
        checks.done()
        self._live.publish(
            request.conversation_id,
            request.draft_id,
            request.offset,
            request.text,
            done=request.done,
            speaks_from=call.principal.channel,
        )
        return api.PublishDeltaResponse()


def _check_choice(checks: Checks, request: api.StreamUpdatesRequest) -> None:
    """Check which conversations a snapshot loads and lists; the filters of the stream must not
    exclude them.
    """
    checks.label("load_channel", request.load_channel)
    checks.conversation_id("load_conversation_id", request.load_conversation_id, required=False)
    checks.channels("list_channels", request.list_channels)
    if request.load_channel and request.load_conversation_id:
        checks.refuse(
            "load_channel", "does not go with load_conversation_id: one conversation is loaded"
        )
    if (
        request.load_conversation_id
        and request.conversation_ids
        and request.load_conversation_id not in request.conversation_ids
    ):
        checks.refuse("load_conversation_id", "is not among conversation_ids")
    if request.channels:
        if request.load_channel and request.load_channel not in request.channels:
            checks.refuse("load_channel", "is not among channels")
        for index, channel in enumerate(request.list_channels[:MAX_FILTER]):
            if channel not in request.channels:
                checks.refuse(f"list_channels[{index}]", "is not among channels")
