"""The form of a format in their table, and the reader of most: a list of conversations."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from recollect.imports.plans import Plan, Skip
from recollect.imports.reading import Reading, ignore
from recollect.imports.transcript import Damaged
from recollect.imports.values import passed_over


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of the caller of an import."""

    channel: str = "web"
    """The channel of a recall set's conversations, which a set does not name."""
    groups: frozenset[str] = frozenset()
    """Groups of recall sets to import. Empty means all."""
    abbreviations: bool = False
    """Record a recall set's abbreviations as the conversations' notes."""
    owner: str = ""
    """The name of the owner among the people of a chat."""
    advance: Callable[[int], None] = ignore
    """Is called with the number of bytes that were read, for the progress bar."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files: how it is recognised and read."""

    name: str
    """The value of `--format`, and the channel of its conversations."""
    title: str
    """The product's name for people."""
    read: Callable[[Reading, Options], Iterator[Plan | Skip]]
    is_item: Callable[[Any], bool] | None = None
    """Return whether a JSON value of a file is one of the format."""
    is_head: Callable[[bytes], bool] | None = None
    """Return whether a file that begins with these bytes has the format."""
    refusal: Callable[[Any], str] | None = None
    """Return why a JSON value that looks like one of the format is none, else an empty text."""


def conversations(
    name: str,
    title: str,
    is_item: Callable[[Any], bool],
    plan: Callable[[Any, str], Plan | Skip],
) -> Format:
    """Return the format of files of which each JSON value is a conversation."""

    def read(reading: Reading, _: Options) -> Iterator[Plan | Skip]:
        for where, item in reading.items(is_item):
            yield plan_of(item, plan, where.replace(" item ", " conversation "))

    return Format(name, title, read, is_item)


def plan_of(item: Any, plan: Callable[[Any, str], Plan | Skip], where: str) -> Plan | Skip:
    """Return the plan of a JSON value, or a Skip that names its damage."""
    try:
        if isinstance(item, Damaged):
            raise item
        return plan(item, where)
    except RecursionError:
        reason = "it is nested too deep"
    except Damaged as error:
        reason = str(error)
    reason = "; ".join((reason, *(f"{what}: {short}" for what, short in passed_over())))
    title = item.get("title") or item.get("name") if isinstance(item, dict) else ""
    is_shown = isinstance(title, str) and title
    return Skip(f"{where} ({title})" if is_shown else where, reason)
