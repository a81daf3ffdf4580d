"""The message history of a real graph, and the store."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from recollect import Client, Message, ToolCall
from recollect.adapters import anthropic
from recollect.adapters.langgraph import (
    MARK,
    STATE,
    HasMessages,
    RecallStore,
    RecollectMemory,
    langchain_message,
    message_of,
)
from recollect_server.access.token import Grant, scopes_of
from recollect_server.access.token_log import TokenLedger
from recollect_server.access.tokens import Tokens
from typing_extensions import TypedDict

from tests.adapters.conftest import QUESTION, Past
from tests.conftest import Start

Answers = Callable[[list[AnyMessage]], list[BaseMessage]]
LONG = "data:" + "A" * 20_000
ALEX: Any = {"configurable": {"thread_id": "alex"}}


def graph_of(memory: RecollectMemory, answer: Answers, **more: Any) -> Any:
    """Load -> answer -> keep."""

    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": answer(state["messages"])}

    builder = StateGraph(MessagesState)
    builder.add_node("load", memory.load)  # typed: mypy sees that it is a node
    builder.add_node("answer", node)
    builder.add_node("keep", memory.keep)
    for one, next_one in ((START, "load"), ("load", "answer"), ("answer", "keep"), ("keep", END)):
        builder.add_edge(one, next_one)
    return builder.compile(**more)


def said(messages: list[BaseMessage]) -> list[str]:
    return [str(it.content) for it in messages]


def count(messages: list[AnyMessage]) -> list[BaseMessage]:
    return [AIMessage(f"{len(messages)} before this")]


@pytest.fixture
def memory(client: Client) -> RecollectMemory:
    return RecollectMemory(client)


def test_a_thread_goes_on_where_it_was(
    server: Any, memory: RecollectMemory, client: Client
) -> None:
    assert said(
        graph_of(memory, count).invoke({"messages": [HumanMessage("one")]}, ALEX)["messages"]
    ) == ["one", "1 before this"]
    with Client(server.target) as elsewhere:
        graph = graph_of(RecollectMemory(elsewhere), count)
        result = graph.invoke({"messages": [HumanMessage("two")]}, ALEX)["messages"]
        assert said(result) == ["one", "1 before this", "two", "3 before this"]
        other = graph.invoke(
            {"messages": [HumanMessage("hi")]}, {"configurable": {"thread_id": "sam"}}
        )["messages"]
        assert said(other) == ["hi", "1 before this"]
    conversation = memory.conversation_of("alex")
    assert conversation is not None
    assert (conversation.message_count, conversation.turn_count) == (4, 2)
    assert len(list(client.conversations.list())) == 2


def test_the_space_and_the_token_of_its_client_come_with_it(start_server: Start) -> None:
    server = start_server(auth="required")
    tokens = Tokens(TokenLedger(server.data_dir), server.clock)
    _, token = tokens.create(Grant("brain", scopes_of("brain", ()), ("alex", "sam")))
    for space in ("alex", "sam"):
        with Client(server.target, token=token, space=space) as client:
            graph = graph_of(RecollectMemory(client), count)
            result = graph.invoke({"messages": [HumanMessage("one")]}, ALEX)["messages"]
            assert said(result) == ["one", "1 before this"]


async def test_a_graph_that_runs_asynchronously_goes_on_too(memory: RecollectMemory) -> None:
    graph = graph_of(memory, count)
    await graph.ainvoke({"messages": [HumanMessage("one")]}, ALEX)
    assert (
        said((await graph.ainvoke({"messages": [HumanMessage("two")]}, ALEX))["messages"])[-1]
        == "3 before this"
    )


def test_with_a_checkpointer_nothing_is_there_twice(memory: RecollectMemory) -> None:
    graph = graph_of(memory, count, checkpointer=InMemorySaver())
    for number in range(1, 4):
        result = graph.invoke({"messages": [HumanMessage(f"question {number}")]}, ALEX)["messages"]
        assert len(result) == 2 * number
    conversation = memory.conversation_of("alex")
    assert conversation is not None
    assert conversation.message_count == 6


@pytest.mark.parametrize("by_copy", [False, True])
def test_what_is_edited_or_removed_in_a_state_is_so_for_everybody(
    server: Any, memory: RecollectMemory, client: Client, *, by_copy: bool
) -> None:
    graph = graph_of(memory, count, checkpointer=InMemorySaver())
    for number in range(1, 4):
        graph.invoke({"messages": [HumanMessage(f"question {number}")]}, ALEX)
    first, _, second, answer, *_ = graph.get_state(ALEX).values["messages"]
    edit = {"content": "question 1, edited"}
    edited = first.model_copy(update=edit) if by_copy else HumanMessage(**edit, id=first.id)
    removed = [RemoveMessage(id=second.id), RemoveMessage(id=answer.id)]
    graph.update_state(ALEX, {"messages": [edited, *removed]})
    expected = ["question 1, edited", "1 before this", "question 3", "5 before this"]
    for number in range(4, 6):
        result = graph.invoke({"messages": [HumanMessage(f"question {number}")]}, ALEX)["messages"]
        expected += [f"question {number}", f"{len(expected) + 1} before this"]
        assert said(result) == expected
        with Client(server.target) as elsewhere:
            back = RecollectMemory(elsewhere).load({"messages": []}, ALEX)["messages"][1:]
        assert said(back) == expected
    conversation = memory.conversation_of("alex")
    assert conversation is not None
    assert conversation.message_count == 6 + 2 + 4  # a line for the edit, one for the removals
    assert client.recall.search("edited").hits
    # It is edited again, to what it was, and the newest message is removed.
    graph.update_state(ALEX, {"messages": [result[0].model_copy(update={"content": "question 1"})]})
    graph.update_state(ALEX, {"messages": [RemoveMessage(id=result[-1].id)]})
    assert said(graph.invoke({"messages": [HumanMessage("on")]}, ALEX)["messages"]) == [
        "question 1",
        *expected[1:-1],
        "on",
        "8 before this",
    ]
    assert said(memory.load({"messages": []}, ALEX)["messages"][1:])[:2] == [
        "question 1",
        "1 before this",
    ]


def test_what_a_node_removes_before_it_is_kept_stays_removed(memory: RecollectMemory) -> None:
    def forget(messages: list[AnyMessage]) -> list[BaseMessage]:
        return [*(RemoveMessage(id=str(it.id)) for it in messages[:-1]), AIMessage("ok")]

    graph = graph_of(memory, forget, checkpointer=InMemorySaver())
    for number in range(1, 4):
        result = graph.invoke({"messages": [HumanMessage(f"question {number}")]}, ALEX)["messages"]
        assert said(result) == [f"question {number}", "ok"]
    assert said(memory.load({"messages": []}, ALEX)["messages"][1:]) == ["question 3", "ok"]


def test_what_another_program_says_meanwhile_is_not_taken_for_removed(
    server: Any, memory: RecollectMemory, client: Client
) -> None:
    graph = graph_of(memory, count, checkpointer=InMemorySaver())
    graph.invoke({"messages": [HumanMessage("one")]}, ALEX)
    conversation = memory.conversation_of("alex")
    assert conversation is not None
    client.conversations.append_turn(conversation.id, [Message.user("by the way")])
    for number in range(2):
        result = graph.invoke({"messages": [HumanMessage("two")]}, ALEX)["messages"]
        assert said(result)[:3] == ["one", "1 before this", "by the way"]
        assert len(result) == 5 + 2 * number


def test_a_state_without_ids_is_kept_in_every_run_and_once_in_each(
    memory: RecollectMemory, client: Client
) -> None:
    class Plain(TypedDict):
        messages: list[BaseMessage]

    def answer(state: Plain) -> dict[str, Any]:
        return {"messages": [*state["messages"], AIMessage(f"{len(state['messages'])} before")]}

    def twice(state: Plain, config: RunnableConfig) -> dict[str, Any]:
        memory.keep(state, config)
        return memory.keep(state, config)

    builder = StateGraph(Plain)
    builder.add_node("load", memory.load)
    builder.add_node("answer", answer)
    builder.add_node("keep", twice)
    for one, next_one in ((START, "load"), ("load", "answer"), ("answer", "keep"), ("keep", END)):
        builder.add_edge(one, next_one)
    graph = builder.compile()
    for number in range(1, 4):
        messages: list[BaseMessage] = [HumanMessage("again")]
        result = graph.invoke({"messages": messages}, ALEX)["messages"]
        assert said(result)[-2:] == ["again", f"{2 * number - 1} before"]
        assert len(result) == 2 * number
    [conversation] = client.conversations.list()
    assert conversation.message_count == 6


def test_a_node_that_runs_again_keeps_nothing_twice(memory: RecollectMemory) -> None:
    state: HasMessages = {
        "messages": [
            HumanMessage("one", id="m1"),
            AIMessage("two", id="m2"),
            SystemMessage("be short", id="m0"),
        ]
    }
    first, second = (memory.keep(state, ALEX)["messages"] for _ in range(2))
    assert first == second
    assert [MARK in it.response_metadata for it in first] == [True, True]
    assert memory.keep({"messages": first}, ALEX) == {"messages": []}
    conversation = memory.conversation_of("alex")
    assert conversation is not None
    assert conversation.message_count == 2


def test_every_message_comes_back_as_it_was(memory: RecollectMemory) -> None:
    call: Any = {
        "name": "df",
        "args": {"path": "/", "n": 9007199254740993},
        "id": "c1",
        "type": "tool_call",
    }
    usage: Any = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    messages: list[BaseMessage] = [
        HumanMessage("full?\x00", id="h1", name="alex", additional_kwargs={"a": [1, None]}),
        HumanMessage(
            [
                {"type": "text", "text": "and "},
                "this",
                {"type": "image_url", "image_url": {"url": LONG}},
            ],
            id="h2",
        ),
        AIMessage(
            "", tool_calls=[call], id="a1", usage_metadata=usage, response_metadata={"model": "m"}
        ),
        ToolMessage("97%", tool_call_id="c1", id="t1", artifact={"raw": [97]}, status="error"),
        AIMessage([{"type": "text", "text": "Yes."}], id="a2"),
    ]
    memory.keep({"messages": messages}, ALEX)
    back = memory.load({"messages": []}, ALEX)["messages"][1:]
    for it in back:
        it.response_metadata.pop(MARK)
        it.response_metadata.pop(STATE)
    assert back == messages
    stored = message_of(messages[2])
    assert (stored.tool_calls[0].name, stored.usage and stored.usage.output) == ("df", 4)
    with pytest.raises(TypeError, match="system"):
        message_of(SystemMessage("be short"))


def test_images_come_back_and_are_no_words(start_server: Start) -> None:
    client = Client(start_server(max_answer_bytes=1 << 20).target)
    memory = RecollectMemory(client)
    picture, sound = "Zm9v" * 200_000, "YmFy" * 40_000
    messages: list[BaseMessage] = [
        HumanMessage(
            [
                {"type": "text", "text": "What is on it?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}},
                {"type": "audio", "base64": sound, "mime_type": "audio/wav"},
            ],
            id="h1",
        ),
        AIMessage([{"type": "image", "base64": picture, "mime_type": "image/png"}], id="a1"),
    ]
    graph = graph_of(memory, lambda _: [messages[1]], checkpointer=InMemorySaver())
    for number in range(2):
        result = graph.invoke({"messages": messages[:1]}, ALEX)["messages"]
        assert [it.content for it in result] == [it.content for it in messages[:2]], number
    back = memory.load({"messages": []}, ALEX)["messages"][1:]
    assert [it.content for it in back] == [it.content for it in messages[:2]]
    conversation = memory.conversation_of("alex")
    assert conversation is not None
    memory_of_turn = client.conversations.load(conversation.id)
    assert memory_of_turn.cut_before_sequence  # the turn is larger than an answer
    _, stored = memory._load(conversation)
    assert [it.content for it in stored if it.content] == [
        "What is on it?\n\n[image: image/png, 600 kB]\n\n[audio: audio/wav, 120 kB]",
        "[image: image/png, 600 kB]",
    ]
    assert not client.recall.search("Zm9v YmFy").hits
    assert len(anthropic.messages(stored)) == 2
    client.close()


def test_what_another_program_wrote_is_read(client: Client) -> None:
    it = client.conversations.create("web")
    calls = [ToolCall("c1", "df", '{"path": "/"}')]
    messages = [
        Message.user("full?"),
        Message.assistant("look", tool_calls=calls),
        Message.tool("97%", tool_call_id="c1"),
    ]
    read = [
        langchain_message(it) for it in client.conversations.append_turn(it.id, messages).messages
    ]
    assert [type(it) for it in read] == [HumanMessage, AIMessage, ToolMessage]
    assert isinstance(read[1], AIMessage)
    assert read[1].tool_calls[0]["args"] == {"path": "/"}


def test_a_summary_comes_first_and_is_not_kept_again(
    memory: RecollectMemory, client: Client
) -> None:
    graph = graph_of(memory, count)
    for number in range(3):
        graph.invoke({"messages": [HumanMessage(f"question {number}")]}, ALEX)
    conversation = memory.conversation_of("alex")
    assert conversation is not None
    client.conversations.record_compression(conversation.id, 2, "Two questions.")
    result = graph.invoke({"messages": [HumanMessage("another")]}, ALEX)["messages"]
    assert said(result)[:2] == ["Earlier in this conversation: Two questions.", "question 2"]
    assert isinstance(result[0], SystemMessage)
    assert client.conversations.get(conversation.id).message_count == 8


def test_a_thread_without_an_id_is_refused(memory: RecollectMemory) -> None:
    with pytest.raises(ValueError, match="thread_id"):
        memory.load({"messages": []}, {"configurable": {}})


@pytest.fixture
def store(client: Client) -> RecallStore:
    for channel, text in (
        ("web", "the disk is full"),
        ("cli", "a full disk is slow"),
        ("cli", "nothing of it"),
    ):
        it = client.conversations.create(channel)
        client.conversations.append_turn(it.id, [Message.user(text), Message.assistant("I see.")])
    return RecallStore(client)


def test_the_store_finds_and_gets_conversations(store: RecallStore, client: Client) -> None:
    assert isinstance(store, BaseStore)
    items = store.search(("conversations",), query="full disk")
    assert {it.namespace for it in items} == {("conversations", "web"), ("conversations", "cli")}
    assert items[0].score == max(it.score or 0 for it in items)
    assert items[0].value["turns"] == [1]
    assert "disk" in items[0].value["snippet"]
    assert [it.key for it in store.search(("conversations", "web"), query="full disk")] == [
        it.id for it in client.conversations.list(channels=["web"])
    ]
    assert [
        it.key for it in store.search(("conversations",), query="full disk", limit=1, offset=1)
    ] == [items[1].key]
    assert len(store.search((), limit=2)) == 2
    item = store.get(("conversations", "web"), items[0].key) or store.get(
        ("conversations", "cli"), items[0].key
    )
    assert item is not None
    assert (item.key, item.value["turns"]) == (items[0].key, 1)
    assert store.get(("conversations", "discord"), items[0].key) is None
    assert store.get(("conversations",), "conv-01HQ0000000000000000000000") is None


async def test_the_store_answers_asynchronously(store: RecallStore) -> None:
    assert len(await store.asearch(("conversations",), query="full disk")) == 2


def test_the_store_is_to_read(store: RecallStore) -> None:
    with pytest.raises(NotImplementedError, match="to read"):
        store.put(("conversations",), "key", {"value": 1})
    with pytest.raises(NotImplementedError, match="filter"):
        store.search(("conversations",), filter={"channel": "web"})
    assert store.search(("memories", "alex"), query="disk") == []
    assert store.get(("memories", "alex"), "key") is None
    assert store.get(("conversations",), "no conversation's id") is None
    assert store.get(("conversations", "web", "more"), "key") is None


@pytest.mark.parametrize("own", [lambda: None, InMemoryStore])
async def test_values_of_ones_own_stand_beside_the_conversations(
    store: RecallStore, client: Client, own: Callable[[], BaseStore | None]
) -> None:
    both = RecallStore(client, values=own())
    both.put(("memories", "alex"), "tea", {"text": "green"})
    await both.aput(("memories", "sam"), "tea", {"text": "black"})
    item = await both.aget(("memories", "alex"), "tea")
    assert (item and item.value) == {"text": "green"}
    assert [it.namespace[1] for it in both.search(("memories",), filter={"text": "black"})] == [
        "sam"
    ]
    assert len(both.search(("conversations",), query="full disk")) == 2
    assert [it.namespace[0] for it in both.search((), limit=4)] == [
        "memories",
        "memories",
        "conversations",
        "conversations",
    ]
    assert [it.namespace[0] for it in await both.asearch((), limit=2, offset=3)] == [
        "conversations",
        "conversations",
    ]
    assert set(both.list_namespaces()) == {
        ("memories", "alex"),
        ("memories", "sam"),
        ("conversations",),
    }
    assert both.list_namespaces(prefix=("memories",), max_depth=1) == [("memories",)]
    both.delete(("memories", "alex"), "tea")
    assert both.get(("memories", "alex"), "tea") is None
    with pytest.raises(NotImplementedError, match="to read"):
        both.put(("conversations",), "key", {"value": 1})


def test_a_graph_searches_the_store(memory: RecollectMemory, store: RecallStore) -> None:
    snippets: list[str] = []

    def node(state: MessagesState, *, store: BaseStore) -> dict[str, Any]:
        snippets.extend(
            it.value["snippet"]
            for it in store.search(("conversations",), query=str(state["messages"][-1].content))
        )
        return {"messages": []}

    builder = StateGraph(MessagesState)
    builder.add_node("recall", node)
    builder.add_edge(START, "recall")
    builder.compile(store=store).invoke({"messages": [HumanMessage("full disk")]})
    assert any("disk is full" in snippet for snippet in snippets)


def recalling_graph(memory: RecollectMemory, texts: list[str], **recall: Any) -> Any:
    """Recall -> load -> answer -> keep, where the answer notes what was recalled. It asks for a
    second step of each turn.
    """

    class Recalled(MessagesState):
        recalled: str

    def answer(state: Recalled) -> dict[str, Any]:
        texts.append(state["recalled"])
        return {"messages": [AIMessage("Noted.")]}

    def is_first(state: Recalled) -> str:
        return "recall" if len(state["messages"]) % 3 == 2 else "keep"

    builder = StateGraph(Recalled)
    builder.add_node("recall", memory.recalling(**recall))
    builder.add_node("load", memory.load)
    builder.add_node("answer", answer)
    builder.add_node("keep", memory.keep)
    for one, next_one in ((START, "load"), ("load", "recall"), ("recall", "answer"), ("keep", END)):
        builder.add_edge(one, next_one)
    builder.add_conditional_edges("answer", is_first)
    return builder.compile(checkpointer=InMemorySaver())


def test_a_node_recalls_once_a_turn_and_nothing_of_it_is_a_message(
    client: Client, memory: RecollectMemory, past: Past
) -> None:
    texts = list[str]()
    graph = recalling_graph(memory, texts)
    for number in (1, 2):
        result = graph.invoke({"messages": [HumanMessage(QUESTION)]}, ALEX)
        assert said(result["messages"]) == [QUESTION, "Noted.", "Noted."] * number
        assert [past.is_in(it) for it in texts] == [True] * 2 * number
    own = memory.conversation_of("alex")
    assert own is not None
    assert past.builds == [None, own.id]
    stored = client.conversations.load(own.id).messages
    assert "heron" not in "".join(f"{it.content}{it.metadata}" for it in stored)
    nobody = memory.recalling()({"messages": [AIMessage("Hello!")]}, ALEX)
    assert nobody == {"recalled": ""}


def test_another_person_is_a_stranger_to_a_graph(server: Any, past: Past) -> None:
    texts = list[str]()
    with Client(server.target, space="sam") as other:
        graph = recalling_graph(RecollectMemory(other), texts)
        graph.invoke({"messages": [HumanMessage(QUESTION)]}, ALEX)
    assert (texts, past.builds) == (["", ""], [None])


def test_a_graph_goes_on_where_nothing_can_be_recalled(
    memory: RecollectMemory, past: Past, caplog: pytest.LogCaptureFixture
) -> None:
    texts = list[str]()
    graph = recalling_graph(memory, texts, budget=-1)
    graph.invoke({"messages": [HumanMessage(QUESTION)]}, ALEX)
    assert texts == ["", ""]
    [line] = [it.getMessage() for it in caplog.records if it.name == "recollect.recall"]
    assert "session 'alex' (conversation: none yet): budget.total" in line
    assert past.builds == [None]
