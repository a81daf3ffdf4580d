"""Reads JSON of any size item by item: a list's elements, or the one value that a file holds."""

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from recollect.cli.transcript import Damaged

_CHUNK = 1 << 20
"""Bytes of one read."""
MAX_ITEM = 128 << 20
"""Characters of one item. The memory of an import is bounded by it, not by the file."""
_NEAR_END = 64
"""Characters before the end of what is read in which an error may come from what is not yet."""
_SPACE = re.compile(r"[\s,]*")
_MEMBER = re.compile(r'\{\s*"[^"\\]*"')
_DECODER = json.JSONDecoder()

Item = tuple[int, Any]
"""The number of an item, from 1, and its value, or a Damaged that says what is wrong."""


def items(file: BinaryIO, is_item: Callable[[Any], bool]) -> Iterator[Item]:
    """Yield the items of a file. Raises OSError.

    Behind a damaged one the next is looked for: an object that begins with the same member as the
    first item and that `is_item` accepts.
    """
    return _Reader(file, is_item).items()


class _Reader:
    def __init__(self, file: BinaryIO, is_item: Callable[[Any], bool]) -> None:
        self._file = file
        self._is_item = is_item
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._text = ""
        self._at = 0
        self._is_whole = False  # the file is read to its end
        self._first = ""  # the first member's name, with its brace: how an item begins

    def items(self) -> Iterator[Item]:
        """Yield the items."""
        self._skip_space()
        is_list = self._text.startswith("[", self._at)
        self._at += is_list
        number = 0
        while self._has_item(is_list):
            number += 1
            if not self._first and (member := _MEMBER.match(self._text, self._at)):
                self._first = member[0]
            try:
                yield number, self._item()
            except Damaged as error:
                yield number, error
                if (value := self._next_item()) is None:
                    return
                number += 1
                yield number, value
            if not is_list:
                return

    def _has_item(self, is_list: bool) -> bool:
        """Go to the next item. Return whether there is one."""
        self._skip_space()
        return self._at < len(self._text) and not (is_list and self._text[self._at] == "]")

    def _item(self) -> Any:
        """Return the item that begins here. Raises Damaged."""
        while True:
            try:
                value, self._at = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos >= (
                    len(self._text) - _NEAR_END
                )
                if self._is_whole or not is_cut:
                    reason = f"no JSON: {error.msg}"
                    raise Damaged("it is cut off" if is_cut else reason) from None
                if len(self._text) - self._at > MAX_ITEM:
                    raise Damaged(f"it has more than {MAX_ITEM >> 20} million characters") from None
                # As much again as is read of it: a large item is decoded a few times only.
                self._read(max(_CHUNK, len(self._text) - self._at))
            except RecursionError:
                raise Damaged("it is nested too deep") from None
            except ValueError as error:  # a number of more digits than Python takes
                raise Damaged(f"no JSON: {error}") from None
            else:
                return value

    def _next_item(self) -> Any:
        """Return the next item behind a damaged one, None where there is none."""
        self._at += 1
        while self._first:
            while (start := self._text.find(self._first, self._at)) >= 0:
                self._at = start
                try:
                    value = self._item()
                except Damaged:
                    self._at += 1
                    continue
                if self._is_item(value):
                    return value
            if self._is_whole:
                break
            self._at = max(self._at, len(self._text) - len(self._first))
            self._read(_CHUNK)
        return None

    def _skip_space(self) -> None:
        while True:
            match = _SPACE.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text) or self._is_whole:
                return
            self._read(_CHUNK)

    def _read(self, size: int) -> None:
        data = self._file.read(size)
        self._is_whole = not data
        more = self._decode.decode(data, final=self._is_whole)
        self._text, self._at = self._text[self._at :] + more, 0
