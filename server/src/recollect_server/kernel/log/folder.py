"""The folder store: each log a JSONL file, in a folder that one process owns (see `store` for what
a store promises).
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path

from recollect_server.kernel.domain.ids import IS_NAME, LEDGER, Kind, is_space_name, kind_of
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.log.files import (
    COPY,
    DELETING,
    REDACTING,
    REQUEST,
    SUFFIX,
    TORN,
    make_folder,
    opened,
    read_file,
    sync_folder,
    write_new,
)
from recollect_server.kernel.log.lines import Line, Place
from recollect_server.kernel.log.reader import ends_a_line, raw_lines, read_places
from recollect_server.kernel.log.repair import look_through, repair_tail
from recollect_server.kernel.log.store import (
    FORGOTTEN,
    LEDGERS,
    NO_CLAIM,
    START,
    Claim,
    LogBlocked,
    LogConflict,
    LogNotFound,
    LogStore,
    LogUnavailable,
    Position,
    TornTail,
    Version,
)
from recollect_server.kernel.log.writer import LogWriter, TranscriptChanged

_SUFFIXES = {
    Version.PRESENT: "",
    Version.DELETED: DELETING,
    Version.REPLACED: REDACTING,
    Version.TORN: TORN,
}
_DROPPED = {
    Version.DELETED: ("delete.file_removed", "delete.file_gone"),
    Version.REPLACED: ("redact.old_removed", "redact.old_gone"),
}
"""Failpoints behind a removal that `drop` makes, and behind its sync."""
_OTHERS = tuple(kind for kind in Kind if kind is not Kind.CONVERSATION)

KEPT = "kept"
"""File in the folder of a space that somebody made, and that stays without logs."""

Check = Callable[[], None]
"""Raises OSError if the folder is no longer this process's."""


def _unchecked() -> None:
    """Check nothing: a command holds the folder for a moment."""


