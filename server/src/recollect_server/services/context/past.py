"""Recalls what fits the message to be answered: whole turns of any conversation that the context
does not show already.

The search ranks messages; each one that scores high enough brings its whole turn
(`recalled_turns`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo

from recollect_server.domain.context import About, Dropped, Source, Sources, Tier
from recollect_server.domain.conversation import ANYBODY, Conversation
from recollect_server.domain.filters import Filter, SearchScope
from recollect_server.domain.languages import says_little
from recollect_server.domain.repetition import sentences_of, spoken, title_beside
from recollect_server.services.context.askings import Askings
from recollect_server.services.context.excerpts import excerpt
from recollect_server.services.context.inquiry import ContextTask, Inquiry
from recollect_server.services.context.packing import BY_MEANING, BY_WORDS, Turn
from recollect_server.services.context.recalled_turns import (
    Chosen,
    RecalledTurns,
    excerpt_length,
    included_turns,
)
from recollect_server.services.context.relevance import speaks_of_asker
from recollect_server.services.recall.candidates import Candidates
from recollect_server.services.recall.dates import asks_of_dates, read_dates
from recollect_server.services.recall.meaning import Meaning
from recollect_server.services.recall.proposals import Request
from recollect_server.services.recall.retrieval import gather
from recollect_server.services.space.conversation_logs import ConversationState
from recollect_server.services.space.space import Space
from recollect_server.services.tiers import Tiers
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.messages import TurnName

# characters of a message that are asked with: a search is for a question, not for a page
_QUESTION = 4000
_CONVERSATIONS = 50  # that are found by all their words at the least, if there are so many
_RANKED = 200  # messages, best first, that turns are made of
_POOL = 1.1
"""Turns that fit best are candidates until they have so many budgets' worth: a shorter one may fit
where a longer one does not.
"""
_STRONG = 3
"""Turns that rank first, and bring those behind them where the question is likely to be answered,
else the best one alone: what came of something is often said there.
"""
_FOLLOWING = 2
_WORTH = 0.5
"""Share of a turn's score that turns beside it have at the least."""
_EXPLAINED = 10  # messages below the threshold that are named on request
_FIRST_TURNS = 3  # of a conversation: in these the one before is still of interest
_SHORTLY = 3_600_000  # milliseconds between the end of one and the beginning of the other
# conversations, newest first, of which the first with an abbreviation is the last one
_LAST_SEEN = 5
_ABBREVIATION = 100  # tokens of one
_BY_CHANCE = (
    "nothing that is stored fits the message: of its words only small talk, short numbers or one"
    " word beside many unknown ones are stored"
)
LEAST_BUDGET = 20
"""Fewer tokens than these hold no message worth the search."""


@dataclass(frozen=True, slots=True)
class Past:
    """The turns recalled for a context, and what was left out."""

    turns: list[Turn] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    """Messages that scored below the threshold, where the caller asks for them."""
    sources: Sources = field(default_factory=lambda: Sources({}))
    degraded: dict[str, str] = field(default_factory=dict)
    note: str = ""
    budget: int = 0
    """Tokens that the turns may take."""
    included: list[Turn] = field(default_factory=list)
    """The turns that the caller chose, which come before the others."""


def why_not(message: str, budget: int) -> str:
    """Return why the past cannot help, or nothing."""
    if not message.strip():
        return "not asked: there is no message to answer"
    if says_little(message):
        return "not asked: the message is a greeting or says too little"
    if budget < LEAST_BUDGET:
        return f"not asked: {budget} tokens are left, which hold nothing"
    return ""


