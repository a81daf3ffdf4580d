"""The Claude Agent SDK's session store: its own suite, and its sessions as conversations."""

import asyncio
import itertools
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import hypothesis
import pytest
from hypothesis import strategies as st
from recollect import Client, Message, Role
from recollect._shared.file_parts import is_part
from recollect._shared.history import read_history
from recollect_server.kernel.domain.time import system_clock

from tests.adapters.conftest import QUESTION, Past
from tests.conftest import RunningServer
from tests.server.conftest import files_with

pytest.importorskip("claude_agent_sdk", reason="runs with .ci/toolkits")

from claude_agent_sdk import (
    get_session_messages_from_store,
    list_sessions_from_store,
    list_subagents_from_store,
    project_key_for_directory,
    rename_session_via_store,
)
from claude_agent_sdk.testing import run_session_store_conformance
from recollect.adapters.claude_agent import RecollectSessionStore

ROOT = Path(__file__).parents[2]
CLAUDE_CODE = os.environ.get("CLAUDE_CODE") or shutil.which("claude")
SESSION = Path(__file__).parent / "sessions" / "claude_code_2.1.332.jsonl"
"""Each append of a session that Claude Code ran against a server that played the model: its key and
its entries, but for some prompts of Claude Code's own.
"""
KEY: Any = {"project_key": "-home-alex-shop", "session_id": "08f453b4-3100-4c40-8810-e55d356faca5"}
SUBPATH = "subagents/agent-aa5d5aadf64a47cb4"
SUB: Any = {**KEY, "subpath": SUBPATH}


def appends() -> list[tuple[Any, list[Any]]]:
    return [json.loads(line) for line in SESSION.read_text().splitlines()]


def entries_of(key: Any) -> list[Any]:
    return [it for own, entries in appends() for it in entries if own == key]


@pytest.fixture
def store(client: Client) -> RecollectSessionStore:
    return RecollectSessionStore(client)


async def keep(store: RecollectSessionStore) -> None:
    for key, entries in appends():
        await store.append(key, entries)


def messages_of(client: Client, channel: str) -> list[Message]:
    [conversation] = client.conversations.list(channels=[channel])
    return read_history(client.conversations.load, conversation).messages


def shown(client: Client, channel: str) -> list[tuple[Role, str]]:
    return [
        (it.role, it.content or it.thinking_text or it.tool_calls[0].name)
        for it in messages_of(client, channel)
        if not is_part(it)
    ]


def user(text: str, uuid: str, **more: Any) -> Any:
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": uuid, "message": message, **more}


async def test_the_suite_of_the_sdk_passes(client: Client) -> None:
    numbers = itertools.count()

    def fresh() -> RecollectSessionStore:
        number = next(numbers)
        return RecollectSessionStore(client, channel=f"main-{number}", subagents=f"sub-{number}")

    await run_session_store_conformance(fresh)
    assert next(numbers) == 15  # one for each of the 14 contracts, and one that is only looked at


async def test_a_session_of_claude_code_comes_back_and_is_a_conversation(
    store: RecollectSessionStore, client: Client
) -> None:
    await keep(store)
    assert await store.load(KEY) == entries_of(KEY)
    assert await store.load(SUB) == entries_of(SUB)
    assert await store.list_subkeys(KEY) == [SUBPATH]
    assert shown(client, "claude-agent") == [
        (Role.USER, "Is the disk full?"),
        (Role.ASSISTANT, "I look at the disk."),
        (Role.ASSISTANT, "I look."),
        (Role.ASSISTANT, "Bash"),
        (Role.TOOL, "97 percent"),
        (Role.ASSISTANT, "The disk is at 97 %: the nightly export fills it."),
        (Role.USER, "Ask a colleague for it."),
        (Role.ASSISTANT, "I ask another agent."),
        (Role.ASSISTANT, "Agent"),
        (Role.TOOL, next(it for _, it in shown(client, "claude-agent") if "launched" in it)),
        (Role.ASSISTANT, "The disk is at 97 %: the nightly export fills it."),
        (Role.ASSISTANT, "Hello there."),
        (Role.USER, "Hi again"),
        (Role.ASSISTANT, "Hello there."),
    ]
    # What one agent says to another is nobody's own words.
    subs = [(Role.ASSISTANT, "heron subagent"), (Role.ASSISTANT, "Subagent: the heron is grey.")]
    assert shown(client, "claude-subagent") == subs
    first = messages_of(client, "claude-agent")[0]
    assert first.timestamp is not None
    assert f"{first.timestamp:%Y-%m-%dT%H:%M}" == "2026-09-20T09:30"
    [best, *_] = client.recall.search("nightly export").results
    assert best.channel == "claude-agent"


