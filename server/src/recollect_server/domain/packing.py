"""Greedy packing: the best first, as long as there is room; a long answer may stay out where the user's words still fit.

Every function gives what it packed and what it left out, each with its reason. A tool call and its results are packed together or
not at all.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recollect_server.domain.context import About, Candidate, Dropped, Packed, Tier, Unit, cost, in_order, sources_of, units
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


Turn = list[Candidate]
"""Messages of one turn, in reading order."""


@dataclass(frozen=True, slots=True)
class Recalling:
    """What may be recalled."""

    threshold: float = 0.3
    """The score that a turn must reach."""
    limit: int = 8
    """Sources, at the most."""
    share: float = 0.5
    """What one other conversation may have of the budget until all had a turn."""


def pack_cold(turns: Sequence[Turn], budget: int, rules: Recalling, about: Mapping[str, About], own: str = "") -> Packed:
    """Pack the most relevant turns, each whole, from few sources; what is said of each source is charged too.

    Of each other conversation at most a share of the budget is packed, until all had a turn. A turn that does not fit is left out;
    a shorter one behind it may still fit. `own` is the conversation that goes on.
    """
    packed: list[Turn] = []
    waiting: list[Turn] = []
    dropped: list[Dropped] = []
    spent: defaultdict[str, int] = defaultdict(int)
    used = 0
    ranked = sorted(turns, key=_rank)
    for again in (False, True):
        for turn in waiting if again else ranked:
            name, tokens = turn[0].conversation_id, cost(turn)
            sources = sources_of([it for whole in (*packed, turn) for it in whole], about, own)
            frames = sum(source.tokens for source in sources)
            if not again and name != own and spent[name] and spent[name] + tokens > rules.share * budget:
                waiting.append(turn)
            elif len(sources) > rules.limit:
                dropped += _left_out(turn, f"{rules.limit} sources are recalled already")
            elif used + tokens + frames > budget:
                dropped += _left_out(turn, f"{tokens} tokens and {max(0, budget - used - frames)} were left")
            else:
                packed.append(turn)
                spent[name] += tokens
                used += tokens
    messages = [it for turn in sorted(packed, key=_rank) for it in turn]
    reserved = sum(source.tokens for source in sources_of(messages, about, own))
    return Packed(Tier.COLD, budget, messages, dropped, sum(map(len, turns)), reserved=reserved)


def _rank(turn: Turn) -> tuple[float, float, str, int]:
    """Return the sort key of a turn: the most relevant first."""
    return -max(it.relevance for it in turn), -turn[0].score, turn[0].conversation_id, turn[0].message.sequence


def _left_out(turn: Turn, reason: str) -> list[Dropped]:
    return [Dropped(it.conversation_id, it.message.sequence, Tier.COLD, it.tokens, reason, it.score) for it in turn]


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