def recall(space: Space, meaning: Meaning, tiers: Tiers, inquiry: Inquiry) -> Past:
    """Return the turns that fit best and are not shown already.

    Raises DataUnavailable, CallerGone, DeadlineExceeded.
    """
    index, task = space.index, inquiry.task
    question, now, deadline = task.question[:_QUESTION], task.weighing.now, task.deadline
    zone = task.weighing.zone
    with index.until(deadline):
        scope = SearchScope(hidden=inquiry.shown.ids(index) | task.parts.ids(index))
        askings = Askings(space, question)
        request = Request(question, scope, _CONVERSATIONS, now, hides=askings.hidden_of, zone=zone)
        candidates = gather(index, meaning, request, deadline, space.telemetry)
    ranked = candidates.best_messages()
    if ranked and _is_chance(candidates, question, now, zone):
        dropped = [
            replace(_below(candidates, at, 1.0), reason=_BY_CHANCE)
            for at in (ranked[:_EXPLAINED] if inquiry.explain else [])
        ]
        return Past(dropped=dropped, degraded=candidates.degraded, note=_BY_CHANCE)
    best = candidates.message_scores[ranked[0]] if ranked else 0.0
    least = inquiry.rules.least(candidates.strictness)
    if best < least:
        dropped = [_below(candidates, at, least) for at in ranked[:_EXPLAINED]]
        note = "nothing that is stored fits the message"
        if candidates.messages:
            note += f": the best scores {best:.2f}, below the threshold of {least:.2f}"
        return Past(
            dropped=dropped if inquiry.explain else [], degraded=candidates.degraded, note=note
        )
    trust = BY_MEANING if candidates.scans else BY_WORDS
    granted = inquiry.rules.budget(best, inquiry.own_budget, inquiry.budget, trust)
    strong = _STRONG if best > trust.doubtful else 1
    chosen = choose(candidates, ranked[:_RANKED], inquiry, granted, strong)
    turns = RecalledTurns(
        space,
        tiers,
        candidates,
        inquiry,
        _without_copies(index, candidates, chosen, inquiry),
        askings.hidden | scope.hidden,
    ).read()
    about = {
        it.id: _about(it, task.weighing.words, own=inquiry.shown.conversation_id)
        for it in index.conversations.by_number({number for number, _ in chosen}).values()
    }
    # a conversation may be deleted meanwhile
    turns = [turn for turn in turns if turn[0].conversation_id in about]
    note = (
        f"the best scores {best:.2f}, so at most {granted} tokens are recalled, or the best turn"
        " alone"
        if granted < inquiry.budget
        else ""
    )
    sources = Sources(about, inquiry.shown.conversation_id, task.form.source)
    return Past(turns, [], sources, candidates.degraded, note, granted)


def with_included(past: Past, space: Space, task: ContextTask, excerpt_tokens: int) -> Past:
    """Return the same with the turns that the caller chose. Raises DataUnavailable."""
    turns, conversations = included_turns(space, task, excerpt_tokens)
    about = {
        name: _about(it, task.weighing.words, own=task.conversation_id)
        for name, it in conversations.items()
    }
    sources = Sources({**past.sources.about, **about}, task.conversation_id, task.form.source)
    return replace(past, included=turns, sources=sources)


def _is_chance(candidates: Candidates, question: str, now: int, zone: tzinfo) -> bool:
    """Return whether the candidates may have the words of the question by chance alone."""
    if candidates.scans or speaks_of_asker(question) or not candidates.terms.words.may_coincide:
        return False
    is_of_past = any(it.end <= now for it in read_dates(question, now, zone=zone))
    return not (is_of_past and asks_of_dates(question))


def _without_copies(
    index: Index, candidates: Candidates, chosen: dict[TurnName, Chosen], inquiry: Inquiry
) -> dict[TurnName, Chosen]:
    """Return the turns, but of those that forks have copies of only one: that of the current
    conversation, whether it is shown or may be recalled, else the one that ranks first.
    """
    shown = inquiry.shown
    origins = index.conversations.origins({number for number, _ in chosen} | {shown.number or 0})
    if not origins:
        return chosen
    names = {it.number: it.id for it in candidates.conversations}

    def first_place(number: int | None, conversation_id: str, turn: int) -> tuple[str, int]:
        """Return the place of the turn that this one is a copy of, or its own."""
        copied = [it for it, through in origins.get(number or 0, []) if turn <= through]
        return (copied[-1] if copied else conversation_id), turn

    holders: dict[tuple[str, int], int | None] = {}
    singles: dict[TurnName, Chosen] = {}
    for (number, turn), it in chosen.items():
        place = first_place(number, names[number], turn)
        own = first_place(shown.number, shown.conversation_id, turn)
        holder = holders.setdefault(place, shown.number if place == own else number)
        if holder == number:
            singles[number, turn] = it
    return singles


