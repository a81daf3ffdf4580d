"""`recollect rename`, `model`, `topics`, `archive`, `metadata`, `notes`, `turn-memory`,
`redo-notes`, `switch` and `fork`: what a person changes about a conversation.
"""

import json
from datetime import datetime
from typing import Any, BinaryIO

import click
from rich.console import Console

from recollect import ContextTier, Conversation, TurnMemory
from recollect._shared.plain import plain
from recollect.cli.browsing import print_loaded
from recollect.cli.options import (
    CONVERSATION,
    MAX_NUMBER,
    Shell,
    WholeNumber,
    text_of,
    with_channels,
    with_shell,
    with_span,
    with_text,
    with_topics,
)
from recollect.cli.printing import clean, console, json_line, local
from recollect.imports.values import counted

WRITERS = ("extractive", "anthropic", "openai", "caller", "unknown")


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
    calls = shell.client.conversations
    changes = model is not None or default
    it = calls.set_model(conversation, model or "") if changes else calls.get(conversation)
    named = it.model or "the default model of whoever calls"
    _print_changed(shell, it, f"is answered by {named}{' from here on' if changes else ''}")


@click.command()
@click.argument("conversation", type=CONVERSATION)
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@click.option("--automatic", is_flag=True, help="Leave them to the server's notes again.")
@with_shell
def topics(shell: Shell, conversation: str, topics: tuple[str, ...], automatic: bool) -> None:
    """Show the topics of CONVERSATION, or set them, in kebab-case: automatic notes leave them."""
    if topics and automatic:
        raise click.UsageError("Name topics or --automatic, not both.")
    calls = shell.client.conversations
    changes = bool(topics) or automatic
    it = calls.set_topics(conversation, topics) if changes else calls.get(conversation)
    _print_changed(shell, it, f"is about {', '.join(it.topics) or 'nothing that has a name'}")


@click.command()
@click.argument("conversation", type=CONVERSATION)
@click.option("--undo", is_flag=True, help="Take it out of the archive.")
@with_shell
def archive(shell: Shell, conversation: str, undo: bool) -> None:
    """Put CONVERSATION into the archive: lists leave it out, searches find it."""
    it = shell.client.conversations.archive(conversation, unarchive=undo)
    _print_changed(shell, it, "is out of the archive" if undo else "is archived")


@click.command()
@click.argument("conversation", type=CONVERSATION)
@with_text
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME",
    help="A topic in kebab-case; may be repeated. They replace the old.",
)
@with_shell
def notes(
    shell: Shell,
    conversation: str,
    words: tuple[str, ...],
    file: BinaryIO | None,
    topics: tuple[str, ...],
) -> None:
    """Show the abbreviation of CONVERSATION, or record TEXT as its new one.

    An abbreviation tells in some sentences what was said. The server writes it by itself once a
    conversation is quiet. What is recorded here takes its place.
    """
    text = text_of(words, file)
    if text is None:
        if topics:
            raise click.UsageError("--topic goes with the text of new notes.")
        it = shell.client.conversations.get(conversation)
        if shell.as_json:
            written = {"notes": plain(it.notes)} if it.notes else {}
            json_line(
                {
                    "conversationId": it.id,
                    "abbreviation": it.abbreviation,
                    "topics": list(it.topics),
                }
                | written
            )
        else:
            console().print(clean(it.abbreviation or "No notes yet."), soft_wrap=False)
            if by := _written_by(it):
                console().print(clean(by, "dim"), soft_wrap=False)
        return
    it = shell.client.conversations.record_abbreviation(conversation, text, topics=topics or None)
    _print_changed(shell, it, "has new notes")


@click.command("redo-notes")
@click.argument("conversation", type=CONVERSATION, required=False)
@with_channels
@with_topics
@click.option(
    "--writer",
    "writers",
    multiple=True,
    type=click.Choice(WRITERS),
    help="Only notes that this one wrote; may be repeated. Without it, any but a caller's.",
)
@with_span
@click.option(
    "--all", "everything", is_flag=True, help="Every conversation, where nothing chooses some."
)
@click.option("--dry-run", is_flag=True, help="Count, and change nothing.")
@with_shell
def redo_notes(
    shell: Shell,
    conversation: str | None,
    channels: tuple[str, ...],
    topics: tuple[str, ...],
    writers: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    everything: bool,
    dry_run: bool,
) -> None:
    """Have the server write its notes anew: of CONVERSATION, or of all that match.

    It writes them in the background. Those that it writes without a model never replace those of a
    model or of a caller.
    """
    answer = shell.client.conversations.regenerate_notes(
        conversation,
        channels=channels,
        topics=topics,
        writers=writers,
        updated_after=since,
        updated_before=until,
        all=everything,
        dry_run=dry_run,
    )
    verb = "would be" if dry_run else "are"
    shell.print(
        {"queued": answer.queued, "kept": answer.kept},
        f"New notes {verb} made of {counted(answer.queued, 'conversation')};"
        f" {answer.kept} others that match keep theirs.",
    )


