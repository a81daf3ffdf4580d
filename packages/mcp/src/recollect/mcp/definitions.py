"""The tools as definitions for MCP and for the APIs of OpenAI and Anthropic. Needs pydantic alone.

    from recollect.mcp.definitions import TOOLS, WRITING, anthropic_tools, answer

    tools = anthropic_tools([*TOOLS, *WRITING])
    outcome = await answer(client, call.name, call.input, offered=[*TOOLS, *WRITING])

`outcome.text` goes into the result of the call, `outcome.is_error` says whether it failed.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from recollect import AsyncClient, RecollectError
from recollect.mcp import facts, shapes, tools
from recollect.mcp.errors import WrongArgument, sentence

_WRITE_ANCHORS = ("recall", "anchors.write")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a model may call."""

    title: str
    description: str
    takes: type[BaseModel]
    answers: type[BaseModel]
    run: Callable[[AsyncClient, Any], Awaitable[BaseModel]]
    scopes: tuple[str, ...] = ("recall",)
    """The scopes that the calls of the tool need, all of them."""
    writes: bool = False
    deletes: bool = False


TOOLS = {
    "search_conversations": Tool(
        "Search conversations",
        "Search the user's past conversations by words and by meaning. Answers the"
        " conversations and the messages that fit best,"
        " each with the turns to read on with fetch_context.",
        shapes.Search,
        shapes.Found,
        tools.search_conversations,
    ),
    "fetch_context": Tool(
        "Fetch context",
        "Read turns of a past conversation word for word: those around something that"
        " search_conversations found, or the last 10."
        " A turn is one message of the user's and everything that was done and said in answer.",
        shapes.FetchContext,
        shapes.Fetched,
        tools.fetch_context,
    ),
    "recent_conversations": Tool(
        "Recent conversations",
        "Browse the user's past conversations by time, the newest first, with their notes. For"
        " questions that name no subject to"
        ' search for, as "what did we talk about yesterday?".',
        shapes.RecentConversations,
        shapes.Recent,
        tools.recent_conversations,
    ),
    "get_context": Tool(
        "Get context",
        "Go on with a past conversation, or begin a new one: one block with what is known of the"
        " user, the conversation's newest turns and its summary, and what was said elsewhere about"
        " the message to be answered.",
        shapes.GetContext,
        shapes.Context,
        tools.get_context,
    ),
    "list_facts": Tool(
        "List facts",
        "List the lasting facts about the user, each with the time since when it holds and the"
        " message that it is from: facts with a key that an agent remembered, and what the user"
        " said of themself or of how to be answered, word for word.",
        shapes.ListFacts,
        shapes.Facts,
        facts.list_facts,
    ),
}

WRITING = {
    "remember": Tool(
        "Remember",
        "Keep a lasting fact about the user, so that every agent of theirs knows it from now on."
        " Only what the user said or would say again next month, and no secrets. The answer has"
        " the call that undoes it.",
        shapes.Remember,
        shapes.Remembered,
        facts.remember,
        _WRITE_ANCHORS,
        writes=True,
    ),
    "correct": Tool(
        "Correct a fact",
        "Replace a fact that list_facts lists by what is right, because the user says so. The"
        " answer has the call that undoes it.",
        shapes.Correct,
        shapes.Changed,
        facts.correct,
        _WRITE_ANCHORS,
        writes=True,
    ),
    "forget": Tool(
        "Forget a fact",
        "Remove a fact that list_facts lists, because the user asks for it. What was said stays in"
        " its conversation. The answer has the call that undoes it.",
        shapes.Forget,
        shapes.Changed,
        facts.forget,
        _WRITE_ANCHORS,
        writes=True,
        deletes=True,
    ),
    "append_messages": Tool(
        "Append messages",
        "Store messages at the end of a conversation, or as a new one, word for word. They cannot"
        " be changed later.",
        shapes.AppendMessages,
        shapes.Appended,
        tools.append_messages,
        ("conversations.write",),
        writes=True,
    ),
}
"""Tools that are offered only where somebody asks for them."""

EVERY = TOOLS | WRITING


class ToolError(Exception):
    """A call of a tool failed. The text says why, in the words of the tool's arguments."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a call, for the model."""

    text: str
    """The answer as JSON; of a call that failed, why it did."""
    is_error: bool = False


def openai_tools(
    names: Iterable[str] = tuple(TOOLS), *, chat_completions: bool = False
) -> list[dict[str, Any]]:
    """Return tools by name as `tools` of OpenAI's Responses API, or of Chat Completions. Raises
    ValueError for a name that is none.
    """
    functions = [
        {"name": name, "description": tool.description, "parameters": schema_of(tool)}
        for name, tool in _named(names)
    ]
    if chat_completions:
        return [{"type": "function", "function": it} for it in functions]
    return [{"type": "function", "strict": False, **it} for it in functions]


def anthropic_tools(names: Iterable[str] = tuple(TOOLS)) -> list[dict[str, Any]]:
    """Return tools by name as `tools` of Anthropic's Messages API. Raises ValueError for a name
    that is none.
    """
    return [
        {"name": name, "description": tool.description, "input_schema": schema_of(tool)}
        for name, tool in _named(names)
    ]


async def answer(
    client: AsyncClient,
    name: str,
    arguments: str | Mapping[str, Any] | None,
    *,
    offered: Iterable[str] = tuple(TOOLS),
) -> Outcome:
    """Carry out the call of a model, whose arguments are an object or its JSON text. A failure is
    an outcome too, as the model may call again with other arguments.
    """
    try:
        structured = await run(client, name, arguments, tuple(offered), "its address")
    except ToolError as error:
        return Outcome(str(error), is_error=True)
    return Outcome(json.dumps(structured, ensure_ascii=False))


async def run(
    client: AsyncClient,
    name: str,
    arguments: str | Mapping[str, Any] | None,
    offered: Sequence[str],
    target: str,
) -> dict[str, Any]:
    """Carry out a call and return its answer. `target` names the server in errors. Raises
    ToolError.
    """
    if name not in offered:
        raise ToolError(f"no such tool: {name}. There are {', '.join(offered)}.")
    tool = EVERY[name]
    try:
        if isinstance(arguments, str):
            request = tool.takes.model_validate_json(arguments or "{}")
        else:
            request = tool.takes.model_validate(arguments or {})
        answered = await tool.run(client, request)
    except ValidationError as error:
        places = (
            f"{'.'.join(map(str, it['loc'])) or 'arguments'}: {it['msg']}" for it in error.errors()
        )
        raise ToolError("; ".join(places)) from None
    except WrongArgument as error:
        raise ToolError(str(error)) from None
    except RecollectError as error:
        raise ToolError(sentence(error, target)) from None
    return answered.model_dump(mode="json", by_alias=True)


def schema_of(tool: Tool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    return tool.takes.model_json_schema(by_alias=True)


def _named(names: Iterable[str]) -> list[tuple[str, Tool]]:
    names = tuple(names)
    if wrong := [it for it in names if it not in EVERY]:
        raise ValueError(f"names: {wrong[0]:.100} is none of {', '.join(EVERY)}")
    return [(name, EVERY[name]) for name in names]
