"""Cost of the adapters: the usual calls of each toolkit over Recollect, against the same calls over
the store that the toolkit brings for a file.

`python -m bench.adapters [--calls 200] [--only agents langgraph adk llama_index]`

The two come in turn, from one process, and with them a bare echo of gRPC's, which is what one call
to another process costs here: what else the machine does meets all three. A ratio is the median of
the quotients. Every write of both is durable on return. A toolkit that is not installed is named
and passed over; `.ci/toolkits` makes an environment of ADK and LlamaIndex (`build/toolkits`), which
lacks trustme.
"""

import argparse
import asyncio
import inspect
import itertools
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from recollect import AsyncClient, Client

from bench.figures import Figure, Goal
from bench.servers import ECHO, echo, embedded, recollect

_TEXT = "The release ships on Friday, and Dana signs it off after the last test of the mirror. " * 3
_STORED = 200
"""Messages of a session that is read."""
_UNCOUNTED = 5
"""Calls of each side before those that are counted."""
_GOAL = Goal(2, of_ratio=True)

Call = Callable[[int], Any]
"""A call, or a coroutine of one, that is given its number."""


@dataclass(frozen=True)
class Pair:
    """One operation of a toolkit, over Recollect and over the toolkit's own store."""

    name: str
    against: str
    calls: list[Call]
    """Recollect's, and the other's."""


def _each(both: Iterable[Any], call: Callable[[Any, int], Any]) -> list[Call]:
    return [partial(call, it) for it in both]


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

    async def run(session: Any, number: int) -> None:
        await session.get_items(limit=20)
        await session.add_items(items(number))

    sides = "SQLiteSession"
    yield Pair(
        "Agents SDK, add_items of 2",
        sides,
        _each(added, lambda it, n: it.add_items(items(n))),
    )
    name = f"Agents SDK, get_items(20) of {_STORED}"
    yield Pair(name, sides, _each(read, lambda it, _: it.get_items(20)))
    name = f"Agents SDK, get_items() of {_STORED}"
    yield Pair(name, sides, _each(read, lambda it, _: it.get_items()))
    yield Pair("Agents SDK, a turn: get_items(20), add_items", sides, _each(both, run))


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

    def invoke(graph: Any, number: int) -> Any:
        message = {"messages": [("user", _TEXT)]}
        return graph.invoke(message, configs[1 + number // 10 % 900])

    sides = "SqliteSaver"
    yield Pair("LangGraph, invoke of one node", sides, _each(graphs, invoke))
    yield Pair(
        "LangGraph, get_tuple of the newest",
        sides,
        _each(savers, lambda it, _: it.get_tuple(configs[0])),
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
        sides,
        _each(stores, lambda it, n: it.put(("written",), f"{n % 20}", {"text": f"{n} {_TEXT}"})),
    )
    yield Pair(
        "LangGraph, store.get",
        sides,
        _each(stores, lambda it, n: it.get(("memories", "alex"), f"fact-{n % 50}")),
    )
    yield Pair(
        "LangGraph, store.search, 10 of 50",
        sides,
        _each(stores, lambda it, _: it.search(("memories", "alex"), limit=10)),
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
    whose: Any = {"app_name": "ops", "user_id": "alex"}
    read = whose | {"session_id": "s0"}

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
        "ADK, append_event",
        sides,
        _each(both, lambda it, n: it[0].append_event(it[1], event(n))),
    )
    yield Pair(
        "ADK, append_event with state",
        sides,
        _each(both, lambda it, n: it[0].append_event(it[1], event(n, step=n, topic=_TEXT))),
    )
    name = f"ADK, get_session, all of {_STORED} events"
    yield Pair(name, sides, _each(services, lambda it, _: it.get_session(**read)))
    name = f"ADK, get_session, 5 of {_STORED} events"
    latest = GetSessionConfig(num_recent_events=5)
    yield Pair(name, sides, _each(services, lambda it, _: it.get_session(**read, config=latest)))
    yield Pair(
        "ADK, list_sessions, 21",
        sides,
        _each(services, lambda it, _: it.list_sessions(**whose)),
    )


async def llama_index(target: str, folder: Path, stack: AsyncExitStack) -> AsyncIterator[Pair]:
    """Yield the calls of a chat store of LlamaIndex's `Memory`."""
    from llama_index.core.llms import ChatMessage
    from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
    from recollect.adapters.llama_index import RecollectDBChatStore

    stores: Any = (
        RecollectDBChatStore(stack.enter_context(Client(target))),
        SQLAlchemyChatStore(
            "messages", async_database_uri=f"sqlite+aiosqlite:///{folder}/llama.db"
        ),
    )

    def messages(number: int) -> Any:
        return [ChatMessage(role=it, content=f"{number}: {_TEXT}") for it in ("user", "assistant")]

    for it in stores:
        await it.add_messages("read", [one for n in range(_STORED // 2) for one in messages(n)])
    sides = "SQLAlchemyChatStore"
    yield Pair(
        "LlamaIndex, add_messages of 2",
        sides,
        _each(stores, lambda it, n: it.add_messages("added", messages(n))),
    )
    name = f"LlamaIndex, get_messages of {_STORED}"
    yield Pair(name, sides, _each(stores, lambda it, _: it.get_messages("read")))


TOOLKITS = {"agents": agents, "langgraph": langgraph, "adk": adk, "llama_index": llama_index}


async def _timed(call: Call, number: int) -> float:
    began = time.perf_counter()
    answer = call(number)
    if inspect.isawaitable(answer):
        await answer
    return (time.perf_counter() - began) * 1000


async def _measured(pair: Pair, bare: Call, calls: int) -> Figure:
    numbers = itertools.count()
    sides = [*pair.calls, bare]
    times: list[list[float]] = [[], [], []]
    for at in range(-_UNCOUNTED, calls):
        for side in (0, 1, 2) if at % 2 else (1, 0, 2):
            time_of_one = await _timed(sides[side], next(numbers))
            if at >= 0:
                times[side].append(time_of_one)
    value, base, of_echo = map(statistics.median, times)
    ratio, to_echo = (
        statistics.median(ours / theirs for ours, theirs in zip(times[0], others, strict=True))
        for others in times[1:]
    )
    print(
        f"{pair.name}: {value:.2f} ms, {pair.against} {base:.2f} ms; ratio {ratio:.2f};"
        f" bare echo {of_echo:.2f} ms, ratio {to_echo:.2f}",
        flush=True,
    )
    return Figure(pair.name, value, "ms", base, pair.against, ratio, _GOAL)


async def _figures(
    chosen: Sequence[str], calls: int, target: str, bare: Call, folder: Path
) -> list[Figure]:
    """Return the figures of toolkits, over the server at `target` whose data is in `folder/data`.

    The model embeds what a call stored beside the calls behind it, so each operation begins when
    that is done: else a read would be measured on a busy machine, and its baseline with it.
    """
    figures = []
    for name in chosen:
        async with AsyncExitStack() as stack:
            try:
                pairs = TOOLKITS[name](target, folder, stack)
                async for pair in pairs:
                    await asyncio.to_thread(embedded, folder / "data")
                    figures.append(await _measured(pair, bare, calls))
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
    with (
        tempfile.TemporaryDirectory() as folder,
        recollect(Path(folder) / "data") as (target, _),
        echo() as (echo_target, _),
        grpc.insecure_channel(echo_target) as channel,
    ):
        call: Any = channel.unary_unary(ECHO)
        figures = _figures(chosen.only, chosen.calls, target, lambda _: call(b""), Path(folder))
        return asyncio.run(figures)


if __name__ == "__main__":
    main()
