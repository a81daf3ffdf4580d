"""The tools as definitions for models of OpenAI and Anthropic, over the clients of both and a local
server that speaks as their APIs do.
"""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from anthropic.types import ToolParam
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter
from recollect import AsyncClient, Client
from recollect.mcp.definitions import EVERY, TOOLS, answer, anthropic_tools, openai_tools

from tests.conftest import LOOPBACK, RunningServer

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "mcp.md"
OFFERED = [*TOOLS, "remember"]
CITY = {"key": "home.city", "value": "Bonn"}


def test_they_need_neither_mcp_nor_the_package_of_a_model() -> None:
    program = """if True:
        import sys
        import recollect.mcp.definitions
        print({"anthropic", "mcp", "mcp_types", "openai", "starlette"} & {*sys.modules})
    """
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ran.stdout == "set()\n"


@pytest.mark.parametrize(
    ("render", "form", "name_of"),
    [
        (openai_tools, FunctionToolParam, lambda it: it["name"]),
        (
            lambda names: openai_tools(names, chat_completions=True),
            ChatCompletionFunctionToolParam,
            lambda it: it["function"]["name"],
        ),
        (anthropic_tools, ToolParam, lambda it: it["name"]),
    ],
)
def test_every_tool_has_the_form_of_the_api(
    render: Callable[..., list[dict[str, Any]]], form: Any, name_of: Callable[[Any], str]
) -> None:
    tools = render(EVERY)
    TypeAdapter(list[form]).validate_python(tools, strict=True)
    assert [name_of(it) for it in tools] == [*EVERY]
    with pytest.raises(ValueError, match="names: delete_everything is none of search_conv"):
        render(["delete_everything"])


def test_what_writes_is_offered_only_by_name() -> None:
    assert [it["name"] for it in openai_tools()] == [it["name"] for it in anthropic_tools()]
    assert [it["name"] for it in openai_tools()] == [*TOOLS]


@contextmanager
def scripted(*answers: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Run an API that gives these answers in turn. Yield its URL, and the requests that it gets."""
    requests: list[Any] = []

    class ModelApi(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = json.dumps(answers[len(requests) - 1]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((LOOPBACK, 0), ModelApi)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()


async def test_a_model_of_openai_remembers_by_a_call(server: RunningServer, client: Client) -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "remember",
            "arguments": json.dumps(CITY), "status": "completed"}  # fmt: skip
    response = {"id": "resp_1", "object": "response", "created_at": 0, "model": "m",
                "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}  # fmt: skip
    messages: list[Any] = [{"role": "user", "content": "I live in Bonn."}]
    tools: Any = openai_tools(OFFERED)
    with scripted(response | {"output": [call]}, response | {"output": []}) as (url, requests):
        async with (
            AsyncOpenAI(base_url=url, api_key="none") as api,
            AsyncClient(server.target) as memory,
        ):
            first = await api.responses.create(model="m", input=messages, tools=tools)
            [item] = first.output
            assert item.type == "function_call"
            outcome = await answer(memory, item.name, item.arguments, offered=OFFERED)
            result = {
                "type": "function_call_output",
                "call_id": item.call_id,
                "output": outcome.text,
            }
            messages += [item.model_dump(), result]
            await api.responses.create(model="m", input=messages, tools=tools)
    assert requests[0]["tools"] == tools
    undo = {"tool": "forget", "arguments": {"fact": "home.city"}}
    assert json.loads(requests[1]["input"][-1]["output"]) == CITY | {"undo": undo}
    assert [it.value for it in client.recall.list_anchors()] == ["Bonn"]


async def test_a_model_of_anthropic_hears_why_its_call_failed(
    server: RunningServer, client: Client
) -> None:
    calls = [
        {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": CITY | more}
        for name, more in (("remember", {"key": "Home City"}), ("delete", {}), ("remember", {}))
    ]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
               "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
    [block] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    guide: dict[str, Any] = {}
    exec(compile(block, str(GUIDE), "exec"), guide)  # noqa: S102 - of our own guide
    with scripted(message | {"content": calls}, message | {"content": []}) as (url, requests):
        async with (
            AsyncAnthropic(base_url=url, api_key="none") as api,
            AsyncClient(server.target) as memory,
        ):
            messages = [{"role": "user", "content": "I live in Bonn."}]
            reply = await guide["ask"](api, memory, "m", messages)
    assert reply.content == []
    assert [it["name"] for it in requests[0]["tools"]] == [*EVERY]
    wrong, missing, right = requests[1]["messages"][-1]["content"]
    assert [it["is_error"] for it in (wrong, missing, right)] == [True, True, False]
    assert wrong["content"].startswith("key: String should match pattern")
    assert missing["content"].startswith("no such tool: delete. There are search_conversations")
    assert [it.value for it in client.recall.list_anchors()] == ["Bonn"]


async def test_a_server_that_is_away_is_an_outcome() -> None:
    async with AsyncClient(f"{LOOPBACK}:1", timeout=1) as memory:
        outcome = await answer(memory, "list_facts", None)
    assert outcome.is_error
    assert outcome.text.startswith("no Recollect server answers on its address: start one with")
