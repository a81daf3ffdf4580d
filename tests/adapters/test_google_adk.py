"""The session service for Google's ADK, with its own runner, beside its own service in memory."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from recollect import Client, InvalidArgument, Role

from tests.adapters.conftest import QUESTION, Past
from tests.conftest import RunningServer
from tests.server.conftest import files_with

pytest.importorskip("google.adk", reason="runs with .ci/toolkits")

from google.adk.agents import Agent
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events import Event, EventActions
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools import load_memory
from google.genai import types
from recollect.adapters.google_adk import RecollectMemoryService, RecollectSessionService

# ADK warns of its own experimental features.
pytestmark = pytest.mark.filterwarnings("ignore")
ALEX: Any = {"app_name": "ops / ü", "user_id": "alex"}


def event(text: str, author: str = "user", **more: Any) -> Event:
    content = types.Content(role=author, parts=[types.Part(text=text)])
    return Event(author=author, content=content, **more)


async def test_sessions_and_state_are_as_in_adks_own_service(client: Client) -> None:
    ours, theirs = RecollectSessionService(client), InMemorySessionService()
    state = {"n": 1, "user:name": "Alex", "app:limit": {"a": [1]}, "temp:x": 1}
    changes = {"n": 2, "user:name": "Sam", "app:more": "ü / %", "temp:y": 2, "new": None}
    events = [
        event("hi", timestamp=1000.0),
        event("Hello.", "agent", timestamp=2000.0, actions=EventActions(state_delta=changes)),
        event("half", "agent", partial=True),
        event("bye", timestamp=3000.0),
    ]
    answers_of: list[list[Any]] = []
    for service in (ours, theirs):
        results: list[Any] = []
        assert await service.get_session(**ALEX, session_id="s1") is None
        session = await service.create_session(**ALEX, session_id=" s1 ", state=state)
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**ALEX, session_id="s1")
        results.append((session.id, session.state))
        for each in events:
            await service.append_event(session, each.model_copy(deep=True))
        results.append((session.state, [it.id for it in session.events]))
        for config in (
            None,
            GetSessionConfig(num_recent_events=2),
            GetSessionConfig(num_recent_events=0),
            GetSessionConfig(after_timestamp=2000.0),
            GetSessionConfig(num_recent_events=1, after_timestamp=3500.0),
        ):
            again = await service.get_session(**ALEX, session_id="s1", config=config)
            assert again is not None
            results.append((again.state, again.events))
        other = await service.create_session(**ALEX, state={"own": 1})
        results.append(other.state)
        await service.create_session(app_name="ops / ü", user_id="sam", session_id="s1")
        await service.create_session(app_name="another", user_id="alex", session_id="s1")
        for user in ({"user_id": "alex"}, {}):
            listed = await service.list_sessions(app_name="ops / ü", **user)
            of = [(it.user_id, it.id if it.id == "s1" else "", it.events) for it in listed.sessions]
            results.append(sorted(of))
        results.append(await service.get_user_state(**ALEX))
        await service.delete_session(**ALEX, session_id="s1")
        await service.delete_session(**ALEX, session_id="s1")
        results.append(await service.get_session(**ALEX, session_id="s1"))
        results.append((await service.create_session(**ALEX, session_id="s1")).state)
        with pytest.raises(ValueError, match="not found"):
            await service.append_event(session.model_copy(update={"id": "none"}), events[0])
        answers_of.append(results)
    for mine, expected in zip(*answers_of, strict=True):
        assert mine == expected


async def test_an_event_that_is_appended_again_is_there_once(
    client: Client, server: RunningServer
) -> None:
    service = RecollectSessionService(client)
    session = await service.create_session(**ALEX, session_id="s1")
    once = event("about zeppelins", id="e1")
    for _ in range(2):
        await service.append_event(session, once.model_copy(deep=True))
    again = await service.get_session(**ALEX, session_id="s1")
    assert again is not None
    assert len(again.events) == 1
    await asyncio.gather(
        *(service.append_event(session, event(f"at once {number}")) for number in range(5))
    )
    again = await service.get_session(**ALEX, session_id="s1")
    assert again is not None
    assert len(again.events) == 6
    assert client.recall.search("zeppelins").hits
    await service.delete_session(**ALEX, session_id="s1")
    assert files_with(server.data_dir, "zeppelins") == []


async def test_a_copy_of_a_session_that_lacks_events_appends_none(client: Client) -> None:
    service = RecollectSessionService(client)
    session = await service.create_session(**ALEX, session_id="s1")
    old = await service.get_session(**ALEX, session_id="s1")
    assert old is not None
    # Times are the server's, whatever clock an event's agent has.
    first = event("first", timestamp=1e9)
    await service.append_event(session, first.model_copy(deep=True))
    unknown = event("second", actions=EventActions(state_delta={"n": 1}))
    with pytest.raises(StaleSessionError, match="get it again"):
        await service.append_event(old, unknown.model_copy(deep=True))
    await service.append_event(old, first.model_copy(deep=True))  # whose answer was lost
    again = await service.get_session(**ALEX, session_id="s1")
    [listed] = (await service.list_sessions(**ALEX)).sessions
    assert again is not None
    assert (again.state, [it.id for it in again.events]) == ({}, [first.id])
    times = {it.last_update_time for it in (session, old, again, listed)}
    assert len(times) == 1
    assert times != {1e9}


async def test_recent_events_and_lists_of_sessions_read_no_more_than_they_show(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = RecollectSessionService(client)
    session = await service.create_session(**ALEX, session_id="s1", state={"user:name": "Alex"})
    for number in range(40):
        await service.append_event(session, event(f"{number}", "user" if number % 2 else "agent"))
    for number in range(10):
        await service.create_session(**ALEX, state={"n": number, "app:many": [1]})
    calls: list[Any] = []
    for of, name in (
        (client.conversations, "load"),
        (client.checkpoints, "list_records"),
        (client.checkpoints, "get_records"),
        (client.checkpoints, "put_records"),
    ):
        plain = getattr(type(of), name)

        def counted(self: Any, *args: Any, plain: Any = plain, **fields: Any) -> Any:
            calls.append(plain(self, *args, **fields))
            return calls[-1]

        monkeypatch.setattr(type(of), name, counted)
    recent = await service.get_session(
        **ALEX, session_id="s1", config=GetSessionConfig(num_recent_events=5)
    )
    assert recent is not None
    assert [it.content.parts[0].text for it in recent.events] == [str(it) for it in range(35, 40)]
    assert sum(len(it.messages) for it in calls if hasattr(it, "messages")) < 15
    calls.clear()
    listed = (await service.list_sessions(**ALEX)).sessions
    assert sorted(it.state.get("n", -1) for it in listed) == list(range(-1, 10))
    assert {(it.state["user:name"], *it.state["app:many"]) for it in listed} == {("Alex", 1)}
    assert len(calls) == 2 + len(listed)  # of the app, its user, and of each session
    calls.clear()
    state = {"n": 1, "m": 2, "app:n": 3, "user:n": 4}
    await service.append_event(
        recent, event("With state.", actions=EventActions(state_delta=state))
    )
    assert len(calls) == 2  # of the session, and of what its app has


async def test_a_session_whose_names_are_too_long_is_refused_and_not_begun(client: Client) -> None:
    service = RecollectSessionService(client)
    for state in ({}, {"app:n": 1}):
        with pytest.raises(InvalidArgument, match="thread_id"):
            await service.create_session(**ALEX, session_id="ü" * 100, state=state)
    assert list(client.conversations.list()) == []
    assert list(client.checkpoints.list_threads()) == []


class Counting(BaseLlm):
    """A model that calls a tool once in each run, and then says how much it sees."""

    instructions: list[str] = []  # noqa: RUF012 - a field of pydantic: each model has its own
    """The system instructions of each request."""

    async def generate_content_async(
        self,
        llm_request: Any,
        stream: bool = False,  # noqa: ARG002 - the base class names it
    ) -> AsyncIterator[LlmResponse]:
        contents = llm_request.contents
        self.instructions.append(str(llm_request.config.system_instruction or ""))
        if any(it.function_response for it in contents[-1].parts):
            parts = [types.Part(text=f"I see {len(contents)} contents.")]
        else:
            calls = [types.Part.from_function_call(name="disk", args={"path": "/"})]
            parts = [types.Part(text="Let me look.", thought=True), *calls]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def disk(path: str) -> dict[str, str]:
    """Return the share of a disk in use."""
    return {"text": f"{path} is 97 % full"}


async def test_adks_runner_remembers_through_it_in_another_process(
    server: RunningServer, client: Client
) -> None:
    agent = Agent(name="ops", model=Counting(model="counting"), tools=[disk], output_key="last")
    picture = types.Part.from_bytes(data=b"foo" * 100_000, mime_type="image/png")
    answers = []
    for number in range(2):
        with Client(server.target) as own:
            service = RecollectSessionService(own)
            if not number:
                await service.create_session(app_name="ops", user_id="alex", session_id="s1")
            runner = Runner(agent=agent, app_name="ops", session_service=service)
            question = types.Content(role="user", parts=[types.Part(text="Full?"), picture])
            events = runner.run_async(user_id="alex", session_id="s1", new_message=question)
            final = [it async for it in events if it.is_final_response()]
            answers += [it.content.parts[0].text for it in final]
    assert answers == ["I see 3 contents.", "I see 7 contents."]
    service = RecollectSessionService(client)
    session = await service.get_session(app_name="ops", user_id="alex", session_id="s1")
    assert session is not None
    assert session.state == {"last": "I see 7 contents."}
    assert session.events[0].content is not None
    assert session.events[0].content.parts is not None
    assert session.events[0].content.parts[1] == picture
    [conversation] = client.conversations.list()
    stored = [it for it in client.conversations.load(conversation.id).messages if it.content]
    texts = [it.content for it in stored[:3]]
    assert texts == ["Full?\n\n[image: image/png, 300 kB]", "/ is 97 % full", "I see 3 contents."]
    assert [it.role for it in stored[:2]] == [Role.USER, Role.ASSISTANT]


async def asked(
    client: Client, memory: RecollectMemoryService, user_id: str, *questions: str
) -> tuple[list[str], list[str]]:
    """Ask an agent that recalls. Return the instructions of its requests, and its answers."""
    model = Counting(model="counting")
    agent = Agent(name="ops", model=model, tools=[disk, memory.recalling()])
    runner = Runner(
        agent=agent,
        app_name="ops",
        session_service=RecollectSessionService(client),
        memory_service=memory,
        auto_create_session=True,
    )
    answers = []
    for question in questions:
        content = types.Content(role="user", parts=[types.Part(text=question)])
        events = runner.run_async(user_id=user_id, session_id="s1", new_message=content)
        final = [it async for it in events if it.is_final_response()]
        answers += [it.content.parts[0].text for it in final]
    return model.instructions, answers


async def test_a_runner_recalls_once_a_turn_and_no_event_has_it(client: Client, past: Past) -> None:
    memory = RecollectMemoryService(client, "alex")
    instructions, answers = await asked(client, memory, "alex", QUESTION, QUESTION)
    assert [
        past.is_in(past.system_prompt + it.partition(past.system_prompt)[2]) for it in instructions
    ] == [True] * 4
    assert answers == ["I see 3 contents.", "I see 7 contents."]
    [own] = client.conversations.list(channels=["adk"])
    assert past.builds == [own.id, own.id]  # the service stores the question before it is answered
    stored = client.conversations.load(own.id).messages
    assert "heron" not in "".join(f"{it.content}{it.metadata}" for it in stored)


async def test_the_memory_service_answers_adks_own_tool(client: Client, past: Past) -> None:
    memory = RecollectMemoryService(client, "alex")
    session = await RecollectSessionService(client).create_session(app_name="ops", user_id="alex")
    await memory.add_session_to_memory(session)

    class Loading(Counting):
        async def generate_content_async(
            self,
            llm_request: Any,
            stream: bool = False,  # noqa: ARG002 - the base class names it
        ) -> AsyncIterator[LlmResponse]:
            if any(it.function_response for it in llm_request.contents[-1].parts):
                parts = [types.Part(text=str(llm_request.contents[-1].parts[0].function_response))]
            else:
                query = {"query": QUESTION}
                parts = [types.Part.from_function_call(name="load_memory", args=query)]
            yield LlmResponse(content=types.Content(role="model", parts=parts))

    agent = Agent(name="ops", model=Loading(model="loading"), tools=[load_memory])
    service = RecollectSessionService(client)
    runner = Runner(agent=agent, app_name="ops", session_service=service, memory_service=memory)
    question = types.Content(role="user", parts=[types.Part(text="Look it up.")])
    events = runner.run_async(user_id="alex", session_id=session.id, new_message=question)
    [answer] = [it async for it in events if it.is_final_response()]
    assert "heron" in answer.content.parts[0].text
    assert past.builds == [None]


async def test_another_person_is_a_stranger_to_a_runner(
    server: RunningServer, client: Client, past: Past
) -> None:
    memory = RecollectMemoryService(client, "alex")
    assert (
        await memory.search_memory(app_name="ops", user_id="sam", query=QUESTION)
    ).memories == []
    instructions, _ = await asked(client, memory, "sam", QUESTION)
    assert past.builds == []
    with Client(server.target, space="sam") as other:
        more, _ = await asked(other, RecollectMemoryService(other, "sam"), "sam", QUESTION)
    assert len(past.builds) == 1
    assert "heron" not in "".join([*instructions, *more])


async def test_a_runner_goes_on_where_nothing_can_be_recalled(
    client: Client, past: Past, caplog: pytest.LogCaptureFixture
) -> None:
    memory = RecollectMemoryService(client, "alex", budget=-1)
    instructions, answers = await asked(client, memory, "alex", QUESTION)
    assert "heron" not in "".join(instructions)
    assert answers == ["I see 3 contents."]
    [line] = [it.getMessage() for it in caplog.records if it.name == "recollect.recall"]
    assert f"session 'ops/alex/s1' (conversation: {past.builds[0]}): budget.total" in line