async def test_a_result_that_comes_late_stands_where_it_was_stored(
    store: RecollectSessionStore, client: Client
) -> None:
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "97 %"}
    entries = [
        user("a", "1"),
        {"type": "assistant", "uuid": "2", "message": {"content": [call]}},
        user("b", "3"),
        {"type": "user", "uuid": "4", "message": {"content": [result]}},
    ]
    for it in entries:
        await store.append(KEY, [it])
    assert await store.load(KEY) == entries
    turns = [it.turn_number for it in messages_of(client, "claude-agent")]
    assert turns == [1, 1, 1, 2]  # which reads as people do, in the order of turns


async def test_a_batch_that_is_repeated_is_there_once_also_for_another_process(
    store: RecollectSessionStore, client: Client
) -> None:
    await keep(store)
    count = [it.message_count for it in client.conversations.list()]
    with_uuid = [it for it in entries_of(KEY) if "uuid" in it]
    for another in (store, RecollectSessionStore(client)):
        await another.append(KEY, with_uuid)
        await another.append(KEY, [*with_uuid[3:], *with_uuid[3:]])
    assert [it.message_count for it in client.conversations.list()] == count
    one = user("And now?", "new")
    await RecollectSessionStore(client).append(KEY, [with_uuid[0], one])
    await store.append(KEY, [one, user("And then?", "newer")])
    assert await store.load(KEY) == [*entries_of(KEY), one, user("And then?", "newer")]


