"""The session repository of the Strands Agents SDK: beside the SDK's own session manager over
files, and with its own agents and graphs.
"""

import json
import threading
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, InvalidArgument, Party, Role

from tests.adapters.conftest import QUESTION, Past
from tests.conftest import RunningServer
from tests.server.conftest import files_with

pytest.importorskip("strands", reason="runs with .ci/toolkits")

from recollect.adapters.strands import RecollectSessionRepository
from strands import Agent, tool
from strands.agent import SlidingWindowConversationManager
from strands.models import Model
from strands.multiagent import GraphBuilder
from strands.session import FileSessionManager, RepositorySessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "adapters.md"
PICTURE = b"\x89PNG" + bytes(range(256)) * 3000


class ScriptedModel(Model):
    """Answers each request with the next reply: a text, or the input of a tool. A reply that is an
    error is raised; one with `blocked` has the prompt redacted, as a guardrail does.
    """

    def __init__(self, *replies: Any) -> None:
        self.replies = [*replies]
        self.given: list[str] = []

    def update_config(self, **_: Any) -> None:
        """Have no configuration."""

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(
        self, messages: Any, _: Any = None, system_prompt: Any = None, **__: Any
    ) -> AsyncIterator[Any]:
        self.given.append(json.dumps([system_prompt, messages], default=str))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(reply, str):
            if "blocked" in reply:
                yield {"redactContent": {"redactUserContentMessage": "[blocked]"}}
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": reply}}}
        else:
            use = {"toolUseId": f"c{len(self.given)}", "name": "disk_usage"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(reply)}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(reply, str) else "tool_use"}}


@tool
def disk_usage(path: str) -> str:
    """Return the share of the disk in use."""
    return f"{path} is 97 % full of zeppelins"


def agent_of(client: Client, model: Model, session_id: str = "alex", **options: Any) -> Any:
    manager = RepositorySessionManager(session_id, RecollectSessionRepository(client))
    fixed: Any = {"model": model, "tools": [disk_usage], "callback_handler": None}
    return Agent(**fixed, session_manager=manager, **options)


def message(number: int, *content: Any, role: Any = "user", **more: Any) -> SessionMessage:
    return SessionMessage({"role": role, "content": [*content], **more}, number)


def dumped(it: Any) -> str:
    return json.dumps(it.to_dict() if hasattr(it, "to_dict") else it)


def messages() -> list[SessionMessage]:
    """Return a message of every kind of block."""
    image = {"format": "png", "source": {"bytes": PICTURE}}
    reasoning = {"text": "I look at ü.", "signature": "s" * 5000}
    citations = {"content": [{"text": "It is full."}], "citations": [{"title": "Disks"}]}
    results: list[Any] = [{"text": "97 %"}, {"json": {"free": [1.5, None, "3 %"]}}]
    return [
        message(0, {"text": "Is the disk full?\0"}, {"image": image}, tracking_id="t-0"),
        message(
            1,
            {"reasoningContent": {"reasoningText": reasoning}},
            {"reasoningContent": {"redactedContent": b"\0\1" * 4000}},
            {"toolUse": {"toolUseId": "c1", "name": "disk", "input": {"text": "ü", "b": b"\0"}}},
            {"toolUse": {"toolUseId": "c2", "name": "disk", "input": None}},
            role="assistant",
            metadata={"usage": {"inputTokens": 3}},
        ),
        message(
            2,
            {"toolResult": {"toolUseId": "c1", "status": "success", "content": results}},
            {"toolResult": {"toolUseId": "c2", "status": "error", "content": []}},
        ),
        message(3, {"citationsContent": citations}, {"cachePoint": {}}, role="assistant"),
        message(4, {"guardContent": {"text": {"text": "a guarded word"}}}),
        message(5, {"document": {"name": "n", "source": {"bytes": PICTURE}}}, role="assistant"),
        message(6, {"toolResult": {"toolUseId": "none", "status": "success", "content": []}}),
        message(7, role="assistant"),
        message(8, role="user"),
    ]


class Graph:
    """Stands in for a graph: a state and an id."""

    def __init__(self, state: Any) -> None:
        self.id = "graph ü"
        self.state = state

    def serialize_state(self) -> Any:
        return self.state


