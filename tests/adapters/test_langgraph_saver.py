"""The checkpointer: LangGraph's own conformance tests, and real graphs, killed and resumed."""

import json
import operator
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt
from recollect import Client
from recollect.adapters.langgraph import RecollectSaver, RecollectStore
from typing_extensions import TypedDict

from tests.conftest import RunningServer
from tests.server.conftest import files_with

ALEX: Any = {"configurable": {"thread_id": "alex"}}


@pytest.fixture
def saver(client: Client) -> RecollectSaver:
    return RecollectSaver(client)


async def test_it_passes_every_conformance_test_of_langgraph(client: Client) -> None:
    async def factory() -> AsyncIterator[RecollectSaver]:
        yield RecollectSaver(client)

    report = await validate(checkpointer_test(name="RecollectSaver")(factory))
    failures = [it for result in report.results.values() for it in result.failures]
    assert failures == []
    assert set(report.results) == {
        "put", "put_writes", "get_tuple", "list", "delete_thread", "delete_for_runs",
        "copy_thread", "prune",
    }  # fmt: skip
    assert all(result.tests_passed >= 5 for result in report.results.values())


def extend(log: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*log, *(it for more in writes for it in more)]


class State(TypedDict):
    log: Annotated[list[str], operator.add]
    number: int


def counting(saver: BaseCheckpointSaver[str]) -> Any:
    """Count to three in a subgraph, fan out, ask, and end."""

    def count(state: State) -> dict[str, Any]:
        return {"number": state["number"] + 1, "log": [f"count {state['number'] + 1}"]}

    def more(state: State) -> str:
        return "count" if state["number"] < 3 else END

    def ask(state: State) -> dict[str, Any]:
        return {"log": [f"asked: {interrupt('go on?')}"]}

    def fan(_: State) -> list[Send]:
        return [Send("part", {"number": number, "log": []}) for number in range(3)]

    def part(state: State) -> dict[str, Any]:
        return {"log": [f"part {state['number']}"]}

    inner = StateGraph(State)
    inner.add_node("count", count)
    inner.add_node("ask", ask)
    inner.add_edge(START, "count")
    inner.add_conditional_edges("count", more, {"count": "count", END: "ask"})
    outer = StateGraph(State)
    outer.add_node("inner", inner.compile())
    outer.add_node("part", part)
    outer.add_edge(START, "inner")
    outer.add_conditional_edges("inner", fan, ["part"])
    return outer.compile(checkpointer=saver)


def told(saver: BaseCheckpointSaver[str]) -> list[Any]:
    """Run the graph, with an interrupt in its subgraph and travels in time, and return all that it
    tells.
    """
    graph = counting(saver)
    results: list[Any] = [graph.invoke({"number": 0, "log": ["begin"]}, ALEX)]
    results.append([(it.next, len(it.tasks)) for it in graph.get_state_history(ALEX)])
    results[0].pop("__interrupt__")
    [task] = graph.get_state(ALEX, subgraphs=True).tasks
    results.append((task.state.values, task.state.next, [it.value for it in task.interrupts]))
    results.append(graph.invoke(Command(resume="yes"), ALEX))
    history = list(graph.get_state_history(ALEX))
    results.append([(it.values, it.next, it.metadata["step"]) for it in history])
    past = next(it for it in history if it.next == ("part", "part", "part"))
    forked = graph.update_state(past.config, {"number": 9, "log": ["edited"]})
    results.append(graph.invoke(None, forked))
    again = graph.get_state(history[0].config)
    results.append((again.values, len(list(graph.get_state_history(ALEX, limit=2)))))
    sources = graph.get_state_history(ALEX, filter={"source": "update"})
    results.append([it.values for it in sources])
    results.append([it.next for it in graph.get_state_history(ALEX, before=past.config)])
    return results


def test_interrupts_subgraphs_and_travels_in_time_go_as_in_memory(
    server: RunningServer, saver: RecollectSaver
) -> None:
    assert told(saver) == told(InMemorySaver())
    with Client(server.target) as elsewhere:
        state = counting(RecollectSaver(elsewhere)).get_state(ALEX)
    assert "edited" in state.values["log"]
    assert "asked: yes" in state.values["log"]


