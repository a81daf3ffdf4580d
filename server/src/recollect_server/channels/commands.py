"""Answers slash commands.

What a command changes and what it said stand in one batch of lines of the conversation that is in
use behind it, with the key of the request: so a repeat finds the answer there, for ever. A command
that ends a conversation writes the new one first; what it does to the old one is done by a repeat
if a crash came between.
"""

from collections.abc import Iterable

import structlog

from recollect_server.anchors.service import KeptAnchors
from recollect_server.channels.parsing import (
    Clear,
    Command,
    New,
    Say,
    SetModel,
    ShowHistory,
    ShowModel,
    listed_model,
)
from recollect_server.context.rendering.spoken import sender_of, speaker
from recollect_server.kernel.domain.conversation import (
    Began,
    CommandRun,
    Content,
    Continued,
    Conversation,
    MetaUpdated,
    Party,
)
from recollect_server.kernel.domain.errors import ConversationNotFound
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.ids import new_ulid
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.domain.time import to_text
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.erase.bulk_removal import Removals
from recollect_server.kernel.erase.deletion import DELETE_ANCHORS
from recollect_server.kernel.log.store import NO_CLAIM, Claim
from recollect_server.kernel.space.conversation_logs import ConversationState
from recollect_server.kernel.space.logs import RequestKey
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import turns_of
from recollect_server.notes.conversation_notes import ConversationNotes
from recollect_server.people.routing import Place
from recollect_server.text.addresses import EMAIL, WEB

log = structlog.get_logger("recollect.commands")

_NAMED_FACTS = 10  # facts that /clear names by their keys
_SHOWN = 300  # characters of a message in a history


@frozen
class Replied:
    """Reply of a command, and the conversation in use after it."""

    text: str
    conversation: Conversation
    run: CommandRun
    """Work left to do on the conversation before: see `Commands.finish`."""


@frozen
class CommandCall:
    """A command, as it was said: `text`; on e-mail with the ids that its headers name."""

    command: Command
    text: str
    request: RequestKey | None
    mail: tuple[str, ...] = ()
    claim: Claim = NO_CLAIM
    """Claim of the place, taken before it was looked at: of several processes that end the same
    conversation at once, one begins the next.
    """


@frozen
class Beginning:
    """Beginning of a conversation where a command is said: its counterpart, and whether inbound
    messages join it.
    """

    channel: str
    participants: tuple[str, ...]
    party: Party
    pinned: bool


