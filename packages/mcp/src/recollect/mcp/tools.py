"""The tools: plain functions of a client and their arguments."""

import json
from datetime import UTC, datetime
from typing import Any

from recollect import (
    AsyncClient,
    BesideMessage,
    ContextFormat,
    Message,
    SearchAnswer,
    SearchHit,
    SearchResult,
)
from recollect import DateRange as Span
from recollect._shared.file_parts import is_part
from recollect._shared.moments import moment, readable, zone_of
from recollect._shared.plain import plain, time_text
from recollect.mcp import shapes
from recollect.mcp.bounds import MAX_NOTES, choose, clipped
from recollect.mcp.errors import WrongArgument

LAST_TURNS = 10
CHANNEL = "mcp"
"""Channel of the conversations that `append_messages` begins."""
_MOST = 100
_DOUBTFUL = 0.3  # a best score below it: most likely nothing answers


def conversation_resource(conversation_id: str) -> str:
    """Return the resource of a conversation: its last turns."""
    return f"recollect://conversation/{conversation_id}"


def resource_of(conversation_id: str, turn: int | str) -> str:
    """Return the resource that holds a whole turn."""
    return f"recollect://{conversation_id}/turns/{turn}"


async def search_conversations(client: AsyncClient, request: shapes.Search) -> shapes.Found:
    """Return the conversations and the messages that answer a question best. Raises WrongArgument,
    RecollectError.
    """
    span = _span(client, request.date_range)
    least = request.min_score
    answer = await client.recall.search(
        request.query,
        limit=request.limit,
        channel=request.channel,
        date_range=span,
        min_score=least or None,
        moment=request.moment,
    )
    doubt = _doubt(answer, least)
    continuation = None
    cut = not least or len(answer.results) == request.limit  # by the limit, not by the scores
    if answer.total_matches > len(answer.results) and cut and request.limit < _MOST:
        continuation = (
            f"{len(answer.results)} of {answer.total_matches} conversations that match at all"
            " are here, the best ones."
            f' Ask again with a larger limit, at most {_MOST}, or with "dateRange" or "channel"'
            " to see others."
        )
    return shapes.Found(
        results=[
            shapes.Result(
                conversation_id=it.conversation_id,
                conversation_name=it.conversation_name,
                channel=it.channel,
                snippet=_marked(it),
                turn_range=shapes.Turns.of(it.turn_range.first, it.turn_range.last)
                if it.turn_range
                else None,
                matched_turns=list(it.matched_turns),
                date=time_text(it.date),
                when=readable(it.date),
                score=it.score,
                topics=list(it.topics),
                abbreviation=_notes(it.abbreviation),
            )
            for it in answer.results
        ],
        messages=[
            shapes.Hit(
                conversation_id=it.conversation_id,
                turn_number=it.turn_number,
                role=it.role.value,
                sender=it.sender or None,
                snippet=_marked(it),
                date=time_text(it.date),
                when=readable(it.date),
                score=it.score,
                before=_beside(it.before),
                reply=_beside(it.after),
            )
            for it in answer.hits
        ],
        total_matches=answer.total_matches,
        doubt=doubt,
        degraded=[shapes.Degraded(leg=it.leg, reason=it.reason) for it in answer.degraded],
        continuation=continuation,
    )


def _beside(message: BesideMessage | None) -> shapes.Beside | None:
    if message is None:
        return None
    return shapes.Beside(role=message.role.value, sender=message.sender or None, text=message.text)


def _doubt(answer: SearchAnswer, least: float) -> str | None:
    """Return a sentence where probably nothing that is stored answers the question."""
    scores = [ranking[0].score for ranking in (answer.results, answer.hits) if ranking]
    if scores and max(scores) >= _DOUBTFUL:
        return None
    reason = f"the best score is {max(scores):.2f} of 1" if scores else "nothing was found"
    if not scores and answer.total_matches:
        reason = f"nothing scores {least:.2f} or more"
    return (
        f"Probably nothing that is stored answers this: {reason}. Ask with other words, or"
        " tell the user that it was not said."
    )


async def fetch_context(client: AsyncClient, request: shapes.FetchContext) -> shapes.Fetched:
    """Return turns of a conversation, as many as an answer has room for. Raises WrongArgument,
    RecollectError.
    """
    span = request.turn_range
    if span and span.to < span.from_:
        raise WrongArgument(
            f"turnRange.to: is {span.to}, which is before turnRange.from, {span.from_}"
        )
    history = await client.recall.fetch_context(
        request.conversation_id, (span.from_, span.to) if span else None
    )
    whole = resource_of(history.conversation_id, "{turn}")
    messages = [message for message in history.messages if not is_part(message)]
    chosen = choose(messages, from_the_end=span is None, rest=f"over MCP read the resource {whole}")
    notes = []
    if history.damaged_lines:
        notes.append(
            f"Damaged lines of the transcript, which are left out: {history.damaged_lines}."
        )
    if chosen.cut:
        notes.append(
            f"Turn {chosen.cut[0]} is too long and was cut: over MCP the resource"
            f" {whole.format(turn=chosen.cut[0])} has all of it."
        )
    left = shapes.Turns.of(*chosen.left) if chosen.left else None
    if left:
        again = json.dumps(
            {"conversationId": history.conversation_id, "turnRange": left.model_dump(by_alias=True)}
        )
        notes.append(
            f"Turns {left.from_} to {left.to} had no room: call fetch_context again with {again}."
        )
    shown = [message.turn_number for message in chosen.messages]
    if span is None and shown and shown[0] > 1 and not left:
        notes.append(
            f"These are the last {LAST_TURNS} turns: earlier ones have the numbers 1 to"
            f" {shown[0] - 1}."
        )
    return shapes.Fetched(
        conversation_id=history.conversation_id,
        conversation_name=history.conversation_name,
        channel=history.channel,
        total_turns=history.total_turns,
        turn_range=shapes.Turns.of(shown[0], shown[-1]) if shown else None,
        messages=list(map(_line, chosen.messages)),
        continuation=" ".join(notes) or None,
        next_turn_range=left,
    )


