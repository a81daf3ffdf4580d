"""Shortens messages that are too long for a budget: the head and the tail stay, and between them
the passage that fits the message to be answered best. Marks say how much is left out. A code block
that is cut is closed, and opened again.

A tool call and its results are shortened together, and the arguments of a call stay valid JSON.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import orjson

from recollect_server.context import markdown
from recollect_server.context.context import Candidate, Unit, cost
from recollect_server.context.excerpts import Passages
from recollect_server.kernel.domain.message import Message, Role, estimate_tokens
from recollect_server.text.text import sentence_ends

Cost = Callable[[Message], int]
"""Return the tokens that a message takes."""

_LEAST = 80
"""Characters that stay of a text at the least: of fewer nobody learns anything."""
_LEAST_TOKENS = 40
"""Fewer tokens than these are not spent on a part of a tool call or an answer."""
_HEAD = 0.6
"""The head's share of what stays beside a passage."""
_PASSAGE = 0.5
"""The share of what stays that a passage between head and tail has."""
_WORD = 24
"""Characters that a cut may move by, so that it falls between words."""
_SENTENCE, _MOVED = 160, 0.25
"""Characters that a cut may move by, so that it falls between sentences, and their share of the
head or the tail.
"""
_MARK = len("\n… 10 tokens left out …\n")
_REPAIR = 0.25
"""The share of a shortened text that the header of a table may take which is repeated."""


def head_and_tail(text: str, length: int, passages: Passages | None = None) -> str:
    """Return a text of at most about `length` characters: its head and tail, with `… N tokens left
    out …` between them.

    Where the best of the `passages` is in neither, it stands between them.
    """
    if len(text) <= length:
        return text
    parts = _parts(text, length, passages)
    shown = ""
    for at, (start, end) in enumerate(parts):
        opened, closed = markdown.around(text, start, end)
        if at:
            if len(opened) > _REPAIR * length or opened in shown:
                opened = f"{opener}\n" if (opener := markdown.code_at(text, start)) else ""
            left_out = estimate_tokens(text[parts[at - 1][1] : start])
            shown += f"\n… {left_out} tokens left out …\n{opened}"
        is_last = end == len(text)
        shown += text[start:] if is_last else f"{text[start:end]}{closed}"
    return shown


def _parts(text: str, length: int, passages: Passages | None) -> list[tuple[int, int]]:
    """Return the ends of the parts of a text that are shown, in order. Between two of them is more
    than a mark would take.
    """
    parts = [head, tail] = _ends(text, length)
    if passages and (characters := int(_PASSAGE * length)) >= _LEAST:
        first, last = passages.best(characters)
        if head[1] < last and first < tail[0]:
            passage = passages.around(first, last, characters)
            head, tail = _ends(text, length - (passage[1] - passage[0]))
            parts = [head, passage, tail]
    apart = [parts[0]]
    for start, end in parts[1:]:
        if start - apart[-1][1] > _MARK:
            apart.append((start, end))
        else:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
    return apart


def _ends(text: str, length: int) -> list[tuple[int, int]]:
    """Return the ends of the head of a text, and of its tail, of so many characters together."""
    of_head = int(length * _HEAD)
    end = _end(text, of_head)
    start = max(end, _start(text, len(text) - (length - of_head)))
    start += len(text[start:]) - len(text[start:].lstrip("\n "))
    return [(0, len(text[:end].rstrip())), (start, len(text))]


def _end(text: str, limit: int) -> int:
    """Return where the head of a shortened text ends: with a sentence, else with a word."""
    earliest = limit - int(min(_SENTENCE, limit * _MOVED))
    if ends := sentence_ends(text[earliest:limit]):
        limit = earliest + ends[-1]
    elif (space := max(text.rfind(it, limit - _WORD, limit) for it in " \n")) > 0:
        limit = space
    return markdown.ending(text, 0, limit, 0)


def _start(text: str, earliest: int) -> int:
    """Return where the tail of a shortened text begins: with a sentence, else with a word."""
    latest = earliest + int(min(_SENTENCE, (len(text) - earliest) * _MOVED))
    if ends := sentence_ends(text[earliest:latest]):
        earliest += ends[0]
    elif (space := text.find(" ", earliest, earliest + _WORD)) >= 0:
        earliest = space + 1
    return markdown.beginning(text, earliest, len(text))


