"""The session for the OpenAI Agents SDK, with its own runner, and a model that says what it was
told to.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Coroutine
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from types import SimpleNamespace
from typing import Any, cast

import pytest
from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool
from agents.extensions.memory.encrypt_session import EncryptedSession
from agents.memory import OpenAIResponsesCompactionSession, Session, SessionSettings
from agents.testing import ScriptedModel, assistant_message, function_call
from openai import AsyncOpenAI
from recollect import AsyncClient, Client, Message, Role, ToolCall
from recollect._async.invoker import Invoker
from recollect.adapters.files import Files
from recollect.adapters.items import items_of
from recollect.adapters.openai_agents import RecollectSession
from recollect.cli.browsing import print_message
from recollect.mcp.shapes import FetchContext
from recollect.mcp.tools import fetch_context
from rich.console import Console

from tests.adapters.conftest import QUESTION, Past
from tests.conftest import RunningServer
from tests.server.conftest import files_with

ITEMS: list[Any] = [
    {"role": "user", "content": "Is the disk full?"},
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "And "},
            {"type": "input_text", "text": "this one?"},
        ],
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Let me look."}],
        "encrypted_content": "x" * 200_000,
    },
    {
        "type": "function_call",
        "call_id": "call_1",
        "name": "df",
        "arguments": '{"path":  "/"}',
        "id": "fc_1",
        "status": "completed",
    },
    {"type": "function_call", "call_id": "call_2", "name": "date", "arguments": "", "id": "fc_2"},
    {
        "type": "function_call_output",
        "call_id": "call_2",
        "output": [{"type": "input_text", "text": "today"}],
    },
    {"type": "function_call_output", "call_id": "call_1", "output": "97%\x00 \ud800"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [
            {
                "type": "output_text",
                "text": "Yes: 97 %.",
                "annotations": [],
                "logprobs": [{"token": "Yes", "logprob": -0.1}],
            },
            {"type": "refusal", "refusal": "No more."},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "input_image",
                "image_url": "data:image/png;base64," + "A" * 100_000,
                "detail": "auto",
            }
        ],
    },
    {"role": "developer", "content": "Be short."},
    {
        "type": "web_search_call",
        "id": "ws_1",
        "action": {"type": "search", "query": "disk", "n": 9007199254740993},
    },
    {"role": "assistant", "content": ""},
    {"role": "user", "content": ""},
]


@pytest.fixture
async def memory(server: Any) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server.target) as connected:
        yield connected


async def test_it_is_a_session_of_the_sdk(memory: AsyncClient) -> None:
    assert isinstance(RecollectSession("alex", memory), Session)


async def test_every_item_comes_back_exactly_and_in_its_order(
    memory: AsyncClient, server: Any
) -> None:
    session = RecollectSession("alex", memory)
    assert await session.get_items() == []
    await session.add_items(ITEMS[:3])
    await session.add_items(ITEMS[3:])
    assert await session.get_items() == ITEMS
    async with AsyncClient(server.target) as elsewhere:
        assert await RecollectSession("alex", elsewhere).get_items() == ITEMS
        assert await RecollectSession("sam", elsewhere).get_items() == []


async def test_a_limit_gives_the_latest_items(memory: AsyncClient) -> None:
    session = RecollectSession("alex", memory)
    for number in range(30):
        question, answer = f"question {number}", f"answer {number}"
        await session.add_items(
            [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        )
    assert [it["content"] for it in await session.get_items(3)] == [  # type: ignore[typeddict-item]
        "answer 28",
        "question 29",
        "answer 29",
    ]
    assert len(await session.get_items(41)) == 41
    assert await session.get_items(0) == []
    bounded = RecollectSession("alex", memory, session_settings=SessionSettings(limit=2))
    assert len(await bounded.get_items()) == 2
    assert len(await bounded.get_items(5)) == 5
    bounded = RecollectSession("alex", memory, session_settings={"limit": 1})
    assert bounded.session_settings == SessionSettings(limit=1)
    assert len(await bounded.get_items()) == 1
    settings: Any = {"limit": 3}
    bounded.session_settings = settings  # as the SDK takes it too
    assert len(await bounded.get_items()) == 3
    with pytest.raises(Exception, match="limits"):
        RecollectSession("alex", memory, session_settings={"limits": 1})


async def test_it_does_what_the_sdks_own_session_does(memory: AsyncClient) -> None:
    ours, theirs = RecollectSession("alex", memory), SQLiteSession("alex")
    plain = [it for it in ITEMS if "\ud800" not in str(it)]  # SQLite refuses that one

    async def same() -> None:
        assert await ours.get_items() == await theirs.get_items()

    for session in (ours, theirs):
        assert await session.pop_item() is None
        await session.add_items(plain)
    for _ in range(4):
        assert await ours.pop_item() == await theirs.pop_item()
        await same()
    for session in (ours, theirs):
        await session.add_items([{"role": "user", "content": "and then?"}])
    await same()
    for session in (ours, theirs):
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items([{"role": "user", "content": "anew"}])
    await same()


async def test_what_was_taken_back_or_cleared_stays_in_its_transcript(memory: AsyncClient) -> None:
    session = RecollectSession("alex", memory)
    await session.add_items([{"role": "user", "content": "about zeppelins"}])
    assert await session.pop_item() == {"role": "user", "content": "about zeppelins"}
    await session.clear_session()
    await session.clear_session()
    await session.add_items([{"role": "user", "content": "about submarines"}])
    conversations = [it async for it in memory.conversations.list(channels=["agents"])]
    assert sorted(it.message_count for it in conversations) == [1, 2]
    assert (await memory.recall.search("zeppelins")).hits[
        0
    ].snippet == "about \ue000zeppelins\ue001"


async def test_images_come_back_and_are_no_words(memory: AsyncClient, client: Client) -> None:
    picture = "data:image/png;base64," + "Zm9v" * 100_000
    shot = "data:image/jpeg;base64," + "YmFy" * 1_600_000  # more than an append may have
    items: list[Any] = [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is on it?"},
                {"type": "input_image", "image_url": picture, "detail": "auto"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "JVBERi0" * 1_000},
            ],
        },
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [{"type": "input_image", "image_url": shot}],
        },
        {"type": "image_generation_call", "id": "ig_1", "result": "aGlj" * 100_000},
        {"role": "assistant", "content": "A zeppelin."},
    ]
    session = RecollectSession("alex", memory)
    await session.add_items(items)
    assert await session.get_items() == items
    assert await RecollectSession("alex", memory).get_items(3) == items[2:]
    [conversation] = client.conversations.list()
    loaded = client.recall.fetch_context(conversation.id)
    assert [it.content for it in loaded.messages if it.content] == [
        "What is on it?\n\n[image: image/png, 300 kB]\n\n[file: 5 kB]",
        "[image: image/jpeg, 4.8 MB]",
        "[image: 300 kB]",
        "A zeppelin.",
    ]
    assert not client.recall.search("Zm9v YmFy aGlj JVBERi0").hits
    out = Console(file=StringIO(), width=100)
    for message in loaded.messages:
        print_message(out, message)
    assert isinstance(out.file, StringIO)
    shown = out.file.getvalue()
    assert ("A zeppelin." in shown, "Zm9v" in shown) == (True, False)
    fetched = await fetch_context(
        memory, FetchContext.model_validate({"conversationId": conversation.id})
    )
    assert [line.content for line in fetched.messages if not line.tool_calls] == [
        it.content for it in loaded.messages if it.content
    ]
    context = client.recall.build_context(conversation.id, "What did the zeppelin look like?")
    assert "Zm9v" not in str(context)
    assert [await session.pop_item() for _ in range(6)] == [*items[::-1], None]
    # A line of it is damaged: the model still gets the words.
    first = next(it for it in loaded.messages if it.content)
    assert items_of(first, Files()) == [{"role": "user", "content": first.content}]


async def test_taking_many_items_back_reads_no_page_twice(
    memory: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[Any] = []
    load = type(memory.conversations).load

    async def counted(self: Any, *args: Any, **fields: Any) -> Any:
        pages.append(await load(self, *args, **fields))
        return pages[-1]

    monkeypatch.setattr(type(memory.conversations), "load", counted)
    session = RecollectSession("alex", memory)
    items: list[Any] = [{"role": "user", "content": str(number)} for number in range(60)]
    await session.add_items(items)
    assert [await session.pop_item() for _ in range(30)] == items[:29:-1]
    other = RecollectSession("alex", memory)
    await other.add_items(items[:1])
    assert [await session.pop_item() for _ in range(2)] == [items[0], items[29]]
    await session.add_items(items[:2])
    assert [await session.pop_item() for _ in range(32)] == [
        items[1],
        items[0],
        *items[28::-1],
        None,
    ]
    assert sum(len(page.messages) for page in pages) < 250  # each line, for each of two readers


async def test_a_session_without_an_id_is_one_of_its_own(memory: AsyncClient) -> None:
    session = RecollectSession("", memory)
    await session.add_items([{"role": "user", "content": "a"}])
    await RecollectSession("(a session without an id)", memory).add_items(ITEMS[:1])
    assert await RecollectSession("", memory).get_items() == [{"role": "user", "content": "a"}]
    await session.clear_session()
    assert await RecollectSession("", memory).get_items() == []


async def test_a_session_that_deletes_what_is_cleared_keeps_nothing_of_it(
    memory: AsyncClient, client: Client
) -> None:
    session = RecollectSession("alex", memory, delete_cleared=True)
    for _ in range(2):
        await session.add_items([{"role": "user", "content": "about zeppelins"}])
        await session.clear_session()
        assert await session.get_items() == []
    assert [it.message_count for it in client.conversations.list()] == [0]
    assert not client.recall.search("zeppelins").hits


async def test_a_turn_is_a_call_to_read_and_one_to_add(
    memory: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    run = Invoker.run

    async def counted(self: Invoker, call: Any, timeout: float | None) -> Any:
        made.append(call.method.path.rpartition("/")[2])
        return await run(self, call, timeout)

    monkeypatch.setattr(Invoker, "run", counted)
    session = RecollectSession("alex", memory)
    items: list[Any] = [{"role": it, "content": "Hi."} for it in ("user", "assistant")] * 30
    await session.add_items(items)
    assert made == ["List", "Create", "AppendTurn"]
    for it in (session, RecollectSession("alex", memory)):
        made.clear()
        assert await it.get_items(20) == items[-20:]
        await it.add_items(items[:2])
        assert made == [*["List"] * (it is not session), "Load", "AppendTurn"]


@pytest.mark.parametrize("delete_cleared", [False, True])
async def test_a_session_goes_on_in_what_another_one_begins_by_clearing(
    server: Any, delete_cleared: bool
) -> None:
    items: list[Any] = [{"role": "user", "content": f"{number}"} for number in range(3)]
    async with AsyncClient(server.target) as one, AsyncClient(server.target) as other:
        mine = RecollectSession("alex", one)
        theirs = RecollectSession("alex", other, delete_cleared=delete_cleared)
        for _ in range(2):
            await mine.add_items(items[:2])
            await theirs.clear_session()
            assert await mine.get_items() == []
            await mine.add_items(items[:2])
            await theirs.clear_session()
            await mine.add_items(items[2:])
            assert await theirs.get_items() == await mine.get_items(5) == items[2:]
            assert await mine.pop_item() == items[2]
            assert await theirs.pop_item() is None


async def test_a_session_goes_on_whose_clearing_was_cut_short(
    memory: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = RecollectSession("alex", memory)
    await session.add_items(ITEMS[:2])
    cut = RecollectSession("alex", memory)
    with monkeypatch.context() as ends:
        ends.setattr(cut, "_begin", None)
        with pytest.raises(TypeError):
            await cut.clear_session()
    assert await session.get_items() == []
    await session.add_items(ITEMS[:1])
    assert await cut.get_items() == await session.get_items() == ITEMS[:1]


async def test_what_is_taken_back_by_two_at_once_is_taken_back_once(server: Any) -> None:
    async with AsyncClient(server.target) as one, AsyncClient(server.target) as other:
        sessions = [RecollectSession("alex", one), RecollectSession("alex", other)]
        await sessions[0].add_items(
            [{"role": "user", "content": f"{number}"} for number in range(6)]
        )
        popped = await asyncio.gather(*(sessions[number % 2].pop_item() for number in range(6)))
        assert sorted(str(it["content"]) for it in popped if it) == [  # type: ignore[typeddict-item]
            f"{number}" for number in range(6)
        ]
        assert await sessions[0].get_items() == []


async def test_sessions_that_begin_at_the_same_time_are_one(server: Any, client: Client) -> None:
    async with AsyncClient(server.target) as one, AsyncClient(server.target) as other:
        sessions = [RecollectSession("alex", each) for each in (one, other, one, other)]
        await asyncio.gather(
            *(it.add_items([{"role": "user", "content": "hi"}]) for it in sessions)
        )
        assert len(await sessions[0].get_items()) == 4
    assert len(list(client.conversations.list())) == 1


async def test_a_result_whose_call_was_taken_back_is_kept_all_the_same(memory: AsyncClient) -> None:
    session = RecollectSession("alex", memory)
    orphan: Any = {"type": "function_call_output", "call_id": "gone", "output": "97%"}
    await session.add_items([{"role": "user", "content": "?"}, orphan, orphan])
    assert await session.get_items() == [{"role": "user", "content": "?"}, orphan, orphan]


async def test_a_conversation_that_another_program_wrote_can_be_continued(
    memory: AsyncClient, client: Client
) -> None:
    it = client.conversations.create("web")
    calls = [ToolCall("c1", "df", "{}")]
    messages = [
        Message.user("full?"),
        Message.assistant("Let me look.", tool_calls=calls),
        Message.tool("97%", tool_call_id="c1"),
    ]
    client.conversations.append_turn(it.id, messages)
    session = RecollectSession.of(it.id, memory)
    expected = [
        {"role": "user", "content": "full?"},
        {"role": "assistant", "content": "Let me look."},
        {"type": "function_call", "call_id": "c1", "name": "df", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "97%"},
    ]
    assert await session.get_items() == expected
    assert [await session.pop_item() for _ in range(2)] == expected[:1:-1]
    assert await session.get_items() == expected[:2]
    await session.clear_session()
    await session.clear_session()
    assert (await session.get_items(), await session.pop_item()) == ([], None)
    anew: Any = [{"role": "user", "content": "anew"}, {"role": "assistant", "content": "Yes?"}]
    await session.add_items(anew)
    assert await session.get_items(5) == await RecollectSession.of(it.id, memory).get_items()
    assert await session.get_items() == anew
    assert [await session.pop_item() for _ in range(3)] == [*anew[::-1], None]


async def test_the_sdks_runner_remembers_through_it(memory: AsyncClient, client: Client) -> None:
    @function_tool
    def disk_usage(path: str) -> str:
        """Return the share of a disk in use."""
        return f"{path} is 97 % full"

    model = ScriptedModel(
        [
            [function_call("disk_usage", {"path": "/"}, call_id="call_1")],
            [assistant_message("Yes, 97 %.")],
            [assistant_message("Whether the disk is full.")],
        ]
    )
    agent = Agent(name="ops", model=model, tools=[disk_usage])
    session = RecollectSession("alex", memory)
    quiet = RunConfig(tracing_disabled=True)
    first = await Runner.run(agent, "Is the disk full?", session=session, run_config=quiet)
    second = await Runner.run(agent, "What did I ask?", session=session, run_config=quiet)
    assert (first.final_output, second.final_output) == ("Yes, 97 %.", "Whether the disk is full.")
    kinds = [it.get("type", it.get("role")) for it in await session.get_items()]
    assert kinds == ["user", "function_call", "function_call_output", "message", "user", "message"]
    # The second question came to the model with all that was said before.
    assert model.last_call is not None
    items: Any = model.last_call.input
    assert [it.get("type", it.get("role")) for it in items] == kinds[:5]
    [conversation] = client.conversations.list()
    stored = client.conversations.load(conversation.id).messages
    assert [message.role for message in stored[:4]] == [
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.ASSISTANT,
    ]
    assert stored[1].tool_calls[0].name == "disk_usage"
    assert (stored[2].content, stored[3].content) == ("/ is 97 % full", "Yes, 97 %.")


async def test_a_call_that_is_cancelled_stores_all_of_its_items_or_none(
    memory: AsyncClient,
) -> None:
    session = RecollectSession("alex", memory)

    async def cancelled(call: Coroutine[Any, Any, Any], after: float) -> None:
        task = asyncio.create_task(call)
        await asyncio.wait({task}, timeout=after)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    for number in range(40):
        items: list[Any] = [{"role": "user", "content": f"{number} {it}"} for it in "abc"]
        await cancelled(session.add_items(items), number / 4000)
    stored: list[Any] = [*await session.get_items()]
    parts: dict[str, str] = {}
    for it in stored:
        number_text, part = it["content"].split()
        parts[number_text] = parts.get(number_text, "") + part
    assert set(parts.values()) <= {"abc"}
    for number in range(20):
        await cancelled(session.pop_item(), number / 2000)
    left = await session.get_items()
    assert left == stored[: len(left)]
    assert await RecollectSession("alex", memory).get_items() == left
    assert await session.pop_item() == (left[-1] if left else None)


async def test_runs_at_once_on_one_session_keep_all_that_each_said(memory: AsyncClient) -> None:
    @function_tool
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    async def run(number: int) -> str:
        call = function_call("double", {"number": number}, call_id=f"call_{number}")
        model = ScriptedModel([[call], [assistant_message(f"It is {2 * number}.")]])
        agent = Agent(name="counter", model=model, tools=[double])
        result = await Runner.run(
            agent,
            f"Double {number}?",
            session=RecollectSession("alex", memory),
            run_config=RunConfig(tracing_disabled=True),
        )
        return str(result.final_output)

    assert await asyncio.gather(*map(run, range(4))) == [f"It is {2 * it}." for it in range(4)]
    items: list[Any] = [*await RecollectSession("alex", memory).get_items()]
    assert len(items) == 16
    for number in range(4):
        texts = [
            it.get("output") or it.get("arguments") or str(it["content"])
            for it in items
            if it.get("call_id") == f"call_{number}"
            or it.get("content") == f"Double {number}?"
            or f"'It is {2 * number}.'" in str(it.get("content"))
        ]
        assert texts[:3] == [f"Double {number}?", f'{{"number":{number}}}', f"{2 * number}"]
        assert len(texts) == 4


async def test_an_encrypted_session_over_it_leaves_no_word_to_the_server(
    memory: AsyncClient, server: Any
) -> None:
    plain = RecollectSession("alex", memory, delete_cleared=True)
    session = EncryptedSession("alex", plain, encryption_key="a key of this test")
    items: list[Any] = [it for it in ITEMS if "ud800" not in str(it)]
    await session.add_items(items)
    assert await session.get_items() == items
    assert await session.get_items(2) == items[-2:]
    assert await session.pop_item() == items[-1]
    assert files_with(server.data_dir, "disk full", "Let me look", "Be short") == []
    other = EncryptedSession("alex", plain, encryption_key="another key")
    assert await other.get_items() == []
    await session.clear_session()
    assert await session.get_items() == []


async def test_a_compacting_session_over_it_replaces_its_items(memory: AsyncClient) -> None:
    requests: list[Any] = []
    summary = {"type": "compaction", "id": "cmp_1", "encrypted_content": "x" * 2000}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            answer = {
                "id": "resp_1",
                "object": "response.compaction",
                "created_at": 1,
                "output": [summary],
                "usage": {
                    "input_tokens": 1,
                    "input_tokens_details": {"cached_tokens": 0},
                    "output_tokens": 1,
                    "output_tokens_details": {"reasoning_tokens": 0},
                    "total_tokens": 2,
                },
            }
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    api = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=api.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        plain = RecollectSession("alex", memory)
        url = f"http://127.0.0.1:{api.server_address[1]}/v1"
        async with AsyncOpenAI(api_key="none", base_url=url) as openai:
            session = OpenAIResponsesCompactionSession(
                "alex", plain, client=openai, compaction_mode="input"
            )
            items: list[Any] = [{"role": "user", "content": f"Question {it}?"} for it in range(3)]
            await session.add_items(items)
            await session.run_compaction({"force": True})
            after = await plain.get_items()
            assert [it.get("type") for it in after] == ["compaction"]
            assert after[0].get("encrypted_content") == summary["encrypted_content"]
            await session.add_items([{"role": "user", "content": "And now?"}])
            assert len(await session.get_items()) == 2
    finally:
        api.shutdown()
        thread.join()
        api.server_close()
    assert [it["content"] for it in requests[0]["input"]] == [it["content"] for it in items]
    # What was compacted is found all the same: it is in the conversation before this one.
    assert (await memory.recall.search("Question 1")).hits


async def test_what_others_append_while_the_sdk_compacts_stays(
    memory: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Message] = []
    load = type(memory.conversations).load

    async def counted(self: Any, *args: Any, **fields: Any) -> Any:
        page = await load(self, *args, **fields)
        read.extend(page.messages)
        return page

    monkeypatch.setattr(type(memory.conversations), "load", counted)
    plain, other = RecollectSession("alex", memory), RecollectSession("alex", memory)
    summary: Any = {"type": "compaction", "id": "cmp_1", "encrypted_content": "a summary"}
    of_another: list[Any] = []

    class Responses:
        async def compact(self, **_: Any) -> Any:
            await other.add_items(of_another)
            return SimpleNamespace(output=[summary], usage=None)

    session = OpenAIResponsesCompactionSession(
        "alex",
        plain,
        client=cast(Any, SimpleNamespace(responses=Responses())),
        should_trigger_compaction=lambda _: True,
    )
    model = ScriptedModel([[assistant_message(f"Answer {it}.")] for it in range(3)])
    agent = Agent(name="ops", model=model)
    quiet = RunConfig(tracing_disabled=True)

    def words(items: list[Any]) -> list[Any]:
        contents = [it.get("content", it.get("type")) for it in items]
        return [it if isinstance(it, str) else it[0]["text"] for it in contents]

    before: list[Any] = [{"role": "user", "content": f"Question {it}?"} for it in range(100)]
    await other.add_items(before)
    of_another = [{"role": "assistant", "content": "Another program's words."}]
    await Runner.run(agent, "First?", session=session, run_config=quiet)
    assert words(await plain.get_items())[100:] == ["First?", "Answer 0.", *words(of_another)]
    of_another = []
    await Runner.run(agent, "Second?", session=session, run_config=quiet)
    assert await other.get_items() == [summary]
    # What was replaced is not read again, and nothing of others is taken back by what comes late.
    read.clear()
    snapshot = await plain._get_compaction_snapshot(10)
    assert snapshot is not None
    assert (snapshot.items, snapshot.complete, len(read) < 30) == ([summary], True, True)
    late: list[Any] = [{"role": "assistant", "content": f"Late {it}."} for it in range(20)]
    newest: Any = {"role": "user", "content": "Third?"}
    replaced, *_ = await asyncio.gather(
        snapshot.replace_suffix(0, [newest]), *(other.add_items([it]) for it in late)
    )
    after = await plain.get_items()
    assert sorted(words([it for it in after if it in late])) == sorted(words(late))
    assert (newest in after, summary in after) == (replaced, not replaced)
    assert not await snapshot.replace_suffix(0, [])
    part = await plain._get_compaction_snapshot(5)
    assert part is not None
    assert (part.items, part.complete) == (after[-5:], False)
    assert await part.replace_suffix(3, [summary])
    assert await other.get_items() == [*after[:-2], summary]


def recalling(session: RecollectSession, **recall: Any) -> RunConfig:
    """Return the configuration of a run that recalls."""
    filtered = session.recalling(**recall)
    return RunConfig(tracing_disabled=True, call_model_input_filter=filtered)


async def test_a_run_recalls_once_a_turn_and_its_session_keeps_nothing_of_it(
    memory: AsyncClient, past: Past
) -> None:
    model = ScriptedModel(
        [
            [function_call("look", {}, call_id="call_1")],
            [assistant_message("heron")],
            [assistant_message("I do not know.")],
        ]
    )

    @function_tool
    def look() -> str:
        """Return nothing."""
        return ""

    agent = Agent(name="ops", model=model, tools=[look])
    session = RecollectSession("alex", memory)
    config = recalling(session)
    await Runner.run(agent, QUESTION, session=session, run_config=config)
    await Runner.run(agent, "Thanks!", session=session, run_config=config)
    inputs: list[Any] = [call.input for call in model.calls]
    for given in inputs[:2]:
        assert given[0]["role"] == "system"
        assert past.is_in(given[0]["content"])
        assert given[1]["content"] == QUESTION
    assert [it["content"] for it in inputs[2] if it.get("role") == "user"] == [QUESTION, "Thanks!"]
    assert "system" not in {it.get("role") for it in [*inputs[2], *await session.get_items()]}
    [own] = [it async for it in memory.conversations.list(channels=["agents"])]
    assert past.builds == [own.id, own.id]  # the session has the question before it is answered


async def test_another_person_is_a_stranger_to_a_run(server: RunningServer, past: Past) -> None:
    async with AsyncClient(server.target, space="sam") as client:
        model = ScriptedModel([[assistant_message("I do not know.")]])
        session = RecollectSession("alex", client)
        agent = Agent(name="ops", model=model)
        await Runner.run(agent, QUESTION, run_config=recalling(session))
        assert [it async for it in client.conversations.list()] == []  # recall begins none
    assert past.builds == [None]
    assert "heron" not in str(model.calls[0].input)


async def test_a_run_goes_on_where_nothing_can_be_recalled(
    memory: AsyncClient, past: Past, caplog: pytest.LogCaptureFixture
) -> None:
    session = RecollectSession("alex", memory)
    await session.add_items([{"role": "user", "content": "Hi"}])
    model = ScriptedModel([[assistant_message("I do not know.")]])
    agent, config = Agent(name="ops", model=model), recalling(session, budget=-1)
    result = await Runner.run(agent, QUESTION, session=session, run_config=config)
    assert result.final_output == "I do not know."
    [line] = [it.getMessage() for it in caplog.records if it.name == "recollect.recall"]
    assert f"session 'alex' (conversation: {past.builds[0]}): budget.total" in line
