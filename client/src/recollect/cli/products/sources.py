"""Finds the exports of other products: by their shape, in files, zip archives and folders."""

import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from recollect.cli.options import open_regular
from recollect.cli.plans import Plan, Skip
from recollect.cli.products import chatgpt, claude, gemini
from recollect.cli.products.items import items
from recollect.cli.transcript import Damaged

FORMATS = (chatgpt.NAME, claude.NAME, gemini.NAME)
_HEAD = 1 << 16
"""Bytes of a file that tell whether it may be an export."""
_MAX_FILES = 100_000
_SUFFIXES = {".json", ".html", ".htm", ""}
_MARKS = re.compile(rb'"(?:mapping|chat_messages|chunkedPrompt|runSettings)"\s*:')
_ARCHIVE = b"PK\x03\x04"
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)
"""Errors of archives that are damaged, encrypted, or compressed in a way that Python does not know.
"""

Reader = Callable[[BinaryIO, str], Iterator[Plan | Skip]]


@dataclass(frozen=True, slots=True)
class Export:
    """A file of an export, or one within an archive."""

    path: Path
    member: str = ""
    """Its name within the archive. Empty where the path is the file."""
    format: str = ""
    """The product that the caller names; empty: recognised by its shape."""

    @property
    def name(self) -> str:
        """The name to show."""
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    def read(self) -> Iterator[Plan | Skip]:
        """Yield the conversations. Raises OSError."""
        try:
            if not self.member:
                with open(self.path, "rb", opener=open_regular) as file:
                    yield from _read(file, self.name, self.format)
                return
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
                yield from _read(file, self.name, self.format)  # type: ignore[arg-type]
        except _DAMAGE as error:
            yield self._damaged(error)
        except OSError as error:
            if error.errno is not None:
                raise
            yield self._damaged(error)  # data of bzip2

    def _damaged(self, error: Exception) -> Skip:
        return Skip(f"the rest of {self.name}", f"the archive is damaged: {error}")


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip archive. Raises OSError."""
    if path.is_dir():
        return False
    with open(path, "rb", opener=open_regular) as file:
        return file.read(len(_ARCHIVE)) == _ARCHIVE


def find(path: Path, named: str = "") -> list[Export]:
    """Return the exports at a path. Raises OSError."""
    if path.is_dir():
        return _in_folder(path, named)
    with open(path, "rb", opener=open_regular) as file:
        head = file.read(_HEAD)
    if head.startswith(_ARCHIVE):
        return _in_archive(path, named)
    return [Export(path, format=named)] if named or _may_be(head) else []


def _in_folder(folder: Path, named: str) -> list[Export]:
    exports: list[Export] = []
    for count, path in enumerate(sorted(folder.rglob("*"))):
        if count == _MAX_FILES:
            break
        if path.suffix.lower() in {*_SUFFIXES, ".zip"} and path.is_file():
            with open(path, "rb", opener=open_regular) as file:
                head = file.read(_HEAD)
            if head.startswith(_ARCHIVE):
                exports += _in_archive(path, named)
            elif _may_be(head):
                with open(path, "rb", opener=open_regular) as file:
                    if _reader_of(file) is not None:
                        exports.append(Export(path, format=named))
    return exports


def _in_archive(path: Path, named: str) -> list[Export]:
    """Return the exports within an archive, damaged ones too: reading them names the damage."""
    exports = []
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist()[:_MAX_FILES]:
                name = PurePosixPath(info.filename)
                is_file = not info.is_dir() and "__MACOSX" not in name.parts
                if is_file and name.suffix.lower() in _SUFFIXES and _is_in(archive, info):
                    exports.append(Export(path, info.filename, named))
    except zipfile.BadZipFile:
        return [Export(path, "*", named)]
    return exports


def _is_in(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bool:
    """Return whether a file of an archive is an export, or too damaged to tell."""
    try:
        with archive.open(info) as file:
            if not _may_be(file.read(_HEAD)):
                return False
        with archive.open(info) as file:
            return _reader_of(file) is not None  # type: ignore[arg-type]
    except (*_DAMAGE, OSError):  # data of bzip2 that is damaged is an OSError
        return info.filename.endswith(".json")


def _may_be(head: bytes) -> bool:
    """Return whether a file's beginning is that of an export."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        return text[1:].lstrip().startswith(b"{")
    if text.startswith(b"<"):
        return b"mdl-typography--title" in text or b"outer-cell" in text
    return text.startswith(b"{") and _MARKS.search(text) is not None


