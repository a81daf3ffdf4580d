"""ConversationService: live updates and drafts."""

from functools import partial

from recollect.v1 import conversation_service_pb2 as api

from recollect_server.services.streaming.live import LiveUpdates
from recollect_server.services.streaming.snapshot import Choice
from recollect_server.services.streaming.watching import Interest
from recollect_server.transport.conversations.bounds import MAX_TURNS
from recollect_server.transport.handling import Call, Send
from recollect_server.transport.pages import CursorSeal
from recollect_server.transport.streams import Streams

_MAX_BATCH = 1000


class StreamingHandlers:
    def __init__(self, live: LiveUpdates, streams: Streams, seal: CursorSeal) -> None:
        self._live = live
        self._streams = streams
        self._seal = seal

    def StreamUpdates(self, request: api.StreamUpdatesRequest, call: Call, send: Send) -> None:
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
        self._live.publish(
            request.conversation_id,
            request.draft_id,
            request.offset,
            request.text,
            done=request.done,
            speaks_from=call.principal.channel,
        )
        return api.PublishDeltaResponse()
