"""A session service and a memory service of Google's Agent Development Kit. Needs the extra
`recollect-client[adk]`.

    from recollect.adapters.google_adk import RecollectMemoryService, RecollectSessionService

    client = Client()
    memory = RecollectMemoryService(client, "alex")
    agent = Agent(name="ops", model=model, tools=[memory.recalling()])
    runner = Runner(
        agent=agent,
        app_name="ops",
        session_service=RecollectSessionService(client),
        memory_service=memory,
    )

A session is a conversation of the channel `adk`; an event is a message, and comes back as it was,
but for partial ones and the state under `temp:`, which ADK keeps nowhere. State is not in the
conversation: it is kept as records of threads (`client.checkpoints`), `adk/APP` for the app's and
its users', and one for each session. An event's state is stored before the event.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4
from weakref import WeakValueDictionary

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import BaseSessionService, Session, State
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic_core import to_jsonable_python

from recollect import ArchiveFilter, CheckpointRecord, Client, Conversation, Party, Role, ToolCall
from recollect.adapters.checkpoint_values import Values, key_of, parts_of, records_of
from recollect.adapters.clients import blocking
from recollect.adapters.packing import Path
from recollect.adapters.transcripts import Transcript, Words, transcripts
from recollect.adapters.turn_recall import Budget, Turn, TurnRecall

CHANNEL = "adk"
_AT_ONCE = 8  # calls for the state of sessions in a list
_SCOPES = {State.APP_PREFIX: "app", State.USER_PREFIX: "user"}

_Place = tuple[str, str, str]
"""An app, a user and a session."""


class RecollectSessionService(BaseSessionService):
    """Sessions that every process sees. Tasks may share it; it calls in threads. Its methods raise
    RecollectError.
    """

    def __init__(self, client: Client, *, channel: str = CHANNEL) -> None:
        """Keep sessions with a client, in conversations of a channel."""
        self._client = blocking(client)
        self._channel = channel
        self._values = Values(client)
        self._opened = transcripts(client, channel, "adk")
        self._appending: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session. Raises AlreadyExistsError for an id that is there."""
        place = (app_name, user_id, (session_id or "").strip() or uuid4().hex)
        return await asyncio.to_thread(self._create, place, state or {})

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with the events that `config` asks for; None if it is not there."""
        place = (app_name, user_id, session_id.strip())
        return await asyncio.to_thread(self._get, place, config or GetSessionConfig())

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of an app or of one of its users, without events, oldest first."""
        return await asyncio.to_thread(self._list, app_name, user_id)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session and its state for good; the app's and the user's stay."""
        place = (app_name, user_id, session_id.strip())
        await asyncio.to_thread(self._values.delete, _thread(place))
        await asyncio.to_thread(self._transcript(place).delete)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state that a user's sessions share, without `user:` before its names."""
        state = await asyncio.to_thread(self._state, (app_name, user_id, ""))
        prefix = State.USER_PREFIX
        return {it.removeprefix(prefix): state[it] for it in state if it.startswith(prefix)}

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event, once also if it is repeated. Raises StaleSessionError if the session has
        events that `session` was read without, ValueError if it is not there.
        """
        if event.partial:
            return event
        place = (session.app_name, session.user_id, session.id)
        self._apply_temp_state(session, event)
        self._trim_temp_delta_state(event)
        # Agents that run in parallel share a copy of their session: one after the other.
        async with self._appending.setdefault(id(session), asyncio.Lock()):
            _seen(session, await asyncio.to_thread(self._append, session, place, event))
        return self._commit_event_to_session(session, event)

    # In threads -----------------------------------------------------------------------------------

    def _create(self, place: _Place, state: dict[str, Any]) -> Session:
        transcript = self._transcript(place)
        if transcript.find() is not None:
            raise AlreadyExistsError(f"the session {place[2]} is there already: take another id")
        self._state(place)  # names that are too long for a thread are refused, and nothing begins
        self._put_state(place, state)
        return _session(place, transcript.begin(), self._state(place))

    def _get(self, place: _Place, config: GetSessionConfig) -> Session | None:
        latest = config.num_recent_events
        conversation, stored = self._transcript(place).load(latest=1 if latest == 0 else latest)
        if conversation is None:
            return None
        session = _session(place, conversation, self._state(place))
        if latest == 0:
            return session
        events = [Event.model_validate(it.item) for it in stored if isinstance(it.item, dict)]
        after = config.after_timestamp or 0
        session.events = [it for it in events if it.timestamp >= after]
        return session

    def _list(self, app_name: str, user_id: str | None) -> ListSessionsResponse:
        party = Party(group_id=_group(app_name, user_id)) if user_id is not None else None
        listed = self._client.conversations.list(
            channels=[self._channel], party=party, archived=ArchiveFilter.ALL
        )
        places: list[tuple[_Place, Conversation]] = []
        for it in listed:
            app, _, user = (it.party.group_id if it.party else "").partition("/")
            if it.party and unquote(app) == app_name:
                places.append(((app_name, unquote(user), it.party.thread_id), it))
        shared = {
            user: self._shared_state(place) for user, place in {p[1]: p for p, _ in places}.items()
        }
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            own = pool.map(self._own_state, [place for place, _ in places])
        sessions = [
            _session(place, it, shared[place[1]] | state)
            for (place, it), state in zip(places, own, strict=True)
        ]
        sessions.sort(key=lambda it: (it.last_update_time, it.user_id, it.id))
        return ListSessionsResponse(sessions=sessions)

    def _append(self, session: Session, place: _Place, event: Event) -> Conversation:
        transcript = self._transcript(place)
        conversation = transcript.find()
        if conversation is None:
            raise ValueError(f"Session {place[2]} not found: create it first")
        revision = session._storage_update_marker
        if revision and int(revision) < conversation.message_count:
            newer = transcript.read(latest=conversation.message_count - int(revision))
            if not any(isinstance(it.item, dict) and it.item.get("id") == event.id for it in newer):
                raise StaleSessionError(
                    f"Session {place[2]} has events that this copy of it has not: get it again"
                )
        self._put_state(place, event.actions.state_delta if event.actions else {})
        dumped = event.model_dump(mode="json", by_alias=True, exclude_none=True)
        digest = hashlib.sha256(json.dumps(dumped, sort_keys=True).encode()).hexdigest()
        stored = transcript.add([(dumped, _words(dumped))], request_id=f"adk-{digest[:40]}")
        return stored or conversation

    def _transcript(self, place: _Place) -> Transcript:
        return self._opened(_party(place))

    # State: a record for each name ----------------------------------------------------------------

    def _put_state(self, place: _Place, state: dict[str, Any]) -> None:
        records: dict[str, list[CheckpointRecord]] = {}  # by thread
        for name, value in state.items():
            prefix = next((it for it in _SCOPES if name.startswith(it)), "")
            if name.startswith(State.TEMP_PREFIX):
                continue
            owner = place[1] if prefix == State.USER_PREFIX else ""
            key = key_of(_SCOPES.get(prefix, "session"), owner, name.removeprefix(prefix))
            data = json.dumps(to_jsonable_python(value, fallback=str)).encode()
            thread = _thread(place if not prefix else place[:1])
            records.setdefault(thread, []).extend(records_of(key, data))
        for thread, them in records.items():
            self._values.put(thread, them)

    def _state(self, place: _Place) -> dict[str, Any]:
        return self._shared_state(place) | self._own_state(place)

    def _shared_state(self, place: _Place) -> dict[str, Any]:
        """Return the state of the app and of its user."""
        shared = _thread(place[:1])
        of_app = self._values.below(shared, "app/")
        return _named(of_app | self._values.below(shared, key_of("user", place[1], "")))

    def _own_state(self, place: _Place) -> dict[str, Any]:
        return _named(self._values.below(_thread(place), "session/")) if place[2] else {}


class RecollectMemoryService(BaseMemoryService):
    """The memory of one user: all conversations of the client's space. Any other user is a stranger
    to it. It calls in threads.
    """

    def __init__(
        self, client: Client, user_id: str, *, budget: Budget = None, channel: str = CHANNEL
    ) -> None:
        """Recall with a client for the user whose space it calls. `budget` is that of
        `build_context`; `channel` is that of the session service.
        """
        self._client = blocking(client)
        self._user_id = user_id
        self._budget = budget
        self._recall = TurnRecall(budget)
        self._opened = transcripts(client, channel, "adk")

    async def add_session_to_memory(self, session: Session) -> None:
        """Add nothing: the session service has stored the events, and they are found."""

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return what was said before about a question as one entry; none for another user."""
        text = ""
        if user_id == self._user_id:
            recall = TurnRecall(self._budget)
            text = await asyncio.to_thread(
                recall.text, self._client, f"{app_name}/{user_id}", Turn(0, query), lambda: None
            )
        part = types.Part(text=text)
        entries = [MemoryEntry(content=types.Content(role="user", parts=[part]))]
        return SearchMemoryResponse(memories=entries if text else [])

    def recalling(self) -> BaseTool:
        """Return a tool for `Agent(tools=[…])` that no model calls: it puts what was said before
        about the user's newest message into the instructions of each request. No event has it.
        """
        return _Recalling(self._text)

    def _text(self, context: ToolContext) -> str:
        """Return the text for the turn of a tool's context."""
        session = context.session
        parts = (context.user_content and context.user_content.parts) or []
        if session.user_id != self._user_id:
            return ""
        place = (session.app_name, session.user_id, session.id)
        turn = Turn(context.invocation_id, "\n".join(it.text for it in parts if it.text))
        find = self._opened(_party(place)).find
        return self._recall.text(self._client, "/".join(place), turn, find)


