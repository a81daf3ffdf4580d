"""`recollect tail`: what is said, while it is said."""

from typing import Any

import click
from rich.console import Console

from recollect import (
    Conversation,
    ConversationAbbreviated,
    ConversationCreated,
    ConversationDeleted,
    ConversationList,
    ConversationRenamed,
    ConversationUpdated,
    LoadedConversation,
    MessageDelta,
    MessagesRedacted,
    SplitSuggested,
    Update,
)
from recollect._shared.plain import camel, plain
from recollect.cli.browsing import print_message
from recollect.cli.options import CONVERSATION, Shell, WholeNumber, with_channels, with_shell
from recollect.cli.printing import called, clean, console, json_line, one_line, update_record, warn


@click.command()
@click.argument("conversations", nargs=-1, type=CONVERSATION, metavar="[CONVERSATION]...")
@with_channels
@click.option(
    "--turns",
    type=WholeNumber(1, 1000),
    default=3,
    show_default=True,
    help="The number of newest turns that come first.",
)
@click.option(
    "--cursor", metavar="CURSOR", help="Go on behind this update (`cursor` of a JSON line) instead."
)
@with_shell
def tail(
    shell: Shell,
    conversations: tuple[str, ...],
    channels: tuple[str, ...],
    turns: int,
    cursor: str | None,
) -> None:
    """Follow conversations live, all of them or those that are named, until Ctrl-C.

    Where the connection breaks it is made again, and nothing is missed or repeated. As JSON every
    line is one update: its `kind` says what happened, and `cursor` is where to go on after it.
    """
    followed = _Followed(console())
    with shell.client.conversations.watch(
        conversation_ids=conversations, channels=channels, cursor=cursor, max_turns=turns
    ) as watch:
        for update in watch:
            if shell.as_json:
                json_line(_record(update))
            else:
                followed.show(update)


class _Followed:
    """Prints updates for people: whose words come next is said where the conversation changes."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._names: dict[str, str] = {}
        self._last = ""

    def show(self, update: Update) -> None:
        """Print one update. Deltas and notes are left out."""
        match update.kind:
            case ConversationList(conversations=newest):
                if update.reset:
                    warn("The stream began again: this is what is newest.")
                self._names |= {it.id: called(it) for it in newest}
            case LoadedConversation(conversation=Conversation() as it, messages=messages):
                self._messages(it, messages)
            case ConversationUpdated(conversation=it, messages=messages):
                self._messages(it, messages)
            case ConversationCreated(conversation=it):
                self._names[it.id] = called(it)
                self._event(update, f"began on {it.channel}")
            case ConversationRenamed(title=title):
                self._event(update, f"is now called {title!r}")
                self._names[update.conversation_id] = title
            case ConversationDeleted():
                self._event(update, "was deleted")
            case MessagesRedacted(sequences=sequences):
                lines = ", ".join(map(str, sequences))
                self._event(update, f"has no text any more in the messages {lines}")
            case SplitSuggested(reason=reason):
                self._event(update, f"could be split: {reason}")
            case _:
                pass

    def _messages(self, it: Conversation, messages: tuple[Any, ...]) -> None:
        self._names[it.id] = called(it)
        if messages and it.id != self._last:
            self._last = it.id
            self._out.print(one_line(f"── {self._names[it.id]}  {it.id}", "bold"))
        for message in messages:
            print_message(self._out, message)

    def _event(self, update: Update, what: str) -> None:
        name = self._names.get(update.conversation_id, "")
        self._out.print(
            clean("* ", "yellow").append_text(
                one_line(f"{name} {update.conversation_id} {what}", "yellow")
            )
        )


def _record(update: Update) -> dict[str, Any]:
    """Return an update as JSON. `kind` is the name in the contract."""
    name = (
        "ConversationLoaded"
        if isinstance(update.kind, LoadedConversation)
        else type(update.kind).__name__
    )
    record = update_record(update, name, conversationId=update.conversation_id)
    match update.kind:
        case ConversationList(conversations=newest):
            return record | {"conversations": [plain(it) for it in newest]}
        case (
            LoadedConversation(conversation=it, messages=messages)
            | ConversationUpdated(conversation=it, messages=messages)
        ):
            more = {
                camel(name): value
                for name in ("has_more", "draft_id")
                if (value := getattr(update.kind, name, None))
            }
            return (
                record
                | ({"conversation": plain(it)} if it else {})
                | {"messages": [plain(m) for m in messages]}
                | more
            )
        case ConversationCreated(conversation=it):
            return record | {"conversation": plain(it)}
        case MessagesRedacted(conversation=it, sequences=sequences, redaction=redaction):
            more = {"sequences": sequences, "redaction": plain(redaction)}
            return record | {"conversation": plain(it)} | more
        case (
            ConversationRenamed()
            | ConversationAbbreviated()
            | SplitSuggested()
            | MessageDelta()
            | ConversationDeleted()
        ):
            return record | plain(update.kind)
    raise TypeError(f"an update of a kind that this command does not know: {update.kind!r}")
