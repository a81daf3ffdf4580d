"""Greedy packing: the best first, as long as there is room; a long answer may stay out where the user's words still fit.

Every function gives what it packed and what it left out, each with its reason. A tool call and its results are packed together or
not at all.
"""

from collections import defaultdict
from collections.abc import Sequence

from recollect_server.domain.context import Candidate, Dropped, Packed, Tier, Unit, cost, in_order, units
from recollect_server.domain.message import Role

HOT_TURNS, SURE_TURNS = 5, 3
"""Turns that may be hot, and those of them of which a part is hot where the whole is too long."""
_NO_OTHER_HALF = "a tool call and its result belong together, and one of them is missing"


def pack_hot(candidates: Sequence[Candidate], budget: int) -> Packed:
    """The newest turns, whole while they fit. Of the last three, what fits: the user's words first, then the newest answers."""
    packed: list[Candidate] = []
    dropped: list[Dropped] = []
    turns = _by_turn(candidates)
    newest = max(turns, default=0)
    left = budget
    closed = False  # what is older than something that did not fit is the warm tier's
    for turn in sorted(turns, reverse=True):
        whole, orphans = units(turns[turn])
        dropped += [_dropped(Tier.HOT, it, _NO_OTHER_HALF) for it in orphans]
        size = sum(map(cost, whole))
        if closed or turn <= newest - HOT_TURNS or (size > left and turn <= newest - SURE_TURNS):
            closed = True
            continue
        for unit in whole if size <= left else sorted(whole, key=_words_first):
            if cost(unit) <= left:
                packed += unit
                left -= cost(unit)
            else:
                dropped += [_dropped(Tier.HOT, it, _too_long(it, left)) for it in unit]
    return Packed(Tier.HOT, budget, in_order(packed), dropped, len(candidates))


def pack_warm(candidates: Sequence[Candidate], budget: int, reserved: int = 0) -> Packed:
    """The most relevant turns, whole where they fit; else the user's words, and those answers that fit."""
    packed: list[Candidate] = []
    dropped: list[Dropped] = []
    left = budget - reserved
    turns = _by_turn(candidates)
    best = {turn: max(it.relevance for it in own) for turn, own in turns.items()}
    for turn in sorted(turns, key=lambda turn: (-best[turn], -turn)):
        whole, orphans = units(turns[turn])
        dropped += [_dropped(Tier.WARM, it, _NO_OTHER_HALF) for it in orphans]
        for unit in whole if sum(map(cost, whole)) <= left else sorted(whole, key=_words_first):
            if cost(unit) <= left:
                packed += unit
                left -= cost(unit)
            else:
                dropped += [_dropped(Tier.WARM, it, _too_long(it, left)) for it in unit]
    return Packed(Tier.WARM, budget, in_order(packed), dropped, len(candidates), reserved=reserved)


def pack_cold(candidates: Sequence[Candidate], budget: int, share: float) -> Packed:
    """The most relevant messages of other conversations; of each at most a share of the budget, until all had a turn."""
    packed: list[Candidate] = []
    waiting: list[Candidate] = []
    dropped: list[Dropped] = []
    spent: defaultdict[str, int] = defaultdict(int)
    left = budget
    ranked = sorted(candidates, key=lambda it: (-it.relevance, it.conversation_id, it.message.sequence))
    for again in (False, True):
        for candidate in waiting if again else ranked:
            tokens = candidate.tokens
            if not again and spent[candidate.conversation_id] and spent[candidate.conversation_id] + tokens > share * budget:
                waiting.append(candidate)
            elif tokens <= left:
                packed.append(candidate)
                spent[candidate.conversation_id] += tokens
                left -= tokens
            else:
                dropped.append(_dropped(Tier.COLD, candidate, _too_long(candidate, left)))
    packed.sort(key=lambda it: (-it.relevance, it.conversation_id, it.message.sequence))
    return Packed(Tier.COLD, budget, packed, dropped, len(candidates))


def _by_turn(candidates: Sequence[Candidate]) -> dict[int, list[Candidate]]:
    turns: defaultdict[int, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        turns[candidate.message.turn_number].append(candidate)
    return turns


def _words_first(unit: Unit) -> tuple[bool, int]:
    """The user's words before answers, the newest answer before the others."""
    return unit[0].message.role is not Role.USER, -unit[0].message.sequence


def _dropped(tier: Tier, candidate: Candidate, reason: str) -> Dropped:
    return Dropped(candidate.conversation_id, candidate.message.sequence, tier, candidate.tokens, reason)


def _too_long(candidate: Candidate, left: int) -> str:
    return f"{candidate.tokens} tokens and {left} were left"
