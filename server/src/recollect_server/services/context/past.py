"""Recalls what fits the message to be answered: whole turns of any conversation that the context
does not show already.

The search ranks messages; each one that scores high enough brings its whole turn, long texts as
excerpts around the words that matter.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace

from recollect_server.domain.budget import estimate_tokens
from recollect_server.domain.context import About, Candidate, Dropped, Source, Tier
from recollect_server.domain.conversation import Conversation
from recollect_server.domain.deadline import UNLIMITED, Deadline
from recollect_server.domain.filters import Filter, Scope
from recollect_server.domain.ids import message_id
from recollect_server.domain.message import Message, Role
from recollect_server.domain.rendering.form import Form
from recollect_server.services.context.excerpts import MARK, excerpt
from recollect_server.services.context.own import Weighing
from recollect_server.services.context.packing import BY_MEANING, BY_WORDS, Recalling, Turn
from recollect_server.services.context.relevance import says_little, speaks_of_asker, words_of
from recollect_server.services.recall.candidates import Candidates, gather
from recollect_server.services.recall.dates import asks_of_dates, read_dates, without_dates
from recollect_server.services.recall.meaning import Meaning
from recollect_server.services.space.space import Space
from recollect_server.services.space.state import ConversationState
from recollect_server.services.tiers import Tiers
from recollect_server.services.working_context import read_found
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.messages import Place

# characters of a message that are asked with: a search is for a question, not for a page
_QUESTION = 4000
_CONVERSATIONS = 50  # that are found by all their words at the least, if there are so many
_RANKED = 200  # messages, best first, that turns are made of
_POOL = 1.1
"""Turns that fit best are candidates until they have so many budgets' worth: a shorter one may fit
where a longer one does not.
"""
_FURTHER = 0.5
"""Share of an excerpt's tokens that the messages of all turns but the best one have: with long
answers more turns then fit.
"""
_OF_USERS = 0.3
"""Share of an excerpt's tokens that a user's message has at the least. It is short where an agent's
answer is long, and says what the turn is about.
"""
_BESIDE = 0.25
"""Share of an excerpt's tokens that the other messages of a turn have: they say what was asked, or
what became of it.
"""
_REPEATED = 0.2
"""Factor of the rarity of a word in the excerpt of an answer, where the user's message beside it
has the word too.
"""
_LEAST_EXCERPT = 30  # tokens
_CUT_OFF = 0.1
"""Share of a message that an excerpt leaves out at the least: to cut off one short sentence saves
nothing, and the answer may be in it.
"""
_WHOLE_TURN = 6
"""Messages of a turn that are all recalled. Of more the first, the last and those that fit: a turn
may have many tool calls.
"""
_EXPLAINED = 10  # messages below the threshold that are named on request
_FIRST_TURNS = 3  # of a conversation: in these the one before is still of interest
# conversations, newest first, of which the first with an abbreviation is the last one
_LAST_SEEN = 5
_ABBREVIATION = 100  # tokens of one
_TITLE = 80  # characters of one
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
    about: dict[str, About] = field(default_factory=dict)
    degraded: dict[str, str] = field(default_factory=dict)
    note: str = ""
    budget: int = 0
    """Tokens that the turns may take."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The messages of the current conversation that the context shows already."""

    conversation_id: str
    number: int | None
    """Its number in the index; None where the index does not have it."""
    sequences: frozenset[int] = frozenset()
    """The lines of the messages that are packed."""
    lent: frozenset[int] = frozenset()
    """The lines of messages that are packed unless recall takes their room: they may be recalled
    then.
    """
    newest_turn: int = 0
    """The turn that is being answered: nothing of it answers itself, whether it is packed or
    not.
    """

    def ids(self, index: Index) -> frozenset[int]:
        """Return the ids in the index of what must not be recalled. Raises IndexUnavailable."""
        if self.number is None:
            return frozenset()
        newest = index.messages.of_turns(self.number, self.newest_turn, self.newest_turn)
        return frozenset(
            message_id(self.number, line)
            for line in (*self.sequences, *(line for line, _, _ in newest))
        )


def why_not(message: str, budget: int) -> str:
    """Return why the past cannot help, or nothing."""
    if not message.strip():
        return "not asked: there is no message to answer"
    if says_little(message):
        return "not asked: the message is a greeting or says too little"
    if budget < LEAST_BUDGET:
        return f"not asked: {budget} tokens are left, which hold nothing"
    return ""


