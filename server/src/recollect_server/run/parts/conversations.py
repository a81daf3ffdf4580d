"""The part of conversations in a space."""

from functools import partial

from recollect_server.contract.conversation_service import ConversationHandlers
from recollect_server.contract.updates import encode
from recollect_server.conversations.service import Conversations
from recollect_server.kernel.domain.time import milliseconds
from recollect_server.kernel.erase.bulk_removal import Removals
from recollect_server.kernel.space.turns import LoadLimits, WorkingContext
from recollect_server.kernel.stream.live import LiveUpdates
from recollect_server.notes.conversation_notes import ConversationNotes
from recollect_server.people.identities import Identities
from recollect_server.people.routing_table import Routes
from recollect_server.run.parts.opening import Opening


def register(opening: Opening) -> None:
    space, shared, settings = opening.space, opening.shared, opening.live.now
    limits = opening.live.view(
        lambda now: LoadLimits(now.max_working_turns, now.max_working_tokens, now.max_answer_bytes)
    )
    updates = opening.give(
        LiveUpdates(
            space,
            limits,
            partial(encode, opening.seal),
            draft_timeout=milliseconds(settings.draft_timeout),
            max_draft=settings.max_message_bytes,
        )
    )
    opening.watched.append(updates)
    opening.handlers["ConversationService"] = ConversationHandlers(
        Conversations(space, opening.service(Routes)),
        opening.service(ConversationNotes),
        WorkingContext(space, limits),
        opening.service(Identities),
        opening.give(Removals(space)),
        updates,
        shared.streams,
        shared.answers,
        opening.seal,
        settings.max_batch_bytes,
        settings.model_names,
    )