class _Recalling(BaseTool):
    """The tool of a memory service that adds the text for a turn to each request."""

    def __init__(self, text_of: Callable[[ToolContext], str]) -> None:
        super().__init__(name="recollect", description="Adds what was said before.")
        self._text_of = text_of

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        text = await asyncio.to_thread(self._text_of, tool_context)
        if text:
            llm_request.append_instructions([text])


def _session(place: _Place, conversation: Conversation, state: dict[str, Any]) -> Session:
    session = Session(app_name=place[0], user_id=place[1], id=place[2], state=state)
    return _seen(session, conversation)


def _seen(session: Session, conversation: Conversation) -> Session:
    """Note in a copy of a session which state of the conversation it has. Its time is the server's,
    here as in every list; an event has the time that its agent gave it.
    """
    session.last_update_time = conversation.update_time.timestamp()
    session._storage_update_marker = str(conversation.message_count)
    return session


def _named(stored: dict[str, bytes]) -> dict[str, Any]:
    """Return stored values by the names that ADK has for them."""
    prefixes = {scope: prefix for prefix, scope in _SCOPES.items()}
    state = {}
    for key, data in stored.items():
        scope, _, name = parts_of(key)
        state[prefixes.get(scope, "") + name] = json.loads(data)
    return state


def _group(app_name: str, user_id: str) -> str:
    return f"{quote(app_name, safe='')}/{quote(user_id, safe='')}"