class Commands:
    """Runs commands. Raises the errors of `kernel.domain.errors`; safe to call from any thread."""

    def __init__(
        self,
        space: Space,
        notes: ConversationNotes,
        removals: Removals,
        models: tuple[str, ...] = (),
    ) -> None:
        """`models` are those that may be chosen; none: any."""
        self._space = space
        self._notes = notes
        self._removals = removals
        self._models = models

    def run(self, call: CommandCall, said_in: str | None, beginning: Beginning) -> Replied:
        """Run a command sent in a conversation (None: there is none yet). A conversation that it
        begins takes its place where `beginning` pins it.

        Raises ConversationNotFound. Hold the lock of that place; then call `finish` without it.
        """
        match call.command:
            case Say(text):
                return self._note(call, said_in, beginning, text)
            case New() if said_in and not self._state(said_in).conversation.message_count:
                return self._note(
                    call,
                    said_in,
                    beginning,
                    "Nothing was said in this conversation yet: it is the new one.",
                )
            case New():
                model = self._state(said_in).conversation.model if said_in else ""
                return self._anew(
                    call,
                    said_in,
                    beginning,
                    "A new conversation begins. The one before stays.",
                    model,
                )
            case Clear(confirmed=confirmed):
                removed = self._removed_by_clear(said_in) if said_in else ""
                if not said_in or not removed:
                    return self._note(call, said_in, beginning, "There is nothing to remove yet.")
                if not confirmed:
                    text = f"This removes the conversation for good: {removed}. A new one begins. Say /clear confirm to do it."
                    return self._note(call, said_in, beginning, text)
                text = f"The conversation is removed for good: {removed}. A new one begins."
                model = self._state(said_in).conversation.model
                return self._anew(call, said_in, beginning, text, model, cleared=True)
            case ShowModel():
                model = self._state(said_in).conversation.model if said_in else ""
                text = f"The model is {model or 'the default'}."
                if self._models:
                    text = f"{text} You can choose {_choice(self._models)}; /model default takes a choice back."
                else:
                    text = f"{text} {_NO_LIST}"
                return self._note(call, said_in, beginning, text)
            case SetModel(wanted):
                listed = listed_model(wanted, self._models)
                if listed is None:
                    text = (
                        f"There is no model {wanted} here. You can choose {_choice(self._models)}."
                    )
                    return self._note(call, said_in, beginning, text)
                model = listed
                change = MetaUpdated(self._space.clock(), model=model)
                return self._note(
                    call,
                    said_in,
                    beginning,
                    f"The model is {model or 'the default'} from here on.",
                    change,
                )
            case ShowHistory(count):
                return self._note(
                    call,
                    said_in,
                    beginning,
                    self._history(self._state(said_in), count) if said_in else _NOTHING,
                )

    def finish(self, run: CommandRun, conversation_id: str) -> None:
        """Finish the command's work on the conversation before, if it is still to be done. Hold no
        lock.

        Raises DataUnavailable: then repeating the command completes it.
        """
        if not run.before:
            return
        try:
            if run.cleared:
                self._removals.delete(run.before, DELETE_ANCHORS, "", force=True)
                return
            self._notes.queue(run.before)
            with self._space.writing(run.before) as state:
                if state.conversation.pinned:
                    self._space.append(state, [Continued(conversation_id, self._space.clock())])
        except ConversationNotFound:
            log.info("ended_conversation_gone", conversation=run.before)

    def _removed_by_clear(self, conversation_id: str) -> str:
        """Return what goes with a conversation, counted; empty if there is nothing."""
        messages = self._state(conversation_id).conversation.message_count
        with self._space.reading(conversation_id) as state:
            part, index = self._space.part(KeptAnchors), self._space.index
            keys = sorted({it.key for it in part.of(index, conversation_id, state.number)})
        shown = ", ".join(keys[:_NAMED_FACTS]) + (", …" if len(keys) > _NAMED_FACTS else "")
        parts = [counted(messages, "message")] if messages else []
        if keys:
            parts.append(f"{counted(len(keys), 'fact')} about you learned from it ({shown})")
        return " and ".join(parts)

    def _state(self, conversation_id: str) -> ConversationState:
        with self._space.writing(conversation_id) as state:
            return state

    def _note(
        self,
        call: CommandCall,
        said_in: str | None,
        beginning: Beginning,
        text: str,
        *changes: Content,
    ) -> Replied:
        """Record the reply and the given changes. Without changes and without a request id, nothing
        is written.
        """
        run = CommandRun(call.text, text, self._space.clock(), mail=call.mail)
        if said_in is None:
            model = next(
                (change.model or "" for change in changes if isinstance(change, MetaUpdated)), ""
            )
            return self._begin(call, beginning, run, model)
        contents = [*changes, *([run] if call.request else [])]
        with self._space.writing(said_in) as state:
            if contents:
                state = self._space.append(state, contents, call.request).state
        return Replied(text, state.conversation, run)

    def _anew(
        self,
        call: CommandCall,
        before: str | None,
        beginning: Beginning,
        text: str,
        model: str,
        *,
        cleared: bool = False,
    ) -> Replied:
        run = CommandRun(call.text, text, self._space.clock(), before or "", cleared, call.mail)
        return self._begin(call, beginning, run, model)

    def _begin(
        self, call: CommandCall, beginning: Beginning, run: CommandRun, model: str
    ) -> Replied:
        conversation_id = f"conv-{new_ulid()}"
        channel, participants, party, pinned = (
            beginning.channel,
            beginning.participants,
            beginning.party,
            beginning.pinned,
        )
        began = Began(conversation_id, channel, run.time, participants, party, model, pinned)
        done = self._space.begin([began, run], call.request, claim=call.claim)
        return Replied(run.reply, done.state.conversation, run)

    def _history(self, state: ConversationState, count: int) -> str:
        last = state.conversation.turn_count
        messages = (
            turns_of(self._space, state, max(1, last - count + 1), last).messages if last else []
        )
        shown = [
            _line(message)
            for message in messages
            if message.role is not Role.TOOL and message.content.strip()
        ][-count:]
        return "\n".join(shown) or _NOTHING


def claimed(place: Place, mails: Iterable[str]) -> list[str]:
    """Return the names under which a conversation begins at a place: of several processes one
    begins it.
    """
    if place.channel == EMAIL:
        return [f"mail {it}" for it in mails]
    return [f"place {place.name}"] if place.known or place.channel == WEB else []


def _choice(models: tuple[str, ...]) -> str:
    return " or ".join(part for part in (", ".join(models[:-1]), models[-1]) if part)


_NOTHING = "Nothing was said in this conversation yet."
_NO_LIST = (
    "This server has no list of models to choose from (setting models): any name is taken, as in"
    " /model haiku, and the agent that answers decides what it does with it."
)


def _line(message: Message) -> str:
    who = speaker(sender_of(message), "you" if message.role is Role.USER else "agent")
    if message.channel:  # another one than the conversation's
        who = f"{who} over {message.channel}"
    words = " ".join(message.content.split())
    when = to_text(message.timestamp)[:16].replace("T", " ")
    return f"{when} {who}: {words if len(words) <= _SHOWN else words[: _SHOWN - 1].rstrip() + '…'}"