def history(it: Any, session: str) -> list[str]:
    """Return the answers of a repository to a fixed series of calls."""
    answers: list[Any] = [it.read_session(session)]
    it.create_session(Session(session, SessionType.AGENT, "then", "now"))
    answers += [it.read_session(session), it.read_agent(session, "ops")]
    with pytest.raises(SessionException):
        it.update_agent(session, SessionAgent("ops", {}, {}))
    with pytest.raises(SessionException):
        it.update_multi_agent(session, Graph({}))
    state = {"a": [1, None, "ü\0"], "b": b"\0\xff", "large": "x" * 3_000_000}
    it.create_agent(session, SessionAgent("ops", {}, {}, {"interrupt_state": {}}, "c", "u"))
    it.update_agent(session, SessionAgent("ops", state, {"n": 2}, {}, "later", "later"))
    it.create_agent(session, SessionAgent("other", {}, {}, {}, "c", "u"))
    answers += [it.read_agent(session, name) for name in ("ops", "other", "none")]
    for graph in (Graph({"a": ["ü", None]}), Graph({"b": 1})):
        answers.append(it.read_multi_agent(session, graph.id))
        (it.create_multi_agent if answers[-1] is None else it.update_multi_agent)(session, graph)
    answers.append(it.read_multi_agent(session, graph.id))
    answers += it.list_messages(session, "ops")
    with pytest.raises(SessionException):
        it.update_message(session, "ops", message(0))
    for each in messages():
        each.created_at = each.updated_at = f"at {each.message_id}"
        it.create_message(session, "ops", each)
    for limit, offset in ((None, 0), (2, 0), (None, 5), (3, 4), (0, 0), (None, 99)):
        answers += it.list_messages(session, "ops", limit=limit, offset=offset)
    answers += [it.read_message(session, "ops", number) for number in (0, 5, 99)]
    for number in (3, 0, 3):
        changed = it.read_message(session, "ops", number)
        changed.redact_message = {"role": "user", "content": [{"text": f"[gone {number}]"}]}
        it.update_message(session, "ops", changed)
    again = message(4, {"text": "anew"})
    again.updated_at = "now"
    it.update_message(session, "ops", again)  # it was created when the first one was
    answers += [again, *it.list_messages(session, "ops")]
    answers += it.list_messages(session, "other")
    return [dumped(each) for each in answers]


def test_it_keeps_what_the_sdks_own_manager_over_files_keeps(
    client: Client, tmp_path: Path
) -> None:
    for session in ("alex", "a b ü %2F"):
        theirs = history(FileSessionManager("some", str(tmp_path)), session)
        assert history(RecollectSessionRepository(client), session) == theirs
    assert client.recall.search("free 97").hits
    assert not client.recall.search("guarded word").hits


def test_an_agent_goes_on_in_another_process_and_its_words_are_found(
    server: RunningServer, client: Client
) -> None:
    model = ScriptedModel({"path": "/"}, "The disk is full.", "You asked that.")
    picture = {"image": {"format": "png", "source": {"bytes": PICTURE}}}
    first = agent_of(client, model)
    first.state.set("n", {"a": [1]})
    first([{"text": "Is the disk full?"}, picture])
    with Client(server.target) as elsewhere:
        second = agent_of(elsewhere, model)
        assert second.messages == first.messages
        assert second.state.get() == {"n": {"a": [1]}}
        second("What did I ask?")
    assert "zeppelins" in model.given[2]
    assert "The disk is full." in model.given[2]
    [conversation] = client.conversations.list(channels=["strands"])
    assert conversation.party
    assert (conversation.party.group_id, conversation.party.thread_id) == ("alex", "default")
    shown = [it for it in client.recall.fetch_context(conversation.id).messages if it.content]
    assert [(it.role, it.content) for it in shown] == [
        (Role.USER, "Is the disk full?\n\n[image: 768 kB]"),
        (Role.TOOL, "/ is 97 % full of zeppelins"),
        (Role.ASSISTANT, "The disk is full."),
        (Role.USER, "What did I ask?"),
        (Role.ASSISTANT, "You asked that."),
    ]
    [call] = [it for it in client.conversations.load(conversation.id).messages if it.tool_calls]
    assert [(it.name, it.arguments) for it in call.tool_calls] == [("disk_usage", '{"path": "/"}')]
    assert "97 % full" in client.recall.search("zeppelins").hits[0].snippet_text


