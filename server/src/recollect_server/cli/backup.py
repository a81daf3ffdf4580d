"""`recollect-server backup` and `restore`: the transcripts copied out, and in again."""

from pathlib import Path
from typing import Any

import click

from recollect_server.cli.folder import alone, folder_of, list_problems, said_plainly, shown
from recollect_server.cli.options import NamedPath, load_settings, with_settings
from recollect_server.domain.errors import RecollectError
from recollect_server.domain.time import system_clock
from recollect_server.services.upkeep import recovery
from recollect_server.services.upkeep.backing_up import Copied, back_up
from recollect_server.services.upkeep.backing_up import restore as copy_back
from recollect_server.storage.logs.folder import FolderStore

_FOLDER = click.argument(
    "directory", metavar="DIR", type=NamedPath(path_type=Path, file_okay=False)
)


@click.command()
@_FOLDER
@with_settings
def backup(directory: Path, config: Path | None, **flags: Any) -> None:
    """Copy every conversation, and what third parties wrote, into a new folder DIR, while the
    server runs or not.

    All that was acknowledged before it began is in the copy, on the disk when the command ends. DIR
    has the shape of a data folder; the index is left out. Exits with 1, and says so, if a line that
    was copied is damaged.
    """
    settings = load_settings(config, flags)
    with said_plainly():
        done = back_up(folder_of(settings), settings.space, directory, shown("Copying"))
    _say(done, f"backed up to {directory}")


@click.command()
@_FOLDER
@with_settings
def restore(directory: Path, config: Path | None, **flags: Any) -> None:
    """Copy a backup DIR into an empty data folder, compare it with what was backed up, and make the
    index.
    """
    settings = load_settings(config, flags)
    folder = FolderStore.of(settings.data_dir, settings.space)
    with alone(settings), said_plainly():
        done = copy_back(directory, settings.space, folder, shown("Copying"))
        try:
            recovery.rebuild(folder, system_clock, shown("Indexing")).index.close(sound=True)
        except RecollectError as error:
            raise click.ClickException(str(error)) from error
    _say(done, f"restored to {settings.data_dir}")


def _say(done: Copied, what: str) -> None:
    external = f", {done.communications} external communications" if done.communications else ""
    click.echo(
        f"{done.conversations} conversations{external}, {done.bytes} bytes {what}, {len(done.problems)} problems"
    )
    list_problems(done.problems)
