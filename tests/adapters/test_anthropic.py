"""Messages for Anthropic's API, held against the types of its SDK and the rules that the API has
besides.
"""

import json
import re
from typing import Any

import pytest
from anthropic.types import MessageParam
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from recollect import Attachment, Client, Message, ToolCall
from recollect.adapters.anthropic import messages

from tests.conftest import examples

TYPE = TypeAdapter(list[MessageParam])
TURN = [
    Message.user("Is the disk full?"),
    Message.assistant(
        "Let me look.",
        tool_calls=[ToolCall("call 1", "df -h", '{"path": "/"}'), ToolCall("call:1", "date", "")],
    ),
    Message.tool("97%", tool_call_id="call 1"),
    Message.tool("", tool_call_id="call:1"),
    Message.assistant("Yes: 97 %. "),
]


def checked(them: list[Message]) -> list[Any]:
    """Return the converted messages, checked against the SDK's types and the API's rules."""
    written: Any = messages(them)
    TYPE.validate_python(written, strict=True)
    json.dumps(written)
    roles = [it["role"] for it in written]
    assert roles == ["user" if place % 2 == 0 else "assistant" for place in range(len(roles))]
    open_calls: list[str] = []
    used: set[str] = set()
    for it in written:
        kinds = [block["type"] for block in it["content"]]
        assert kinds
        assert all(
            block["text"].strip() and block["text"] == block["text"].rstrip()
            for block in it["content"]
            if block["type"] == "text"
        )
        if it["role"] == "user":
            results = [
                block["tool_use_id"] for block in it["content"] if block["type"] == "tool_result"
            ]
            assert sorted(results) == sorted(open_calls)
            assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result")
        open_calls = [block["id"] for block in it["content"] if block["type"] == "tool_use"]
        assert not used & set(open_calls)
        used |= set(open_calls)
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", name) for name in open_calls)
        assert all(
            re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"])
            for block in it["content"]
            if block["type"] == "tool_use"
        )
        assert kinds == sorted(kinds, key=lambda kind: kind == "tool_use")
    assert not open_calls
    return list(written)


def test_a_turn_with_tools_is_what_the_api_takes() -> None:
    assert checked(TURN) == [
        {"role": "user", "content": [{"type": "text", "text": "Is the disk full?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "call_1", "name": "df_-h", "input": {"path": "/"}},
                {"type": "tool_use", "id": "call_1-2", "name": "date", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "call_1",
                    "content": [{"type": "text", "text": "97%"}],
                },
                {"type": "tool_result", "tool_use_id": "call_1-2", "content": []},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Yes: 97 %."}]},
    ]


def test_what_was_loaded_is_taken_as_it_is(client: Client) -> None:
    it = client.conversations.create("web")
    for _ in range(2):  # the same ids in both turns
        client.conversations.append_turn(it.id, TURN)
    written = checked(list(client.conversations.load(it.id).messages))
    assert len(written) == 8


def test_calls_in_a_message_each_are_one_messages_calls() -> None:
    calls = [Message.assistant(tool_calls=[ToolCall(name, name)]) for name in ("a", "b")]
    results = [Message.tool(name, tool_call_id=name) for name in ("b", "a")]
    written = checked([Message.user("?"), *calls, *results])
    assert [block["name"] for block in written[1]["content"]] == ["a", "b"]
    assert [block["content"][0]["text"] for block in written[2]["content"]] == ["b", "a"]


def test_calls_without_results_and_results_without_calls_are_mended() -> None:
    call = Message.assistant(tool_calls=[ToolCall("c", "df", "no JSON")])
    written = checked([Message.tool("late", tool_call_id="gone"), call, Message.user("never mind")])
    assert written[0]["content"] == [
        {"type": "text", "text": "[The result of a call that is not shown:] late"}
    ]
    assert written[1]["content"][0]["input"] == {"arguments": "no JSON"}
    assert (written[2]["content"][0]["is_error"], written[2]["content"][1]["text"]) == (
        True,
        "never mind",
    )
    assert checked([call])[-1]["role"] == "user"


def test_the_user_begins_and_files_are_passed_on() -> None:
    files = [
        Attachment("image/png", "https://x.example/a.png"),
        Attachment("text/csv", "s3://bucket/a.csv"),
    ]
    written = checked([Message.assistant("Hello!"), Message.user("See.", attachments=files)])
    assert [it["role"] for it in written] == ["user", "assistant", "user"]
    assert written[2]["content"][1] == {
        "type": "image",
        "source": {"type": "url", "url": "https://x.example/a.png"},
    }
    assert written[2]["content"][2]["text"] == "[File: text/csv, s3://bucket/a.csv]"
    assert checked([]) == []


NAMES = st.sampled_from(["a", "b", "a b", "ü"])
CALLS = st.builds(ToolCall, NAMES, NAMES, st.sampled_from(["", "{}", "[1]", "{"]))
ANY_MESSAGE = st.one_of(
    st.builds(Message.user, st.sampled_from(["hi", " ", "so\n"])),
    st.builds(
        Message.assistant,
        st.sampled_from(["", "yes ", "  "]),
        tool_calls=st.lists(CALLS, max_size=3),
        thinking_text=st.sampled_from(["", "hm"]),
    ),
    st.builds(Message.tool, st.sampled_from(["", "97%"]), tool_call_id=NAMES),
)


@given(st.lists(ANY_MESSAGE, max_size=12))
@settings(max_examples=examples(300), deadline=None)
def test_whatever_was_said_the_api_takes_it(them: list[Message]) -> None:
    checked(them)


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', "", "[1]", "x"])
def test_arguments_are_an_object(text: str) -> None:
    [_, message, _] = checked([Message.assistant(tool_calls=[ToolCall("c", "n", text)])])
    assert isinstance(message["content"][0]["input"], dict)