def _reader_of(file: BinaryIO) -> Reader | None:
    head = file.read(1)
    while head.isspace() or head in {b"\xef", b"\xbb", b"\xbf"}:
        head = file.read(1)
    if head == b"<":
        return gemini.page
    for _, item in items(_Ahead(head, file), _is_item):  # type: ignore[arg-type]
        if _is_item(item):
            return _READERS[_product_of(item)]
        if not isinstance(item, Damaged):
            return None
    return None


class _Ahead:
    """A file of which the beginning was read already."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head, self._file = head, file

    def read(self, size: int) -> bytes:
        head, self._head = self._head, b""
        return head or self._file.read(size)


def _is_item(value: Any) -> bool:
    return bool(_product_of(value))


def _product_of(value: Any) -> str:
    """Return which reader takes an item, an empty text for none."""
    for name, is_one in _SHAPES.items():
        if is_one(value):
            return name
    return ""


_SHAPES: dict[str, Callable[[Any], bool]] = {
    "chatgpt": chatgpt.is_conversation,
    "claude": claude.is_conversation,
    "studio": gemini.is_studio,
    "activity": gemini.is_activity,
}


def _read(file: BinaryIO, name: str, named: str) -> Iterator[Plan | Skip]:
    """Yield the conversations of a file."""
    reader = {chatgpt.NAME: _chatgpt, claude.NAME: _claude}.get(named)
    if reader is None:
        reader = _reader_of(file)
        file.seek(0)
    if reader is None:
        products = "ChatGPT, Claude or Gemini"
        yield Skip(
            name, f"its shape is none of an export of {products}; --format names the product"
        )
        return
    yield from reader(file, name)


def _plan_of(item: Any, plan: Callable[[Any, str], Plan | Skip], where: str) -> Plan | Skip:
    """Return the plan of an item. Raises Damaged."""
    if isinstance(item, Damaged):
        raise item
    try:
        return plan(item, where)
    except RecursionError:
        raise Damaged("it is nested too deep") from None


def _conversations(
    is_one: Callable[[Any], bool], plan: Callable[[Any, str], Plan | Skip]
) -> Reader:
    """Return the reader of a list of conversations. A damaged one is named; the others come."""

    def read(file: BinaryIO, name: str) -> Iterator[Plan | Skip]:
        for number, item in items(file, is_one):
            where = f"{name} conversation {number}"
            try:
                yield _plan_of(item, plan, where)
            except Damaged as error:
                title = item.get("title") or item.get("name") if isinstance(item, dict) else ""
                yield Skip(
                    f"{where} ({title})" if isinstance(title, str) and title else where, str(error)
                )

    return read


_chatgpt = _conversations(chatgpt.is_conversation, chatgpt.plan)
_claude = _conversations(claude.is_conversation, claude.plan)


def _studio(file: BinaryIO, name: str) -> Iterator[Plan | Skip]:
    for _, item in items(file, gemini.is_studio):
        try:
            yield _plan_of(item, gemini.studio, name.rpartition(":")[2])
        except Damaged as error:
            yield Skip(name, str(error))


_READERS: dict[str, Reader] = {
    "chatgpt": _chatgpt,
    "claude": _claude,
    "studio": _studio,
    "activity": gemini.activity,
}