def choose(
    candidates: Candidates, ranked: Sequence[int], inquiry: Inquiry, granted: int, strong: int
) -> dict[TurnName, Chosen]:
    """Return turns, by rank, until they have some more than the `granted` tokens; with the turns
    behind those `strong` ones that rank first.

    The score of the best one says whether the question is answered at all; how far down the ranking
    the answer stands, the budget decides.
    """
    shown = inquiry.shown
    scores = candidates.message_scores
    best = scores[ranked[0]]
    chosen: dict[TurnName, Chosen] = {}
    room = _POOL * granted
    for at in ranked:
        message = candidates.messages[at]
        name = message.number, message.turn_number
        if room <= 0 and name not in chosen:
            break
        if message.number != shown.number or message.place[0] not in shown.lent:
            room -= min(message.tokens, excerpt_length(inquiry.excerpt_tokens, scores[at], best))
        chosen.setdefault(name, Chosen(scores[at])).ats.append(at)
    for number, turn in [*chosen][:strong]:
        score = chosen[number, turn].score
        for following in range(turn + 1, turn + 1 + _FOLLOWING):
            if number != shown.number or following < shown.newest_turn:
                it = chosen.setdefault((number, following), Chosen(0.0))
                it.score = max(it.score, _WORTH * score)
    return dict(sorted(chosen.items(), key=lambda it: -it[1].score))


def unshown(turns: list[Turn], conversation_id: str, lines: frozenset[int]) -> list[Turn]:
    """Return the turns, but for those lines of a conversation."""
    shown = {(conversation_id, line) for line in lines}
    others = ([it for it in turn if it.place not in shown] for turn in turns)
    return [turn for turn in others if turn]


def last_conversation(
    space: Space, head: ConversationState, room: int, task: ContextTask
) -> Source | None:
    """Return the abbreviation of the conversation before this one, if there is room and this one
    began shortly after it, with the same people, and is in its first turns.

    One of the same channel comes before others.
    """
    conversation = head.conversation
    if conversation.turn_count > _FIRST_TURNS:
        return None
    for channels in ((conversation.channel,), ()):
        for stored in space.index.conversations.select(
            Filter(channels=channels, unindexed=False), _LAST_SEEN + 1
        ):
            before = stored.state
            if (
                not before.abbreviation
                or not _goes_on(conversation, before)
                or task.parts.excludes_all(before.id)
            ):
                continue
            about = _about(before)
            title = title_beside(about.title, spoken(about.abbreviation))
            source = Source(before.id, about, (), about.abbreviation, title)
            return source if task.form.source(source) <= room else None
    return None


def _goes_on(conversation: Conversation, before: Conversation) -> bool:
    """Return whether a conversation began shortly after another one ended, and everybody who is
    known to have spoken there is known to speak here.
    """
    if not 0 <= conversation.create_time - before.update_time <= _SHORTLY:
        return False
    here, there = (set(it.participants) - {ANYBODY} for it in (conversation, before))
    return (
        conversation.id != before.id
        and bool(here) == bool(there)
        and there <= here
        and _place(conversation) == _place(before)
    )


def _place(conversation: Conversation) -> tuple[str, ...]:
    """Return the contact or group that a conversation is with, on its channel; empty for none."""
    party = conversation.party
    place = (party.contact, party.group_id)
    return (conversation.channel, *place) if any(place) else ()


def _below(candidates: Candidates, at: int, least: float) -> Dropped:
    """Return a message that scored too low to be recalled."""
    message, score = candidates.messages[at], candidates.message_scores[at]
    reason = f"scores {score:.2f}, below the threshold of {least:.2f}"
    return Dropped(
        candidates.conversation_of(at).id,
        message.place[0],
        Tier.COLD,
        message.tokens,
        reason,
        score,
    )


def _about(conversation: Conversation, words: frozenset[str] = frozenset(), own: str = "") -> About:
    text = (
        "" if conversation.id == own else excerpt(conversation.abbreviation, _ABBREVIATION, words)
    )
    return About(
        conversation.name,
        conversation.channel,
        conversation.create_time,
        conversation.update_time,
        text,
        sentences_of(text),
        conversation.participants,
    )
