"""Output of commands: for people on a terminal, JSON lines for programs, and a progress bar."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from recollect import (
    CommunicationMatch,
    CommunicationUpdate,
    Conversation,
    SearchHit,
    SearchResult,
    Update,
)
from recollect._shared.plain import CONTROLS, json_text, plain, time_text
from recollect.imports.values import counted

T = TypeVar("T")

_SHOWN = {"\n", "\t"}
_PICTURES = {
    code: chr(0x2400 + code) if code < 0x20 else "\ufffd"
    for code in CONTROLS
    if chr(code) not in _SHOWN
}


def json_line(record: dict[str, Any]) -> None:
    """Print one JSON object on a line of its own, at once."""
    sys.stdout.write(json_text(record) + "\n")
    sys.stdout.flush()


def json_lines(records: Iterable[Any]) -> None:
    """Print each of the client's data classes as a JSON line."""
    for record in records:
        json_line(plain(record))


def update_record(
    update: Update | CommunicationUpdate, kind: str, **own: str | None
) -> dict[str, Any]:
    """Return what every update of a stream has as JSON: `kind` is the name in the contract, with a
    small letter, and `own` are further members. What is empty is left out.
    """
    record = {
        "kind": kind[0].lower() + kind[1:],
        "cursor": update.cursor,
        **own,
        "time": time_text(update.time) if update.time else None,
        "reset": update.reset or None,
    }
    return {key: value for key, value in record.items() if value}


def console() -> Console:
    """Return the console that people read."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=True)


def called(it: Conversation) -> str:
    """Return the name that people are shown of a conversation."""
    return it.name or "(nothing said yet)"


def clean(text: str, style: str = "") -> Text:
    """Return stored text as a terminal may show it: control characters are made visible, and
    nothing in it is markup.
    """
    return Text().append(harmless(text), style)


def harmless(text: str) -> str:
    """Return a text with pictures of its control characters, but for line ends and tabs."""
    return text.translate(_PICTURES)


def one_line(text: str, style: str = "") -> Text:
    """Return stored text without its line ends."""
    return clean(" ".join(text.split()), style)


def snippet_of(it: CommunicationMatch | SearchHit | SearchResult) -> Text:
    """Return what a search shows of a result, the words that match in bold."""
    shown = clean(it.snippet_text)
    for match in it.snippet_matches:
        shown.stylize("bold yellow", match.start, match.end)
    return shown


def table_of(*columns: str, right: Sequence[int] = ()) -> Table:
    """Return an empty table with these columns, those at the indices `right` aligned there."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="right" if index in right else "left")
    return table


def local(moment: datetime | None) -> str:
    """Return a time as the reader's clock has it, to the minute."""
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M")


def warn(text: str) -> None:
    """Print a sentence on standard error."""
    sys.stderr.write(f"{harmless(text)}\n")
    sys.stderr.flush()


def followed(
    things: Iterable[T],
    *,
    total: int | None,
    title: str,
    position: Callable[[], int] | None = None,
) -> Iterator[T]:
    """Yield things, with a bar of how many were taken.

    Without a terminal there is no bar. `position` tells how much of the total is done; without it,
    how many things.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[shown]}") if position else MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    hidden = not (console.is_terminal and sys.stdout.isatty())
    with Progress(*columns, console=console, disable=hidden, transient=True) as progress:
        task = progress.add_task(title, total=total, shown="")
        for count, thing in enumerate(things, start=1):
            done = position() if position else count
            progress.update(task, completed=done, shown=counted(count, "conversation"))
            yield thing
