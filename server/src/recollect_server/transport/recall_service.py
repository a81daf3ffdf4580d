"""RecallService: check, call, convert, return."""

import grpc
from recollect.v1 import recall_pb2
from recollect.v1 import recall_service_pb2 as api

from recollect_server.services.recall import Recall
from recollect_server.storage.index.conversations import Filter
from recollect_server.storage.index.search import Scope
from recollect_server.transport.checks import MAX_QUERY, Checks
from recollect_server.transport.convert import conversation_to, hit_to, message_to, optional_milliseconds, result_to

_MAX_RANGE = 200


class RecallHandlers:
    """The handlers of RecallService. What is not here is not built yet."""

    def __init__(self, recall: Recall) -> None:
        self._recall = recall

    def Search(self, request: api.SearchRequest, context: grpc.ServicerContext) -> api.SearchResponse:
        """The conversations and messages that fit best."""
        checks = Checks()
        if not request.query.strip():
            checks.refuse("query", "is empty")
        elif len(request.query.encode()) > MAX_QUERY:
            checks.refuse("query", f"has more than {MAX_QUERY} bytes")
        elif "\0" in request.query:
            checks.refuse("query", "holds the character NUL")
        checks.not_negative("limit", request.limit)
        checks.label("channel", request.channel)
        checks.date_range("date_range", request.date_range)
        checks.conversation_id("conversation_id", request.conversation_id, required=False)
        checks.topics("topics", list(request.topics), most=64)
        checks.names("participants", list(request.participants))
        checks.done()
        scope = Scope(
            Filter(
                channels=(request.channel,) if request.channel else (),
                topics=tuple(request.topics),
                participants=tuple(request.participants),
                conversation_id=request.conversation_id,
            ),
            optional_milliseconds(request.date_range, "start"),
            optional_milliseconds(request.date_range, "end"),
        )
        answer = self._recall.search(request.query, scope, min(request.limit or 10, 100), explain=request.explain)
        return api.SearchResponse(
            results=[result_to(result) for result in answer.results],
            hits=[hit_to(hit) for hit in answer.hits],
            total_matches=answer.total_matches,
            legs_run=answer.legs_run,
            degraded=[recall_pb2.DegradedLeg(leg=leg, reason=why) for leg, why in answer.degraded.items()],
        )

    def FetchContext(self, request: api.FetchContextRequest, context: grpc.ServicerContext) -> api.FetchContextResponse:
        """Some turns of a conversation."""
        turns = (request.turn_range.first, request.turn_range.last) if request.HasField("turn_range") else None
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        if turns is not None:
            first, last = turns
            if first < 1:
                checks.refuse("turn_range.first", f"is {first}; turns begin with 1")
            elif last < first:
                checks.refuse("turn_range.last", f"is {last}, which is before first, {first}")
            elif last - first >= _MAX_RANGE:
                checks.refuse("turn_range", f"has {last - first + 1} turns; at most {_MAX_RANGE} are allowed")
        checks.done()
        fetched = self._recall.fetch_context(request.conversation_id, turns)
        return api.FetchContextResponse(
            conversation_id=fetched.conversation.id,
            conversation_name=fetched.conversation.name,
            channel=fetched.conversation.channel,
            messages=[message_to(message) for message in fetched.turns.messages],
            total_turns=fetched.conversation.turn_count,
            damaged_lines=fetched.turns.damaged,
        )

    def Recent(self, request: api.RecentRequest, context: grpc.ServicerContext) -> api.RecentResponse:
        """Conversations by time."""
        checks = Checks()
        checks.not_negative("limit", request.limit)
        checks.span(
            ("after", "before"),
            request.after if request.HasField("after") else None,
            request.before if request.HasField("before") else None,
        )
        checks.label("channel", request.channel)
        if request.order not in (0, api.RECENT_ORDER_NEWEST_FIRST, api.RECENT_ORDER_OLDEST_FIRST):
            checks.refuse("order", "is not an order of this version")
        checks.done()
        chosen = Filter(
            channels=(request.channel,) if request.channel else (),
            updated_after=optional_milliseconds(request, "after"),
            updated_before=optional_milliseconds(request, "before"),
        )
        newest_first = request.order != api.RECENT_ORDER_OLDEST_FIRST
        found = self._recall.recent(chosen, min(request.limit or 10, 100), newest_first=newest_first)
        return api.RecentResponse(
            conversations=[
                recall_pb2.RecentConversation(conversation=conversation_to(conversation), snippet=words)
                for conversation, words in found
            ]
        )