class FolderStore(LogStore):
    """`<data-dir>/<space>`: `conversations/conv-….jsonl`, `external/ext-….jsonl`,
    `threads/thread-….jsonl`, and the ledgers beside these folders.
    """

    def __init__(self, root: Path, *, sync: bool = True, check: Check = _unchecked) -> None:
        """`root` is the folder of the conversations. `sync` False trusts the system's cache
        (setting `durability: os`). `check` is called before every change.
        """
        self._check_data = check
        self._identity: tuple[int, int] | None = None  # of the space's folder
        self._space = str(root.parent)
        self.root = root
        """Folder of the conversations, where the index and the vectors are kept too."""
        self._writer = LogWriter(sync=sync)
        # What is forgotten must not come back after a power failure, whatever `sync` says.
        self._always_synced = self._writer if sync else LogWriter(sync=True)

    @classmethod
    def of(
        cls, data_dir: Path, space: str, *, sync: bool = True, check: Check = _unchecked
    ) -> "FolderStore":
        """Return the store of a space in a data folder."""
        return cls(data_dir / space / "conversations", sync=sync, check=check)

    def _check(self) -> None:
        """Raise OSError if the folder of all data, or that of the space, is no longer the one that
        this process has written to.
        """
        self._check_data()
        try:
            status = os.stat(self._space)  # noqa: PTH116 - every append asks
        except FileNotFoundError:
            identity = None
        else:
            identity = (status.st_dev, status.st_ino)
        if self._identity is None:
            self._identity = identity
        elif identity != self._identity:
            raise OSError(
                errno.ESTALE,
                f"the folder {self._space} of the space was moved, removed or replaced under this"
                " server: put it back, or start the server again",
            )

    # Append and read ------------------------------------------------------------------------------

    def append(
        self,
        log: str,
        after: Position,
        lines: Sequence[bytes],
        claim: Claim = NO_CLAIM,  # noqa: ARG002 - it has one writer
    ) -> str:
        """Add whole lines behind the position, where the file must end; `START` makes the file.
        Return nothing: the index gives changes their order.
        """
        path, data = _path(self.root, log), b"".join(lines)
        writer = self._always_synced if log == FORGOTTEN else self._writer
        try:  # written out, not with `failing`, which costs every append a generator
            self._check()
            if after.bytes:
                writer.append(path, data, after.bytes)
            else:
                make_folder(path.parent)
                writer.create(path, data)
        except OSError as error:
            raise _failure(log, "written", error, self.root) from error
        return ""

    def swap(
        self,
        log: str,
        lines: Iterable[bytes] | None,
        before: int | None = None,  # noqa: ARG002 - it has one writer
        *,
        request: str = "",  # noqa: ARG002
        released: Sequence[str] = (),  # noqa: ARG002
        keep: bool = False,
        note: str = "",
    ) -> None:
        """Write a file anew, as a copy that takes its name when it is whole, or rename it to
        `….deleting`, beside its note. Unless it is kept, what was cut off its tail before goes too.
        """
        path = self.path(log)
        with failing(log, "deleted" if lines is None else "written"):
            self._check()
            if lines is not None:
                self._exchange(path, lines, keep=keep)
                return
            self._rename(path, note)
            sync_folder(path.parent)
            hit("delete.durable")

    def _rename(self, path: Path, note: str) -> None:
        """Rename a file to `….deleting`, beside its note."""
        hit("delete.begun")
        noted = _beside(path, REQUEST)
        noted.unlink(missing_ok=True)  # of one that a kill ended before this step
        if note:
            write_new(noted, [note.encode()], sync=False)  # a kill leaves it as it is
        path.rename(_beside(path, DELETING))
        hit("delete.renamed")
        self._writer.forget(path)

    def delete_each(self, logs: Sequence[str]) -> dict[str, LogUnavailable]:
        """Rename the files before their folder is synced once."""
        left: dict[str, LogUnavailable] = {}
        for at, log in enumerate(logs):
            try:
                with failing(log, "deleted"):
                    self._check()
                    self._rename(self.path(log), "")
            except LogUnavailable as error:
                left = dict.fromkeys(logs[at:], error)
                break
        try:
            with failing(logs[0], "deleted"):
                sync_folder(self.path(logs[0]).parent)
        except LogUnavailable as error:
            return dict.fromkeys(logs, error)
        hit("delete.durable")
        return left

    def _exchange(self, path: Path, lines: Iterable[bytes], *, keep: bool) -> None:
        copy, old = _beside(path, COPY), _beside(path, REDACTING)
        step = "redact" if keep else "anchors"
        make_folder(path.parent)
        if keep:
            hit("redact.begun")
        try:
            copy.unlink(missing_ok=True)
            write_new(copy, lines)
            hit(f"{step}.copied")
            if keep:
                _keep(path, old)
                hit("redact.kept")
                sync_folder(path.parent)
            copy.rename(path)
        except OSError:
            with suppress(OSError):
                copy.unlink(missing_ok=True)
                if keep:
                    old.unlink(missing_ok=True)
            raise
        self._writer.forget(path)
        hit(f"{step}.replaced")
        if not keep:
            _beside(path, TORN).unlink(missing_ok=True)
        sync_folder(path.parent)
        if keep:
            hit("redact.durable")

    def drop(self, log: str, version: Version, *, undone: bool = False) -> dict[str, int]:
        """Remove what the file was, and what was cut off it before, unless `undone`."""
        with failing(log, "deleted"):
            removed = self._unlink(log, version, undone=undone)
            sync_folder(self.path(log).parent)
        hit(_DROPPED[version][1])
        return removed

    def drop_each(self, logs: Sequence[str]) -> None:
        """Remove the files before their folder is synced once."""
        for log in logs:
            with failing(log, "deleted"):
                self._unlink(log, Version.DELETED)
        with failing(logs[-1], "deleted"):
            sync_folder(self.path(logs[-1]).parent)
        hit("delete.file_gone")

    def _unlink(self, log: str, version: Version, *, undone: bool = False) -> dict[str, int]:
        """Remove the files that `drop` removes. The last one may come back with a loss of power
        until the folder is synced.
        """
        path = self.path(log)
        old, torn = _beside(path, _SUFFIXES[version]), _beside(path, TORN)
        self._check()
        removed = {"transcript": old.stat().st_size}
        is_more = torn.exists() and not undone
        if is_more:
            removed["torn_tail"] = torn.stat().st_size
            torn.unlink()
            hit("delete.torn_removed")
        for rest in {_beside(path, it) for it in (COPY, REDACTING)} - {old}:
            with suppress(FileNotFoundError):
                rest.unlink()
                is_more = True
        if is_more:  # before the old file goes: after that nobody comes back for them
            sync_folder(path.parent)
        _beside(path, REQUEST).unlink(missing_ok=True)
        old.unlink()
        hit(_DROPPED[version][0])
        return removed

    def read_at(
        self, places: Mapping[str, Sequence[Place]]
    ) -> dict[str, list[Line] | LogUnavailable]:
        """Return for each log its lines at places; neighbours are read in one go."""
        lines: dict[str, list[Line] | LogUnavailable] = {}
        for log, own in places.items():
            try:
                with failing(log, "read"):
                    lines[log] = [*self._belonging(log).lines(read_places(self.path(log), own))]
            except LogUnavailable as error:
                lines[log] = error
        return lines

    def raw(
        self,
        log: str,
        version: Version = Version.PRESENT,
        *,
        start: int = 0,
        until: int | None = None,
    ) -> Iterator[bytes]:
        """Yield the whole lines between two bytes of a file."""
        with failing(log, "read"):
            yield from raw_lines(_beside(self.path(log), _SUFFIXES[version]), start, until)

    def length(self, log: str, version: Version = Version.PRESENT) -> int:
        """Return the size of a file."""
        path = _beside(self.path(log), _SUFFIXES[version])
        with failing(log, "read"):
            try:
                return path.stat().st_size
            except FileNotFoundError:
                if path.is_symlink():
                    raise LogBlocked(log, "read", "it is a link that leads nowhere") from None
                raise

    def note_of(self, log: str) -> str | None:
        """Return the content of the file beside `….deleting`."""
        with failing(log, "read"), suppress(FileNotFoundError):
            return read_file(_beside(self.path(log), REQUEST)).decode(errors="replace") or None
        return None

    def logs(self, kind: Kind, version: Version = Version.PRESENT) -> Iterator[tuple[str, int]]:
        """Return the logs of a kind that have such a file, with its size."""
        suffix = SUFFIX + _SUFFIXES[version]
        lengths: list[tuple[str, int]] = []
        with failing(kind, "listed"):
            for entry in self._scan(kind):
                name = entry.name.removesuffix(suffix)
                is_one = name != entry.name and IS_NAME[kind](name)
                if is_one and entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):  # deleted meanwhile
                        lengths.append((name, entry.stat(follow_symlinks=False).st_size))
        return iter(lengths)

    def strays(self) -> list[str]:
        """Return the files in the folders of the logs that are named as files of logs and are
        none.
        """
        strays: list[str] = []
        for kind in Kind:
            advice = ": `recollect import` takes it in" if kind is Kind.CONVERSATION else ""
            with failing(kind, "listed"):
                for entry in sorted(self._scan(kind), key=lambda it: it.name):
                    name = entry.name.removesuffix(SUFFIX)
                    if name == entry.name:
                        continue
                    reason = "" if IS_NAME[kind](name) else f"its name is no id{advice}"
                    if not entry.is_file(follow_symlinks=False):
                        reason = "it is no regular file"
                    if reason:
                        place = f"{self.folder(kind).name}/{entry.name}"
                        strays.append(f"{place} is not read: {reason}")
        return strays

    def torn_files(self) -> dict[str, int]:
        """Return the sizes of the files with what starts cut off logs, ledgers too, by their paths
        in the data folder.
        """
        sizes: dict[str, int] = {}
        for folder in (self.root.parent, *map(self.folder, Kind)):
            for path in sorted(folder.glob(f"*{SUFFIX}{TORN}")):
                with suppress(FileNotFoundError):  # removed meanwhile
                    size = path.stat(follow_symlinks=False).st_size
                    sizes[str(path.relative_to(self.root.parents[1]))] = size
        return sizes

    def close(self) -> None:
        """Close every file that no append uses."""
        self._writer.close()
        self._always_synced.close()

    # After a crash --------------------------------------------------------------------------------

    def recover(
        self,
        log: str,
        after: Position = START,
        see: Callable[[Line], None] | None = None,
        acknowledged: int = 0,
    ) -> TornTail | None:
        """Repair the tail of a file (see `repair`); what is cut off is kept beside it."""
        path = self.path(log)
        with failing(log, "read"):
            self._check()
            goes_on = path.stat(follow_symlinks=False).st_size > after.bytes
            if goes_on and not ends_a_line(path, after.bytes):
                raise LogConflict(log, "read", f"no line of it ends at byte {after.bytes}")
            _beside(path, COPY).unlink(missing_ok=True)  # a crash kept it from taking the name
            check = self._belonging(log, after.lines).check
            see_own = see and (lambda line: see(check(line)))
            begin = after.bytes, after.lines + 1
            torn = repair_tail(path, _beside(path, TORN), *begin, see_own, acknowledged)
            self._writer.forget(path)
            if not path.stat(follow_symlinks=False).st_size:
                path.unlink()  # of a create that was cut short
                if torn is None:
                    raise FileNotFoundError(errno.ENOENT, "nothing was ever acknowledged of it")
        return torn

    def create(self, *, settle: bool = False) -> None:
        """Make the folder of the conversations with its parents, for the owner alone (0700).
        `settle`: make durable the names here and of the folders above. Raises OSError.
        """
        self._check()
        make_folder(self.root)
        if settle:
            self._remove_notes()
            self._settle()

    def _remove_notes(self) -> None:
        """Remove the notes of deletes that never began, or that have ended."""
        for noted in self.root.parent.glob(f"*/*{SUFFIX}{REQUEST}"):
            if not noted.with_name(noted.name.removesuffix(REQUEST) + DELETING).exists():
                noted.unlink()

    def _settle(self) -> None:
        for folder in (self.root, *self.root.parents[:2]):
            sync_folder(folder)
        with suppress(PermissionError):  # what is above the data folder need not be ours
            sync_folder(self.root.parents[2])
        for folder in map(self.folder, _OTHERS):
            if folder.is_dir():
                sync_folder(folder)

    def keep(self) -> None:
        """Make the folder stay though it has no log (see `remove_without_logs`). Raises OSError."""
        self._check()
        with opened(self.root.parent / KEPT, os.O_WRONLY | os.O_CREAT):
            sync_folder(self.root.parent)

    def is_kept(self) -> bool:
        """Return whether the folder stays without a log."""
        return (self.root.parent / KEPT).exists()

    def remove_without_logs(self, is_derived: Callable[[str], bool]) -> bool:
        """Remove the folders of the space if they have no log, nor anything else but derived files.

        `is_derived` tells from a file's name in the folder of the conversations whether it can be
        made anew. Return False if something is left. Nobody may have the space open.
        """
        try:
            names = [path.name for path in self.root.iterdir()]
            if not all(map(is_derived, names)):
                return False
            others = {self.folder(kind).name for kind in Kind}
            if not {path.name for path in self.root.parent.iterdir()} <= others:
                return False
            for folder in map(self.folder, _OTHERS):
                with suppress(FileNotFoundError):
                    folder.rmdir()  # refused unless it is empty
            for name in names:
                (self.root / name).unlink()
            self.root.rmdir()
            self.root.parent.rmdir()
        except OSError:
            return False
        return True

    def problems(
        self, log: str, size: int | None = None, acknowledged: int = 0
    ) -> Iterator[Line | str]:
        """Yield the lines of a file up to its torn tail, and in its place what is wrong with it by
        itself (see `repair`). Nothing is torn before byte `acknowledged`.
        """
        path = self.path(log)
        with failing(log, "read"):
            most = path.stat().st_size if size is None else size
            yield from look_through(path, most, partial(self.read, log, START), acknowledged)

    # Files ----------------------------------------------------------------------------------------

    def path(self, log: str) -> Path:
        """Return the path of a log's file. Raises ValueError for a text that is not the name of
        one: it could be a path.
        """
        return _path(self.root, log)

    def folder(self, kind: Kind) -> Path:
        """Return the folder of the logs of a kind."""
        return self.root if kind is Kind.CONVERSATION else self.root.with_name(kind.value)

    def _scan(self, kind: Kind) -> Iterator[os.DirEntry[str]]:
        folder = self.folder(kind)
        if kind is not Kind.CONVERSATION and not folder.is_dir():
            return  # it is there once there is one
        with os.scandir(folder) as entries:
            yield from entries


