"""Condenses what an agent that does not compress by itself would drag along: a setting, off unless
asked for.

When more messages than a setting says lie behind the last compression, all but the newest ones
become one summary, with what the last one said, recorded as the agent itself would record it. The
messages stay where they are, and are found as before.
"""

from collections.abc import Callable

from recollect_server.kernel.domain.conversation import Compressed, ModelUse
from recollect_server.kernel.domain.errors import ConversationNotFound
from recollect_server.kernel.domain.last_used import LastUsed
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.space.space import Space
from recollect_server.notes.hosted.language_model import CannotWrite, LanguageModel
from recollect_server.notes.naming import Material, Outcome, read_material
from recollect_server.notes.notes import MAX_SUMMARY
from recollect_server.notes.table import Waiting, notes_of

PAST, KEPT = 40, 20
"""Messages that may lie behind the last compression, and those that are kept, unless settings say
otherwise.
"""

_MAX_FAILURES = 20


class Compaction:
    """Finds conversations that grew long and condenses them. Safe to call from any thread, for
    different conversations.
    """

    def __init__(
        self,
        space: Space,
        model: LanguageModel,
        past: int = PAST,
        kept_messages: int = KEPT,
        most: int = MAX_SUMMARY,
        *,
        offline: LanguageModel | None = None,
    ) -> None:
        """More than `past` messages behind the last compression are condensed, all but the newest
        `kept_messages`, to a summary of at most `most` tokens. `offline` writes what the model
        does not.
        """
        self._offline = offline
        self._most = most
        self._space = space
        self._model = model
        self._past = past
        self._kept_messages = kept_messages
        self.failures: LastUsed[str, str] = LastUsed(_MAX_FAILURES)
        """Conversations whose last try failed, with the reasons: some of the last ones."""

    def due(self, now: int, limit: int) -> list[Waiting]:  # noqa: ARG002 - it waits for no time
        """Return conversations that may be due."""
        return notes_of(self._space.index).compaction_due(limit, self._past)

    def failed(self, now: int) -> list[Waiting]:  # noqa: ARG002 - likewise
        """Return an empty list: a conversation that failed is due again once it grew."""
        return []

    def any_waits(self) -> bool:
        """Return False, as `failed` returns none."""
        return False

    def note_failure(self, waiting: Waiting, reason: str, *, alone: bool) -> None:
        """Postpone a conversation that alone fails: it must grow before the next try."""
        self.failures.keep(waiting.conversation_id, reason)
        if alone:
            notes_of(self._space.index).put_off_compaction(waiting.number, self._kept_messages)

    def write(self, waiting: Waiting, given_up: Callable[[], bool]) -> Outcome:
        """Condense a conversation if it is due. Raises as `Naming.write`; CannotWrite also where
        the offline writer wrote what the model did not.
        """
        self.failures.pop(waiting.conversation_id, None)
        try:
            material = read_material(self._space, waiting.conversation_id)
            through = self._through(material)
            if not through:
                past = sum(
                    m.turn_number > material.conversation.compressed_through
                    for m in material.messages
                )
                notes_of(self._space.index).put_off_compaction(
                    waiting.number, min(past, self._past)
                )
                return Outcome.NOTHING_DUE
            try:
                return self._written_by(self._model, waiting, material, through, given_up)
            except CannotWrite as error:
                if self._offline is None or given_up():
                    raise
                self._written_by(self._offline, waiting, material, through, given_up)
                raise CannotWrite(f"{error}; the offline writer wrote the summary") from error
        except ConversationNotFound:  # deleted; or somebody took the file away
            notes_of(self._space.index).put_off_compaction(waiting.number, 0)
            return Outcome.NOTHING_DUE

    def _through(self, material: Material) -> int:
        """Return the last turn to condense, or 0 for none. Turns are never cut, so a long last turn
        keeps more messages.
        """
        before = material.conversation.compressed_through
        past = [message for message in material.messages if message.turn_number > before]
        if len(past) <= self._past:
            return 0
        through = past[-self._kept_messages].turn_number - 1
        return through if through > before else 0

    def _written_by(
        self,
        by: LanguageModel,
        waiting: Waiting,
        material: Material,
        through: int,
        given_up: Callable[[], bool],
    ) -> Outcome:
        conversation = material.conversation
        old = [
            message
            for message in material.messages
            if conversation.compressed_through < message.turn_number <= through
        ]
        by.take_use()  # of a try that came to nothing
        summary = by.condense(old, conversation.compression_summary, self._most)
        if given_up():
            return Outcome.WENT_ON
        return self._record(waiting, material, through, summary, by.take_use())

    def _record(
        self,
        waiting: Waiting,
        material: Material,
        through: int,
        summary: str,
        use: ModelUse | None,
    ) -> Outcome:
        conversation = material.conversation
        with self._space.writing(conversation.id) as state:
            if state.conversation.compressed_through != conversation.compressed_through:
                return Outcome.WENT_ON  # the agent did it itself
            if not material.is_of(self._space, state):
                return Outcome.WENT_ON
            hit("event.begun")
            event = Compressed(through, summary, self._space.clock(), use)
            self._space.append(state, [event])
            hit("event.recorded")
        notes_of(self._space.index).put_off_compaction(
            waiting.number, sum(message.turn_number > through for message in material.messages)
        )
        return Outcome.WRITTEN