def shorten_unit(unit: Unit, allowance: int, tokens: Cost, words: frozenset[str]) -> Unit | None:
    """Return a unit with its long texts shortened to one length, so that it takes at most
    `allowance` tokens. What has the `words` of the message to be answered stays.

    None where it takes more even with the shortest texts.
    """
    if cost(unit) <= allowance:
        return unit
    # what is charged beside the messages themselves
    frames = cost(unit) - sum(tokens(it.message) for it in unit)

    passages = [Passages(it.message.content, words) for it in unit]

    def capped(length: int) -> list[Message]:
        return [_capped(it.message, length, own) for it, own in zip(unit, passages, strict=True)]

    def fits(messages: Sequence[Message]) -> bool:
        return frames + sum(map(tokens, messages)) <= allowance

    low, high = _LEAST, max(_LEAST, 4 * allowance)
    best = capped(low)
    if not fits(best):
        return None
    while low + 8 < high:
        middle = (low + high) // 2
        tried = capped(middle)
        if fits(tried):
            low, best = middle, tried
        else:
            high = middle
    extra = [it.tokens - tokens(it.message) for it in unit]
    return [
        it
        if message is it.message
        else replace(it, message=message, charge=max(1, tokens(message) + more), is_excerpt=True)
        for it, message, more in zip(unit, best, extra, strict=True)
    ]


def shorten_turn(
    units: Sequence[Unit], allowance: int, tokens: Cost, words: frozenset[str] = frozenset()
) -> tuple[list[Candidate], list[Candidate]]:
    """Return what stays of a turn that takes more than `allowance` tokens, and the messages that do
    not.

    The words that open it stay first. Of the rest the newest comes first: each tool call or answer
    may have half of what is left, or all that the older ones do not need.
    """
    opening, rest = (
        (list(units[:1]), list(units[1:]))
        if units and units[0][0].message.role is Role.USER
        else ([], list(units))
    )
    fitting: list[Candidate] = []
    cut: list[Candidate] = []
    left = allowance
    for unit in opening:
        share = max(left // 2, left - sum(map(cost, rest)))
        shortened = shorten_unit(unit, share, tokens, words) or shorten_unit(
            unit, left, tokens, words
        )
        if shortened is None:
            return [], [it for whole in units for it in whole]
        fitting += shortened
        left -= cost(shortened)
    older = sum(map(cost, rest))
    for at, unit in enumerate(reversed(rest)):
        older -= cost(unit)
        share = min(left, max(left // 2, left - older))
        shortened = (
            shorten_unit(unit, share, tokens, words)
            if cost(unit) <= share or share >= _LEAST_TOKENS
            else None
        )
        if shortened is None:
            cut = [it for whole in rest[: len(rest) - at] for it in whole]
            break
        fitting += shortened
        left -= cost(shortened)
    return fitting, cut


def _capped(message: Message, length: int, passages: Passages) -> Message:
    """Return the message with no text longer than about `length` characters; itself if there is
    none.
    """
    content = head_and_tail(message.content, length, passages)
    calls = tuple(
        call
        if len(call.arguments) <= length
        else replace(call, arguments=_arguments(call.arguments, length))
        for call in message.tool_calls
    )
    if content is message.content and calls == message.tool_calls:
        return message
    return replace(message, content=content, tool_calls=calls)


def _arguments(arguments: str, length: int) -> str:
    """Return the arguments of a call as a JSON object whose values are shortened."""
    try:
        given = orjson.loads(arguments)
    except ValueError:
        given = None
    if isinstance(given, dict) and 0 < len(given) <= length // 20:
        share = max(20, length // len(given))
        values = {
            key: value if isinstance(value, str) else orjson.dumps(value).decode()
            for key, value in given.items()
        }
        if all(len(key) <= share for key in given):
            shortened = {
                key: given[key] if len(text) <= share else head_and_tail(text, share)
                for key, text in values.items()
            }
            return orjson.dumps(shortened).decode()
    return orjson.dumps({"arguments": head_and_tail(arguments, length)}).decode()