async def test_asynchronous_graphs_run_side_by_side(saver: RecollectSaver) -> None:
    import asyncio

    graph = counting(saver)
    threads: list[Any] = [{"configurable": {"thread_id": f"t{number}"}} for number in range(4)]
    given = [{"number": 0, "log": [f"begin {number}"]} for number in range(4)]
    await asyncio.gather(*map(graph.ainvoke, given, threads))
    await asyncio.gather(*(graph.ainvoke(Command(resume="yes"), it) for it in threads))
    for number, thread in enumerate(threads):
        state = await graph.aget_state(thread)
        assert state.values["log"][0] == f"begin {number}"
        assert sorted(state.values["log"][-3:]) == ["part 0", "part 1", "part 2"]
        assert len([it async for it in graph.aget_state_history(thread)]) > 3


def chat(saver: BaseCheckpointSaver[str]) -> Any:
    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{len(state['messages'])} before this")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=saver)


def test_large_values_come_back_and_leave_with_their_thread(
    server: RunningServer, saver: RecollectSaver, client: Client
) -> None:
    large = "apricot " * 1_500_000  # 12 MB: more than a request or an answer has
    chat(saver).invoke({"messages": [HumanMessage(large)]}, ALEX)
    chat(saver).invoke({"messages": [HumanMessage("and now?")]}, ALEX)
    assert [it.content for it in chat(saver).get_state(ALEX).values["messages"]] == [
        large, "1 before this", "and now?", "3 before this",
    ]  # fmt: skip
    [thread] = client.checkpoints.list_threads()
    saver.prune(["alex"])
    assert chat(saver).get_state(ALEX).values["messages"][0].content == large
    assert len(list(saver.list(ALEX))) == 1
    [pruned] = client.checkpoints.list_threads()
    assert pruned.bytes < thread.bytes / 2
    saver.delete_thread("alex")
    assert chat(saver).get_state(ALEX).values == {}
    assert files_with(server.data_dir, "alex") == []


def test_a_thread_is_copied_and_goes_on_by_itself(saver: RecollectSaver) -> None:
    sam: Any = {"configurable": {"thread_id": "sam"}}
    chat(saver).invoke({"messages": [HumanMessage("x" * 3_000_000)]}, ALEX)
    saver.copy_thread("alex", "sam")
    chat(saver).invoke({"messages": [HumanMessage("two")]}, sam)
    assert len(chat(saver).get_state(ALEX).values["messages"]) == 2
    assert len(chat(saver).get_state(sam).values["messages"]) == 4


