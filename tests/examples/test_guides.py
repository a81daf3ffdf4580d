"""The Python blocks of the guides, run in order as a reader would, and what they print."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain_core.messages import AIMessage
from recollect import Client, ClientClosed, Message

from tests.conftest import RunningServer
from tests.waiting import until

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def blocks(page: str, section: str = "") -> list[tuple[str, str]]:
    """Return the blocks of Python of a guide, or from one of its sections on, each with the output
    that follows it.
    """
    text = (GUIDES / f"{page}.md").read_text()
    if section:
        text = text.partition(f"\n## {section}\n")[2]
    matches = re.finditer(r"```python\n(.*?)```(?:(?:(?!```).)*?```\n(.*?)```)?", text, re.DOTALL)
    return [(it[1], it[2] or "") for it in matches]


@pytest.fixture
def shown(server: RunningServer) -> Callable[..., int]:
    """Return a function that runs a guide's first blocks against the server of the test, compares
    what each prints with the guide, and returns the number of those compared.
    """

    def run(page: str, count: int, section: str = "", **names: Any) -> int:
        compared = 0
        lines: list[str] = []
        names["print"] = lambda *values: lines.append(" ".join(map(str, values)) + "\n")
        for block, output in blocks(page, section)[:count]:
            code = re.sub(r"Client\(\)", f"Client({server.target!r})", block)
            exec(compile(code, page, "exec"), names)  # noqa: S102 - of our own guide
            if output:
                assert "".join(lines) == output
                compared += 1
            lines.clear()
        return compared

    return run


def test_the_blocks_of_langgraphs_guide_print_what_it_says(shown: Any) -> None:
    model = SimpleNamespace(invoke=lambda messages: AIMessage(f"{len(messages)}"))
    assert shown("adapters", 3, "LangGraph", model=model) == 2
    assert "create_react_agent" not in (GUIDES / "adapters.md").read_text()  # LangGraph drops it


def test_the_block_of_the_agents_sdk_prints_what_its_guide_says(
    shown: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel(
        [
            [function_call("disk_usage", {}, call_id="call_1")],
            [assistant_message("The disk is full.")],
            [assistant_message("You asked why the server was slow.")],
        ]
    )
    set_tracing_disabled(True)
    monkeypatch.setattr("agents.Agent", lambda **fields: Agent(model=model, **fields))
    assert shown("adapters", 1, "OpenAI Agents SDK", __name__="guide") == 1
    assert model.last_call is not None
    assert "Why was the server slow?" in str(model.last_call.input)


def test_the_block_of_recall_prints_what_its_guide_says(shown: Any) -> None:
    assert shown("recall", 1) == 1


def test_the_agent_of_the_guide_answers_who_writes_on_the_page(
    server: RunningServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {}
    for block, _ in blocks("agents", "Two calls")[:2]:
        exec(block, names)  # noqa: S102 - of our own guide
    prompts: list[list[dict[str, Any]]] = []

    def model(system: str, messages: list[dict[str, Any]]) -> Iterator[str]:
        assert "`context`" in system
        prompts.append(messages)
        yield from ("It is ", f"{len(prompts)}.")

    agent, watching = Client(server.target), threading.Event()
    watch = agent.conversations.watch

    def watched(**choice: Any) -> Iterator[Any]:
        for update in watch(**choice):
            watching.set()
            yield update

    monkeypatch.setattr(agent.conversations, "watch", watched)

    def serve() -> None:
        with suppress(ClientClosed):
            names["serve"](agent, model)

    answering = threading.Thread(target=serve)
    answering.start()
    watching.wait()
    it = client.conversations.create("web", messages=[Message.user("Which one?")]).id
    until(lambda: client.conversations.get(it).message_count == 2)
    client.conversations.append_turn(it, [Message.user("And now?")])
    until(lambda: client.conversations.get(it).message_count == 4)
    agent.close()
    answering.join()
    stored = client.conversations.load(it).messages
    assert [(m.content, m.turn_number) for m in stored] == [
        ("Which one?", 1),
        ("It is 1.", 1),
        ("And now?", 2),
        ("It is 2.", 2),
    ]
    texts = [(m["role"], m["content"][0]["text"]) for m in prompts[1]]
    assert texts == [("user", "Which one?"), ("assistant", "It is 1."), ("user", "And now?")]
