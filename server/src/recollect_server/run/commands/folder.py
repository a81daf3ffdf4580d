"""Helpers of the commands that work on a data folder: the lock, the folder of the space, and
progress.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from recollect_server.backup.manifest import CannotCopy
from recollect_server.kernel.compare.recovery import Progress
from recollect_server.kernel.format import NewerFormat, check_format
from recollect_server.kernel.log.folder import FolderStore, spaces_in
from recollect_server.kernel.log.moves import folder_refusal
from recollect_server.kernel.log.store import LogUnavailable
from recollect_server.run.commands.logs import printable, say, set_up_logs_of_a_command
from recollect_server.run.folder import CannotStart, FolderLock
from recollect_server.run.settings import Settings
from recollect_server.run.settings.values import FOLDER


def folder_of(settings: Settings) -> FolderStore:
    """Return the folder of the space's transcripts. End the command if there is none, or only a
    part of what is copied there.
    """
    _whole_folder(settings)
    folder = FolderStore.of(settings.data_dir, settings.space)
    if not folder.root.is_dir():
        raise click.ClickException(
            f"there is nothing in {folder.root}: name another folder with --data-dir"
        )
    return folder


def folders_of(settings: Settings, flags: dict[str, Any]) -> dict[str, FolderStore]:
    """Return the folders of all spaces by name, the default space's first; with the flag `--space`
    that one's alone. End the command if there is none, or only a part of what is copied there.
    """
    _whole_folder(settings)
    if flags.get("space") is not None:
        return {settings.space: folder_of(settings)}
    names = sorted(spaces_in(settings.data_dir), key=lambda it: it != settings.space)
    folders = {name: FolderStore.of(settings.data_dir, name) for name in names}
    return folders or {settings.space: folder_of(settings)}


def folder_there(settings: Settings) -> None:
    """End the command if there is no data folder."""
    data_dir = settings.data_dir
    if not data_dir.is_dir():
        what = f"{data_dir} is no folder" if data_dir.exists() else f"there is no folder {data_dir}"
        raise click.ClickException(f"{what}: name another with --data-dir")


def _whole_folder(settings: Settings) -> None:
    folder_alone(settings)
    folder_there(settings)
    with said_plainly():
        if reason := folder_refusal(settings.data_dir):
            raise click.ClickException(reason)


def folder_alone(settings: Settings) -> None:
    """End the command if the logs are not in the data folder, which it is about, or a newer server
    wrote them.
    """
    format_known(settings)
    if settings.store != FOLDER:
        raise click.ClickException(
            f"this command is about logs in a folder, and --store is {settings.store}: copy a database"
            " with pg_dump, and delete the folders postgres-* in the data folder to index it anew;"
            " verify and stats ask the server that runs on the data folder"
        )


def format_known(settings: Settings) -> None:
    """End the command if a newer server has used the data folder."""
    try:
        check_format(settings.data_dir)
    except NewerFormat as error:
        raise click.ClickException(str(error)) from error
    except NotADirectoryError:
        return  # which the command says in its own words


def named(space: str, folders: dict[str, FolderStore], text: str) -> str:
    """Return a text with the name of its space in front, where there are several spaces."""
    return f"space {space}: {text}" if len(folders) > 1 else text


def leave_to_server(settings: Settings, command: click.Command, *arguments: str) -> None:
    """Have the server that runs on the data folder carry out a command of `recollect admin`, with
    the token and the certificates that the environment names, and end this command with its exit
    code. Return if no server runs there.
    """
    # The client, which no server needs: a sixth of the time that a start takes to import.
    from recollect import Unavailable
    from recollect._embedded import address_of
    from recollect.cli.options import TEXT

    try:
        address = address_of(settings.data_dir) if settings.data_dir.is_dir() else None
    except Unavailable as error:
        raise click.ClickException(str(error)) from error
    if address is not None:
        line = [*arguments, "--address", address]
        raise SystemExit(command.main(line, standalone_mode=False, obj=TEXT))


@contextmanager
def alone(settings: Settings) -> Iterator[None]:
    """Lock the data folder against servers. End the command if one holds it. Logs go to standard
    error.
    """
    folder_alone(settings)
    set_up_logs_of_a_command(settings)
    try:
        lock = FolderLock(settings.data_dir)
    except CannotStart as error:
        raise click.ClickException(str(error)) from error
    try:
        yield
    finally:
        lock.release()


def warn(text: str) -> None:
    say(f"Warning: {text}", sys.stderr)


@contextmanager
def said_plainly() -> Iterator[None]:
    """Turn a refusal of the disk into one sentence."""
    try:
        yield
    except CannotCopy as error:
        raise click.ClickException(str(error)) from error
    except BrokenPipeError:
        raise  # the reader of the output went away: click ends quietly
    except LogUnavailable as error:
        raise click.ClickException(
            f"{getattr(error.__cause__, 'filename', None) or 'the disk'}: {error.reason}"
        ) from error
    except OSError as error:
        raise click.ClickException(
            f"{error.filename or 'the disk'}: {error.strerror or error}"
        ) from error


def shown(
    what: str, clock: Callable[[], float] = time.monotonic, unit: str = "conversations"
) -> Progress:
    """Show on standard error how far a work is: after its first second, then every second, and at
    its end.

    `clock` returns the time in seconds.
    """
    last: float | None = None
    showing = False

    def show(done: int, of: int) -> None:
        nonlocal last, showing
        now = clock()
        if last is None:
            last = now
        if now - last >= 1 or (showing and done == of):
            last, showing = now, True
            say(f"{what}: {done} of {of} {unit}", sys.stderr)

    return show


def list_problems(problems: list[str], advice: str = "") -> None:
    """Print the problems, and exit with 1 if there are any. `advice` says what to do about them."""
    for problem in problems:
        click.echo(printable(problem))
    if problems:
        if advice:
            click.echo(advice, err=True)
        raise SystemExit(1)
