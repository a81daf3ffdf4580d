"""Packing: chooses within a budget what of the candidates is in a context, and says why the others
are not.

The hot and the warm tier together are one run of the conversation in its order, and everything hot
is newer than everything warm. Turns are whole. The newest turn is in the context whatever its
length: what is too long of it is shortened (`shortening`). A tool call and its results are
packed together.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from recollect_server.domain.context import (
    Candidate,
    Dropped,
    Packed,
    Sources,
    Tier,
    Unit,
    cost,
    in_order,
    units,
)
from recollect_server.domain.message import Message, Role
from recollect_server.domain.rendering.form import Form
from recollect_server.services.context.shortening import Cost, shorten_turn

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
_FIRST, _ANCHORED, _FITTING = 0.75, 0.85, 0.95
"""Up to where the warm tier may be filled once the first turn is packed, the turns of anchors, and
those that fit the message.
"""
_LIKELY = 0.3
"""The share of the words of the message that a turn has which fits it."""


@dataclass(frozen=True, slots=True)
class Preference:
    """Worth of a conversation's turns, by their numbers."""

    first: int = 0
    """The first turn; 0: it is not among the candidates."""
    anchored: frozenset[int] = frozenset()
    """Turns that anchors came from."""
    similarity: Mapping[int, float] = field(default_factory=dict)
    """The share of the words of the message that each turn has."""
    spaced: Sequence[int] = ()
    """Turns evenly spaced over the conversation, ascending."""
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
    """Pack earlier turns in this order of preference, each kind up to a part of the budget, until
    it is spent.

    Turns that the caller put there come before all. A turn that does not fit is packed as its
    summary, where one is recorded.

    1. The newest ones without a gap, up to half of it.
    2. The first turn, which mostly says what the conversation is for. It is shortened where it is
       too long.
    3. Turns that anchors came from.
    4. Turns that have words of the message, the most first.
    5. Turns evenly spaced, so that each part of the conversation is there.
    6. With what is left more of the newest ones without a gap; the last of them may be shortened.
    7. Any others that fit, the newest first.
    """
    turns = {number: units(own, form.half) for number, own in _by_turn(candidates).items()}
    preferred = preference or Preference()
    shelf = _Shelf(turns, max(0, budget - reserved), form, preferred.words)
    newest = _contiguous(turns)
    likely = [
        number
        for number, share in preferred.similarity.items()
        if share >= _LIKELY and number in turns
    ]

    for number in sorted(preferred.callers, reverse=True):
        shelf.put(number, _ANCHORED, "the caller put its turn here", shorten=True)
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
    for number in sorted(preferred.anchored, reverse=True):
        shelf.put(number, _ANCHORED, "an anchor came from it")
    for number in sorted(likely, key=lambda number: (-preferred.similarity[number], -number)):
        shelf.put(number, _FITTING, "it has words of the message")
    for number in _spread(preferred.spaced):
        shelf.put(number, 1, "one of turns evenly spaced")
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

    def put(self, number: int, share: float, reason: str, *, shorten: bool = False) -> bool:
        """Pack a turn if it fits within a share of the whole room. Return whether it is packed
        now.
        """
        if number in self._numbers or number not in self._turns:
            return number in self._numbers
        turn = self._turns[number]
        gap = 0 if number + 1 in self._numbers or number == max(self._turns) else self._form.gap
        left = int(share * self._room) - self._used - gap
        size = sum(map(cost, turn))
        fitting = [it for unit in turn for it in unit]
        self._cut.pop(number, None)
        if size > left:
            short, cut = summarized(fitting, self._form.own), fitting[1:]
            if not short or cost(short) > left:
                if not shorten or left < WORTH_SHORTENING:
                    return False
                short, cut = shorten_turn(turn, left, self._form.own, self._words)
            if not short:
                return False
            fitting, self._cut[number] = short, cut
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


@dataclass(frozen=True, slots=True)
class RecallTrust:
    """Scores of the best turn, and what of the budget they are worth."""

    doubtful: float
    """A score up to which recall has the least that it may have."""
    sure: float
    """A score from which it has everything that other tiers leave or lend."""
    least: float
    """Share of its own budget that recall has at the least."""


BY_WORDS = RecallTrust(0.5, 0.75, 0.5)
"""By words the best turn scores 0.80 for the median question of RealMem, and 0.68 for that of
another person's history; 0.86 and 0.41 in LoCoMo.
"""
BY_MEANING = RecallTrust(0.4, 0.6, 0.3)
"""By meaning 0.80 and 0.60 in RealMem, 0.76 and 0.60 in FriendsQA, and small talk less than 0.48:
that tells more, so what is doubtful gets less.
"""


_ODDS_WHERE_STRICT = 2.5
"""Odds that the best message is worth its tokens, beside those that it answers, where the scores
count words that nobody said in full: 0.3 of the one is 0.15 of the other. Why:
`docs/decisions/score-calibration.md`.
"""


@dataclass(frozen=True, slots=True)
class Recalling:
    threshold: float = 0.3
    """The score that the best turn must reach, or less where scores are strict (`least`); others
    follow by rank.
    """
    limit: int = 8
    """Sources, at the most."""
    share: float = 0.5
    """Share of the budget that one other conversation may have until all had a turn."""

    def least(self, strictness: float) -> float:
        """Return the score from which anything is recalled. `strictness`: from 0 to 1, how much the
        scores count words that nobody said against a message that answers in others.
        """
        return self.threshold / (
            self.threshold + math.pow(_ODDS_WHERE_STRICT, strictness) * (1 - self.threshold)
        )

    def budget(self, best: float, own: int, most: int, trust: RecallTrust) -> int:
        """Return the tokens of recall whose best turn has this score: of what there is, up to
        `most`, the more the likelier it is to help. `own` is its own budget.
        """
        share = min(1.0, max(0.0, (best - trust.doubtful) / (trust.sure - trust.doubtful)))
        least = trust.least * own
        return min(most, int(least + share * max(0, most - least)))


