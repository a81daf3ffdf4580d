"""The Python blocks of the guides, run in order as a reader would, and what they print."""

import json
import re
import runpy
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
from recollect import Client, ClientClosed, EmailOrigin, Message

from tests.conftest import RunningServer
from tests.naming.conftest import Api, api
from tests.waiting import until

__all__ = ["api"]

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"


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
    assert shown("adapters", 4, "LangGraph", model=model) == 2
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


@pytest.fixture
def perform(server: RunningServer, client: Client, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs blocks of a guide by their numbers, with `client` and other
    names, and returns all names and what was printed.
    """
    monkeypatch.setenv("RECOLLECT_ADDRESS", server.target)

    def run(page: str, *numbers: int, **names: Any) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
        lines: list[tuple[Any, ...]] = []
        names = {"client": client, "print": lambda *values: lines.append(values), **names}
        for number in numbers:
            exec(compile(blocks(page)[number][0], page, "exec"), names)  # noqa: S102 - of our own guide
        return names, lines

    return run


def turns(client: Client, count: int, **fields: Any) -> str:
    """Return a new conversation with turns."""
    it = client.conversations.create("web", **fields).id
    for number in range(count):
        client.conversations.append_turn(
            it, [Message.user(f"Which pump {number}?"), Message.assistant("The small one.")]
        )
    return it


def test_the_blocks_of_agents_name_parts_of_contexts_and_memories_of_turns(
    perform: Any, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, offers, drafts = turns(client, 13), turns(client, 5), turns(client, 1)
    question = "Which one did we choose?"
    names, lines = perform(
        "agents", 4, 5, conversation_id=of, question=question, offers=offers, drafts=drafts
    )
    assert "Which pump 3?" in str(names["context"])
    summary = "Chose NATS over Kafka: three nodes are enough."
    assert [(turn, str(tier), text) for turn, tier, text in lines] == [
        (12, "hot", summary),
        (13, "cold", ""),
    ]
    monkeypatch.chdir(tmp_path)
    names, _ = perform("agents", 0, 7)
    assert names["conversation"].channel == "web"
    assert (tmp_path / "notes").is_dir()


def test_the_block_of_anthropics_sdk_sends_what_its_guide_says(
    perform: Any, client: Client, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["quickstart.py"])
    runpy.run_path(str(ROOT / "examples/quickstart.py"), run_name="__main__")
    [conversation] = client.conversations.list()
    names, _ = perform("agents", 6, conversation_id=conversation.id)
    [request] = api.requests
    shown = [json.loads(it) for it in blocks("agents")[6][1].splitlines()]
    assert request["messages"][: len(shown)] == shown
    assert names["answer"].content[1].type == "text"


def test_the_block_of_agents_that_watches_prints_what_is_appended(
    perform: Any, client: Client
) -> None:
    of, lines = turns(client, 1), list[tuple[Any, ...]]()

    class Interrupted(Exception):
        """Ctrl-C."""

    def show(*values: Any) -> None:
        lines.append(values)
        raise Interrupted

    def watch() -> None:
        with suppress(Interrupted):
            perform("agents", 3, print=show)

    watching = threading.Thread(target=watch)
    watching.start()

    def is_shown() -> bool:
        client.conversations.append_turn(of, [Message.user("And now?")])
        return bool(lines)

    until(is_shown)
    watching.join()
    assert lines == [(of, ["And now?"])]


def test_the_block_of_channels_stores_what_the_owner_writes(perform: Any) -> None:
    names, _ = perform("channels", 0)
    assert names["conversation"].channel == "whatsapp"


def test_the_blocks_of_deleting_leave_what_they_say(perform: Any, client: Client) -> None:
    of = turns(client, 7, participants=["alex@example.org"])
    message = client.conversations.load(of).messages[0]
    perform("deleting", 0, conversation_id=of, message=message)
    left = [it.content for it in client.conversations.load(of).messages]
    assert [at for at, it in enumerate(left) if it == "[redacted]"] == [0, 12, 13]
    stored: Any = None
    for number, text in (("1", "Is the flat free?"), ("2", "My code: 4711")):
        origin = EmailOrigin(message_id=f"<{number}@example.org>")
        sender = "hanan@example.org" if number == "1" else "ines@example.org"
        received = client.channels.receive("email", number, text, sender=sender, origin=origin)
        stored = received.outcome
    names = {"communication_id": stored.communication.id, "message": stored.message}
    perform("deleting", 2, **names)
    [redacted] = client.external.get_communication(names["communication_id"]).messages
    assert redacted.text == "[redacted]"
    names, _ = perform("deleting", 1, 3, 4)
    assert (
        list(names["would_go"].conversation_ids) == list(names["receipt"].conversation_ids) == [of]
    )
    assert [it.id for it in client.conversations.list() if it.channel == "web"] == []


def test_the_block_of_insight_counts_weeks(perform: Any, client: Client) -> None:
    turns(client, 2)
    _, lines = perform("insight", 0)
    assert [(group, count) for _, group, count, _ in lines] == [("default", 2)]


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
