"""What all other conversations give to a context: the messages that fit what is to be answered."""

from dataclasses import dataclass, field

from recollect_server.domain.context import Candidate, Dropped, Tier
from recollect_server.domain.errors import StorageUnavailable
from recollect_server.domain.message import Message
from recollect_server.domain.ranking import highest
from recollect_server.domain.relevance import says_little
from recollect_server.services.candidates import Candidates, gather
from recollect_server.services.context.own import Asked
from recollect_server.services.meaning import Meaning
from recollect_server.services.space import Space
from recollect_server.services.tiers import Tiers
from recollect_server.services.working_context import read_places
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.search import Found, Scope
from recollect_server.storage.index.turns import Place

_QUESTION = 4000  # characters of a message that are asked with: a search is for a question, not for a page
_CONVERSATIONS = 50  # that are found by all their words at the least, if there are so many
_MOST = 200  # messages that may be packed
_POOL = 1.1
"""Messages that fit best are candidates until they have so many budgets' worth. Relevance decides among these alone: over a pool of
200 messages its recency costs eight points of what is packed (`bench/context.py`), over this one nothing."""
LEAST_BUDGET = 20
"""Fewer tokens than these hold no message worth the search."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was found."""

    candidates: list[Candidate] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    """Those that fit and are longer than the whole budget."""
    names: dict[str, str] = field(default_factory=dict)
    """What the conversations are called, by id."""
    degraded: dict[str, str] = field(default_factory=dict)
    note: str = ""


def why_not(index: Index, message: str, budget: int) -> str:
    """Why the past cannot help, or nothing."""
    if not message.strip():
        return "not asked: there is no message to answer"
    if says_little(message):
        return "not asked: the message is a greeting or says too little"
    if budget < LEAST_BUDGET:
        return f"not asked: {budget} tokens are left, which hold nothing"
    if index.lengths()[1] <= 1:
        return "not asked: no other conversation is stored"
    return ""


def recall(space: Space, meaning: Meaning, tiers: Tiers, asked: Asked, message: str, number: int | None, budget: int) -> Recalled:
    """The messages of other conversations that fit best. `number` is that of the conversation that goes on.

    Raises IndexUnavailable, StorageUnavailable.
    """
    index = space.index
    question = message[:_QUESTION]
    found = gather(index, meaning, question, index.terms(question), Scope(without=number), _CONVERSATIONS)
    chosen: dict[str, list[_Fit]] = {}
    dropped: list[Dropped] = []
    room = _POOL * budget
    for fit in _best(found):
        if room <= 0:
            break
        tokens = fit.found.tokens
        if tokens > budget:
            reason = f"{tokens} tokens, and the whole budget is {budget}"
            dropped.append(Dropped(fit.conversation_id, fit.found.place[0], Tier.COLD, tokens, reason))
        else:
            room -= tokens
            chosen.setdefault(fit.conversation_id, []).append(fit)
    candidates: list[Candidate] = []
    for conversation_id, fits in chosen.items():
        scores = {fit.found.place[0]: fit.score for fit in fits}
        warm = tiers.warm_since(conversation_id)
        read = _read(space, conversation_id, sorted(fit.found.place for fit in fits))
        candidates += [_candidate(conversation_id, message, scores[message.sequence], warm, asked) for message in read]
    numbers = {fit.found.number for fits in chosen.values() for fit in fits}
    names = {conversation.id: conversation.name for conversation in index.by_number(numbers).values()}
    return Recalled(candidates, dropped, names, found.degraded, "" if found.ids else "nothing that is stored fits the message")


@dataclass(frozen=True, slots=True)
class _Fit:
    """A message that was found and not read yet."""

    conversation_id: str
    found: Found
    score: float


def _best(candidates: Candidates) -> list[_Fit]:
    """The messages that fit best, best first; in an order that a new index has too."""
    scores = candidates.fused.messages.round(9)
    fits: list[_Fit] = []
    for at in highest(scores, _MOST).tolist():
        found = candidates.shown[candidates.ids[at]]
        fits.append(_Fit(candidates.known[found.number].id, found, float(scores[at])))
    return sorted(fits, key=lambda fit: (-fit.score, fit.conversation_id, fit.found.place))


def _candidate(conversation_id: str, message: Message, score: float, warm: int | None, asked: Asked) -> Candidate:
    strength = asked.strengths.get((conversation_id, message.sequence), 0.0)
    age = asked.now - max(message.timestamp, warm or 0)
    reason = f"fits the message: {score:.2f} of the best"
    reason += ", and its conversation was in use lately" if warm else ""
    reason += ", and an anchor came from it" if strength else ""
    relevance = asked.weights.relevance(age=age, similarity=score, anchor=strength)
    return Candidate(conversation_id, message, relevance, reason)


def _read(space: Space, conversation_id: str, places: list[Place]) -> list[Message]:
    try:
        return read_places(space, conversation_id, places).messages
    except StorageUnavailable as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return []  # it was deleted since the index named it
        raise
