"""`recollect-server migrate`: all logs moved between a data folder and a database."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

import click

from recollect_server.access.token_log import TokenLedger
from recollect_server.backup.moving import Moved, Place
from recollect_server.backup.moving import move as move_all
from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.domain.time import system_clock
from recollect_server.kernel.format import NewerFormat, check_format, mark_format
from recollect_server.kernel.log.folder import FolderStore, spaces_in
from recollect_server.kernel.log.moves import FolderMark, restore_refusal
from recollect_server.kernel.log.store import LogStore
from recollect_server.run.commands.folder import shown
from recollect_server.run.commands.logs import set_up_logs_of_a_command
from recollect_server.run.commands.options import load_settings
from recollect_server.run.folder import CannotStart, FolderLock, cannot_use
from recollect_server.run.settings.values import FOLDER, LogStoreName

_PLACE = "a data folder, or postgresql://user@host/database"
_SHOWN = 16  # digits of a digest
_VERDICT = {True: "the same", False: "DIFFERS"}


@click.command()
@click.option("--from", "origin", required=True, metavar="PLACE", help=f"{_PLACE}, which stays")
@click.option(
    "--to", "target", required=True, metavar="PLACE", help=f"{_PLACE}: a new or empty one"
)
def migrate(origin: str, target: str) -> None:
    """Copy the logs of all spaces from one place to another, byte for byte, and compare them:
    from a data folder to a PostgreSQL database, back, or between two of a kind.

    Refuses while a server uses one of them, and a target that has other logs. A server does not
    start on a target before all is there and compared; after a kill or an error the same command
    goes on where it was. The source is left as it is. The index and the vectors are made anew at
    the first start. Exits with 1 if anything differs.
    """
    set_up_logs_of_a_command(load_settings(None, {}))
    _check_apart(_whole(origin), _whole(target))
    try:
        with (
            _opened(origin, "--from", is_source=True) as source,
            _opened(target, "--to", is_source=False) as goal,
        ):
            copying, comparing = shown("Copying", unit="logs"), shown("Comparing", unit="logs")
            done = move_all(source, goal, system_clock, copying, comparing)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    except StorageUnavailable as error:
        raise click.ClickException(f"{error}: the same command goes on where it was") from error
    except CannotStart as error:
        raise click.ClickException(str(error)) from error
    if done.ended:
        click.echo(
            f"All was moved from {source.name} to {goal.name} at {done.ended}: nothing to do"
        )
        return
    _print_table(done.spaces)
    if not all(it.is_same for it in done.spaces):
        raise click.ClickException(
            f"{goal.name} is not the same as {source.name}: no server starts on it; run the same"
            " command again"
        )
    click.echo(f"All logs of {source.name} are in {goal.name}, byte for byte")


class _Closed(Place, Protocol):
    def close(self) -> None:
        """Let others use the place again."""


@contextmanager
def _opened(text: str, flag: str, *, is_source: bool) -> Iterator[Place]:
    """Open the place that a flag names: the URL of a database, or the path of a data folder. A
    folder that is a source must be there. Raises CannotStart, ValueError.
    """
    place: _Closed
    if "://" in text:
        try:
            from recollect_server.run.postgres import DatabasePlace
        except ImportError as error:
            raise CannotStart(
                f"{flag} needs psycopg, which cannot be imported ({error}):"
                " pip install 'recollect-server[postgres]'"
            ) from error
        place = DatabasePlace(LogStoreName(text), flag)
    elif text in ("", FOLDER):
        raise ValueError(f"{flag}: name the path of the folder, as ./.recollect")
    else:
        place = FolderPlace(Path(text), flag, is_source=is_source)
    with closing(place):
        yield place


class FolderPlace(FolderMark):
    """A data folder that logs are moved from or to, with its lock."""

    def __init__(self, data_dir: Path, flag: str, *, is_source: bool) -> None:
        """Take the lock of the folder. Raises CannotStart."""
        super().__init__(data_dir)
        if is_source and not data_dir.is_dir():
            raise CannotStart(f"there is no folder {data_dir}: name another with {flag}")
        self._data_dir = data_dir
        self._flag = flag
        self.name = f"the folder {data_dir}"
        self.identity = f"the folder {data_dir.resolve()}"
        """Its whole path."""
        self._lock = FolderLock(data_dir, flag)
        try:
            check_format(data_dir)
            reason = restore_refusal(data_dir)
        except (NewerFormat, OSError) as error:
            self._lock.release()
            if isinstance(error, OSError):
                raise cannot_use(data_dir, error, flag) from error
            raise CannotStart(str(error)) from error
        if reason:
            self._lock.release()
            raise CannotStart(reason)
        ledger = TokenLedger(data_dir)
        self.tokens, self.set_tokens, self.close = ledger.raw, ledger.fill, self._lock.release

    def names(self) -> list[str]:
        return spaces_in(self._data_dir)

    def of(self, space: str) -> LogStore:
        return FolderStore.of(self._data_dir, space)

    def is_made(self, space: str) -> bool:
        return FolderStore.of(self._data_dir, space).is_kept()

    def create(self, space: str, *, is_made: bool) -> None:
        """Make the folder of a space. Raises CannotStart."""
        folder = FolderStore.of(self._data_dir, space)
        try:
            mark_format(self._data_dir)  # an older server must not open the lines that come
            folder.create()
            if is_made:
                folder.keep()
        except OSError as error:
            raise cannot_use(self._data_dir, error, self._flag) from error


def _whole(place: str) -> str | Path:
    """Return a place as it is compared with another one."""
    return place if "://" in place else Path(place).resolve()


def _check_apart(origin: str | Path, target: str | Path) -> None:
    """Raise ClickException if two places are the same, or one folder lies in the other: what is
    copied would become part of what it is copied from.
    """
    if origin == target:
        raise click.ClickException("--from and --to are the same place")
    if isinstance(origin, Path) and isinstance(target, Path):
        for inner, outer, flags in (
            (target, origin, "--to lies in the folder of --from"),
            (origin, target, "--from lies in the folder of --to"),
        ):
            if outer in inner.parents:
                raise click.ClickException(f"{flags}, {outer}: name a folder beside it")


def _print_table(spaces: tuple[Moved, ...]) -> None:
    rows = [("space", "logs", "bytes", "sha-256", "copy")]
    rows += [
        (it.space, str(it.logs), str(it.bytes), it.digest[:_SHOWN], _VERDICT[it.is_same])
        for it in spaces
    ]
    rows.append(
        ("all", str(sum(it.logs for it in spaces)), str(sum(it.bytes for it in spaces)), "", "")
    )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for space, logs, size, digest, verdict in rows:
        line = (
            f"{space:<{widths[0]}}  {logs:>{widths[1]}}  {size:>{widths[2]}}  {digest:<{widths[3]}}"
        )
        click.echo(f"{line}  {verdict}".rstrip())
