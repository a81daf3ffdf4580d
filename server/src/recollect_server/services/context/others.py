"""What all other conversations give to a context: the messages that fit what is to be answered."""

from dataclasses import dataclass, field

from recollect_server.domain.context import Candidate, Dropped, Tier
from recollect_server.domain.dates import read_dates, without_dates
from recollect_server.domain.deadline import UNLIMITED, Deadline
from recollect_server.domain.message import Message
from recollect_server.domain.relevance import says_little
from recollect_server.services.context.own import Asked
from recollect_server.services.recall.candidates import gather
from recollect_server.services.recall.meaning import Meaning
from recollect_server.services.space.space import Space
from recollect_server.services.tiers import Tiers
from recollect_server.services.working_context import read_found
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.search import Scope
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


def recall(
    space: Space,
    meaning: Meaning,
    tiers: Tiers,
    asked: Asked,
    message: str,
    number: int | None,
    budget: int,
    deadline: Deadline = UNLIMITED,
) -> Recalled:
    """Return the messages of other conversations that fit best. `number` is that of the conversation that goes on.

    Raises IndexUnavailable, StorageUnavailable, CallerGone, DeadlineExceeded.
    """
    index = space.index
    question = message[:_QUESTION]
    with index.until(deadline):
        terms = index.terms(without_dates(question, read_dates(question, asked.now)))
        found = gather(index, meaning, question, terms, Scope(without=number), _CONVERSATIONS, deadline, asked.now)
    chosen: dict[str, dict[Place, float]] = {}
    numbers: set[int] = set()
    dropped: list[Dropped] = []
    room = _POOL * budget
    for at in found.best_messages()[:_MOST]:
        if room <= 0:
            break
        conversation, place, tokens = found.conversation_of(at), found.messages[at].place, found.messages[at].tokens
        if tokens > budget:
            reason = f"{tokens} tokens, and the whole budget is {budget}"
            dropped.append(Dropped(conversation.id, place[0], Tier.COLD, tokens, reason))
        else:
            room -= tokens
            chosen.setdefault(conversation.id, {})[place] = found.message_scores[at]
            numbers.add(conversation.number)
    candidates: list[Candidate] = []
    for conversation_id, fits in chosen.items():
        deadline.check()
        scores = {place[0]: score for place, score in fits.items()}
        warm = tiers.warm_since(conversation_id)
        read = read_found(space, conversation_id, sorted(fits)) or []
        candidates += [_candidate(conversation_id, message, scores[message.sequence], warm, asked) for message in read]
    names = {conversation.id: conversation.name for conversation in index.by_number(numbers).values()}
    return Recalled(candidates, dropped, names, found.degraded, "" if found.messages else "nothing that is stored fits the message")


def _candidate(conversation_id: str, message: Message, score: float, warm: int | None, asked: Asked) -> Candidate:
    strength = asked.strengths.get((conversation_id, message.sequence), 0.0)
    age = asked.now - max(message.timestamp, warm or 0)
    reason = f"fits the message: {score:.2f} of the best"
    reason += ", and its conversation was in use lately" if warm else ""
    reason += ", and an anchor came from it" if strength else ""
    relevance = asked.weights.relevance(age=age, similarity=score, anchor=strength)
    return Candidate(conversation_id, message, relevance, reason)
