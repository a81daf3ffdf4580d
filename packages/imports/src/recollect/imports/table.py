"""The table of formats, and how a source is recognised: by all that is in it.

Other distributions add formats of their own by entry points of the group `recollect.imports`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import PurePath
from typing import Any, TypeVar

from recollect.imports import (
    aider,
    chat_messages,
    chatgpt,
    claude,
    claude_code,
    codex,
    discord,
    gemini,
    gemini_cli,
    librechat,
    llm,
    mail,
    open_webui,
    plans,
    recall_sets,
    signal_chats,
    slack,
    telegram,
    transcripts,
    whatsapp,
)
from recollect.imports.forms import Format, Options
from recollect.imports.plans import Plan, Repeated, Skip, note, skips_of
from recollect.imports.reading import DAMAGE, Source, reason_of
from recollect.imports.transcript import Damaged
from recollect.imports.values import apart, passed_over

A = TypeVar("A")
R = TypeVar("R")

TRANSCRIPT = transcripts.FORMAT
RECALL_SET = recall_sets.FORMAT
EXPORTS: tuple[Format, ...] = (
    chatgpt.FORMAT,
    claude.FORMAT,
    gemini.ACTIVITY,
    gemini.PAGE,
    gemini.STUDIO,
    gemini_cli.FORMAT,  # before Claude Code: its prompts have a type and a session, too
    claude_code.FORMAT,
    codex.FORMAT,
    aider.FORMAT,
    open_webui.FORMAT,
    librechat.FORMAT,
    llm.FORMAT,
    whatsapp.FORMAT,
    telegram.FORMAT,
    discord.FORMAT,
    slack.FORMAT,
    signal_chats.BACKUP,
    signal_chats.FOLDER,
    mail.FORMAT,
    chat_messages.FORMAT,  # last: exports of products have messages, too
)
"""The formats of other products that this package reads."""
NAMES = tuple(dict.fromkeys(it.name for it in EXPORTS))
"""The values of `--format` that this package knows."""
GROUP = "recollect.imports"
"""The group of entry points of formats: each leads to a Format."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
_HEAD = 1 << 16
"""Bytes of a file that is no JSON by which it is recognised."""
_SHOWN = 5
"""Members of an unknown JSON object that are named."""


class Unknown(Exception):
    """A source that is of none of the formats, and why."""

    def __init__(self, reason: str, *, is_damaged: bool) -> None:
        """`is_damaged` is true of what should be JSON by its name or beginning, and is not."""
        super().__init__(reason)
        self.is_damaged = is_damaged


@dataclass(frozen=True, slots=True)
class Input:
    """A source, and its format; the reason why it is left out where it has none."""

    source: Source
    format: Format | None
    reason: str = ""

    def read(self, options: Options) -> Iterator[Plan | Skip]:
        """Yield the conversations, and what is left out or guessed. Raises OSError."""
        return apart(self._read(options))

    def _read(self, options: Options) -> Iterator[Plan | Skip]:
        name = self.source.name
        if self.format is None:
            yield Skip(name, self.reason)
            return
        common: Repeated = {}
        try:
            with self.source.open(options.advance) as reading:
                for it in self.format.read(reading, options):
                    if not isinstance(it, Plan | Skip):
                        raise TypeError(f"{it!r:.50} is neither a Plan nor a Skip")
                    if isinstance(it, Plan):
                        for what, (count, first, lost) in it.common.items():
                            place = it.where.removeprefix(name).replace(":", "line ", 1).strip()
                            detail = ": ".join(filter(None, (place, first)))
                            note(common, what, detail, count, is_lost=lost)
                    yield it
                yield from reading.guesses()
            for what, short in passed_over():
                yield Skip(name, f"{what}: {short}")
        except (Damaged, RecursionError) as error:
            reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
            yield Skip(f"the rest of {name}", reason)
        except DAMAGE as error:
            yield Skip(f"the rest of {name}", reason_of(error))
        except OSError:
            raise  # it is the file's or the disk's, not the format's
        except Exception as error:  # noqa: BLE001 - a reader that fails stops no other
            reason = f"the format {self.format.name} failed: {_reason(error)}"
            yield Skip(f"the rest of {name}", reason)
        yield from skips_of(common, name)


