"""The input and output of the tools, in the names that agents know: camelCase."""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


class _Output(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


def _from_text(value: Any) -> Any:
    """Parse an object that a host sent as JSON text."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


class DateRange(_Input):
    """A span of time. An end that is left out is open."""

    from_: str | None = Field(
        None,
        alias="from",
        description="From this date (2026-02-14) or time (2026-02-14T09:00:00Z) on.",
    )
    to: str | None = Field(
        None, description="Up to this date, its whole day included, or up to this time."
    )


class TurnRange(_Input):
    """A span of turns, both ends included."""

    from_: int = Field(alias="from", ge=1, description="The first turn, from 1.")
    to: int = Field(ge=1, description="The last turn.")


Span = Annotated[DateRange | None, BeforeValidator(_from_text)]
Limit = Annotated[int, Field(ge=1, le=100, description="How many at the most.")]
Probability = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description="Leave out what scores less; 0.3 leaves out what most likely does not"
        " answer. Without it all is shown.",
    ),
]
Channel = Annotated[
    str | None,
    Field(description="Only this channel: web, whatsapp, email, discord, cli or another."),
]


When = Annotated[
    str,
    Field(description="The same time to read and to quote: Wednesday 4 February 2026, 09:30 UTC."),
]


Value = Annotated[
    str, Field(min_length=1, max_length=1000, description="The fact, in a few words.")
]
FactName = Annotated[
    str,
    Field(
        pattern=r"^([a-z0-9_.-]{1,64}|conv-[0-9A-Z]{26}\.[0-9]+\.[0-9]+)$",
        description="The fact's name, as list_facts has it.",
    ),
]


class Search(_Input):
    """The arguments of `search_conversations`."""

    query: str = Field(min_length=1, description="A question or some words, in any language.")
    channel: Channel = None
    date_range: Span = Field(None, description="Only what was said within it.")
    limit: Limit = 10
    min_score: Probability = 0.0
    moment: bool = Field(
        False,
        description="Whether each message comes with what was said right before and behind it.",
    )


class FetchContext(_Input):
    """The arguments of `fetch_context`."""

    conversation_id: str = Field(min_length=1, description="The conversation, as `conv-01HQ…`.")
    turn_range: Annotated[TurnRange | None, BeforeValidator(_from_text)] = Field(
        None, description="Which turns, at most 200. Without it the last 10."
    )


class GetContext(_Input):
    """The arguments of `get_context`."""

    conversation_id: str | None = Field(
        None,
        min_length=1,
        description="The conversation that goes on, as `conv-01HQ…`. Without it the context is for a"
        " new one: what is known of the user, and what is recalled for `message`.",
    )
    message: str | None = Field(
        None,
        description="The message to be answered: what was said about it anywhere is recalled."
        " Without it nothing of other conversations is.",
    )
    max_tokens: int = Field(
        4400, ge=200, le=20_000, description="How long the context is at the most."
    )


class RecentConversations(_Input):
    """The arguments of `recent_conversations`."""

    channel: Channel = None
    date_range: Span = Field(
        None, description="Only conversations with their newest message within it."
    )
    limit: Limit = 10


class FactSource(_Part):
    """The message that a fact is from."""

    conversation_id: str = Field(min_length=1, description="The conversation, as `conv-01HQ…`.")
    sequence: int = Field(ge=1, description="The line of the message in its transcript.")


class ListFacts(_Input):
    """The arguments of `list_facts`."""

    include_past: bool = Field(
        False, description="Facts that hold no longer, too, each with the time of its end."
    )
    as_of: str | None = Field(
        None,
        description="The facts as they stood then: a date, as `2026-03-31` (its end), or a time."
        " Without it, those of now.",
    )
    limit: int = Field(100, ge=1, le=200, description="How many at the most.")
    offset: int = Field(0, ge=0, description="How many to pass over.")


class Remember(_Input):
    """The arguments of `remember`."""

    key: str = Field(
        pattern=r"^[a-z0-9_.-]{1,64}$",
        description="A short name of the fact: lower-case letters, digits, `_`, `.` and `-`, as"
        " `home.city`. A value that the key has is superseded.",
    )
    value: Value
    source: Annotated[FactSource | None, BeforeValidator(_from_text)] = Field(
        None, description="The message that the fact is from, where list_facts or an undo names it."
    )


class Correct(_Input):
    """The arguments of `correct`."""

    fact: FactName
    value: Value


class Forget(_Input):
    """The arguments of `forget`."""

    fact: FactName


class Said(_Input):
    """A message to append."""

    role: Literal["user", "assistant"] = Field(description="Who says it.")
    content: str = Field(min_length=1, description="Its text.")


class AppendMessages(_Input):
    """The arguments of `append_messages`."""

    messages: Annotated[list[Said], BeforeValidator(_from_text)] = Field(
        min_length=1, max_length=100, description="The messages, in their order."
    )
    conversation_id: str | None = Field(
        None, description="The conversation, as `conv-01HQ…`. Without it a new one begins."
    )
    request_id: str | None = Field(
        None,
        description="A text of your own, 1 to 128 letters and digits. The same call with it again"
        " appends nothing more.",
    )


class Turns(_Output):
    """A span of turns, both ends included."""

    from_: int = Field(alias="from")
    to: int

    @classmethod
    def of(cls, first: int, last: int) -> Self:
        """Return the span from the first to the last turn."""
        return cls.model_validate({"from": first, "to": last})


class Result(_Output):
    """A conversation that was found."""

    conversation_id: str
    conversation_name: str
    channel: str
    snippet: str = Field(
        description="The part of its best message that fits; words that match stand between **."
    )
    turn_range: Turns | None
    matched_turns: list[int] = Field(description="The turns that fit best, best first.")
    date: str
    when: When
    score: float = Field(
        description="The probability that this, or at least one behind it, answers."
    )
    topics: list[str]
    abbreviation: str | None = Field(
        description="Meeting notes of the conversation, where there are any."
    )


class Beside(_Output):
    """A message right before or behind one that was found."""

    role: str
    sender: str | None
    text: str = Field(description="Its beginning.")


class Hit(_Output):
    """A message that was found, whatever its conversation's place."""

    conversation_id: str
    turn_number: int
    role: str
    sender: str | None
    snippet: str
    date: str
    when: When
    score: float = Field(
        description="The probability that this, or at least one behind it, answers."
    )
    before: Beside | None = Field(description="What was said right before it, with `moment`.")
    reply: Beside | None = Field(
        description="What somebody else said next, if this asks. With `moment` whatever was said next."
    )


class Degraded(_Output):
    """A part of the search that could not answer in full."""

    leg: str
    reason: str


class Found(_Output):
    """The answer of `search_conversations`."""

    results: list[Result] = Field(description="The conversations, best first.")
    messages: list[Hit] = Field(
        description="The messages, best first, whatever their conversation."
    )
    total_matches: int
    doubt: str | None = Field(
        description="Said where probably nothing that was stored answers the question. Null"
        " where something may."
    )
    degraded: list[Degraded]
    continuation: str | None = Field(
        description="What was left out and how to ask for it. Null if nothing was."
    )


class Call(_Output):
    """A tool that the agent called."""

    id: str
    name: str
    arguments: str


class Line(_Output):
    """A message of a conversation."""

    turn_number: int
    role: str
    sender: str | None
    channel: str | None = Field(
        description="The channel that it came over. Null where it is the conversation's."
    )
    content: str
    timestamp: str
    when: When
    tool_calls: list[Call]
    tool_call_id: str | None


class Fetched(_Output):
    """The answer of `fetch_context`."""

    conversation_id: str
    conversation_name: str
    channel: str
    total_turns: int
    turn_range: Turns | None = Field(
        description="The turns that are in this answer. Null if there are none."
    )
    messages: list[Line]
    continuation: str | None = Field(
        description="What was left out and how to ask for it. Null if nothing was."
    )
    next_turn_range: Turns | None = Field(
        description="The turns to ask for next. Null if all are here."
    )


class Context(_Output):
    """The answer of `get_context`."""

    conversation_id: str | None
    context: str = Field(
        description="An XML element: what users said of themselves, lasting facts, the summary of what was condensed, what was"
        " recalled with its sources, and the conversation's newest turns."
    )
    tokens: int = Field(description="Its length, estimated.")
    degraded: list[Degraded]
    continuation: str | None = Field(
        description="What was left out and how to ask for it. Null if nothing was."
    )


class Browsed(_Output):
    """A conversation as a browser of the past sees it."""

    conversation_id: str
    conversation_name: str | None
    channel: str
    date: str = Field(description="The time of its newest message.")
    when: When
    turns: int
    topics: list[str]
    abbreviation: str | None
    snippet: str | None = Field(
        description="The beginning of its newest message, where it has no abbreviation."
    )


class Recent(_Output):
    """The answer of `recent_conversations`."""

    conversations: list[Browsed] = Field(description="The newest first.")
    continuation: str | None = Field(
        description="How to ask for older ones. Null if these are all."
    )


class Fact(_Output):
    """A lasting fact about the user."""

    fact: str = Field(description="Its name, for correct and forget.")
    text: str
    kind: str = Field(
        description="`fact` for one that an agent remembered or that was noted under a key; else"
        " the subject of what the user said, as `instruction` or `health`."
    )
    since: str = Field(description="The time at which it was said or remembered.")
    when: When
    until: str | None = Field(description="The time of its end. Null while it holds.")
    source: FactSource | None = Field(
        description="The message that it is from. Null if none is known."
    )


class Facts(_Output):
    """The answer of `list_facts`."""

    facts: list[Fact]
    total: int
    degraded: str | None = Field(description="Why some may be missing. Null if none are.")
    continuation: str | None = Field(
        description="What was left out and how to ask for it. Null if nothing was."
    )


class Undo(_Output):
    """A call that takes a change back."""

    tool: str
    arguments: dict[str, Any]

    @classmethod
    def of(cls, tool: str, **arguments: Any) -> Self:
        """Return the call of a tool."""
        return cls(tool=tool, arguments=arguments)


class Remembered(_Output):
    """The answer of `remember`."""

    key: str
    value: str
    undo: Undo | None = Field(
        description="The call that takes it back. Null if the fact was as it is."
    )


class Changed(_Output):
    """The answer of `correct` and of `forget`."""

    fact: str = Field(description="Its name from now on.")
    before: str = Field(description="The text that it had.")
    after: str | None = Field(description="The text that it has. Null if it is forgotten.")
    undo: Undo = Field(description="The call that takes it back.")


class Appended(_Output):
    """The answer of `append_messages`."""

    conversation_id: str
    turn_number: int = Field(description="The turn of the last message.")
    message_count: int = Field(description="The messages of the conversation now.")
