"""Packing: chooses within a budget what of the candidates is in a context, and says why the others
are not.

The hot and the warm tier together are one run of the conversation in its order, and everything hot
is newer than everything warm. Turns are whole. The newest turn is in the context whatever its
length: what is too long of it is shortened (`shortening`). A tool call and its results are
packed together.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from recollect_server.context.context import (
    Candidate,
    Dropped,
    Packed,
    Tier,
    Unit,
    cost,
    in_order,
    units,
)
from recollect_server.context.rendering.form import Form
from recollect_server.context.shortening import Cost, shorten_turn
from recollect_server.kernel.domain.message import Message, Role

HOT_TURNS = 5
"""Turns that may be hot, unless a setting says otherwise."""
_PARTS = Form()
_SUMMARY = "(Summary of this turn)"
"""Begins a message that stands for its turn."""
_CUT = 0.75
"""The share of what the warm tier lends that a turn has which is too long even for all of it, and
what older turns do not need.
"""
WORTH_SHORTENING = 100
"""Tokens that must be left for a turn to be shortened to them; with fewer it is left out."""
_NEWEST, _NEWEST_AT_MOST = 0.5, 0.75
"""Shares of the warm tier that the newest turns have before others: half of it, or three quarters
where the last one needs more.
"""
_FIRST, _KEPT = 0.75, 0.85
"""Up to where the warm tier may be filled once the first turn is packed, and the turns that a
caller put there.
"""


@dataclass(frozen=True, slots=True)
class Preference:
    """Worth of a conversation's turns, by their numbers."""

    first: int = 0
    """The first turn; 0: it is not among the candidates."""
    words: frozenset[str] = frozenset()
    """Words of the message to be answered: where a turn is shortened, what has them stays."""
    callers: frozenset[int] = frozenset()
    """Turns that a caller put into this tier, or into the hot one, which had no room."""


def pack_hot(
    candidates: Sequence[Candidate],
    budget: int,
    lent: int = 0,
    turns_at_most: int = HOT_TURNS,
    form: Form = _PARTS,
    words: frozenset[str] = frozenset(),
) -> Packed:
    """Pack the newest turns, whole, while they fit.

    The newest turn, and the one before it where nobody answered yet, may take up to `lent` tokens
    more to be whole, which the warm tier lends. The newest one is shortened if it takes more than
    that, but for what has the `words` of the message to be answered; another turn that does not
    fit is the warm tier's, with all that are older.
    """
    packed: list[Candidate] = []
    dropped: list[Dropped] = []
    turns = _by_turn(candidates)
    newest = sorted(turns, reverse=True)[:turns_at_most]
    used = 0
    for number in newest:
        turn = units(turns[number], form.half)
        size = sum(map(cost, turn))
        is_answered = any(it.message.role is not Role.USER for it in packed)
        room = budget + (0 if is_answered else lent) - used
        if size <= room:
            packed += [it for unit in turn for it in unit]
            used += size
        elif not packed:
            others = sum(it.tokens for other in newest[1:] for it in turns[other])
            fitting, cut = shorten_turn(
                turn, max(budget, min(room - others, budget + round(_CUT * lent))), form.own, words
            )
            if not fitting:
                fitting, cut = shorten_turn(turn, room, form.own, words)
            packed += fitting
            used += cost(fitting)
            dropped += [_dropped(Tier.HOT, it, _too_long(it, budget)) for it in cut]
            break
        else:
            break
    return Packed(Tier.HOT, max(budget, used), in_order(packed), dropped, len(candidates))


def newest_turn_cost(candidates: Sequence[Candidate], form: Form) -> int:
    """Return the tokens of the newest turn, whole."""
    turns = _by_turn(candidates)
    return sum(map(cost, units(turns[max(turns)], form.half))) if turns else 0


def pack_kept(candidates: Sequence[Candidate], room: int, form: Form) -> list[Candidate]:
    """Return the turns that a caller keeps in the hot tier, the newest first, as far as they fit:
    whole, or as their summary.
    """
    packed: list[Candidate] = []
    for _, turn in sorted(_by_turn(candidates).items(), reverse=True):
        whole = [it for unit in units(turn, form.half) for it in unit]
        for fitting in (whole, summarized(whole, form.own)):
            if fitting and cost(fitting) + form.gap <= room:
                packed += _kept(fitting, form.gap, "the caller keeps its turn in this tier")
                room -= cost(fitting) + form.gap
                break
    return packed


def summarized(turn: Sequence[Candidate], tokens: Cost) -> list[Candidate]:
    """Return the recorded summary of a turn as the one message that stands for it; nothing where
    none is recorded.
    """
    first = turn[0]
    if not first.summary:
        return []
    opening = first.message
    message = Message(
        Role.USER if opening.role is Role.USER else Role.ASSISTANT,
        f"{_SUMMARY} {first.summary}",
        opening.timestamp,
        opening.sequence,
        opening.turn_number,
        sender=opening.sender,
        sender_name=opening.sender_name,
    )
    best = max(turn, key=lambda it: it.relevance)
    charge = max(1, tokens(message))
    return [
        replace(
            best, message=message, charge=charge, is_summary=True, is_excerpt=False, is_later=False
        )
    ]


