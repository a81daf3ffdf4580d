"""`recollect list`, `recent` and `show`: what there is, and what was said."""

import os
import webbrowser
from datetime import datetime
from itertools import groupby, islice
from socket import create_connection
from urllib.parse import urlencode, urlsplit

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from recollect import ArchiveFilter, Conversation, LoadedConversation, Message, RecentOrder, Role
from recollect._shared.file_parts import is_part
from recollect._shared.history import History, read_history
from recollect._shared.plain import plain
from recollect.cli.exits import NOT_FOUND, NOT_REACHABLE, Ended
from recollect.cli.options import (
    CONVERSATION,
    MAX_NUMBER,
    Shell,
    WholeNumber,
    with_channels,
    with_limit,
    with_participants,
    with_shell,
    with_span,
    with_topics,
)
from recollect.cli.printing import (
    called,
    clean,
    console,
    json_line,
    local,
    one_line,
    warn,
)
from recollect.imports.values import counted

_PAGE = ("RECOLLECT_WEB_LISTEN", "127.0.0.1:50080")
"""The environment variable with the address of the page, and the address without one."""
_URL = "RECOLLECT_WEB_URL"
"""The environment variable with the address of the page behind a proxy."""
_TABLE_WIDTH = 92
"""The least columns of a terminal on which a table of conversations has room for names: some 25.
On others each has two lines.
"""
_ALL_TOKENS = 1_000_000  # --turns alone bounds what is shown
_STYLES = {Role.USER: "bold cyan", Role.ASSISTANT: "bold green", Role.TOOL: "magenta"}


@click.command("list")
@with_channels
@with_topics
@with_participants
@click.option("--name", "--title", metavar="TEXT", help="Only with this text in the name.")
@click.option(
    "--pinned/--not-pinned", default=None, help="Only the pinned ones, or only the others."
)
@click.option("--archived", is_flag=True, help="Only those in the archive.")
@with_span
@with_limit
@with_shell
def list_(
    shell: Shell,
    channels: tuple[str, ...],
    topics: tuple[str, ...],
    participants: tuple[str, ...],
    name: str | None,
    pinned: bool | None,
    archived: bool,
    since: datetime | None,
    until: datetime | None,
    limit: int,
) -> None:
    """List conversations, the newest message first."""
    conversations = shell.client.conversations.list(
        channels=channels,
        topics=topics,
        participants=participants,
        query=name,
        pinned=pinned,
        archived=ArchiveFilter.ARCHIVED if archived else None,
        updated_after=since,
        updated_before=until,
        page_size=min(limit or 500, 500),
    )
    chosen = islice(conversations, limit or None)
    if shell.as_json or console().width < _TABLE_WIDTH:
        shell.print_each(chosen, _print_heading, "No conversations.")
    else:
        shell.print_table(list(chosen), _table(), _cells_of, "No conversations.")


@click.command()
@click.option("--channel", metavar="NAME", help="Only of this channel.")
@with_span
@click.option("--oldest-first", is_flag=True, help="The oldest first.")
@click.option(
    "--limit",
    type=WholeNumber(1, 100),
    default=10,
    show_default=True,
    help="The most to list.",
)
@with_shell
def recent(
    shell: Shell,
    channel: str | None,
    since: datetime | None,
    until: datetime | None,
    oldest_first: bool,
    limit: int,
) -> None:
    """Browse conversations by time, with their notes or their last words."""
    order = RecentOrder.OLDEST_FIRST if oldest_first else RecentOrder.NEWEST_FIRST
    entries = shell.client.recall.recent(
        limit=limit, after=since, before=until, channel=channel, order=order
    )
    if shell.as_json:
        for entry in entries:
            json_line(
                plain(entry.conversation) | ({"snippet": entry.snippet} if entry.snippet else {})
            )
        return
    out = console()
    if not entries:
        out.print("No conversations.")
    for entry in entries:
        _print_heading(out, entry.conversation)
        out.print(one_line(entry.conversation.abbreviation or entry.snippet), soft_wrap=False)
        out.print()
    if entries.has_more:
        out.print("There are more than fit into one answer: go on with --until.")


@click.command()
@click.argument("conversation", type=CONVERSATION, required=False)
@click.option(
    "--channel",
    metavar="NAME",
    help="The newest conversation of this channel, where none is named.",
)
@click.option(
    "--turns",
    type=WholeNumber(1, 1000),
    default=20,
    show_default=True,
    help="The number of turns.",
)
@click.option(
    "--before",
    type=WholeNumber(1, MAX_NUMBER),
    metavar="TURN",
    help="The turns before this one: a page of history.",
)
@click.option("--all", "everything", is_flag=True, help="All turns, however many.")
@with_shell
def show(
    shell: Shell,
    conversation: str | None,
    channel: str | None,
    turns: int,
    before: int | None,
    everything: bool,
) -> None:
    """Show what was said in CONVERSATION.

    Without --all these are its newest turns, and the summary of what was compressed before them. As
    JSON every line is a message.
    """
    if not conversation and not channel:
        raise click.UsageError("Name a conversation, or a channel with --channel.")
    now = shell.client.conversations.load(
        conversation, channel=channel, max_turns=turns, max_tokens=_ALL_TOKENS, before_turn=before
    )
    if now.conversation is None:
        raise Ended(f"there is no conversation on {channel} yet", NOT_FOUND)
    history = (
        read_history(shell.client.conversations.load, now.conversation) if everything else None
    )
    print_loaded(shell, now, history)