def test_what_a_guardrail_redacts_is_gone_from_every_file(
    server: RunningServer, client: Client
) -> None:
    agent = agent_of(
        client, ScriptedModel("Hello.", "That is blocked.", {"path": "/"}, "blocked too")
    )
    agent("Hi")
    agent([{"text": "My code is xylophone."}, {"image": {"source": {"bytes": b"kazoo" * 99_999}}}])
    agent("The disk?")
    assert [it.content for it in client.conversations.load(the_conversation(client)).messages] == [
        "Hi",
        "Hello.",
        "[redacted]",
        *["[redacted]"] * 2,  # the picture's
        "[blocked]",
        "That is blocked.",
        "The disk?",
        "",
        "[redacted]",
        "[blocked]",
        "blocked too",
    ]
    assert agent_of(client, ScriptedModel()).messages == agent.messages
    assert agent.messages[2]["content"] == [{"text": "[blocked]"}]
    assert not client.recall.search("xylophone").hits
    server.stop()
    picture = b64encode(b"kazoo" * 99).decode()
    assert not files_with(server.data_dir, "xylophone", "zeppelins", picture)


def the_conversation(client: Client) -> str:
    [conversation] = client.conversations.list(channels=["strands"])
    return conversation.id


def test_two_programs_that_write_one_session_at_once_lose_nothing(
    server: RunningServer, client: Client
) -> None:
    at_once = threading.Barrier(2)
    failures: list[BaseException] = []

    def talk(name: str) -> None:
        try:
            with Client(server.target) as own:
                at_once.wait(30)
                agent = agent_of(
                    own, ScriptedModel(*[f"{name} answer {number}" for number in range(8)])
                )
                for number in range(8):
                    at_once.wait(30)
                    agent(f"{name} question {number}")
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=talk, args=[name]) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    again = agent_of(client, ScriptedModel("one more"))
    texts = [it["content"][0]["text"] for it in again.messages]
    for name in ("left", "right"):
        own = [f"{name} {kind} {it}" for it in range(8) for kind in ("question", "answer")]
        assert [it for it in texts if it.startswith(name)] == own
    assert len(texts) == 32
    repository = RecollectSessionRepository(client)
    repository.create_session(Session("alex", SessionType.AGENT, "later"))
    session = repository.read_session("alex")
    assert session
    assert session.created_at != "later"
    # Each program's message is replaced by its own update, though both have the same id.
    twins = [it for it in repository.list_messages("alex", "default") if it.message_id == 6]
    assert len(twins) == 2
    twins[0].redact_message = {"role": "user", "content": [{"text": "gone"}]}
    repository.update_message("alex", "default", twins[0])
    now = [it for it in repository.list_messages("alex", "default") if it.message_id == 6]
    assert [dumped(it) for it in now] == [dumped(it) for it in twins]
    again("more")
    assert len(agent_of(client, ScriptedModel()).messages) == 34


def test_a_window_that_forgot_messages_is_restored_whatever_a_person_redacted(
    client: Client,
) -> None:
    def windowed(*replies: str) -> Any:
        window = SlidingWindowConversationManager(window_size=4)
        return agent_of(client, ScriptedModel(*replies), conversation_manager=window)

    agent = windowed("a0", "a1", "a2", "a3")
    for number in range(4):
        agent(f"q{number}")
    assert len(agent.messages) == 4
    assert windowed().messages == agent.messages
    conversation = the_conversation(client)
    stored = client.conversations.load(conversation).messages
    for it in stored[:3]:
        client.conversations.redact_message(conversation, it.sequence)
    assert windowed().messages == agent.messages
    # A program goes on with its memory after the conversation was deleted: a new one begins.
    client.conversations.delete(conversation)
    agent.model.replies = ["a4"]
    agent("q4")
    texts = [it["content"][0]["text"] for it in windowed().messages]
    assert texts == ["q4", "a4"]
    assert the_conversation(client) != conversation