def pack_warm(
    candidates: Sequence[Candidate],
    budget: int,
    reserved: int = 0,
    preference: Preference | None = None,
    form: Form = _PARTS,
) -> Packed:
    """Pack earlier turns in this order of preference, until the budget is spent.

    Turns that the caller put there come before all. A turn that does not fit is packed as its
    summary, where one is recorded.

    1. The newest ones without a gap, up to half of the budget.
    2. The first turn, which mostly says what the conversation is for. It is shortened where it is
       too long.
    3. The summaries of older turns, the newest first: many of them take the room of few turns.
    4. With what is left more of the newest ones without a gap; the last of them may be shortened.
    5. Any others that fit, the newest first.
    """
    turns = {number: units(own, form.half) for number, own in _by_turn(candidates).items()}
    preferred = preference or Preference()
    shelf = _Shelf(turns, max(0, budget - reserved), form, preferred.words)
    newest = _contiguous(turns)

    for number in sorted(preferred.callers, reverse=True):
        shelf.put(number, _KEPT, "the caller put its turn here", shorten=True)
    for number in newest:
        if not shelf.put(
            number,
            _NEWEST_AT_MOST if shelf.share < _NEWEST else 0,
            "one of the last turns before the newest",
        ):
            break
    if newest and not shelf.packed:
        shelf.put(newest[0], _NEWEST, "the last turn before the newest", shorten=True)
    if preferred.first in turns:
        shelf.put(preferred.first, _FIRST, "the first turn", shorten=True)
    for number in sorted(turns, reverse=True):
        shelf.put(number, 1, "the summary of an earlier turn", as_summary=True)
    for number in newest:
        if not shelf.put(number, 1, "an earlier turn", shorten=True):
            break
    for number in sorted(turns, reverse=True):
        shelf.put(number, 1, "an earlier turn")
    shelf.widen()
    return Packed(
        Tier.WARM,
        budget,
        in_order(shelf.packed),
        shelf.left_out(),
        len(candidates),
        reserved=reserved,
    )


class _Shelf:
    """The warm tier as it fills, turn by turn."""

    def __init__(
        self, turns: Mapping[int, list[Unit]], room: int, form: Form, words: frozenset[str]
    ) -> None:
        self.packed: list[Candidate] = []
        self._turns = turns
        self._form = form
        self._words = words
        self._room = room
        self._used = 0
        self._numbers: set[int] = set()
        self._cut: dict[int, list[Candidate]] = {}
        """Messages that are left out of each turn that is shortened."""

    @property
    def share(self) -> float:
        """Return the share of the room that is used."""
        return self._used / self._room if self._room else 1.0

    def put(
        self,
        number: int,
        share: float,
        reason: str,
        *,
        shorten: bool = False,
        as_summary: bool = False,
    ) -> bool:
        """Pack a turn if it fits within a share of the whole room, or its summary alone. Return
        whether it is packed now.
        """
        if number in self._numbers or number not in self._turns:
            return number in self._numbers
        turn = self._turns[number]
        gap = 0 if number + 1 in self._numbers or number == max(self._turns) else self._form.gap
        left = int(share * self._room) - self._used - gap
        size = sum(map(cost, turn))
        fitting = [it for unit in turn for it in unit]
        self._cut.pop(number, None)
        if size > left or as_summary:
            short, cut = summarized(fitting, self._form.own), fitting[1:]
            if not short or cost(short) > min(left, size):
                if as_summary or not shorten or left < WORTH_SHORTENING:
                    return False
                short, cut = shorten_turn(turn, left, self._form.own, self._words)
            if not short:
                return False
            fitting = short
            if not as_summary:
                self._cut[number] = cut
        self.packed += _kept(fitting, gap, reason)
        self._used += cost(fitting) + gap
        self._numbers.add(number)
        return True

    def widen(self) -> None:
        """Give turns that are shortened what nothing else needs, the first of them first."""
        for number in [*self._cut]:
            if self._room - self._used < WORTH_SHORTENING:
                return
            own = [it for it in self.packed if it.message.turn_number == number]
            self.packed = [it for it in self.packed if it.message.turn_number != number]
            self._used -= cost(own)
            self._numbers.remove(number)
            self.put(number, 1, own[0].reason, shorten=True)

    def left_out(self) -> list[Dropped]:
        """Return what is not packed, oldest first."""
        others = [
            it
            for number, turn in self._turns.items()
            if number not in self._numbers
            for unit in turn
            for it in unit
        ]
        left = self._room - self._used
        return [
            _dropped(Tier.WARM, it, _too_long(it, left))
            for it in in_order([*others, *(it for cut in self._cut.values() for it in cut)])
        ]


def _kept(fitting: Sequence[Candidate], gap: int, reason: str) -> list[Candidate]:
    """Return what is packed of a turn, with the reason, and the charge of the gap before it."""
    first = replace(fitting[0], charge=fitting[0].tokens + gap)
    return [replace(it, reason=reason) for it in (first, *fitting[1:])]


Turn = list[Candidate]
"""Messages of one turn, in reading order."""


def _by_turn(candidates: Sequence[Candidate]) -> dict[int, list[Candidate]]:
    turns: defaultdict[int, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        turns[candidate.message.turn_number].append(candidate)
    return turns


def _contiguous(turns: Mapping[int, object]) -> list[int]:
    """Return the newest turns back to the first one that is missing, the newest first."""
    newest = sorted(turns, reverse=True)
    return [number for at, number in enumerate(newest) if number == newest[0] - at]


def _dropped(tier: Tier, candidate: Candidate, reason: str) -> Dropped:
    return Dropped(
        candidate.conversation_id, candidate.message.sequence, tier, candidate.tokens, reason
    )


def _too_long(candidate: Candidate, left: int) -> str:
    return f"{candidate.tokens} tokens and {left} were left"
