"""Finds the sources of an import in files, zip archives and folders."""

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from recollect.imports import table
from recollect.imports.forms import Format
from recollect.imports.reading import DAMAGE, Source, archive_of, open_regular, reason_of
from recollect.imports.table import Input, Unknown

_SUFFIXES = {".json", ".jsonl", ".html", ".htm", ".txt", ".mbox", ".db", ".md", ".history", ""}
_ARCHIVE = b"PK\x03\x04"


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip archive. Raises OSError."""
    with open(path, "rb", opener=open_regular) as file:
        return file.read(len(_ARCHIVE)) == _ARCHIVE


def find(path: Path, named: str = "") -> list[Input]:
    """Return the inputs at a path. Raises OSError.

    Within a folder or an archive only what is recognised is one, or what is damaged; if nothing is,
    and the caller names the format, then all that it could be.
    """
    formats = table.of_name(named)
    if not path.is_dir() and not is_archive(path):
        return [_input(Source(path), formats, is_named=bool(named))]
    sources = list(_in_folder(path) if path.is_dir() else _in_archive(path))
    inputs = list(_recognised(sources, formats))
    if not named or any(it.format for it in inputs):
        return inputs
    return [_input(it, formats, is_named=True) for it in sources]


def _input(source: Source, formats: Sequence[Format], *, is_named: bool) -> Input:
    try:
        return Input(source, table.recognise(source, formats))
    except Unknown as error:
        if is_named and len(formats) == 1:
            return Input(source, formats[0])
        titles = ", ".join(dict.fromkeys(it.title for it in formats))
        hint = "" if is_named else "; --format names the product"
        return Input(source, None, f"{error}; known are {titles}{hint}")
    except DAMAGE as error:
        return Input(source, None, reason_of(error))


def _recognised(sources: Iterable[Source], formats: Sequence[Format]) -> Iterator[Input]:
    for source in sources:
        try:
            yield Input(source, table.recognise(source, formats))
        except Unknown as error:
            if error.is_damaged:
                yield Input(source, None, str(error))
        except DAMAGE as error:
            if source.member.endswith((".json", "*")):
                yield Input(source, None, reason_of(error))


def _in_folder(folder: Path) -> Iterator[Source]:
    """Yield the files in a folder, and in the archives there, that may be an export."""
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in {*_SUFFIXES, ".zip"} and path.is_file():
            if is_archive(path):
                yield from _in_archive(path)
            else:
                yield Source(path)


def _in_archive(path: Path) -> Iterator[Source]:
    """Yield the files of an archive that may be an export."""
    try:
        infos = archive_of(path, Source(path).stamp).infolist()
    except zipfile.BadZipFile:
        infos = [zipfile.ZipInfo("*")]  # reading it names the damage
    for info in infos:
        name = PurePosixPath(info.filename)
        is_file = not info.is_dir() and "__MACOSX" not in name.parts
        if is_file and name.suffix.lower() in _SUFFIXES:
            yield Source(path, info.filename)
