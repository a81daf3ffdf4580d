"""Values of anchors: the current one of each key, and those that it replaced."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from recollect_server.kernel.domain.conversation import AnchorSet

TENTATIVE = 0.5
"""Confidence below which a value that was found takes the place of no surer one."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A lasting fact about the user, as it stands among the others of its key."""

    key: str
    value: str
    confidence: float
    create_time: int
    conversation_id: str = ""
    """Conversation of the message that it came from; empty if there is none."""
    sequence: int = 0
    superseded_time: int | None = None
    supersedes: str = ""
    by_caller: bool = False


def history(given: Iterable[AnchorSet]) -> list[Anchor]:
    """Return what became of the values of one key: the one that holds first, then those it
    superseded, the last first. An empty value takes back the one that holds: then none does.

    In the order of time each takes the place of the one before it. Two kinds do not, and are
    superseded from their beginning: a value that was found, where a caller's holds that is surer;
    and a tentative one that was found, where anything but another tentative one that was found
    holds, so that a guess overrules neither a model nor a caller. A value that is given
    again stays what it was: a caller's confidence and source count, of two that were found the
    higher confidence.
    """
    holds: Anchor | None = None
    past: list[Anchor] = []
    for each in sorted(given, key=lambda it: (it.time, it.by_caller)):
        new = Anchor(
            each.key,
            each.value,
            each.confidence,
            each.time,
            each.conversation_id,
            each.sequence,
            by_caller=each.by_caller,
        )
        if not new.value:
            if holds and _supersedes(new, holds):
                past.append(replace(holds, superseded_time=new.create_time))
                holds = None
        elif holds is None:
            holds = new
        elif new.value == holds.value:
            holds = _again(holds, new)
        elif _supersedes(new, holds):
            past.append(replace(holds, superseded_time=new.create_time))
            holds = replace(new, supersedes=holds.value)
        else:
            past.append(replace(new, superseded_time=new.create_time))
    return [*([holds] if holds else []), *reversed(past)]


def _supersedes(new: Anchor, holds: Anchor) -> bool:
    if new.by_caller:
        return True
    if new.confidence < TENTATIVE:
        return holds.confidence < TENTATIVE and not holds.by_caller
    return not holds.by_caller or new.confidence >= holds.confidence


def _again(holds: Anchor, new: Anchor) -> Anchor:
    if new.by_caller:
        source = new if new.conversation_id else holds
        return replace(
            holds,
            confidence=new.confidence,
            conversation_id=source.conversation_id,
            sequence=source.sequence,
            by_caller=True,
        )
    return (
        holds
        if holds.by_caller
        else replace(holds, confidence=max(holds.confidence, new.confidence))
    )
