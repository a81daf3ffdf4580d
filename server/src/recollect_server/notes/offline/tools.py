"""The tools that were called, as a summary names them: a list that ends it, which the next summary
goes on with.
"""

import re
from collections import Counter
from collections.abc import Sequence

from recollect_server.kernel.domain.message import Message, estimate_tokens
from recollect_server.notes.notes import clipped

LIST = "Tools called:"
"""Prefix of the list."""
_MOST = 12  # tools in it
_CALLED = re.compile(r"(\S+)(?: \((\d{1,9}) times\))?")


def called_in(messages: Sequence[Message]) -> Counter[str]:
    return Counter(call.name for message in messages for call in message.tool_calls)


def listed(tools: Counter[str], most: int) -> str:
    """Return the list, most-called tools first, at most a fifth of a summary of so many tokens;
    empty for no tools.
    """
    shown = ", ".join(
        name if count == 1 else f"{name} ({count} times)"
        for name, count in tools.most_common(_MOST)
    )
    return clipped(f"{LIST} {shown}.", most // 5) if tools else ""


def parted(summary: str) -> tuple[str, Counter[str]]:
    """Split a summary into its text and the list that ends it: the calls of each tool."""
    text, mark, names = summary.rpartition(LIST)
    whole, cut, _ = names.strip().removesuffix(".").partition("…")
    items = whole.split(", ")[: -1 if cut else None]
    called = [_CALLED.fullmatch(item) for item in items]
    if not mark or not all(called):
        return summary, Counter()
    tools: Counter[str] = Counter()
    for match in called:
        if match:
            tools[match[1]] += int(match[2] or 1)
    return text.strip(), tools


def with_tools(summary: str, tools: Counter[str], most: int) -> str:
    """Append to a freely written summary a list of those tools that it does not name; both have at
    most `most` tokens.
    """
    unnamed = {
        name: n
        for name, n in tools.items()
        if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", summary)
    }
    used = listed(Counter(unnamed), most)
    return f"{clipped(summary, most - estimate_tokens(used) - 1)} {used}" if used else summary
