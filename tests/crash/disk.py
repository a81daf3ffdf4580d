"""A disk that forgets: what the program did to its files is recorded, and laid out again as a power
failure may have left it.

What was synced is kept, and any part of the rest: of a write any of its bytes in pieces, of names
any of the changes. A write under O_DSYNC is a write and its sync. A sync may fail: then the system
takes what was written for synced, and no later sync brings it to the disk (PostgreSQL's
"fsyncgate", 2018). The index is not recorded: SQLite answers for itself, and it can be made anew.
"""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

_INDEX = "conversations.db"


class Killed(BaseException):
    """The process ends here; not an Exception, so that nothing in it takes it for its own."""


@dataclass(frozen=True)
class Step:
    """One call of the operating system that changes or syncs something."""

    kind: str
    """write, truncate, sync; link, unlink, rename, folder, sync_folder."""
    file: int = 0
    """Which file: its number among all there were, whatever its name is."""
    name: str = ""
    other: str = ""
    """The new name."""
    offset: int = 0
    data: bytes = b""
    durable: bool = False
    forgotten: bool = False
    """Its sync failed."""


class Disk:
    """Everything that was done below a folder, in order. Not for more than one thread."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.steps: list[Step] = []
        self.kill_at = -1
        """The step before which the process is killed; -1: none."""
        self._names: dict[str, int] = {}
        self._files = 0
        self._open: dict[int, tuple[str, int, bool]] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the system calls of this process."""
        patches: dict[str, Any] = {
            name: self._watched(name) for name in ("write", "pwrite", "ftruncate", "fsync", "close")
        }
        patches |= {
            "open": self._opened(),
            "rename": self._renamed(),
            "unlink": self._unlinked(),
            "mkdir": self._made(),
        }
        with mock.patch.multiple(os, **patches):
            yield

    def _name(self, path: Any) -> str:
        try:
            name = str(Path(os.fspath(path)).relative_to(self.root))
        except (TypeError, ValueError):
            return ""
        return "" if Path(name).name.startswith(_INDEX) else name

    def _step(self, step: Step) -> None:
        if len(self.steps) == self.kill_at:
            self.kill_at = -1
            raise Killed
        self.steps.append(step)

    def _opened(self) -> Callable[..., int]:
        real = os.open

        def opened(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
            name = self._name(path)
            if name and flags & os.O_CREAT and not os.path.lexists(path):
                self._files += 1
                self._step(Step("link", self._files, name))
                self._names[name] = self._files
            handle = real(path, flags, mode, **more)
            if name:
                self._open[handle] = (name, self._names.get(name, 0), bool(flags & os.O_DSYNC))
            return handle

        return opened

    def _watched(self, call: str) -> Callable[..., Any]:
        real = getattr(os, call)

        def watched(handle: int, *values: Any) -> Any:
            name, file, durable = self._open.get(handle, ("", 0, False))
            if call == "close":
                self._open.pop(handle, None)
            elif call == "fsync" and name:
                self._step(Step("sync", file) if file else Step("sync_folder", name=name))
            elif call == "ftruncate" and file:
                self._step(Step("truncate", file, offset=values[0]))
            elif file:
                offset = values[1] if call == "pwrite" else os.fstat(handle).st_size
                # killed between the write and its sync
                if len(self.steps) == self.kill_at and len(self.steps) % 2:
                    self.kill_at += 1
                    # its sync failed, and nobody was told any more
                    forgotten = durable and len(self.steps) % 4 == 1
                    self._step(
                        Step(
                            "write", file, offset=offset, data=bytes(values[0]), forgotten=forgotten
                        )
                    )
                    real(handle, *values)
                self._step(
                    Step("write", file, offset=offset, data=bytes(values[0]), durable=durable)
                )
            return real(handle, *values)

        return watched

    def _renamed(self) -> Callable[..., None]:
        real = os.rename

        def renamed(old: Any, new: Any, **more: Any) -> None:
            if name := self._name(old):
                self._step(Step("rename", self._names[name], name, self._name(new)))
                self._names[self._name(new)] = self._names.pop(name)
            real(old, new, **more)

        return renamed

    def _unlinked(self) -> Callable[..., None]:
        real = os.unlink

        def unlinked(path: Any, **more: Any) -> None:
            name = self._name(path)
            if name and os.path.lexists(path):
                self._step(Step("unlink", self._names[name], name))
                del self._names[name]
            real(path, **more)

        return unlinked

    def _made(self) -> Callable[..., None]:
        real = os.mkdir

        def made(path: Any, *more: Any, **named: Any) -> None:
            if name := self._name(path):
                self._step(Step("folder", name=name))
            real(path, *more, **named)

        return made

    # After the power failed -----------------------------------------------------------------------

    def after_power_loss(self, done: int, rng: random.Random, root: Path) -> None:
        """Write below `root` what may be left after a power failure in step `done`, with the steps
        before it finished.
        """
        files: dict[int, bytearray] = {}
        writes: list[Step] = []
        names: dict[str, int] = {}
        changes: list[Step] = []
        for step in self.steps[:done]:
            match step.kind:
                case "write" | "truncate":
                    writes.append(step)
                    if step.durable:
                        writes = _flush(writes, step.file, files)
                case "sync":
                    writes = _flush(writes, step.file, files)
                case "sync_folder":
                    for change in changes:
                        if str(Path(change.name).parent) == step.name:
                            _rename(change, names)
                    changes = [
                        change for change in changes if str(Path(change.name).parent) != step.name
                    ]
                case _:
                    changes.append(step)
        for step in self.steps[done : done + 1]:  # under way
            (
                writes
                if step.kind in ("write", "truncate")
                else changes
                if not step.kind.startswith("sync")
                else []
            ).append(step)
        share = rng.choice((0.0, 0.5, 1.0))
        for write in writes:
            _flush_in_part(write, rng, share, files)
        for change in changes:
            if rng.random() < share:
                _rename(change, names)
        _lay_out(root, names, files)


def _flush(writes: list[Step], file: int, files: dict[int, bytearray]) -> list[Step]:
    for write in writes:
        if write.file == file and not write.forgotten:
            _apply(write, files)
    return [write for write in writes if write.file != file]


def _apply(write: Step, files: dict[int, bytearray]) -> None:
    content = files.setdefault(write.file, bytearray())
    if write.kind == "truncate":
        del content[write.offset :]
    else:
        content.extend(bytes(max(0, write.offset - len(content))))
        content[write.offset : write.offset + len(write.data)] = write.data


def _flush_in_part(
    write: Step, rng: random.Random, share: float, files: dict[int, bytearray]
) -> None:
    """Keep any pieces of a write: missing ones read as zeros, or end the file."""
    if write.kind == "truncate":
        if rng.random() < share:
            _apply(write, files)
        return
    piece = rng.choice((1, 16, 64, 512, len(write.data) + 1))
    for start in range(0, len(write.data), piece):
        if rng.random() < share:
            part = Step(
                "write",
                write.file,
                offset=write.offset + start,
                data=write.data[start : start + piece],
            )
            _apply(part, files)


def _rename(change: Step, names: dict[str, int]) -> None:
    if change.kind == "folder":
        names[change.name] = -1
    elif change.kind == "link":
        names[change.name] = change.file
    elif names.get(change.name) == change.file:
        del names[change.name]
        if change.kind == "rename":
            names[change.other] = change.file


def _lay_out(root: Path, names: dict[str, int], files: dict[int, bytearray]) -> None:
    for name, file in sorted(names.items()):
        path = root / name
        if path.parent.is_dir():  # else its folder is lost, and all in it
            if file < 0:
                path.mkdir()
            else:
                path.write_bytes(files.get(file, b""))