async def test_two_processes_that_store_the_same_entry_at_once_have_it_once(
    store: RecollectSessionStore, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    another, one = RecollectSessionStore(client), user("Hi", "one")
    transcript = another._transcript(KEY)
    find = transcript.find

    def find_and_lose_the_race() -> Any:
        conversation = find()
        monkeypatch.undo()
        store._append(KEY, "", [one])
        return conversation

    monkeypatch.setattr(transcript, "find", find_and_lose_the_race)
    await another.append(KEY, [one])
    assert len(messages_of(client, "claude-agent")) == 2
    assert await store.load(KEY) == [one]


async def test_a_session_that_a_person_deletes_is_gone_and_begins_anew(
    store: RecollectSessionStore, client: Client, server: RunningServer
) -> None:
    await keep(store)
    for it in client.conversations.list():
        client.conversations.delete(it.id)
    assert await store.load(KEY) is None
    assert await store.list_sessions(KEY["project_key"]) == []
    assert await store.list_subkeys(KEY) == []
    assert files_with(server.data_dir, "nightly", "heron", "costState", "lastPrompt") == []
    await store.append(KEY, entries_of(KEY)[:3])
    assert await store.load(KEY) == entries_of(KEY)[:3]


async def test_a_turn_that_is_redacted_takes_its_entries_with_it(
    store: RecollectSessionStore, client: Client, server: RunningServer
) -> None:
    entries = [user("zeppelin", "1", toolUseResult={"stdout": "submarine " * 9000}), user("b", "2")]
    await store.append(KEY, entries)
    [conversation] = client.conversations.list()
    assert "zeppelin" in str(await store.list_session_summaries(KEY["project_key"]))
    client.conversations.redact_message(conversation.id, turn_number=1)
    for seconds, count in ((60, 1), (0, 0)):
        another = RecollectSessionStore(client, summary_seconds=seconds)
        assert await another.load(KEY) == entries[1:]
        summaries = await another.list_session_summaries(KEY["project_key"])
        assert len(summaries) == count
        assert "zeppelin" not in str(summaries)
    assert await store.load(KEY) == entries[1:]
    assert files_with(server.data_dir, "zeppelin", "submarine") == []
    await store.append(KEY, [user("c", "3")])
    assert await store.load(KEY) == [entries[1], user("c", "3")]


async def test_a_session_that_is_deleted_takes_its_subagents_with_it(
    store: RecollectSessionStore, client: Client, server: RunningServer
) -> None:
    await keep(store)
    await store.append({**KEY, "session_id": "another"}, [user("Stay.", "s")])
    await store.delete(KEY)
    assert [it.message_count for it in client.conversations.list()] == [1]
    assert files_with(server.data_dir, "nightly", "heron", "lastPrompt") == []


async def test_the_sdk_lists_sessions_with_their_titles_and_reads_none_of_them(
    store: RecollectSessionStore, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = "/home/alex/shop"
    monkeypatch.setattr("claude_agent_sdk._internal.sessions._canonicalize_path", lambda it: it)
    assert project_key_for_directory(folder) == KEY["project_key"]
    await keep(store)
    await rename_session_via_store(store, KEY["session_id"], "The full disk", directory=folder)
    loads: list[Any] = []
    load = RecollectSessionStore.load

    async def counted(self: RecollectSessionStore, key: Any) -> Any:
        loads.append(key)
        return await load(self, key)

    monkeypatch.setattr(RecollectSessionStore, "load", counted)
    [listed] = await list_sessions_from_store(store, directory=folder)
    assert (listed.custom_title, listed.first_prompt) == ("The full disk", "Is the disk full?")
    assert loads == []
    [conversation] = client.conversations.list(channels=["claude-agent"])
    assert conversation.name == "The full disk"
    # Another program adds to the conversation: the SDK reads it, and the next append counts it in.
    client.conversations.append_turn(conversation.id, [Message.user("Added elsewhere.")])
    for reads in (1, 0):
        loads.clear()
        [again] = await list_sessions_from_store(store, directory=folder)
        assert (again.custom_title, again.session_id) == ("The full disk", KEY["session_id"])
        assert len(loads) == reads
        await store.append(KEY, [{"type": "mode", "mode": "normal"}])
    messages = await get_session_messages_from_store(store, KEY["session_id"], directory=folder)
    assert [it.type for it in messages[:2]] == ["user", "assistant"]
    subs = await list_subagents_from_store(store, KEY["session_id"], directory=folder)
    assert subs == ["aa5d5aadf64a47cb4"]


async def test_entries_of_any_size_come_back(store: RecollectSessionStore, client: Client) -> None:
    picture = {"type": "base64", "media_type": "image/png", "data": "foob" * 400_000}
    patch = [{"lines": [f" line {number} \ud800\0" for number in range(9000)]}]
    result = {"type": "tool_result", "tool_use_id": "none", "content": "a zeppelin " * 90_000}
    call = {"type": "tool_use", "id": "c", "name": "Write", "input": {"content": "x" * 700_000}}
    odd = {"type": "tool_use", "id": "", "name": "n" * 500, "input": "\ud800\0"}
    entries = [
        user("A picture", "1", toolUseResult={"structuredPatch": patch}),
        {"type": "user", "uuid": "2", "message": {"content": [{"type": "image", "source": picture}]}},
        {"type": "assistant", "uuid": "3", "message": {"content": [call]}},
        {"type": "user", "uuid": "4", "message": {"content": [result]}},
        {"type": "system", "content": "y" * 3_000_000},
        {"type": "assistant", "uuid": "5", "message": {"content": []}, "numbers": [1, 2**60, 0.5]},
        user("submarine", "6", timestamp="not a time", customTitle=""),
        {"type": "assistant", "uuid": "7", "message": {"content": [odd]}},
        user("\ud800\0", "8"),
        {"type": "\0"},
    ]  # fmt: skip
    await store.append(KEY, entries)
    assert await store.load(KEY) == entries
    assert shown(client, "claude-agent") == [
        (Role.USER, "A picture"),
        (Role.USER, "[image: image/png, 1.2 MB]"),
        (Role.ASSISTANT, "Write"),
        (Role.ASSISTANT, "[call]"),
        (Role.USER, "submarine"),
        (Role.ASSISTANT, "[call]"),
        (Role.USER, "?\ufffd"),
    ]


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda them: (
        st.lists(them, max_size=3) | st.dictionaries(st.text(max_size=9), them, max_size=3)
    ),
    max_leaves=12,
)
_BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "tool_use", "tool_result", "image"]) | _ANY},
    optional=dict.fromkeys(
        ("text", "thinking", "id", "name", "input", "tool_use_id", "content"), _ANY
    ),
)
_ENTRY = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "system"]) | st.text()},
    optional={
        "uuid": st.uuids().map(str),
        "message": st.fixed_dictionaries({"content": st.lists(_BLOCK | _ANY, max_size=3) | _ANY})
        | _ANY,
        "timestamp": st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat) | _ANY,
        "other": _ANY,
    },
)


