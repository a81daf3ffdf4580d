"""A progress bar on a terminal, over work on many conversations."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from recollect.imports.values import counted

T = TypeVar("T")


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