@cache
def added() -> tuple[tuple[Format, ...], tuple[str, ...]]:
    """Return the formats that other distributions add, and why others of theirs are left out."""
    formats: dict[str, Format] = {}
    reasons = []
    for it in sorted(entry_points(group=GROUP), key=lambda it: (it.name, it.value)):
        try:
            value = it.load()
            if not isinstance(value, Format):
                raise TypeError(f"{it.value} is no recollect.imports.forms.Format")
            if not isinstance(value.name, str) or not _NAME.fullmatch(value.name):
                raise ValueError(f"{value.name!r:.50} is no name of a channel")
            if value.name in {*NAMES, *formats}:
                raise ValueError(f"there is a format {value.name} already")
            formats[value.name] = _guarded(value)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - code of others raises anything
            distribution = it.dist.name if it.dist else "?"
            reasons.append(f"{it.name} of {distribution}: {_reason(error)}")
    return tuple(formats.values()), tuple(reasons)


def _guarded(own: Format) -> Format:
    """Return a format that recognises nothing where it fails: it may be anybody's code."""
    return replace(
        own,
        is_item=own.is_item and _without_failures(own.is_item, False),
        is_head=own.is_head and _without_failures(own.is_head, False),
        refusal=own.refusal and _without_failures(own.refusal, ""),
    )


def _without_failures(function: Callable[[A], R], default: R) -> Callable[[A], R]:
    """Return the function, with a default result where it fails."""

    def result(value: A) -> R:
        try:
            return function(value)
        except Exception:  # noqa: BLE001 - code of others
            return default

    return result


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def exports() -> tuple[Format, ...]:
    """Return all formats of products, in the order in which a source is compared with them."""
    *first, last = EXPORTS
    return (*first, *added()[0], last)


def of_name(name: str) -> tuple[Format, ...]:
    """Return the formats that `--format` names; all of them for an empty name."""
    if name:
        return tuple(it for it in exports() if it.name == name)
    return (TRANSCRIPT, RECALL_SET, *exports())


def recognise(source: Source, formats: Sequence[Format]) -> Format:
    """Return which of the formats a source has. Raises Unknown, OSError and any of DAMAGE."""
    if PurePath(source.name).match(plans.TRANSCRIPTS) and TRANSCRIPT in formats:
        return TRANSCRIPT
    with source.open() as reading:
        head = reading.head(_HEAD)
    for it in formats:
        if it.is_head and it.is_head(head):
            return it
    if not head.lstrip(b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n").startswith((b"[", b"{")):
        is_damaged = PurePath(source.name).suffix.lower() in {".json", ".jsonl"}
        raise Unknown("it is neither JSON nor any other text that is known", is_damaged=is_damaged)
    return _of_values(source, [it for it in formats if it.is_item])


def _of_values(source: Source, formats: Sequence[Format]) -> Format:
    """Return the format of the first JSON value that has one. Raises Unknown."""
    first: Any = None
    has_value, damage = False, ""

    def is_any(value: Any) -> bool:
        return any(it.is_item and it.is_item(value) for it in formats)

    with source.open() as reading:
        for where, value in reading.items(is_any):
            if isinstance(value, Damaged):
                damage = damage or f"{where}: {value}"
                continue
            for it in formats:
                if it.is_item and it.is_item(value):
                    return it
            if not has_value:
                has_value, first = True, value
    if not has_value:
        raise Unknown(damage or "it is JSON without anything in it", is_damaged=bool(damage))
    reasons = (it.refusal(first) for it in formats if it.refusal)
    shape = next(filter(None, reasons), "") or (
        f"it is JSON of a shape that is not known: {_shape_of(first)}"
    )
    raise Unknown(f"{shape}; {damage}" if damage else shape, is_damaged=bool(damage))


def _shape_of(value: Any) -> str:
    if isinstance(value, dict):
        names = [it if it.isprintable() else ascii(it) for it in list(value)[:_SHOWN]]
        return ", ".join(f"{it:.40}" for it in names) or "an empty object"
    return "a list" if isinstance(value, list) else "a text" if isinstance(value, str) else "values"