async def get_context(client: AsyncClient, request: shapes.GetContext) -> shapes.Context:
    """Build what a model needs to go on with a conversation. Raises RecollectError."""
    built = await client.recall.build_context(
        request.conversation_id,
        request.message,
        budget=request.max_tokens,
        format=ContextFormat.XML,
    )
    continuation = None
    if built.dropped or built.has_more:
        continuation = (
            f"{max(len(built.dropped), 1)} messages or more had no room: ask again with a larger"
            ' "maxTokens", or read turns with fetch_context.'
        )
    return shapes.Context(
        conversation_id=request.conversation_id,
        context=built.rendered,
        tokens=built.rendered_tokens,
        degraded=[shapes.Degraded(leg=it.leg, reason=it.reason) for it in built.degraded],
        continuation=continuation,
    )


async def recent_conversations(
    client: AsyncClient, request: shapes.RecentConversations
) -> shapes.Recent:
    """Return conversations by time, with their notes. Raises WrongArgument, RecollectError."""
    span = _span(client, request.date_range) or Span()
    entries = await client.recall.recent(
        limit=request.limit, channel=request.channel, after=span.start, before=span.end
    )
    continuation = None
    if entries and (len(entries) == request.limit or entries.has_more):
        times = ({"from": time_text(span.start)} if span.start else {}) | {
            "to": time_text(entries[-1].conversation.update_time)
        }
        continuation = (
            "There may be older ones: call recent_conversations again with"
            f" {json.dumps({'dateRange': times})}."
        )
    return shapes.Recent(
        conversations=[
            shapes.Browsed(
                conversation_id=it.conversation.id,
                conversation_name=it.conversation.name or None,
                channel=it.conversation.channel,
                date=time_text(it.conversation.update_time),
                when=readable(it.conversation.update_time),
                turns=it.conversation.turn_count,
                topics=list(it.conversation.topics),
                abbreviation=_notes(it.conversation.abbreviation),
                snippet=it.snippet or None,
            )
            for it in entries
        ],
        continuation=continuation,
    )


async def append_messages(client: AsyncClient, request: shapes.AppendMessages) -> shapes.Appended:
    """Append messages to a conversation, or begin one with them. Raises RecollectError."""
    messages = [
        Message.user(it.content) if it.role == "user" else Message.assistant(it.content)
        for it in request.messages
    ]
    if request.conversation_id is None:
        conversation = await client.conversations.create(
            CHANNEL, messages=messages, request_id=request.request_id
        )
    else:
        turn = await client.conversations.append_turn(
            request.conversation_id, messages, request_id=request.request_id
        )
        conversation = turn.conversation
    return shapes.Appended(
        conversation_id=conversation.id,
        turn_number=conversation.turn_count,
        message_count=conversation.message_count,
    )


async def whole_turn(client: AsyncClient, conversation_id: str, turn: int) -> dict[str, Any]:
    """Return a turn with everything that was stored of it. Raises RecollectError."""
    history = await client.recall.fetch_context(conversation_id, (turn, turn))
    return {
        "conversationId": history.conversation_id,
        "turn": turn,
        "messages": [plain(message) for message in history.messages],
    }


def _span(client: AsyncClient, dates: shapes.DateRange | None) -> Span | None:
    if dates is None:
        return None
    start = time_of(client, dates.from_, "dateRange.from", ends=False)
    end = time_of(client, dates.to, "dateRange.to", ends=True)
    if start and end and end <= start:
        raise WrongArgument("dateRange.to: is not after dateRange.from")
    return Span(start, end)


def time_of(client: AsyncClient, text: str | None, field: str, *, ends: bool) -> datetime | None:
    """Return the time that an argument names, in the user's zone. Raises WrongArgument."""
    if text is None:
        return None
    try:
        return moment(text, zone_of(client.time_zone) or UTC, ends=ends)
    except ValueError as error:
        raise WrongArgument(f"{field}: {error}") from None


def _line(message: Message) -> shapes.Line:
    assert message.timestamp is not None, "a stored message has a time"
    return shapes.Line(
        turn_number=message.turn_number,
        role=message.role.value,
        sender=message.sender or None,
        channel=message.channel or None,
        content=message.content,
        timestamp=time_text(message.timestamp),
        when=readable(message.timestamp),
        tool_calls=[
            shapes.Call(id=it.id, name=it.name, arguments=it.arguments) for it in message.tool_calls
        ],
        tool_call_id=message.tool_call_id or None,
    )


def _marked(it: SearchHit | SearchResult) -> str:
    """Return a snippet with the words that match in Markdown's bold."""
    text = it.snippet_text
    for at in reversed([at for match in it.snippet_matches for at in (match.start, match.end)]):
        text = f"{text[:at]}**{text[at:]}"
    return text


def _notes(text: str) -> str | None:
    return clipped(text, MAX_NOTES, "fetch_context has the turns themselves") if text else None
