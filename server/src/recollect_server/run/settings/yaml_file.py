"""A YAML file of one mapping, in which single values are changed: everything else of it, comments
and order included, stays as a person wrote it.

The file is replaced as a whole: a crash leaves the old one or the new one.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import yaml

from recollect_server.kernel.domain.setting import CannotEdit
from recollect_server.kernel.failpoints import hit, hit_half_way
from recollect_server.kernel.log.files import sync_folder

NEW = ".new"
"""Behind the name of the file that is about to replace another one."""


def with_value(text: str, key: str, value: str | float | bool) -> str:
    """Return the text of a file with a value of its mapping changed, or added at its end. Raises
    CannotEdit.
    """
    written = _scalar(value)
    nodes = list(_entries(text, key))
    if not nodes:
        end = "\r\n" if "\r\n" in text else "\n"
        start = text if not text or text.endswith("\n") else text + end
        return f"{start}{key}: {written}{end}"
    _, node = nodes[-1]
    begin, end_of = node.start_mark.index, _end(text, node)
    space = "" if text[begin - 1 : begin] in (" ", "\n", "\t") else " "
    return f"{text[:begin]}{space}{written}{text[end_of:]}"


def without(text: str, key: str) -> str:
    """Return the text of a file without the lines of a value. Raises CannotEdit."""
    for name, node in reversed(list(_entries(text, key))):
        begin = text.rfind("\n", 0, name.start_mark.index) + 1
        end = text.find("\n", _end(text, node))
        text = text[:begin] + (text[end + 1 :] if end >= 0 else "")
    return text


def read(path: Path) -> str:
    """Return the text of a file; empty if there is none. Raises OSError, CannotEdit."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise CannotEdit("it is not in UTF-8") from None


def write_beside(path: Path, text: str) -> Path:
    """Write the text that is to replace a file, durably, and return the path of the new file.
    Raises OSError; then no part of it is left.
    """
    target = path.resolve()
    new = target.with_name(target.name + NEW)
    with suppress(FileNotFoundError):
        new.unlink()
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            with suppress(FileNotFoundError):
                os.fchmod(handle, stat.S_IMODE(target.stat().st_mode))
            data = text.encode()
            hit_half_way("settings.half_written", data, partial(os.write, handle))
            file.write(data)  # all of it, though the disk takes it in parts
            file.flush()
            os.fsync(handle)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return new


def replace(path: Path, new: Path) -> None:
    """Let the new file take the place of the old one, durably. Raises OSError."""
    target = path.resolve()
    hit("settings.written")
    new.replace(target)
    hit("settings.replaced")
    sync_folder(target.parent)


def _entries(text: str, key: str) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Yield the nodes of the name and the value of each entry with a name."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise CannotEdit("it is not one name and its value in each line")
    for name, value in root.value:
        if isinstance(name, yaml.ScalarNode) and name.value == key:
            yield name, value


def _end(text: str, node: yaml.Node) -> int:
    """Return where a value ends: behind its last character, before white space and comments."""
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return _end(text, node.value[-1])
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return _end(text, node.value[-1][1])
    begin, end = node.start_mark.index, node.end_mark.index
    return int(begin + len(text[begin:end].rstrip()))


def _scalar(value: str | float | bool) -> str:
    """Return a value as it stands in one line."""
    if isinstance(value, str):
        written = yaml.safe_dump(value, width=1 << 30, allow_unicode=True)
        return written.removesuffix("\n...\n").strip("\n")  # other white space is the value's
    return str(value).lower() if isinstance(value, bool) else repr(value)