def recall(
    space: Space,
    meaning: Meaning,
    tiers: Tiers,
    weighing: Weighing,
    message: str,
    shown: Shown,
    budget: int,
    rules: Recalling,
    excerpt_tokens: int,
    deadline: Deadline = UNLIMITED,
    *,
    own_budget: int,
    explain: bool,
) -> Past:
    """Return the turns that fit best and are not shown already.

    Of `budget`, what exceeds `own_budget` is only used where something is likely to fit; where that
    is doubtful by meaning, less than `own_budget`.

    Raises IndexUnavailable, StorageUnavailable, CallerGone, DeadlineExceeded.
    """
    index = space.index
    question = message[:_QUESTION]
    dates = read_dates(question, weighing.now)
    with index.until(deadline):
        hidden = shown.ids(index)
        terms = index.search.terms(without_dates(question, dates))
        candidates = gather(
            index,
            meaning,
            question,
            terms,
            Scope(hidden=hidden),
            _CONVERSATIONS,
            deadline,
            weighing.now,
            telemetry=space.telemetry,
        )
    ranked = candidates.best_messages()
    asks_of_past = speaks_of_asker(question) or (
        asks_of_dates(question) and any(it.end <= weighing.now for it in dates)
    )
    if ranked and not (candidates.scans or asks_of_past) and terms.words.may_coincide:
        near = ranked[:_EXPLAINED] if explain else []
        dropped = [replace(_below(candidates, at, 1.0), reason=_BY_CHANCE) for at in near]
        return Past(dropped=dropped, degraded=candidates.degraded, note=_BY_CHANCE)
    best = candidates.message_scores[ranked[0]] if ranked else 0.0
    least = rules.least(best)
    chosen: dict[tuple[int, int], list[int]] = {}
    note = ""
    trust = BY_MEANING if candidates.scans else BY_WORDS
    granted = rules.budget(best, own_budget, budget, trust)
    if granted < budget:
        note = (
            f"the best scores {best:.2f}, so at most {granted} tokens are recalled, or the best turn"
            " alone"
        )
    room = _POOL * granted
    for at in ranked[:_RANKED]:
        name = (candidates.messages[at].number, candidates.messages[at].turn_number)
        score = candidates.message_scores[at]
        if score < least or (room <= 0 and name not in chosen):
            break
        if name[0] != shown.number or candidates.messages[at].place[0] not in shown.lent:
            room -= min(candidates.messages[at].tokens, _length(excerpt_tokens, score, best))
        chosen.setdefault(name, []).append(at)
    low = (
        [at for at in ranked if candidates.message_scores[at] < least][:_EXPLAINED]
        if explain
        else []
    )
    dropped = [_below(candidates, at, least) for at in low]
    if not chosen:
        note = "nothing that is stored fits the message"
        if candidates.messages:
            note += f": the best scores {best:.2f}, below the threshold of {rules.threshold:.2f}"
        return Past([], dropped, {}, candidates.degraded, note)
    turns = _read(space, candidates, chosen, shown, excerpt_tokens, tiers, weighing, deadline)
    numbers = {number for number, _ in chosen}
    about = {
        it.id: _about(it, weighing, own=shown.conversation_id)
        for it in index.conversations.by_number(numbers).values()
    }
    # a conversation may be deleted meanwhile
    turns = [turn for turn in turns if turn[0].conversation_id in about]
    return Past(turns, dropped, about, candidates.degraded, note, granted)


def unshown(turns: list[Turn], conversation_id: str, lines: frozenset[int]) -> list[Turn]:
    """Return the turns, but for those lines of a conversation."""
    shown = {(conversation_id, line) for line in lines}
    others = ([it for it in turn if it.place not in shown] for turn in turns)
    return [turn for turn in others if turn]


def last_conversation(
    space: Space, head: ConversationState, room: int, form: Form
) -> Source | None:
    """Return the abbreviation of the conversation before this one, if this one is in its first
    turns and there is room.

    One of the same channel comes before others. Raises IndexUnavailable.
    """
    conversation = head.conversation
    if conversation.turn_count > _FIRST_TURNS:
        return None
    for channels in ((conversation.channel,), ()):
        for stored in space.index.conversations.select(
            Filter(channels=channels, unindexed=False), _LAST_SEEN + 1
        ):
            before = stored.conversation
            if before.id == conversation.id or not before.abbreviation:
                continue
            about = _about(before, None)
            source = Source(before.id, about, (), about.abbreviation, about.title)
            return source if form.source(source) <= room else None
    return None


