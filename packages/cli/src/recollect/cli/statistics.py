"""`recollect stats`: figures that a client may know."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import click
from rich.table import Table

from recollect import ArchiveFilter, Conversation
from recollect._shared.plain import time_text
from recollect.cli.options import Shell, with_channels, with_shell
from recollect.cli.printing import clean, console, json_line, local

_SHOWN = 10  # conversations whose notes failed


@dataclass
class _Figures:
    counts: Counter[str] = field(default_factory=Counter)
    cost: float = 0.0
    failures: dict[str, str] = field(default_factory=dict)
    """Why notes could not be written, of some conversations."""
    oldest: datetime | None = None
    newest: datetime | None = None

    def add(self, it: Conversation) -> None:
        self.counts.update(
            conversations=1,
            turns=it.turn_count,
            messages=it.message_count,
            # A Counter keeps the type of the first value that it is given: a bool would be printed
            # as `true`.
            untitled=int(not it.title),
            namedByHand=int(it.manually_named),
            withNotes=int(bool(it.abbreviation)),
            notesFailed=int(bool(it.notes and it.notes.failure)),
            compressed=int(bool(it.compressed_through)),
            pinned=int(it.pinned),
            inputTokens=it.usage_total.input,
            outputTokens=it.usage_total.output,
        )
        self.cost += it.cost_total
        # What was said before it was stored has its newest message before its beginning.
        beginning = min(it.create_time, it.update_time)
        self.oldest = min(self.oldest or beginning, beginning)
        if it.notes and it.notes.failure and len(self.failures) < _SHOWN:
            self.failures[it.id] = it.notes.failure
        self.newest = max(self.newest or it.update_time, it.update_time)

    def record(self) -> dict[str, Any]:
        times = {"oldest": self.oldest, "newest": self.newest}
        failures = {"notesFailedOf": self.failures} if self.failures else {}
        return (
            dict(self.counts)
            | failures
            | {"cost": self.cost}
            | {name: time_text(it) for name, it in times.items() if it}
        )


@click.command()
@with_channels
@with_shell
def stats(shell: Shell, channels: tuple[str, ...]) -> None:
    """Count what the server keeps, by channel.

    It is added up from the list of all conversations, which is all that a client can read.
    Bytes, the state of the index and what waits for notes are shown by `recollect-server stats`, on
    the server's machine.
    """
    total, by_channel = _Figures(), dict[str, _Figures]()
    # One that gets a message while the pages are read moves to the front, and may come twice.
    ids: set[str] = set()
    for it in shell.client.conversations.list(
        channels=channels, page_size=500, archived=ArchiveFilter.ALL
    ):
        if it.id not in ids:
            ids.add(it.id)
            total.add(it)
            by_channel.setdefault(it.channel, _Figures()).add(it)
    if not ids:
        total.counts.update(dict.fromkeys(("conversations", "turns", "messages"), 0))
    if shell.as_json:
        json_line(
            total.record()
            | {"channels": {name: figures.record() for name, figures in sorted(by_channel.items())}}
        )
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("channel", "conversations", "turns", "messages", "tokens in", "tokens out", "US$"):
        table.add_column(
            name,
            justify="left" if name == "channel" else "right",
            min_width=len(name),
            no_wrap=True,
        )
    for name, figures in (*sorted(by_channel.items()), ("all", total)):
        counts = (
            figures.counts[key]
            for key in ("conversations", "turns", "messages", "inputTokens", "outputTokens")
        )
        table.add_row(*map(clean, (name, *map(str, counts), f"{figures.cost:.2f}")))
    out = console()
    out.print(table, soft_wrap=False)
    for conversation_id, reason in total.failures.items():
        out.print(clean(f"No notes of {conversation_id}: {reason}."))
    if not total.cost:
        out.print(clean("No message says what it cost: whoever appends it does.", "dim"))
    if total.oldest:
        out.print(clean(f"From {local(total.oldest)} to {local(total.newest)}.", "dim"))