class Reversed:
    """A cipher that every test sees through, and no search for words."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reversed", bytes(255 - it for it in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "reversed"
        return bytes(255 - it for it in ciphertext)


def reversing() -> EncryptedSerializer:
    """Return a serializer that encrypts so."""
    return EncryptedSerializer(Reversed(), JsonPlusSerializer())


def test_an_encrypting_serializer_leaves_no_word_to_the_server(
    server: RunningServer, client: Client
) -> None:
    saver = RecollectSaver(client, serde=reversing())
    graph = chat(saver)
    graph.invoke({"messages": [HumanMessage("apricot")]}, ALEX)
    assert graph.get_state(ALEX).values["messages"][0].content == "apricot"
    stored = client.checkpoints.list_records("alex", limit=1000).records
    assert stored
    assert not [it.key for it in stored if b"apricot" in it.value]


def test_a_write_that_is_there_stays_and_an_error_is_replaced(saver: RecollectSaver) -> None:
    chat(saver).invoke({"messages": [HumanMessage("hi")]}, ALEX)
    newest = saver.get_tuple(ALEX)
    assert newest is not None
    for value in ("first", "second"):
        saver.put_writes(newest.config, [("a", value), (ERROR, value)], "task")
    saver.put_writes(newest.config, [("b", "third")], "another task", "~path")
    again = saver.get_tuple(ALEX)
    assert again is not None
    assert again.pending_writes == [
        ("task", ERROR, "second"), ("task", "a", "first"), ("another task", "b", "third"),
    ]  # fmt: skip


def test_what_a_delta_channel_is_made_of_is_not_pruned(saver: RecollectSaver) -> None:
    class Log(TypedDict):
        log: Annotated[list[str], DeltaChannel(extend)]

    def node(state: Log) -> dict[str, Any]:
        return {"log": [f"{len(state['log'])} before"]}

    builder = StateGraph(Log)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=saver)
    for number in range(3):
        graph.invoke({"log": [f"input {number}"]}, ALEX)
    before = graph.get_state(ALEX).values
    assert len(before["log"]) == 6
    saver.prune(["alex"])
    assert graph.get_state(ALEX).values == before
    assert len(graph.invoke({"log": ["more"]}, ALEX)["log"]) == 8


def test_a_config_without_a_thread_is_refused(saver: RecollectSaver) -> None:
    with pytest.raises(ValueError, match="names no thread"):
        saver.get_tuple({"configurable": {}})
    with pytest.raises(ValueError, match="keep_latest or delete"):
        saver.prune(["alex"], strategy="all")


# A prebuilt agent, killed ------------------------------------------------------------------------


@dataclass
class Model:
    """A server that plays a model: the next answer follows from how many messages there are."""

    url: str = ""
    requests: list[list[dict[str, Any]]] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    """Set when a request waits."""
    go_on: threading.Event = field(default_factory=threading.Event)
    hold_at: int = 0
    """Number of messages at which a request waits."""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "tool_calls": [{"id": f"call-{name}", "type": "function", "function": function}],
    }


ANSWERS = {
    1: call("pay", amount=5),
    3: call("confirm", question="Is that right?"),
    5: {"role": "assistant", "content": "All is paid."},
}


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            model.requests.append(body["messages"])
            if len(body["messages"]) == model.hold_at:
                model.held.set()
                model.go_on.wait(60)
            answer = {"choices": [{"message": ANSWERS[len(body["messages"])]}]}
            data = json.dumps(answer).encode()
            try:
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except ConnectionError:
                pass  # the agent was killed

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield model
    model.go_on.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("memory", ["checkpoints", "memory"])
def test_a_prebuilt_agent_that_is_interrupted_and_killed_goes_on_in_a_new_process(
    memory: str, server: RunningServer, model: Model, tmp_path: Path, client: Client
) -> None:
    ledger = tmp_path / "ledger"

    def agent(*command: str) -> "subprocess.Popen[str]":
        program = [sys.executable, "-m", "tests.adapters.react_agent", server.target, model.url]
        return subprocess.Popen(
            [*program, str(ledger), memory, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def state_of(process: "subprocess.Popen[str]") -> Any:
        assert process.stdout is not None
        return json.loads(process.stdout.readline())

    with agent("ask", "Pay 5.") as first:
        state = state_of(first)
        first.kill()
    node = "tools" if memory == "checkpoints" else "agent"
    assert (state["next"], state["interrupts"]) == ([node], ["Is that right?"])
    model.hold_at = 5
    with agent("resume", "yes") as second:
        assert model.held.wait(60)
        second.kill()  # in the middle of the model's answer
    model.hold_at = 0
    with agent("go") as third:
        state = state_of(third)
        third.kill()
    assert state == {
        "messages": [
            ["human", "Pay 5."],
            ["ai", ""],
            ["tool", "paid 5"],
            ["ai", ""],
            ["tool", "the user says yes"],
            ["ai", "All is paid."],
        ],
        "next": [],
        "interrupts": [],
    }
    assert ledger.read_text() == "5\n"
    assert [len(it) for it in model.requests] == [1, 3, 5, 5]
    assert model.requests[2] == model.requests[3]
    assert [it.value for it in RecollectStore(client).search(("payments",))] == [{"amount": 5}]
    conversations = list(client.conversations.list())
    if memory == "checkpoints":
        assert conversations == []
        return
    [conversation] = conversations
    stored = client.conversations.load(conversation.id).messages
    assert [it.content or it.tool_calls[0].name for it in stored] == [
        "Pay 5.", "pay", "paid 5", "confirm", "the user says yes", "All is paid.",
    ]  # fmt: skip