def _read(
    space: Space,
    candidates: Candidates,
    chosen: dict[tuple[int, int], list[int]],
    shown: Shown,
    excerpt_tokens: int,
    tiers: Tiers,
    weighing: Weighing,
    deadline: Deadline,
) -> list[Turn]:
    """Return the chosen turns whole, but for messages that are shown already and lines that are
    damaged.
    """
    places: defaultdict[int, list[Place]] = defaultdict(list)
    scores: dict[tuple[int, int], float] = {}
    ids: dict[int, str] = {}
    matched: defaultdict[int, set[int]] = defaultdict(set)
    for (number, _), ats in chosen.items():
        matched[number] |= {candidates.messages[at].place[0] for at in ats}
    for (number, turn), ats in chosen.items():
        ids[number] = candidates.conversation_of(ats[0]).id
        scores[number, turn] = candidates.message_scores[ats[0]]
        there = space.index.messages.of_turns(number, turn, turn)
        if len(there) > _WHOLE_TURN:
            there = [
                place
                for at, place in enumerate(there)
                if at in (0, len(there) - 1) or place[0] in matched[number]
            ]
        is_own = number == shown.number
        places[number] += [place for place in there if not (is_own and place[0] in shown.sequences)]
    turns: list[Turn] = []
    best = max(scores.values(), default=0.0)
    rarities = candidates.words.rarities()
    for number, own_places in places.items():
        deadline.check()
        warm = tiers.warm_since(ids[number])
        whole: defaultdict[int, Turn] = defaultdict(list)
        shown_words: dict[int, frozenset[str]] = {}
        for message in read_found(space, ids[number], sorted(own_places)) or []:
            if (number, message.turn_number) in scores:
                score = scores[number, message.turn_number]
                fits = message.sequence in matched[number]
                tokens = _length(excerpt_tokens, score, best, fits=fits)
                if message.role is Role.USER:
                    tokens = max(tokens, int(_OF_USERS * excerpt_tokens))
                if estimate_tokens(message.content) * (1 - _CUT_OFF) <= tokens:
                    tokens = max(tokens, min(excerpt_tokens, estimate_tokens(message.content)))
                # An answer begins by repeating the question: what else fits is worth more.
                repeated = shown_words.get(message.turn_number, frozenset()) & rarities.keys()
                weights = rarities | {word: _REPEATED * rarities[word] for word in repeated}
                cut = _cut(message, tokens, weighing.words, weights)
                if message.role is Role.USER:
                    shown_words[message.turn_number] = words_of(cut.content)
                whole[message.turn_number].append(
                    _candidate(ids[number], message, cut, score, warm, weighing, fits=fits)
                )
        turns += whole.values()
    return turns


def _length(excerpt_tokens: int, score: float, best: float, *, fits: bool = True) -> int:
    """Return the most tokens of a message that is recalled: in proportion to the probability that
    its turn helps.
    """
    tokens = excerpt_tokens * score
    if score < best:
        tokens *= _FURTHER
    return min(excerpt_tokens, max(_LEAST_EXCERPT, int(tokens if fits else tokens * _BESIDE)))


def _cut(
    message: Message, tokens: int, words: frozenset[str], rarities: dict[str, float]
) -> Message:
    """Return the message with excerpts of its content and of its tool calls' arguments, where they
    are long.
    """
    content = excerpt(message.content, tokens, words, rarities)
    calls = tuple(
        replace(call, arguments=excerpt(call.arguments, tokens // 4, words, rarities))
        for call in message.tool_calls
    )
    return (
        message
        if (content, calls) == (message.content, message.tool_calls)
        else replace(message, content=content, tool_calls=calls)
    )


def _candidate(
    conversation_id: str,
    whole: Message,
    message: Message,
    score: float,
    warm: int | None,
    weighing: Weighing,
    *,
    fits: bool,
) -> Candidate:
    strength = weighing.strengths.get((conversation_id, message.sequence), 0.0)
    age = weighing.now - max(message.timestamp, warm or 0)
    reason = (
        f"fits the message: {score:.2f}"
        if fits
        else f"of the turn of a message that fits: {score:.2f}"
    )
    reason += ", and its conversation was in use lately" if warm else ""
    reason += ", and an anchor came from it" if strength else ""
    relevance = weighing.weights.relevance(age=age, similarity=score, anchor=strength)
    charge = weighing.form.recalled(message)
    return Candidate(
        conversation_id,
        message,
        relevance,
        reason,
        charge=charge,
        is_excerpt=message is not whole,
        score=score,
    )


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


def _about(conversation: Conversation, weighing: Weighing | None, own: str = "") -> About:
    words = weighing.words if weighing else frozenset[str]()
    text = (
        "" if conversation.id == own else excerpt(conversation.abbreviation, _ABBREVIATION, words)
    )
    name = (
        conversation.name
        if len(conversation.name) <= _TITLE
        else conversation.name[: _TITLE - 1].rstrip() + MARK
    )
    return About(
        name, conversation.channel, conversation.create_time, conversation.update_time, text
    )
