"""Cost of the adapters: the usual calls of each toolkit over Recollect, against the same calls over
the store that the toolkit brings for a file.

`python -m bench.adapters [--calls 200] [--rounds 3] [--only agents langgraph adk llama_index]`

The two come in turn, from one process: a pair at a time, so that what else the machine does meets
both. The ratio is the median of the pairs' quotients. Every write of both is durable on return. A
toolkit that is not installed is named and passed over; `.ci/toolkits` makes an environment of ADK
and LlamaIndex (`build/toolkits`).
"""

import argparse
import asyncio
import inspect
import itertools
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect import AsyncClient, Client

from bench.figures import Figure, Goal
from bench.servers import recollect

_TEXT = "The release ships on Friday, and Dana signs it off after the last test of the mirror. " * 3
_STORED = 200
"""Messages of a session that is read."""
_GOAL = Goal(2, of_ratio=True)

Call = Callable[[int], Any]
"""A call, or a coroutine of one, that is given its number."""


@dataclass(frozen=True)
class Pair:
    """One operation of a toolkit, over Recollect and over the toolkit's own store."""

    name: str
    ours: Call
    theirs: Call
    against: str


async def agents(target: str, folder: Path, stack: AsyncExitStack) -> AsyncIterator[Pair]:
    """Yield the calls of a session of the OpenAI Agents SDK."""
    from agents import SQLiteSession
    from recollect.adapters.openai_agents import RecollectSession

    client = await stack.enter_async_context(AsyncClient(target))

    def pair(name: str) -> tuple[Any, Any]:
        return RecollectSession(name, client), SQLiteSession(name, folder / "agents.db")

    def items(number: int) -> Any:
        return [
            {"role": "user", "content": f"{number}: {_TEXT}"},
            {"role": "assistant", "content": f"{number}: {_TEXT}"},
        ]

    read, added, both = pair("read"), pair("added"), pair("run")
    for session in (*read, *both):
        await session.add_items([it for at in range(_STORED // 2) for it in items(at)])

    def run(session: Any) -> Call:
        async def turn(number: int) -> None:
            await session.get_items(limit=20)
            await session.add_items(items(number))

        return turn

    sides = "SQLiteSession"
    yield Pair(
        "Agents SDK, add_items of 2", *(lambda n, it=it: it.add_items(items(n)) for it in added), sides
    )
    for most in (20, None):
        name = f"Agents SDK, get_items({most or ''}) of {_STORED}"
        yield Pair(name, *(lambda _, it=it, most=most: it.get_items(most) for it in read), sides)
    yield Pair("Agents SDK, a turn: get_items(20), add_items", *map(run, both), sides)


async def langgraph(target: str, folder: Path, stack: AsyncExitStack) -> AsyncIterator[Pair]:
    """Yield the calls of a graph's checkpointer and store."""
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.store.sqlite import SqliteStore
    from recollect.adapters.langgraph import RecollectSaver, RecollectStore

    client = stack.enter_context(Client(target))
    savers = (
        RecollectSaver(client),
        stack.enter_context(SqliteSaver.from_conn_string(str(folder / "graph.db"))),
    )
    builder: Any = StateGraph(MessagesState)
    builder.add_node("answer", lambda _: {"messages": [("assistant", _TEXT)]})
    builder.add_edge(START, "answer")
    graphs = [builder.compile(checkpointer=it) for it in savers]
    configs: list[Any] = [{"configurable": {"thread_id": str(it)}} for it in range(1000)]
    for graph in graphs:
        for number in range(20):
            graph.invoke({"messages": [("user", f"{number}: {_TEXT}")]}, configs[0])

    def invoke(graph: Any) -> Call:
        message = {"messages": [("user", _TEXT)]}
        return lambda number: graph.invoke(message, configs[1 + number // 10 % 900])

    sides = "SqliteSaver"
    yield Pair("LangGraph, invoke of one node", *map(invoke, graphs), sides)
    yield Pair(
        "LangGraph, get_tuple of the newest",
        *(lambda _, it=it: it.get_tuple(configs[0]) for it in savers),
        sides,
    )
    store = stack.enter_context(SqliteStore.from_conn_string(str(folder / "store.db")))
    store.setup()
    stores = (RecollectStore(client), store)
    for it in stores:
        for number in range(50):
            it.put(("memories", "alex"), f"fact-{number}", {"text": _TEXT})
    sides = "SqliteStore"
    yield Pair(
        "LangGraph, store.put",
        *(lambda n, it=it: it.put(("written",), f"{n % 20}", {"text": f"{n} {_TEXT}"}) for it in stores),
        sides,
    )
    yield Pair(
        "LangGraph, store.get",
        *(lambda n, it=it: it.get(("memories", "alex"), f"fact-{n % 50}") for it in stores),
        sides,
    )
    yield Pair(
        "LangGraph, store.search, 10 of 50",
        *(lambda _, it=it: it.search(("memories", "alex"), limit=10) for it in stores),
        sides,
    )


async def adk(target: str, folder: Path, stack: AsyncExitStack) -> AsyncIterator[Pair]:
    """Yield the calls of a session service of Google's ADK."""
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions
    from google.adk.sessions import DatabaseSessionService
    from google.adk.sessions.base_session_service import GetSessionConfig
    from google.genai.types import Content, Part
    from recollect.adapters.google_adk import RecollectSessionService

    services: Any = (
        RecollectSessionService(stack.enter_context(Client(target))),
        DatabaseSessionService(f"sqlite+aiosqlite:///{folder}/adk.db"),
    )
    whose = {"app_name": "ops", "user_id": "alex"}

    def event(number: int, **state: Any) -> Any:
        author = "assistant" if number % 2 else "user"
        content = Content(role=author, parts=[Part(text=f"{number}: {_TEXT}")])
        actions = EventActions(state_delta=state)
        return Event(author=author, content=content, actions=actions, invocation_id="i")

    sessions = []
    for it in services:
        for number in range(20):
            await it.create_session(**whose, session_id=f"s{number}", state={"user:name": "Alex"})
        session = await it.get_session(**whose, session_id="s0")
        for number in range(_STORED):
            await it.append_event(session, event(number))
        sessions.append(await it.create_session(**whose, session_id="added"))
    sides = "DatabaseSessionService"
    both = [*zip(services, sessions, strict=True)]
    yield Pair(
        "ADK, append_event", *(lambda n, it=it: it[0].append_event(it[1], event(n)) for it in both), sides
    )
    yield Pair(
        "ADK, append_event with state",
        *(lambda n, it=it: it[0].append_event(it[1], event(n, step=n, topic=_TEXT)) for it in both),
        sides,
    )
    for most in (5, None):
        config = GetSessionConfig(num_recent_events=most)
        yield Pair(
            f"ADK, get_session, {most or 'all'} of {_STORED} events",
            *(
                lambda _, it=it, config=config: it.get_session(**whose, session_id="s0", config=config)
                for it in services
            ),
            sides,
        )
    yield Pair(
        "ADK, list_sessions, 21", *(lambda _, it=it: it.list_sessions(**whose) for it in services), sides
    )


async def llama_index(target: str, folder: Path, stack: AsyncExitStack) -> AsyncIterator[Pair]:
    """Yield the calls of a chat store of LlamaIndex's `Memory`."""
    from llama_index.core.llms import ChatMessage
    from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
    from recollect.adapters.llama_index import RecollectDBChatStore

    stores: Any = (
        RecollectDBChatStore(stack.enter_context(Client(target))),
        SQLAlchemyChatStore("messages", async_database_uri=f"sqlite+aiosqlite:///{folder}/llama.db"),
    )

    def messages(number: int) -> Any:
        return [ChatMessage(role=it, content=f"{number}: {_TEXT}") for it in ("user", "assistant")]

    for it in stores:
        await it.add_messages("read", [one for n in range(_STORED // 2) for one in messages(n)])
    sides = "SQLAlchemyChatStore"
    yield Pair(
        "LlamaIndex, add_messages of 2",
        *(lambda n, it=it: it.add_messages("added", messages(n)) for it in stores),
        sides,
    )
    for most in (20, None):
        yield Pair(
            f"LlamaIndex, get_messages, {most or 'all'} of {_STORED}",
            *(lambda _, it=it, most=most: it.get_messages("read", limit=most) for it in stores),
            sides,
        )


TOOLKITS = {"agents": agents, "langgraph": langgraph, "adk": adk, "llama_index": llama_index}


async def _timed(call: Call, number: int) -> float:
    began = time.perf_counter()
    answer = call(number)
    if inspect.isawaitable(answer):
        await answer
    return (time.perf_counter() - began) * 1000


async def _measured(pair: Pair, calls: int) -> Figure:
    numbers = itertools.count()
    for _ in range(5):
        await _timed(pair.ours, next(numbers))
        await _timed(pair.theirs, next(numbers))
    ours, theirs = [], []
    for at in range(calls):
        sides = [(ours, pair.ours), (theirs, pair.theirs)]
        for times, call in sides if at % 2 else reversed(sides):
            times.append(await _timed(call, next(numbers)))
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    seen, base = statistics.median(ours), statistics.median(theirs)
    print(
        f"{pair.name}: {seen:.2f} ms, {pair.against} {base:.2f} ms; ratio {ratio:.2f}", flush=True
    )
    return Figure(pair.name, seen, "ms", base, pair.against, ratio, _GOAL)


async def _figures(chosen: Sequence[str], calls: int, target: str, folder: Path) -> list[Figure]:
    figures = []
    for name in chosen:
        async with AsyncExitStack() as stack:
            try:
                async for pair in TOOLKITS[name](target, folder, stack):
                    figures.append(await _measured(pair, calls))
            except ModuleNotFoundError as error:
                print(f"{name} is not installed: {error}", flush=True)
    return figures


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=200, help="pairs of each operation")
    parser.add_argument("--only", nargs="+", default=[*TOOLKITS], choices=TOOLKITS)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, recollect(Path(folder) / "data") as (target, _):
        return asyncio.run(_figures(chosen.only, chosen.calls, target, Path(folder)))


if __name__ == "__main__":
    main()