def _party(place: _Place) -> Party:
    return Party(group_id=_group(*place[:2]), thread_id=place[2])


def _thread(place: tuple[str, ...]) -> str:
    return "/".join(["adk", *(quote(it, safe="") for it in place)])


def _words(event: dict[str, Any]) -> Words:
    texts: list[Path] = []
    thinking: list[Path] = []
    calls: list[ToolCall] = []
    for at, part in enumerate(event.get("content", {}).get("parts") or ()):
        if isinstance(part.get("text"), str):
            (thinking if part.get("thought") else texts).append(["content", "parts", at, "text"])
        if call := part.get("functionCall"):
            arguments = json.dumps(call.get("args") or {})
            calls.append(ToolCall(call.get("id") or f"call-{at}", call["name"], arguments))
        if response := part.get("functionResponse"):
            result = response.get("response") or {}
            path: Path = ["content", "parts", at, "functionResponse", "response"]
            texts += [[*path, name] for name, it in result.items() if isinstance(it, str)]
    user = event.get("author") == "user" and not calls
    role = Role.USER if user else Role.ASSISTANT
    sender = "" if event.get("author") == "user" else str(event.get("author", ""))
    return Words(
        role=role, texts=texts, thinking=thinking, calls=calls, kind="event", sender=sender
    )
