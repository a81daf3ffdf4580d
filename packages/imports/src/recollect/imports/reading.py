"""Reads sources of an import in bounded memory: bytes, lines, text, and JSON values one by one."""

import codecs
import errno
import json
import os
import re
import sqlite3
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from recollect.imports.plans import Skip
from recollect.imports.transcript import Damaged
from recollect.imports.values import counted

_CHUNK = 1 << 20
"""Bytes of one read."""
MAX_ITEM = 64 << 20
"""Characters of one line or JSON value. The memory of an import is bounded by it."""
_WINDOW = 1 << 12
"""Characters of a JSON value that are decoded at first."""
_MAX_DEEP = 1000
"""Values of a list that are nested too deep, behind which no other is looked for."""
_NEAR_END = 64
"""Characters before the end of what is read in which an error may come from what is not yet."""
_SPACE = re.compile(r"[\s,]*")
_MEMBER = re.compile(r'\{\s*"[^"\\]*"')
_DECODER = json.JSONDecoder()
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The first bytes of a file that a shell of Windows wrote, as in `recollect export > FILE`."""
_ESCAPED = re.compile("[\udc00-\udcff]")
_WINDOWS = {
    0xDC00 + byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(0x100)
}
_WINDOWS[0xDC00] = ""  # half of UTF-16's characters, of which JSON takes none
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""Errors of archives that are damaged, encrypted, or not to be unpacked."""
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""Compressions of which Python unpacks a part at a time: 500 bytes of bzip2 make a gigabyte.
"""
_MOST_PACKED = 50
"""An archive may unpack to so many times its size: text takes a twentieth of its room at the least.
"""
_FREE = 1 << 20
"""Bytes to which any archive may unpack."""


class Refused(zipfile.BadZipFile):
    """An archive that may be whole, and could cost far more than its size to read."""


def reason_of(error: Exception) -> str:
    """Return why an archive cannot be read, by one of DAMAGE."""
    return str(error) if isinstance(error, Refused) else f"the archive is damaged: {error}"


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Escape each byte that cannot be decoded, as `surrogateescape` does for UTF-8 alone."""
    assert isinstance(error, UnicodeDecodeError)
    return "".join(chr(0xDC00 + it) for it in error.object[error.start : error.end]), error.end


_ESCAPE = "recollect.escape"
codecs.register_error(_ESCAPE, _escape)


def ignore(size: int) -> None:
    """Take the number of bytes that were read where nobody counts them."""
    del size


Item = tuple[str, Any]
"""The place of a JSON value in its file, and the value or a Damaged that says what is wrong."""


def open_regular(path: str, flags: int) -> int:
    """Open a regular file, for `open`. Raises OSError for any other, also for a pipe without a
    writer.
    """
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a pipe would be waited for
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file; a pipe is read as `-`", path)
    return handle


@lru_cache(maxsize=1)
def archive_of(path: Path, stamp: tuple[int, int]) -> zipfile.ZipFile:
    """Return an open archive. The newest one stays open: its table has all its files, and each of
    them asks for it. Raises OSError and any of DAMAGE.
    """
    archive = zipfile.ZipFile(path)
    # no more than the table says of a file is unpacked of it
    unpacked = sum(it.file_size for it in archive.infolist())
    if unpacked > _FREE + _MOST_PACKED * stamp[0]:
        raise Refused(
            f"the archive unpacks to {unpacked / 1_000_000:,.1f} MB, more than {_MOST_PACKED} times"
            " its size: unpack it first"
        )
    return archive


@dataclass(frozen=True, slots=True)
class Source:
    """A file, a file within an archive, or a stream such as standard input."""

    path: Path | BinaryIO
    member: str = ""
    """Its name within the archive. Empty where the path is the file."""

    @property
    def name(self) -> str:
        """The name to show."""
        if not isinstance(self.path, Path):
            return self.path.name
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    @property
    def size(self) -> int:
        """Its bytes; 0 where only reading it would tell."""
        try:
            if not isinstance(self.path, Path):
                return 0
            if not self.member:
                return self.path.stat().st_size
            return archive_of(self.path, self.stamp).getinfo(self.member).file_size
        except (*DAMAGE, OSError, KeyError):
            return 0

    @property
    def stamp(self) -> tuple[int, int]:
        """Its size and the time of its last change, which tell one state of a file from others."""
        if not isinstance(self.path, Path):
            return 0, 0
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns

    def beside(self, name: str) -> "Source | None":
        """Return a file by its name from the folder of this one, None where there is none."""
        if not isinstance(self.path, Path):
            return None
        is_inside = bool(self.member)
        folder = PurePosixPath(self.member).parent if is_inside else self.path.resolve().parent
        for part in name.split("/"):
            folder = folder.parent if part == ".." else folder / part
        it = Source(self.path, str(folder)) if is_inside else Source(Path(folder))
        try:
            return it if it.size else None
        except OSError:
            return None

    @contextmanager
    def open(self, advance: Callable[[int], None] = ignore) -> Iterator["Reading"]:
        """Open the source. Raises OSError, and while it is read any of DAMAGE."""
        if not isinstance(self.path, Path):
            yield Reading(self.path, self.name, advance=advance)
        elif self.member:
            archive = archive_of(self.path, self.stamp)
            if archive.getinfo(self.member).compress_type not in _METHODS:
                raise Refused("it is packed by another method than deflate: unpack it first")
            with archive.open(self.member) as file:
                yield Reading(cast(BinaryIO, file), self.name, advance=advance, source=self)
        else:
            with open(self.path, "rb", opener=open_regular) as file:
                yield Reading(file, self.name, self.path, advance=advance, source=self)