@click.command()
@click.argument("conversation", type=CONVERSATION, required=False)
@click.option(
    "--from",
    "left",
    type=CONVERSATION,
    metavar="ID",
    help="The conversation that is left: notes are taken of it.",
)
@click.option(
    "--turns",
    type=WholeNumber(1, 1000),
    metavar="N",
    help="The number of turns of the other to show.",
)
@with_shell
def switch(shell: Shell, conversation: str | None, left: str | None, turns: int | None) -> None:
    """Leave one conversation, and show CONVERSATION, the one that comes next. Either may be left
    out.
    """
    if conversation is None and left is None:
        raise click.UsageError("Name a conversation, or the one that is left with --from.")
    loaded = shell.client.conversations.switch(left, conversation, max_turns=turns)
    if loaded.conversation is not None:
        print_loaded(shell, loaded)
    else:
        shell.print({"leftConversationId": left}, f"{left} is left; notes are taken of it.")


@click.command()
@click.argument("conversation", type=CONVERSATION)
@click.option(
    "--through",
    type=WholeNumber(1, MAX_NUMBER),
    metavar="TURN",
    help="The last turn to copy.  [default: the newest]",
)
@with_shell
def fork(shell: Shell, conversation: str, through: int | None) -> None:
    """Begin a new conversation as a copy of CONVERSATION, to go on from there in another way."""
    it = shell.client.conversations.fork(conversation, through_turn=through)
    turn = it.origin.turn_number if it.origin else it.turn_count
    _print_changed(shell, it, f"begins as a copy of {conversation} through turn {turn}")


@click.command()
@click.argument("conversation", type=CONVERSATION)
@click.argument("values", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--remove", "removals", multiple=True, metavar="KEY", help="May be repeated.")
@with_shell
def metadata(
    shell: Shell, conversation: str, values: tuple[str, ...], removals: tuple[str, ...]
) -> None:
    """Show the values that are kept with CONVERSATION, or set some: others stay as they are.

    A VALUE that is JSON is kept as such, any other as text.
    """
    changes: dict[str, Any] = dict.fromkeys(removals)
    for value in values:
        key, equals, text = value.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{value!r} is not KEY=VALUE.")
        if key in changes:
            raise click.UsageError(f"{key!r} is set or removed twice.")
        changes[key] = _json_or_text(text)
    calls = shell.client.conversations
    it = calls.update_metadata(conversation, changes) if changes else calls.get(conversation)
    values_text = (
        json.dumps(it.metadata, ensure_ascii=False, sort_keys=True) if it.metadata else "nothing"
    )
    _print_changed(shell, it, f"keeps {values_text}")


_TIERS = ("hot", "warm", "cold", "auto")


@click.command("turn-memory")
@click.argument("conversation", type=CONVERSATION)
@click.argument("turn", type=WholeNumber(1, MAX_NUMBER), required=False)
@with_text
@click.option(
    "--tier",
    type=click.Choice(_TIERS),
    help="Where contexts of CONVERSATION have the turn; auto: the server chooses again.",
)
@click.option("--no-summary", is_flag=True, help="Take the summary out of contexts again.")
@with_shell
def turn_memory(
    shell: Shell,
    conversation: str,
    turn: int | None,
    words: tuple[str, ...],
    file: BinaryIO | None,
    tier: str | None,
    no_summary: bool,
) -> None:
    """Show the tiers and summaries that are recorded of turns of CONVERSATION, or record TEXT as
    the summary of TURN: contexts show it where they have no room for the turn.
    """
    text = text_of(words, file)
    calls = shell.client.conversations
    if turn is None:
        if tier or no_summary or text is not None:
            raise click.UsageError("Name the turn that it is about.")
        memories = list(calls.list_turn_memory(conversation))
        shell.print_each(memories, _print_memory, "No turn has a tier or a summary.")
        return
    if no_summary and text is not None:
        raise click.UsageError("Give a summary or --no-summary, not both.")
    if not (tier or no_summary or text is not None):
        raise click.UsageError("Give a summary, --tier or --no-summary.")
    is_auto = tier == "auto"
    changed = calls.set_turn_memory(
        conversation,
        turn,
        tier=ContextTier(tier) if tier and not is_auto else None,
        reset_tier=is_auto,
        summary="" if no_summary else text,
    )
    _print_changed(shell, changed, f"has what contexts show of turn {turn}")


def _print_memory(out: Console, it: TurnMemory) -> None:
    place = f", {it.tier.value}" if it.tier else ""
    out.print(clean(f"turn {it.turn_number}{place}: {it.summary}"), soft_wrap=False)


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _written_by(it: Conversation) -> str:
    """Return a line that says who wrote the notes, and why the last try failed."""
    if it.notes is None:
        return ""
    parts = []
    if (record := it.notes.abbreviation) and it.abbreviation:
        when = f" on {local(record.write_time)}" if record.write_time else ""
        parts.append(f"Written by {' '.join(filter(None, (record.writer, record.model)))}{when}.")
    if it.notes.failure:
        parts.append(f"The last try failed: {it.notes.failure}.")
    return " ".join(parts)


def _print_changed(shell: Shell, it: Conversation, what: str) -> None:
    shell.print(it, f"{it.id} {what}.")