def pack_cold(
    turns: Sequence[Turn],
    budget: int,
    rules: Recalling,
    sources: Sources,
    form: Form = _PARTS,
    *,
    included: Sequence[Turn] = (),
    best_at_most: int = 0,
) -> Packed:
    """Pack the turns that fit best, each whole, from few sources; what is said of each source is
    charged too. Those `included` come before them.

    They and the best turn may take up to `best_at_most` tokens where the budget is less. Of each
    other conversation at most a share of the budget is packed, until all had a turn. A turn that
    does not fit is left out; a shorter one behind it may still fit. They are listed by relevance.
    """
    packed: list[Turn] = []
    waiting: list[Turn] = []
    dropped: list[Dropped] = []
    spent: defaultdict[str, int] = defaultdict(int)
    shown: defaultdict[str, list[Candidate]] = defaultdict(list)
    """The messages that are packed of each conversation."""
    own, used, count, frames = sources.own, 0, 0, 0
    too_many = f"{rules.limit} sources are recalled already"

    def with_turn(turn: Turn) -> tuple[int, int, int]:
        """Return its tokens, and how many sources and tokens of these there are with it."""
        name = turn[0].conversation_id
        before, paid = sources.of_conversation(name, shown[name])
        after, price = sources.of_conversation(name, [*shown[name], *turn])
        return cost(turn), count + len(after) - len(before), frames + price - paid

    ranked = [*included, *sorted(turns, key=_preferred)]
    foremost = set(map(id, ranked[: len(included) + 1]))
    most = max(budget, best_at_most)
    for again in (False, True):
        for turn in waiting if again else ranked:
            short: Turn = []
            name, is_first = turn[0].conversation_id, id(turn) in foremost
            if not is_first and not shown[name] and count >= rules.limit:
                dropped += _left_out(turn, too_many)  # whatever a further source would take
                continue
            tokens, new_count, new_frames = with_turn(turn)
            room = most if is_first else budget
            if used + tokens + new_frames > room and (short := summarized(turn, form.recalled)):
                tokens, new_count, new_frames = with_turn(short)
            if (
                not again
                and not is_first
                and name != own
                and spent[name]
                and spent[name] + tokens > rules.share * budget
            ):
                waiting.append(turn)
            elif new_count > rules.limit and not is_first:
                dropped += _left_out(turn, too_many)
            elif used + tokens + new_frames > room:
                dropped += _left_out(
                    turn, f"{tokens} tokens and {max(0, budget - used - new_frames)} were left"
                )
            else:
                if short:
                    dropped += _left_out(turn[1:], "the summary of its turn stands for it")
                packed.append(short or turn)
                shown[name] += short or turn
                spent[name] += tokens
                used, count, frames = used + tokens, new_count, new_frames
    messages = [it for turn in sorted(packed, key=_rank) for it in turn]
    if of_same := [it for it in messages if it.is_later]:
        first = min(of_same, key=lambda it: (it.message.timestamp, it.place))
        messages = [replace(it, is_later=False) if it is first else it for it in messages]
    return Packed(Tier.COLD, budget, messages, dropped, sum(map(len, ranked)), reserved=frames)


_RELEVANCE = 0.1
"""Weight of relevance beside the score in the choice of recalled turns: it decides between nearly
equal ones. The score knows how new a message is; chosen by relevance, whose recency counts much, 8
points fewer of BEAM's and QMSum's questions and 5 fewer of RealMem's have any gold (apart, by
words; `bench/dialogue.py`).
"""


def _preferred(turn: Turn) -> tuple[float, float, str, int]:
    """Return the sort key by which turns are chosen: the best one first, of nearly equal ones the
    more relevant.
    """
    relevance, score, conversation_id, sequence = _rank(turn)
    return score + _RELEVANCE * (relevance - score), relevance, conversation_id, sequence


def _rank(turn: Turn) -> tuple[float, float, str, int]:
    """Return the sort key by which recalled turns are listed: the most relevant first."""
    return (
        -max(it.relevance for it in turn),
        -turn[0].score,
        turn[0].conversation_id,
        turn[0].message.sequence,
    )


def _left_out(turn: Turn, reason: str) -> list[Dropped]:
    return [
        Dropped(it.conversation_id, it.message.sequence, Tier.COLD, it.tokens, reason, it.score)
        for it in turn
    ]


def _by_turn(candidates: Sequence[Candidate]) -> dict[int, list[Candidate]]:
    turns: defaultdict[int, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        turns[candidate.message.turn_number].append(candidate)
    return turns


def _contiguous(turns: Mapping[int, object]) -> list[int]:
    """Return the newest turns back to the first one that is missing, the newest first."""
    newest = sorted(turns, reverse=True)
    return [number for at, number in enumerate(newest) if number == newest[0] - at]


def _spread(numbers: Sequence[int]) -> Iterator[int]:
    """Give numbers in an order of which any beginning is spread over all of them: the middle, then
    the middles of the halves.
    """
    waiting = [(0, len(numbers))]
    for first, end in waiting:
        if first < end:
            middle = (first + end) // 2
            yield numbers[middle]
            waiting += [(first, middle), (middle + 1, end)]


def _dropped(tier: Tier, candidate: Candidate, reason: str) -> Dropped:
    return Dropped(
        candidate.conversation_id, candidate.message.sequence, tier, candidate.tokens, reason
    )


def _too_long(candidate: Candidate, left: int) -> str:
    return f"{candidate.tokens} tokens and {left} were left"
