"""`recollect rename`, `model`, `notes`, `switch` and `delete`: what a person changes about a conversation."""

from typing import BinaryIO

import click

from recollect import AnchorDisposition, Conversation, DeletionReceipt
from recollect._shared.plain import plain
from recollect.cli.browsing import print_loaded
from recollect.cli.options import CONVERSATION, Shell, confirm, text_of, with_shell, with_text, with_yes
from recollect.cli.printing import clean, console, json_line


@click.command()
@click.argument("conversation", type=CONVERSATION)
@click.argument("title", nargs=-1, required=True)
@with_shell
def rename(shell: Shell, conversation: str, title: tuple[str, ...]) -> None:
    """Give CONVERSATION a TITLE, for good: nothing automatic renames it after that."""
    renamed = shell.client.conversations.rename(conversation, " ".join(title))
    _print_changed(shell, renamed, f"is now called {renamed.title!r}")


@click.command()
@click.argument("conversation", type=CONVERSATION)
@click.argument("model", required=False)
@click.option("--default", is_flag=True, help="The caller's default again.")
@with_shell
def model(shell: Shell, conversation: str, model: str | None, default: bool) -> None:
    """Show or set the MODEL that answers in CONVERSATION."""
    if model is not None and default:
        raise click.UsageError("Name a model or --default, not both.")
    if model is None and not default:
        it = shell.client.conversations.get(conversation)
        _print_changed(shell, it, f"is answered by {it.model or 'the default model of whoever calls'}")
        return
    it = shell.client.conversations.set_model(conversation, model or "")
    _print_changed(shell, it, f"is answered by {it.model or 'the default model of whoever calls'} from here on")


@click.command()
@click.argument("conversation", type=CONVERSATION)
@with_text
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME", help="A topic in kebab-case; may be repeated. They replace the old."
)
@with_shell
def notes(shell: Shell, conversation: str, words: tuple[str, ...], file: BinaryIO | None, topics: tuple[str, ...]) -> None:
    """Show the meeting notes of CONVERSATION, or record TEXT as its new ones.

    The server writes notes by itself once a conversation is quiet. What is recorded here takes their place.
    """
    text = text_of(words, file)
    if text is None:
        if topics:
            raise click.UsageError("--topic goes with the text of new notes.")
        it = shell.client.conversations.get(conversation)
        if shell.as_json:
            json_line({"conversationId": it.id, "abbreviation": it.abbreviation, "topics": list(it.topics)})
        else:
            console().print(clean(it.abbreviation or "No notes yet."), soft_wrap=False)
        return
    it = shell.client.conversations.record_abbreviation(conversation, text, topics=topics or None)
    _print_changed(shell, it, "has new notes")


@click.command()
@click.argument("conversation", type=CONVERSATION, required=False)
@click.option("--from", "left", type=CONVERSATION, metavar="ID", help="The conversation that is left: notes are taken of it.")
@click.option("--turns", type=click.IntRange(1, 1000), metavar="N", help="How many turns of the other are shown.")
@with_shell
def switch(shell: Shell, conversation: str | None, left: str | None, turns: int | None) -> None:
    """Leave one conversation, and show CONVERSATION, the one that comes next. Either may be left out."""
    if conversation is None and left is None:
        raise click.UsageError("Name a conversation, or the one that is left with --from.")
    loaded = shell.client.conversations.switch(left, conversation, max_turns=turns)
    if loaded.conversation is not None:
        print_loaded(shell, loaded)
    elif shell.as_json:
        json_line({"leftConversationId": left})
    else:
        console().print(clean(f"{left} is left; notes are taken of it."))


@click.command()
@click.argument("conversations", nargs=-1, required=True, type=CONVERSATION, metavar="CONVERSATION...")
@click.option(
    "--anchors",
    type=click.Choice([it.value for it in AnchorDisposition]),
    help="What becomes of facts about the user that came from it. Without this, one that has some is not deleted.",
)
@click.option("--force", is_flag=True, help="Pinned ones too: those that their channels' new messages join.")
@with_yes
@with_shell
def delete(shell: Shell, conversations: tuple[str, ...], anchors: str | None, force: bool, yes: bool) -> None:
    """Remove each CONVERSATION for good, its text from every file of the service.

    It asks first on a terminal; elsewhere it needs --yes. As JSON every line is a receipt, which says what was removed from where.
    """
    if not yes:
        there = [shell.client.conversations.get(name) for name in dict.fromkeys(conversations)]
        named = ", ".join(f"{it.id} ({it.title or 'no title yet'}, {it.turn_count} turns)" for it in there)
        confirm(f"Remove {named} for good?")
    disposition = None if anchors is None else AnchorDisposition(anchors)
    for name in dict.fromkeys(conversations):
        receipt = shell.client.conversations.delete(name, anchors=disposition, force=force)
        if shell.as_json:
            json_line(plain(receipt))
        else:
            console().print(clean(_removed(receipt)))


def _removed(receipt: DeletionReceipt) -> str:
    places = ", ".join(f"{it.place} {it.count}" for it in receipt.removed)
    return f"{receipt.conversation_id} is removed: {places}."


def _print_changed(shell: Shell, it: Conversation, what: str) -> None:
    if shell.as_json:
        json_line(plain(it))
    else:
        console().print(clean(f"{it.id} {what}."))