def test_a_deleted_conversation_or_session_is_begun_anew(
    server: RunningServer, client: Client
) -> None:
    agent_of(client, ScriptedModel("Noted."), state={"n": 1})("I like xylophones.")
    agent_of(client, ScriptedModel("Noted."), session_id="other")("And kazoos.")
    agent_of(client, ScriptedModel("Noted."), session_id="")("And drums.")
    [alex] = client.conversations.list(party=Party(group_id="alex"))
    client.conversations.delete(alex.id)
    anew = agent_of(client, ScriptedModel("Hello."), agent_id="default")
    assert (anew.messages, anew.state.get()) == ([], {})
    anew("Hi")
    repository = RecollectSessionRepository(client)
    for _ in range(2):
        repository.delete_session("alex")
        repository.delete_session("")
    assert repository.read_session("alex") is None
    names = [it.party and it.party.group_id for it in client.conversations.list()]
    assert names == ["other"]
    assert [it.thread_id for it in client.checkpoints.list_threads()] == ["strands/other"]
    server.stop()
    assert not files_with(server.data_dir, "xylophones", "drums")


def test_ids_are_kept_apart_or_refused_by_name(client: Client) -> None:
    repository = RecollectSessionRepository(client)
    ids = ["a/b ü", "a/../b", " a", "a", "A", "%61", "x\ny", "é", "e\u0301", "x" * 320, ""]
    for own in ids:
        repository.create_session(Session(own, SessionType.AGENT))
        repository.create_message(own, "ops", message(0, {"text": f"of {own!r}"}))
        repository.create_message(own, own, message(0, {"text": f"by {own!r}"}))
    for own in ids:
        session = repository.read_session(own)
        assert session
        assert session.session_id == own
        for agent, word in (("ops", "of"), (own, "by")):
            [stored] = repository.list_messages(own, agent)
            assert stored.message["content"] == [{"text": f"{word} {own!r}"}]
    for own, reason in (("x" * 321, "320"), ("a\0", "NUL"), ("\ud800", "surrogate")):
        with pytest.raises(InvalidArgument, match=reason):
            repository.create_message(own, "ops", message(0, {"text": "hi"}))


def test_words_that_are_too_long_for_a_message_come_back_all_the_same(client: Client) -> None:
    repository = RecollectSessionRepository(client)
    result = {"toolUseId": "c1", "status": "success", "content": [{"text": "ü" * 2_000_000}]}
    use = {"toolUseId": "c1", "name": "write", "input": {"text": "é" * 2_000_000}}
    given = [
        message(0, {"text": "half a \ud800 character"}),
        message(1, {"toolUse": use}, role="assistant"),
        message(2, {"toolResult": result}),
    ]
    for each in given:
        repository.create_message("long", "ops", each)
    listed = repository.list_messages("long", "ops")
    assert [dumped(it) for it in listed] == [dumped(it) for it in given]


def test_a_graph_goes_on_behind_the_node_that_failed(server: RunningServer, client: Client) -> None:
    def graph_of(own: Client, *replies: Any) -> Any:
        builder = GraphBuilder()
        model = ScriptedModel(*replies)
        for name in ("first", "second"):
            builder.add_node(Agent(name=name, model=model, callback_handler=None), name)
        builder.add_edge("first", "second")
        builder.set_entry_point("first")
        builder.set_session_manager(
            RepositorySessionManager("graph", RecollectSessionRepository(own))
        )
        return builder.build()

    with pytest.raises(RuntimeError, match="no answer"):
        graph_of(client, "I counted 3.", RuntimeError("no answer"))("Count.")
    with Client(server.target) as elsewhere:
        result = graph_of(elsewhere, "It is 3.")("Count.")
    assert [it.node_id for it in result.execution_order] == ["first", "second"]
    assert "It is 3." in str(result.results["second"].result)
    assert "I counted 3." in str(result.results["first"].result)


def test_the_program_of_the_guide_recalls_what_was_said_elsewhere(
    client: Client, past: Past
) -> None:
    section = PAGE.read_text().partition("\n## Strands Agents SDK\n")[2]
    program = section.partition("```python\n")[2].partition("```")[0]
    program = program.replace("Why was the server slow?", QUESTION)
    model = ScriptedModel("It is called so.")
    names: dict[str, Any] = {"client": client, "strands_model": model}
    exec(compile(program, str(PAGE), "exec"), names)  # noqa: S102 - of our own guide
    assert "heron" in model.given[0]
    assert len(past.builds) == 1
    stored = RecollectSessionRepository(client).list_messages("alex", "default")
    assert QUESTION in dumped(stored[0])
    assert "heron" not in dumped(stored[0])
