"""What all other conversations give to a context: the messages that fit what is to be answered."""

from dataclasses import dataclass, field

from recollect_server.domain.context import Candidate
from recollect_server.domain.errors import StorageUnavailable
from recollect_server.domain.message import Message
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
_LOOKED_AT = 40
"""Messages that may be packed: those that fit best. Of them no more than so many budgets' worth is read."""
_BUDGETS = 3
LEAST_BUDGET = 20
"""Fewer tokens than these hold no message worth the search."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was found."""

    candidates: list[Candidate] = field(default_factory=list)
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
    found = gather(index, meaning, question, index.terms(question), Scope(without=number), _LOOKED_AT)
    best = sorted(zip(found.fused.messages.tolist(), found.ids, strict=True), key=lambda it: (-it[0], it[1]))[:_LOOKED_AT]
    light = [_Light.of(found, identity, score, asked, tiers) for score, identity in best]
    light.sort(key=lambda it: (-it.relevance, it.conversation_id, it.found.place))
    candidates: list[Candidate] = []
    room = _BUDGETS * budget
    for it in light:
        if it.found.tokens > budget or room <= 0:
            continue
        for read in _read(space, it.conversation_id, it.found.place):
            room -= it.found.tokens
            candidates.append(Candidate(it.conversation_id, read, it.relevance, it.reason))
    numbers = {it.found.number for it in light}
    names = {conversation.id: conversation.name for conversation in index.by_number(numbers).values()}
    note = "" if light else "nothing that is stored fits the message"
    return Recalled(candidates, names, found.degraded, note)


@dataclass(frozen=True, slots=True)
class _Light:
    """A message that was found and not read yet."""

    conversation_id: str
    found: Found
    relevance: float
    reason: str

    @classmethod
    def of(cls, candidates: Candidates, identity: int, score: float, asked: Asked, tiers: Tiers) -> "_Light":
        found = candidates.shown[identity]
        conversation_id = candidates.known[found.number].id
        strength = asked.strengths.get((conversation_id, found.place[0]), 0.0)
        recalled = tiers.warm_since(conversation_id)
        age = asked.now - max(found.time, recalled or 0)
        relevance = asked.weights.relevance(age=age, similarity=score, anchor=strength)
        reason = f"fits the message: {score:.2f} of the best"
        if recalled:
            reason += ", and was recalled a while ago"
        if strength:
            reason += ", and an anchor came from it"
        return cls(conversation_id, found, relevance, reason)


def _read(space: Space, conversation_id: str, place: Place) -> list[Message]:
    try:
        return read_places(space, conversation_id, [place]).messages
    except StorageUnavailable as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return []  # it was deleted since the index named it
        raise
