"""The tools that read, as the official MCP client sees them over stdio and over HTTP."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents
from recollect import Client, Conversation, Message, ToolCall
from recollect.mcp.bounds import MAX_CHARACTERS

from tests.mcp.conftest import called, over_http, over_stdio, refused

Talked = Callable[..., Conversation]

TOOLS = (
    "search_conversations", "fetch_context", "recent_conversations", "get_context", "list_facts"
)  # fmt: skip


async def test_the_tools_take_and_answer_what_an_agent_expects(server: Any) -> None:
    async with over_stdio(server.target) as mcp:
        tools = {tool.name: tool for tool in (await mcp.list_tools()).tools}
    assert tuple(tools) == TOOLS
    inputs = {name: set(tool.input_schema["properties"]) for name, tool in tools.items()}
    assert inputs == {
        "search_conversations": {"query", "channel", "dateRange", "limit", "minScore", "moment"},
        "fetch_context": {"conversationId", "turnRange"},
        "recent_conversations": {"channel", "dateRange", "limit"},
        "get_context": {"conversationId", "message", "maxTokens"},
        "list_facts": {"asOf", "includePast", "limit", "offset"},
    }
    for name in ("DateRange", "TurnRange"):
        [schema] = [
            tool.input_schema["$defs"][name]
            for tool in tools.values()
            if name in tool.input_schema.get("$defs", {})
        ][:1]
        assert set(schema["properties"]) == {"from", "to"}
    assert tools["search_conversations"].input_schema["required"] == ["query"]
    assert tools["fetch_context"].input_schema["required"] == ["conversationId"]
    for tool in tools.values():
        assert tool.annotations is not None
        assert (tool.annotations.read_only_hint, tool.annotations.destructive_hint) == (True, False)
        assert tool.description
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema is not None
        assert "continuation" in tool.output_schema["properties"]
        assert "_" not in "".join(tool.output_schema["properties"])


async def test_search_finds_conversations_and_messages(
    server: Any, client: Client, talked: Talked
) -> None:
    talked(text="the network is slow")
    it = talked(2, text="the disk is full", channel="cli")
    client.conversations.rename(it.id, "Full Disk")
    client.conversations.record_abbreviation(it.id, "Alex's disk is full.", topics=["disk"])
    async with over_stdio(server.target) as mcp:
        answer = await called(mcp, "search_conversations", query="is the disk full?")
        other = await called(mcp, "search_conversations", query="is the disk full?", channel="web")
    best = answer["results"][0]
    assert (best["conversationId"], best["conversationName"], best["channel"]) == (
        it.id,
        "Full Disk",
        "cli",
    )
    assert (best["topics"], best["abbreviation"]) == (["disk"], "Alex's disk is full.")
    assert (sorted(best["matchedTurns"]), best["turnRange"]) == ([1, 2], {"from": 1, "to": 2})
    assert "**disk**" in best["snippet"]
    assert answer["totalMatches"] == len(answer["results"])
    assert answer["continuation"] is None
    hit = answer["messages"][0]
    assert (hit["conversationId"], hit["role"], hit["sender"]) == (it.id, "user", "alex")
    assert it.id not in {result["conversationId"] for result in other["results"]}


async def test_what_a_search_left_out_is_said(server: Any, talked: Talked) -> None:
    for _ in range(3):
        talked(text="the disk is full")
    async with over_http(server.target) as mcp:
        answer = await called(mcp, "search_conversations", query="disk", limit=2)
    assert (len(answer["results"]), answer["totalMatches"]) == (2, 3)
    assert answer["continuation"].startswith("2 of 3 conversations")


async def test_a_message_that_asks_comes_with_its_reply(server: Any, client: Client) -> None:
    it = client.conversations.create("web").id
    talk = [Message.user("Who has the bongo?"), Message.user("Ann has it.", sender="Ben")]
    client.conversations.append_turn(it, talk)
    async with over_stdio(server.target) as mcp:
        answer = await called(mcp, "search_conversations", query="bongo")
    replies = {hit["turnNumber"]: hit["reply"] for hit in answer["messages"]}
    assert replies == {1: {"role": "user", "sender": "Ben", "text": "Ann has it."}, 2: None}


async def test_a_message_comes_with_its_moment_if_that_is_asked_for(
    server: Any, client: Client
) -> None:
    it = client.conversations.create("web").id
    talk = [Message.user("Hello"), Message.user("The bongo is red."), Message.assistant("Nice.")]
    client.conversations.append_turn(it, talk)
    async with over_stdio(server.target) as mcp:
        plain = await called(mcp, "search_conversations", query="bongo")
        answer = await called(mcp, "search_conversations", query="bongo", moment=True)
    beside = [
        [(hit["before"], hit["reply"]) for hit in one["messages"] if "red" in hit["snippet"]]
        for one in (plain, answer)
    ]
    assert beside == [
        [(None, None)],
        [
            (
                {"role": "user", "sender": None, "text": "Hello"},
                {"role": "assistant", "sender": None, "text": "Nice."},
            )
        ],
    ]


async def test_a_search_that_nothing_answers_says_so(server: Any, talked: Talked) -> None:
    for text in (
        "We fly to Kyoto in April",
        "The car needs new tyres",
        "My daughter starts first grade",
        "The disk is full",
    ):
        talked(text=text)
    unanswered = "Whose aquarium stands beside the neighbours' full wardrobe?"
    async with over_http(server.target) as mcp:
        fits = await called(
            mcp, "search_conversations", query="When do we fly to Kyoto?", minScore=0.3
        )
        unfit = await called(mcp, "search_conversations", query=unanswered)
        nothing = await called(mcp, "search_conversations", query=unanswered, minScore=0.3)
    assert (fits["doubt"], "Kyoto" in fits["messages"][0]["snippet"]) == (None, True)
    assert unfit["messages"][0]["score"] < 0.3
    assert f"the best score is {unfit['messages'][0]['score']:.2f} of 1" in unfit["doubt"]
    assert (nothing["results"], nothing["messages"], nothing["continuation"]) == ([], [], None)
    assert "nothing scores 0.30 or more" in nothing["doubt"]


async def test_dates_choose_whole_days_and_moments(server: Any, client: Client) -> None:
    for day in (13, 14, 15):
        it = client.conversations.create("web", create_time=datetime(2026, 2, day, tzinfo=UTC))
        client.conversations.append_turn(
            it.id, [Message.user("disk", timestamp=datetime(2026, 2, day, 12, tzinfo=UTC))]
        )
    async with over_http(server.target) as mcp:
        for tool, key, filters in (
            ("search_conversations", "results", {"query": "disk"}),
            ("recent_conversations", "conversations", {}),
        ):

            async def days(
                dates: Any, tool: str = tool, key: str = key, filters: dict[str, str] = filters
            ) -> list[str]:
                answer = await called(mcp, tool, dateRange=dates, **filters)
                shown = answer[key] + answer.get("messages", [])
                assert {it["when"].partition(" February ")[2] for it in shown} == {
                    "2026, 12:00 UTC"
                }
                return sorted(it["date"][8:10] for it in answer[key])

            assert await days({"from": "2026-02-14", "to": "2026-02-14"}) == ["14"]
            assert await days({"from": "2026-02-14T12:00:01Z"}) == ["15"]
            assert await days({"to": "2026-02-14T13:00:00+01:00"}) == ["13"]
            assert await days({}) == ["13", "14", "15"]
            assert await days('{"from": "2026-02-15"}') == ["15"]  # as some hosts write it
    there = {"from": "2026-02-15", "to": "2026-02-15"}  # until 10:00 UTC, as in a question
    async with over_http(server.target, TZ="Pacific/Kiritimati") as mcp:
        shown = (await called(mcp, "recent_conversations", dateRange=there))["conversations"]
        assert [it["date"][8:10] for it in shown] == ["14"]


async def test_fetch_context_answers_turns_word_for_word(
    server: Any, client: Client, talked: Talked
) -> None:
    it = talked(12)
    call = ToolCall("call-1", "df", '{"path": "/"}')
    messages = [
        Message.user("Grüße\n?", channel="whatsapp"),
        Message.assistant("", tool_calls=[call]),
        Message.tool("97%", tool_call_id="call-1"),
    ]
    client.conversations.append_turn(it.id, messages)
    async with over_http(server.target) as mcp:
        last = await called(mcp, "fetch_context", conversationId=it.id)
        some = await called(
            mcp, "fetch_context", conversationId=it.id, turnRange={"from": 2, "to": 3}
        )
    assert (last["totalTurns"], last["turnRange"], last["nextTurnRange"]) == (
        13,
        {"from": 4, "to": 13},
        None,
    )
    assert (
        last["continuation"] == "These are the last 10 turns: earlier ones have the numbers 1 to 3."
    )
    assert last["messages"][-3]["content"] == "Grüße\n?"
    assert [line["channel"] for line in last["messages"][-4:-1]] == [None, "whatsapp", None]
    assert last["messages"][-2]["toolCalls"] == [
        {"id": "call-1", "name": "df", "arguments": '{"path": "/"}'}
    ]
    assert (last["messages"][-1]["role"], last["messages"][-1]["toolCallId"]) == ("tool", "call-1")
    assert [
        (line["turnNumber"], line["role"], line["content"], line["sender"])
        for line in some["messages"]
    ] == [
        (2, "user", "line 2", "alex"),
        (2, "assistant", "answer 2 ", None),
        (3, "user", "line 3", "alex"),
        (3, "assistant", "answer 3 ", None),
    ]
    assert some["continuation"] is None


def size(answer: dict[str, Any]) -> int:
    return sum(len(line["content"]) for line in answer["messages"])


@pytest.mark.parametrize("span", [None, {"from": 1, "to": 9}])
async def test_asking_for_what_had_no_room_gives_every_turn_once(
    server: Any, talked: Talked, span: Any
) -> None:
    it = talked(9, length=5000)
    turns: list[int] = []
    arguments: dict[str, Any] = {"conversationId": it.id} | ({"turnRange": span} if span else {})
    async with over_http(server.target) as mcp:
        for _ in range(9):
            answer = await called(mcp, "fetch_context", **arguments)
            assert size(answer) <= MAX_CHARACTERS
            assert all(
                len(line["content"]) == 5000
                for line in answer["messages"]
                if line["role"] == "assistant"
            )
            turns += sorted({line["turnNumber"] for line in answer["messages"]})
            if answer["nextTurnRange"] is None:
                break
            # The sentence holds the very arguments of the next call.
            again = (
                answer["continuation"].partition("call fetch_context again with ")[2].rstrip(".")
            )
            arguments = json.loads(again)
            assert arguments == {"conversationId": it.id, "turnRange": answer["nextTurnRange"]}
    assert sorted(turns) == list(range(1, 10))
    assert turns[:3] == ([1, 2, 3] if span else [7, 8, 9])


async def test_a_turn_that_is_too_long_is_cut_and_its_resource_has_all_of_it(
    server: Any, client: Client, talked: Talked
) -> None:
    it = talked(1)
    long = ["short", "y" * 30_000, "z" * 50_000]
    client.conversations.append_turn(
        it.id, [Message.user(long[0]), Message.assistant(long[1]), Message.assistant(long[2])]
    )
    async with over_stdio(server.target) as mcp:
        answer = await called(
            mcp, "fetch_context", conversationId=it.id, turnRange={"from": 2, "to": 2}
        )
        where = f"recollect://{it.id}/turns/2"
        assert where in answer["continuation"]
        assert answer["messages"][0]["content"] == "short"
        for line, whole in zip(answer["messages"][1:], long[1:], strict=True):
            shown, mark, note = line["content"].partition("… [")
            assert whole.startswith(shown)
            assert len(shown) > 9_000
            assert mark
            assert (
                note
                == f"{len(whole) - len(shown)} more characters: over MCP read the resource {where}]"
            )
        assert size(answer) < MAX_CHARACTERS + 300
        _, template = (await mcp.list_resource_templates()).resource_templates
        assert template.uri_template == "recollect://{conversationId}/turns/{turn}"
        [content] = (await mcp.read_resource(where)).contents
        assert isinstance(content, TextResourceContents)
        assert [message["content"] for message in json.loads(content.text)["messages"]] == long
        with pytest.raises(MCPError, match="uri: is like"):
            await mcp.read_resource(f"recollect://{it.id}/turns/../../etc/passwd")


async def test_get_context_goes_on_with_a_conversation(
    server: Any, client: Client, talked: Talked
) -> None:
    client.recall.set_anchor("home.city", "Lisbon")
    elsewhere = talked(1, text="the key of the boat house lies under the third <stone>")
    here = talked(40, text="tea")
    client.recall.search("boat house")
    question = "Where is the key of the boat house?"
    async with over_http(server.target, TZ="Asia/Tokyo") as mcp:
        answer = await called(
            mcp, "get_context", conversationId=here.id, message=question, maxTokens=600
        )
        plain = await called(mcp, "get_context", conversationId=here.id)
        new = await called(mcp, "get_context", message=question)
        for arguments, sentence in (
            ({"conversationId": here.id, "maxTokens": 5}, "maxTokens: "),
            ({"conversationId": f"conv-{'0' * 26}"}, "conversation"),
            ({}, "message"),
        ):
            assert sentence in await refused(mcp, "get_context", **arguments)
    tree = ElementTree.fromstring(answer["context"])  # noqa: S314 - of our own server
    assert (tree.tag, tree.get("now", "").rpartition(", ")[2]) == ("context", "Asia/Tokyo")
    text = "".join(tree.itertext())
    assert "third <stone>" in text
    assert elsewhere.id in answer["context"]
    assert "Lisbon" in text
    assert answer["tokens"] <= 600
    assert "maxTokens" in answer["continuation"]
    assert "boat house" not in plain["context"]
    assert ("third" in new["context"], new["conversationId"]) == (True, None)
    assert plain["tokens"] > answer["tokens"] / 2


async def test_recent_goes_back_page_by_page(server: Any, client: Client) -> None:
    names = []
    for day in range(1, 6):
        it = client.conversations.create("web", create_time=datetime(2026, 2, day, tzinfo=UTC))
        client.conversations.append_turn(
            it.id,
            [Message.user(f"said on day {day}", timestamp=datetime(2026, 2, day, tzinfo=UTC))],
        )
        names.append(it.id)
    client.conversations.record_abbreviation(names[4], "n" * 1500)
    listed, arguments = [], dict[str, Any](limit=2)
    async with over_http(server.target) as mcp:
        while True:
            page = await called(mcp, "recent_conversations", **arguments)
            listed += page["conversations"]
            if page["continuation"] is None:
                break
            arguments |= json.loads(page["continuation"].partition("again with ")[2].rstrip("."))
    assert [it["conversationId"] for it in listed] == names[::-1]
    assert listed[0]["abbreviation"].endswith(
        "… [500 more characters: fetch_context has the turns themselves]"
    )
    assert (listed[1]["snippet"], listed[1]["turns"], listed[1]["date"]) == (
        "said on day 4",
        1,
        "2026-02-04T00:00:00.000Z",
    )
    assert listed[1]["when"] == "Wednesday 4 February 2026, 00:00 UTC"


async def test_turns_beyond_the_last_are_told_in_the_tools_own_names(
    server: Any, talked: Talked
) -> None:
    it = talked(2)
    async with over_http(server.target) as mcp:
        message = await refused(
            mcp, "fetch_context", conversationId=it.id, turnRange={"from": 9, "to": 10}
        )
        many = await refused(
            mcp, "fetch_context", conversationId=it.id, turnRange={"from": 1, "to": 1000}
        )
    assert message.startswith("turnRange")
    assert many.startswith("turnRange")


async def test_without_a_server_the_call_says_so_and_works_once_there_is_one(
    start_server: Callable[..., Any], tmp_path: Any
) -> None:
    address = f"unix:{tmp_path / 'socket'}"
    async with over_stdio(address) as mcp:
        message = await refused(mcp, "recent_conversations")
        assert (
            message
            == f"no Recollect server answers on {address}: start one with `recollect-server serve`"
        )
        start_server(listen=address)
        # gRPC tries a lost address again after a pause of its own, of at most five seconds.
        for _ in range(20):
            result = await mcp.call_tool("recent_conversations", {})
            if not result.is_error:
                break
        assert (await called(mcp, "recent_conversations"))["conversations"] == []