@hypothesis.given(entries=st.lists(_ENTRY, min_size=1, max_size=6))
@hypothesis.settings(suppress_health_check=[*hypothesis.HealthCheck])
def test_whatever_an_entry_holds_it_comes_back(client: Client, entries: list[Any]) -> None:
    async def there_and_back() -> None:
        store = RecollectSessionStore(client)
        for key in (KEY, SUB):
            own: Any = {**key, "session_id": f"{uuid4()}"}
            await store.append(own, entries)
            assert await store.load(own) == entries

    asyncio.run(there_and_back())


async def test_what_claude_code_writes_itself_is_nobodys_words(
    store: RecollectSessionStore, client: Client
) -> None:
    entries = [
        user("<command-name>/compact</command-name>", "1"),
        user("Caveat: The messages below were generated by the user", "2"),
        user("This session is being continued", "3", isCompactSummary=True),
        user("a skill", "4", isMeta=True),
        user("of a subagent", "5", isSidechain=True),
        {"type": "last-prompt", "lastPrompt": "own"},
    ]
    await store.append(KEY, entries)
    assert shown(client, "claude-agent") == []
    assert await store.load(KEY) == entries
    assert client.recall.search("own caveat skill subagent continued").results == ()


async def test_hooks_recall_for_each_prompt(store: RecollectSessionStore, past: Past) -> None:
    [matcher] = store.recalling(2000)["UserPromptSubmit"]
    [hook] = matcher.hooks
    given: Any = {
        "session_id": KEY["session_id"],
        "transcript_path": f"/home/alex/.claude/projects/{KEY['project_key']}/x.jsonl",
        "prompt": QUESTION,
    }
    for text, conversations in ((QUESTION, 1), (QUESTION, 2), (" ", 2)):
        answer: Any = await hook({**given, "prompt": text}, None, {"signal": None})
        if text.strip():
            output = answer["hookSpecificOutput"]
            assert output["hookEventName"] == "UserPromptSubmit"
            assert past.is_in(output["additionalContext"])
        else:
            assert answer == {}
        assert len(past.builds) == conversations
        await keep(store)
    assert past.builds[0] is None
    assert past.builds[1] is not None