class Reading:
    """An open source."""

    def __init__(
        self,
        file: BinaryIO,
        name: str,
        path: Path | None = None,
        *,
        max_item: int = MAX_ITEM,
        advance: Callable[[int], None] = ignore,
        source: Source | None = None,
    ) -> None:
        self.name = name
        self.source = source
        """None for a stream."""
        self.path = path
        """The file on disk, None for another source. A database is opened by it."""
        self._file = file
        self._max_item = max_item
        self._advance = advance
        self._guessed = 0  # bytes that are no UTF-8

    def head(self, size: int) -> bytes:
        """Return the beginning, which is not read again."""
        return self._file.read(size)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield each line with its number. One that is too long is passed over in parts, and
        yielded as its beginning alone, which `check_line` refuses.
        """
        number = 0
        while line := self._file.readline(self._max_item + 1):
            number += 1
            self._advance(len(line))
            if len(line) > self._max_item and not line.endswith(b"\n"):
                part = line
                while part and not part.endswith(b"\n"):
                    part = self._file.readline(_CHUNK)
                    self._advance(len(part))
            yield number, line

    def check_line(self, line: bytes) -> None:
        """Refuse a line that is too long. Raises Damaged."""
        if len(line) > self._max_item:
            raise self._too_long()

    def text_lines(self) -> Iterator[tuple[int, str | Damaged]]:
        """Yield the text of each line, without its end, and its number."""
        for number, line in self.lines():
            if len(line) > self._max_item:
                yield number, self._too_long()
                continue
            text = line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape")
            yield number, self._without_escapes(text).rstrip("\r\n")

    def text(self) -> Iterator[str]:
        """Yield the text in parts."""
        data = self._file.read(_CHUNK)
        is_wide = data.startswith(UTF_16)
        name, errors = ("utf-16", _ESCAPE) if is_wide else ("utf-8-sig", "surrogateescape")
        decoder = codecs.getincrementaldecoder(name)(errors)
        while data:
            self._advance(len(data))
            yield self._without_escapes(decoder.decode(data))
            data = self._file.read(_CHUNK)
        yield self._without_escapes(decoder.decode(b"", final=True))

    def items(self, is_item: Callable[[Any], bool]) -> Iterator[Item]:
        """Yield the JSON values: the elements of a list, the values of lines, or the only value.

        Behind a damaged one the next is looked for: in a list an object that `is_item` accepts,
        else the next line.
        """
        return _Items(self.text(), self.name, is_item, self._max_item).items()

    def guesses(self) -> Iterator[Skip]:
        """Yield what had to be guessed of the bytes that were read."""
        if self._guessed:
            what = "is" if self._guessed == 1 else "are"
            reason = f"{counted(self._guessed, 'byte')} {what} no UTF-8"
            yield Skip(self.name, f"{reason}: they are read as Windows-1252", is_lost=False)

    def _without_escapes(self, text: str) -> str:
        if text.isascii() or not (count := len(_ESCAPED.findall(text))):
            return text
        self._guessed += count
        return text.translate(_WINDOWS)

    def _too_long(self) -> Damaged:
        return Damaged(f"it has more than {self._max_item >> 20} million characters")


class Spool:
    """JSON values by key, on disk: what of an export belongs together may lie far apart in it.

    It raises OSError where the disk takes no more.
    """

    def __init__(self) -> None:
        self._rows = sqlite3.connect("", isolation_level=None)  # a temporary file of SQLite's
        self._rows.executescript(
            "PRAGMA journal_mode = OFF; CREATE TABLE items (key TEXT, item TEXT);"
            "CREATE INDEX by_key ON items (key)"
        )

    def add(self, key: str, place: str, value: Any) -> None:
        """Keep a value behind those of its key."""
        # as JSON all of it: names of files and ids may have halves of surrogate pairs
        row = json.dumps(key), json.dumps((place, value))
        try:
            self._rows.execute("INSERT INTO items VALUES (?, ?)", row)
        except sqlite3.Error as error:
            reason = f"the folder of temporary files takes no more ({error})"
            raise OSError(errno.ENOSPC, reason) from error

    def groups(self) -> Iterator[tuple[str, list[Item]]]:
        """Yield each key with its places and values, in the order in which keys came first. The
        spool is closed behind the last one.
        """
        keys = "SELECT key FROM items GROUP BY key ORDER BY min(rowid)"
        of_key = "SELECT item FROM items WHERE key = ? ORDER BY rowid"
        for (key,) in self._rows.execute(keys):
            rows = self._rows.execute(of_key, (key,))
            yield json.loads(key), [tuple(json.loads(item)) for (item,) in rows]
        self._rows.close()


class _Items:
    """Decodes JSON values from the parts of a text."""

    def __init__(
        self, parts: Iterator[str], name: str, is_item: Callable[[Any], bool], max_item: int
    ) -> None:
        self._parts = parts
        self._name = name
        self._is_item = is_item
        self._max_item = max_item
        self._text = ""
        self._at = 0
        self._line = 1
        self._is_whole = False  # the source is read to its end
        self._is_list = False
        self._deep = 0  # values that are nested too deep
        self._first = ""  # the first member's name, with its brace: how an item begins

    def items(self) -> Iterator[Item]:
        self._skip_space()
        self._is_list = self._text.startswith("[", self._at)
        self._move(self._at + self._is_list)
        number, has_good = 0, False
        while self._has_item():
            number += 1
            if not self._first and (member := _MEMBER.match(self._text, self._at)):
                self._first = member[0]
            where = self._where(number)
            try:
                value = self._item()
                has_good = True
                yield where, value
            except Damaged as error:
                yield where, error
                if has_good and not self._is_list:
                    self._to_next_line()  # each line that is damaged is named
                    continue
                if (value := self._next_item()) is None:
                    return
                number, has_good = number + 1, True
                yield self._where(number), value
        if self._is_list:
            yield self._where(number + 1), Damaged("the list is cut off")

    def _to_next_line(self) -> None:
        while (end := self._text.find("\n", self._at)) < 0 and not self._is_whole:
            self._move(len(self._text))
            self._read(_CHUNK)
        self._move(end + 1 if end >= 0 else len(self._text))

    def _where(self, number: int) -> str:
        return f"{self._name} item {number}" if self._is_list else f"{self._name}:{self._line}"

    def _has_item(self) -> bool:
        """Go to the next item. Return whether there is one. Behind a list come lines."""
        self._skip_space()
        if self._is_list and self._text.startswith("]", self._at):
            self._move(self._at + 1)
            self._is_list = False
            self._skip_space()
        return self._at < len(self._text)

    def _item(self) -> Any:
        """Return the item that begins here. Raises Damaged.

        An error takes time with the length of what is decoded: that is a part of what is read,
        twice as long each time in which it proves too short.
        """
        size = _WINDOW
        while True:
            window = self._text[self._at : self._at + size]
            has_rest = self._at + size < len(self._text)
            is_end = self._is_whole and not has_rest
            try:
                value, end = _DECODER.raw_decode(window)
            except json.JSONDecodeError as error:
                near = 0 if is_end else _NEAR_END
                is_cut = error.msg.startswith("Unterminated") or error.pos >= (
                    len(window.rstrip()) - near
                )
                if is_end or not is_cut:
                    reason = f"no JSON: {error.msg}"
                    raise Damaged("it is cut off" if is_cut else reason) from None
            except RecursionError:
                self._deep += 1
                raise Damaged("it is nested too deep") from None
            except ValueError as error:  # a number of more digits than Python takes
                raise Damaged(f"no JSON: {error}") from None
            else:
                if is_end or end < len(window):  # else it may be a number that goes on
                    self._move(self._at + end)
                    return value
            if not has_rest:
                length = len(self._text) - self._at
                if length > self._max_item:
                    most = self._max_item >> 20
                    raise Damaged(f"it has more than {most} million characters")
                # As much again as is read of it: a large item is decoded a few times only.
                self._read(min(max(_CHUNK, length), self._max_item + 1 - length))
            size *= 2

    def _next_item(self) -> Any:
        """Return the next item behind a damaged one, None where there is none."""
        while True:
            self._at += 1  # no line ends where an item begins
            while self._deep <= _MAX_DEEP and (start := self._start()) >= 0:
                self._move(start)
                try:
                    value = self._item()
                except Damaged:
                    self._at += 1
                    continue
                if self._is_item(value) or (not self._is_list and isinstance(value, dict)):
                    return value
            if self._is_whole or self._deep > _MAX_DEEP:
                return None
            self._move(max(self._at, len(self._text) - _NEAR_END))
            self._read(_CHUNK)

    def _start(self) -> int:
        """Return where an item may begin, -1 for nowhere in what is read."""
        if not self._is_list:
            end = self._text.find("\n", self._at)
            return end + 1 if 0 <= end < len(self._text) - 1 else -1
        if self._first:
            return self._text.find(self._first, self._at)
        match = _MEMBER.search(self._text, self._at)
        return match.start() if match else -1

    def _skip_space(self) -> None:
        while True:
            match = _SPACE.match(self._text, self._at)
            assert match is not None
            self._move(match.end())
            if self._at < len(self._text) or self._is_whole:
                return
            self._read(_CHUNK)

    def _move(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end

    def _read(self, size: int) -> None:
        """Read about so many characters more, at least one part."""
        parts = [self._text[self._at :]]
        while size > 0:
            part = next(self._parts, None)
            if part is None:
                self._is_whole = True
                break
            parts.append(part)
            size -= len(part)
        self._text, self._at = "".join(parts), 0