@lru_cache(maxsize=16384)
def _path(root: Path, log: str) -> Path:
    kind = kind_of(log)
    if kind == Kind.CONVERSATION:
        return root / f"{log}{SUFFIX}"
    folder = root.parent if kind == LEDGER else root.with_name(kind)
    return folder / f"{log}{SUFFIX}"


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix) if suffix else path


def _keep(path: Path, name: Path) -> None:
    """Give a file a second name; where the file system has none such, a copy has it. Raises
    OSError.
    """
    try:
        os.link(path, name, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        write_new(name, [read_file(path)])


@contextmanager
def failing(log: str, action: str) -> Iterator[None]:
    """Turn what the system refuses into the errors of a store."""
    try:
        yield
    except OSError as error:
        raise _failure(log, action, error) from error


def _failure(log: str, action: str, error: OSError, folder: Path | None = None) -> LogUnavailable:
    """Return what the system refuses as the error of a store. Of a full disk, which `folder` is on,
    it says how much is free.
    """
    kind = LogUnavailable
    if isinstance(error, TranscriptChanged | FileExistsError):
        kind = LogConflict
    elif isinstance(error, FileNotFoundError):
        kind = LogNotFound
    reason = error.strerror or str(error)
    if folder is not None and error.errno in (errno.ENOSPC, errno.EDQUOT):
        with suppress(OSError):
            disk = os.statvfs(folder)
            reason += f" ({disk.f_bavail * disk.f_frsize} bytes are free)"
    return kind(log, action, reason)


def foreign_in(space: Path) -> str:
    """Return the path of something in a space's folder that is no part of a space; empty if there
    is none. Raises OSError.
    """
    kinds = {kind.value for kind in Kind}
    ledgers = tuple(f"{name}{SUFFIX}" for name in LEDGERS)
    with suppress(FileNotFoundError):
        for path in sorted(space.iterdir()):
            if path.name in kinds and path.is_dir():
                if inner := next((it for it in sorted(path.iterdir()) if it.is_dir()), None):
                    return str(inner)
            elif path.name != KEPT and not path.name.startswith((*ledgers, "postgres-")):
                return str(path)
    return ""


def spaces_in(data_dir: Path) -> list[str]:
    """Return the names of the spaces in a data folder, in order."""
    if not data_dir.is_dir():
        return []
    names = (path.name for path in data_dir.iterdir() if is_space_name(path.name))
    return sorted(name for name in names if FolderStore.of(data_dir, name).root.is_dir())
