"""Resources, prompts and completion beside the tools to read, and tools that
write where somebody asks for them.
"""

import json
from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest
from mcp import Client as McpClient
from mcp.shared.exceptions import MCPError
from recollect import Client, Conversation

from tests.conftest import RunningServer, Start
from tests.mcp.conftest import UNKNOWN, called, over_http, refused
from tests.mcp.test_access import ALL, listening, token_of, tools_of

WRITING = ["remember", "correct", "forget", "append_messages"]


async def test_the_newest_conversations_are_resources_with_their_last_turns(
    server: RunningServer, client: Client, talked: Callable[..., Conversation]
) -> None:
    older, newer = talked(3, text="apricot"), talked(12)
    client.conversations.rename(newer.id, "Twelve")
    async with over_http(server.target) as mcp:
        listed = (await mcp.list_resources()).resources
        assert [(it.uri, it.title) for it in listed] == [
            (f"recollect://conversation/{newer.id}", "Twelve"),
            (f"recollect://conversation/{older.id}", "apricot 1"),
        ]
        assert "answer 3" in str(listed[1].description) or "apricot" in str(listed[1].description)
        [content] = (await mcp.read_resource(listed[0].uri)).contents
        assert isinstance(content, types.TextResourceContents)
        assert json.loads(content.text) == await called(
            mcp, "fetch_context", conversationId=newer.id
        )
        for wrong in (f"conversation/{UNKNOWN}", "conversation/../etc/passwd"):
            with pytest.raises(MCPError, match=r"conversationId|uri: is like"):
                await mcp.read_resource(f"recollect://{wrong}")


async def test_prompts_say_which_tools_to_use_and_refuse_what_they_do_not_take(
    server: RunningServer,
) -> None:
    async with over_http(server.target) as mcp:
        prompts = (await mcp.list_prompts()).prompts
        assert [it.name for it in prompts] == ["recall", "catch_up", "continue"]
        recall = await mcp.get_prompt("recall", {"topic": "the {disk}"})
        [message] = recall.messages
        assert isinstance(message.content, types.TextContent)
        assert message.content.text.startswith("What did we say about the {disk}? Search")
        assert all(name in message.content.text for name in ALL[:2])
        caught_up = await mcp.get_prompt("catch_up")
        assert isinstance(caught_up.messages[0].content, types.TextContent)
        assert "since the last days:" in caught_up.messages[0].content.text
        going_on = await mcp.get_prompt("continue", {"conversationId": UNKNOWN})
        assert isinstance(going_on.messages[0].content, types.TextContent)
        assert (
            f"go on with {UNKNOWN}. Read it with get_context" in going_on.messages[0].content.text
        )
        for name, arguments, sentence in (
            ("recall", {}, "topic: is required"),
            ("recall", {"since": "x"}, "since: is no argument of recall, which has topic"),
            ("nothing", {}, "no such prompt: nothing. There are recall, catch_up, continue."),
        ):
            with pytest.raises(MCPError, match=sentence):
                await mcp.get_prompt(name, arguments)


async def test_arguments_are_completed_from_what_is_stored(
    server: RunningServer, client: Client, talked: Callable[..., Conversation]
) -> None:
    it = talked()
    client.conversations.set_topics(it.id, ["disk-space", "tea"])
    async with over_http(server.target) as mcp:
        topic = await mcp.complete(
            types.PromptReference(type="ref/prompt", name="recall"),
            {"name": "topic", "value": "disk"},
        )
        assert topic.completion.values == ["disk-space"]
        template = types.ResourceTemplateReference(
            type="ref/resource", uri="recollect://conversation/{conversationId}"
        )
        ids = await mcp.complete(template, {"name": "conversationId", "value": it.id[:8]})
        assert ids.completion.values == [it.id]
        none = await mcp.complete(template, {"name": "conversationId", "value": "x"})
        assert none.completion.values == []


async def test_without_leave_nothing_can_be_written(server: RunningServer, client: Client) -> None:
    async with over_http(server.target) as mcp:
        assert await tools_of(mcp) == ALL
        for name in WRITING:
            text = await refused(mcp, name, key="a", value="b")
            assert text.startswith(f"no such tool: {name}. There are search")
    assert client.recall.list_anchors() == ()
    assert list(client.conversations.list()) == []


async def test_with_leave_an_agent_remembers_and_appends(
    server: RunningServer, client: Client
) -> None:
    with listening(server.target, "--write") as url:
        async with McpClient(url) as mcp:
            tools = {it.name: it for it in (await mcp.list_tools()).tools}
            assert list(tools) == [*ALL, *WRITING]
            hints = [tools[name].annotations for name in (ALL[0], *WRITING)]
            assert [it and it.read_only_hint for it in hints] == [True] + [False] * 4
            assert [it and it.destructive_hint for it in hints] == [False] * 3 + [True, False]
            remembered = await called(mcp, "remember", key="home.city", value="Berlin")
            [anchor] = client.recall.list_anchors()
            assert (anchor.key, anchor.value) == ("home.city", "Berlin")
            [fact] = (await called(mcp, "list_facts"))["facts"]
            assert (fact["fact"], fact["text"]) == ("home.city", "Berlin")
            undo = remembered["undo"]
            assert (await called(mcp, undo["tool"], **undo["arguments"]))["before"] == "Berlin"
            assert client.recall.list_anchors() == ()
            messages = [
                {"role": "user", "content": "We ship on Friday."},
                {"role": "assistant", "content": "Noted."},
            ]
            given: dict[str, Any] = {"messages": messages, "requestId": "r1"}
            first = await called(mcp, "append_messages", **given)
            assert await called(mcp, "append_messages", **given) == first
            name = first["conversationId"]
            more = await called(
                mcp, "append_messages", conversationId=name, messages=json.dumps(messages[:1])
            )
            assert (more["turnNumber"], more["messageCount"]) == (2, 3)
            answer = await called(mcp, "search_conversations", query="ship on Friday")
            assert answer["results"][0]["conversationId"] == name
            for wrong, sentence in (
                ({"messages": []}, "messages: "),
                ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
                ({"messages": messages, "conversationId": UNKNOWN}, "conversationId: there is no"),
                ({"messages": messages, "requestId": "two words"}, "requestId: is not 1 to 128"),
                ({"messages": messages[:1], "requestId": "r1"}, "requestId r1 was used before"),
            ):
                assert sentence in await refused(mcp, "append_messages", **wrong)
            assert "key" in await refused(mcp, "remember", key="Home City", value="Berlin")
    assert client.conversations.get(name).channel == "mcp"
    assert len(list(client.conversations.list())) == 1


async def test_the_scopes_of_the_token_decide_what_is_written(start_server: Start) -> None:
    server = start_server(auth="required")
    token = token_of(server, "reader")
    with listening(server.target, "--write", RECOLLECT_TOKEN=token) as url:
        async with McpClient(url) as mcp:
            assert await tools_of(mcp) == ALL
            assert "anchors.write" in await refused(mcp, "remember", key="a", value="b")
