"""ConversationService: conversations as they are."""

from recollect.v1 import conversation_service_pb2 as api

from recollect_server.domain.errors import InvalidField
from recollect_server.domain.filters import Filter
from recollect_server.domain.ids import MAX_LINES
from recollect_server.services.channels.identities import Identities
from recollect_server.services.conversation_notes import ConversationNotes
from recollect_server.services.conversations import Conversations
from recollect_server.services.working_context import LoadResult, WorkingContext
from recollect_server.transport.answers import Answers
from recollect_server.transport.conversations.bounds import ARCHIVED, MAX_TURNS
from recollect_server.transport.convert import (
    conversation_to,
    fill_conversation,
    fill_message,
    optional_milliseconds,
    party_from,
)
from recollect_server.transport.handling import Call
from recollect_server.transport.pages import CursorSeal, page_size


class ReadHandlers:
    def __init__(
        self,
        conversations: Conversations,
        notes: ConversationNotes,
        working_context: WorkingContext,
        identities: Identities,
        answers: Answers,
        seal: CursorSeal,
    ) -> None:
        self._identities = identities
        self._conversations = conversations
        self._notes = notes
        self._working_context = working_context
        self._answers = answers
        self._seal = seal

    def Get(self, request: api.GetRequest, call: Call) -> api.GetResponse:
        conversation = self._conversations.get(request.conversation_id)
        failures = self._notes.failures([request.conversation_id])
        return api.GetResponse(
            conversation=conversation_to(conversation, failures.get(request.conversation_id, ""))
        )

    def List(self, request: api.ListRequest, call: Call) -> api.ListResponse:
        chosen = Filter(
            conversation_id=call.principal.conversation_id,
            channels=tuple(request.channels),
            topics=tuple(request.topics),
            participants=tuple(request.participants),
            party=party_from(request.party),
            pinned=request.pinned if request.HasField("pinned") else None,
            updated_after=optional_milliseconds(request, "updated_after"),
            updated_before=optional_milliseconds(request, "updated_before"),
            name=request.query,
            archived=ARCHIVED.get(request.archived, False),
            notes_failed=request.notes_failed if request.HasField("notes_failed") else None,
        )
        page = self._conversations.page(
            self._identities.widened(chosen),
            page_size(request.page_size),
            self._seal.place(request, request.page_token),
        )
        failures = self._notes.failures([it.id for it in page.conversations])
        values = (conversation_to(it, failures.get(it.id, "")) for it in page.conversations)
        fitting, more = self._answers.fitting(values)
        last = page.conversations[len(fitting) - 1] if more else None
        return api.ListResponse(
            conversations=fitting,
            next_page_token=self._seal.page_token(
                request, (last.update_time, last.id) if last else page.next
            ),
        )

    def Load(self, request: api.LoadRequest, call: Call) -> api.LoadResponse:
        conversation_id = request.conversation_id or self._working_context.most_recent(
            request.channel
        )
        if conversation_id is None:
            return api.LoadResponse()
        with self._answers.room(call.context) as keep:
            loaded = self._working_context.load(
                conversation_id,
                max_turns=min(request.max_turns, MAX_TURNS),
                max_tokens=request.max_tokens,
                before_turn=request.before_turn,
                before_sequence=min(request.before_sequence, MAX_LINES),
            )
            if (
                request.channel
                and loaded.conversation
                and loaded.conversation.channel != request.channel
            ):
                raise InvalidField.of(
                    "channel", f"the conversation is on {loaded.conversation.channel}"
                )
            answer = api.LoadResponse()
            _fill(answer, loaded)
            return keep(answer)

    def Switch(self, request: api.SwitchRequest, call: Call) -> api.SwitchResponse:
        answer = api.SwitchResponse()
        if request.to_conversation_id:
            turns = min(request.max_turns, MAX_TURNS)
            with self._answers.room(call.context) as keep:
                _fill(
                    answer, self._working_context.load(request.to_conversation_id, max_turns=turns)
                )
                keep(answer)
        self._notes.leave(
            request.from_conversation_id,
            request.to_conversation_id,
            request.max_turns,
            request.request_id,
        )
        return answer


def _fill(answer: api.LoadResponse | api.SwitchResponse, loaded: LoadResult) -> None:
    if loaded.conversation is not None:
        fill_conversation(answer.conversation, loaded.conversation)
    for message in loaded.turns.messages:
        fill_message(answer.messages.add(), message)
    answer.has_more = loaded.has_more
    answer.compression_summary = loaded.compression_summary
    answer.damaged_lines = loaded.turns.damaged
    answer.cut_before_sequence = loaded.cut_before