def print_loaded(shell: Shell, loaded: LoadedConversation, history: History | None = None) -> None:
    """Print a loaded conversation: its newest turns with the summary of those before, or all of its
    `history`.
    """
    it, messages, damaged, more = (
        loaded.conversation,
        list(loaded.messages),
        loaded.damaged_lines,
        loaded.has_more,
    )
    assert it is not None
    if history:
        messages, damaged, more = history.messages, history.damaged_lines, False
    if damaged:
        warn(f"left out of the transcript: {counted(damaged, 'damaged line')}")
    if shell.as_json:
        for message in messages:
            json_line({"conversationId": it.id} | plain(message))
        return
    out = console()
    _print_heading(out, it)
    if more and messages:
        out.print(
            clean(f"… there is more: --before {messages[0].turn_number}, or --all", style="dim")
        )
    if loaded.compression_summary and not history:
        out.print(
            clean(
                f"Summary of the turns up to {it.compressed_through}: {loaded.compression_summary}",
                "italic",
            )
        )
    for turn, of_turn in groupby(messages, key=lambda message: message.turn_number):
        out.print()
        for index, message in enumerate(of_turn):
            print_message(out, message, f"{turn:>4} " if index == 0 else "     ")


def print_message(out: Console, message: Message, margin: str = "") -> None:
    """Print one message for people, unless it only holds bytes of a file."""
    if is_part(message):
        return
    head = clean(f"{margin}{local(message.timestamp)}  ", "dim")
    head.append_text(
        one_line(message.sender_name or message.sender or message.role.value, _STYLES[message.role])
    )
    if message.channel:  # it came over another channel than the conversation's
        head.append_text(clean(f"  over {message.channel}", "dim"))
    out.print(head)
    indent = " " * len(margin)
    if message.thinking_text:
        out.print(_indented(f"(thinks) {message.thinking_text}", indent, "dim italic"))
    if message.content:
        out.print(_indented(message.content, indent, ""))
    for call in message.tool_calls:
        out.print(_indented(f"→ {call.name}({call.arguments})", indent, "magenta"))
    for file in message.attachments:
        out.print(_indented(f"[{file.media_type}] {file.uri}", indent, "blue"))


def _indented(text: str, indent: str, style: str) -> Text:
    return clean("\n".join(f"{indent}{line}" for line in text.split("\n")), style)


def _print_heading(out: Console, it: Conversation) -> None:
    heading = one_line(called(it), "bold")
    out.print(heading)
    facts = [
        it.id,
        it.channel,
        counted(it.turn_count, "turn"),
        local(it.update_time),
        *it.topics,
        "pinned" if it.pinned else "",
    ]
    out.print(one_line("  ".join(filter(None, facts)), "dim"))


def _table() -> Table:
    """Return a table for conversations. On a narrow terminal only the name is cut: ids are there to
    be copied.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, least in (("updated", 16), ("channel", 7), ("name", 1), ("turns", 5), ("id", 31)):
        table.add_column(name, min_width=least, no_wrap=name != "name")
    return table


def _cells_of(it: Conversation) -> tuple[Text, ...]:
    return (
        clean(local(it.update_time)),
        clean(it.channel),
        one_line(called(it)),
        clean(str(it.turn_count)),
        clean(it.id, style="dim"),
    )


@click.command("open")
@click.argument("conversation", type=CONVERSATION, required=False)
@click.option("--turn", type=WholeNumber(1, MAX_NUMBER), metavar="N", help="At this turn.")
@with_shell
def open_(shell: Shell, conversation: str | None, turn: int | None) -> None:
    """Open the page in the browser, at CONVERSATION. `recollect-web` serves it, and prints the
    address that signs a browser in.
    """
    if turn and not conversation:
        raise click.UsageError("--turn goes with a conversation.")
    if conversation:
        conversation = shell.client.conversations.get(conversation).id
    page = os.environ.get(_URL) or f"http://{os.environ.get(_PAGE[0]) or _PAGE[1]}"
    try:
        parts = urlsplit(page)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        create_connection((parts.hostname or "", port), timeout=2).close()
    except (OSError, ValueError) as error:
        raise Ended(
            f"no page answers on {page}: start `recollect-web`, or name its address in {_PAGE[0]} or"
            f" {_URL}",
            NOT_REACHABLE,
        ) from error
    query = {"turn": turn, "space": shell.space}
    given = urlencode({name: value for name, value in query.items() if value})
    address = f"{page.rstrip('/')}/" + (f"c/{conversation}" if conversation else "")
    address += f"?{given}" if given else ""
    shell.print({"address": address}, address)
    webbrowser.open(address)
