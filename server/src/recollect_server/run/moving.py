"""Places that logs are moved from and to: a data folder or a database, for this process alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from recollect_server.access.token_log import TokenLedger
from recollect_server.backup.moving import Place
from recollect_server.kernel.format import NewerFormat, check_format, mark_format
from recollect_server.kernel.log.folder import FolderStore, spaces_in
from recollect_server.kernel.log.moves import FolderMark, restore_refusal
from recollect_server.kernel.log.store import LogStore
from recollect_server.run.folder import CannotStart, FolderLock, cannot_use
from recollect_server.run.settings.values import FOLDER, LogStoreName


class _Closed(Place, Protocol):
    def close(self) -> None:
        """Let others use the place again."""


@contextmanager
def opened(text: str, flag: str, *, is_source: bool) -> Iterator[Place]:
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
    try:
        yield place
    finally:
        place.close()


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