class PlayedApi(BaseHTTPRequestHandler):
    """Plays Anthropic's API: it says how many messages it got."""

    requests: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        self.requests.append(text)
        fields = json.loads(text)
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": fields.get("model"),
            "content": [], "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        answer = f"I see {len(fields.get('messages', ()))} messages."
        events: dict[str, Any] = {
            "message_start": {"message": message},
            "content_block_start": {"index": 0, "content_block": {"type": "text", "text": ""}},
            "content_block_delta": {"index": 0, "delta": {"type": "text_delta", "text": answer}},
            "content_block_stop": {"index": 0},
            "message_delta": {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
            "message_stop": {},
        }
        body = "".join(
            f"event: {name}\ndata: {json.dumps({'type': name, **it})}\n\n"
            for name, it in events.items()
        ).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


def names_of(page: str, section: str, **names: Any) -> dict[str, Any]:
    """Run the first block of a page's section, and return its names."""
    text = (ROOT / "docs" / page).read_text().partition(section)[2]
    block = text.split("```python\n")[1].split("```")[0]
    names["__name__"] = "page"
    exec(compile(block, page, "exec"), names)  # noqa: S102 - of our own guide
    return names


@pytest.fixture
def guide(client: Client) -> dict[str, Any]:
    section = "\n## Claude Agent SDK\n"
    return names_of("guides/adapters.md", section, client=client, print=lambda _: None)


@pytest.fixture
def page(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("RECOLLECT_ADDRESS", server.target)
    return names_of("toolkits/claude.md", "# Recollect")


def test_the_options_of_guide_and_page_are_those_of_the_sdk(
    guide: dict[str, Any], page: dict[str, Any]
) -> None:
    for options in (guide["options"], page["options"]):
        assert isinstance(options.session_store, RecollectSessionStore)
        assert [*options.hooks] == ["UserPromptSubmit"]


@pytest.fixture
def machine(server: RunningServer, tmp_path: Path) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Return a function that returns options of Claude Code on a new machine."""
    if not CLAUDE_CODE:
        pytest.skip("there is no `claude` on the PATH, nor does CLAUDE_CODE name one")
    server.clock.now = system_clock()
    PlayedApi.requests.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), PlayedApi) as api:
        threading.Thread(target=api.serve_forever, daemon=True).start()

        def options(name: str) -> dict[str, Any]:
            home = tmp_path / name
            env = {
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{api.server_port}",
                "ANTHROPIC_API_KEY": "none", "CLAUDE_CONFIG_DIR": str(home / ".claude"),
                "HOME": str(home), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            }  # fmt: skip
            return {"cli_path": CLAUDE_CODE, "cwd": tmp_path, "env": env}

        yield options
        api.shutdown()


async def test_claude_code_goes_on_with_a_session_on_another_machine_and_recalls(
    guide: dict[str, Any], past: Past, machine: Any, tmp_path: Path
) -> None:
    options, session = guide["options"], None
    for name in ("one", "two"):
        guide["options"] = replace(options, **machine(name))
        session = await guide["ask"](QUESTION, session)
    assert all("heron" in it for it in PlayedApi.requests)
    key: Any = {"project_key": project_key_for_directory(tmp_path), "session_id": session}
    entries = await guide["store"].load(key)
    texts = [it["message"]["content"] for it in entries if it["type"] == "user"]
    assert texts == [QUESTION, QUESTION]
    assert [it is None for it in past.builds] == [True, False]
    assert "I see " in PlayedApi.requests[-1]


async def test_the_program_for_claude_recalls_across_sessions(
    page: dict[str, Any], machine: Any
) -> None:
    lines: list[str] = []
    page["print"] = lambda *it: lines.append(" ".join(map(str, it)))
    page["options"] = replace(page["options"], **machine("one"))
    await page["main"]()
    assert ["called heron" in it for it in PlayedApi.requests] == [True, True, True]
    assert re.fullmatch(r"I see \d messages\.", lines[0])
    assert lines[2] == "It was said over claude-agent"
