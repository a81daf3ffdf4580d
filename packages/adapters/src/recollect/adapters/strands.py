"""A session repository of the Strands Agents SDK. Needs the extra `recollect-client[strands]`.

    from recollect.adapters.strands import RecollectSessionRepository

    manager = RepositorySessionManager("alex", RecollectSessionRepository(Client()))
    agent = Agent(model=model, session_manager=manager)

An agent's messages are a conversation of the channel `strands`, of the group that is the session
and the thread that is the agent. State is kept as records of a thread (`client.checkpoints`).
"""

from typing import Any

from strands.multiagent import MultiAgentBase
from strands.session import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage

from recollect import Client, Party, Role, ToolCall
from recollect.adapters.checkpoint_values import Values
from recollect.adapters.packing import FILES, arguments_of, texts_in
from recollect.adapters.transcripts import Kept, Transcript, Words, delete_all, transcripts

CHANNEL = "strands"


class RecollectSessionRepository(SessionRepository):
    """Sessions that every process sees. Threads may share it. Its methods raise RecollectError."""

    def __init__(self, client: Client, *, channel: str = CHANNEL) -> None:
        """Keep sessions with a client, in conversations of a channel."""
        self._client = client
        self._channel = channel
        self._state = Values(client)
        self._opened = transcripts(client, channel, "strands")

    def create_session(self, session: Session, **_: Any) -> Session:
        """Create a session, unless another program has done so since this one looked for it."""
        thread = f"{self._channel}/{session.session_id}"
        self._state.put_json(thread, session.to_dict(), "session", keep_existing=True)
        return session

    def read_session(self, session_id: str, **_: Any) -> Session | None:
        """Return a session; None if it is not there."""
        stored = self._state.get_json(f"{self._channel}/{session_id}", "session")
        return Session.from_dict(stored) if stored else None

    def delete_session(self, session_id: str, **_: Any) -> None:
        """Delete a session with its conversations and its state for good."""
        delete_all(self._client, self._channel, session_id)
        self._state.delete(f"{self._channel}/{session_id}")

    def create_agent(self, session_id: str, session_agent: SessionAgent, **_: Any) -> None:
        """Create an agent, whose conversation begins."""
        agent_id, state = session_agent.agent_id, session_agent.to_dict()
        self._transcript(session_id, agent_id).begin()
        self._state.put_json(f"{self._channel}/{session_id}", state, "agent", agent_id)

    def read_agent(self, session_id: str, agent_id: str, **_: Any) -> SessionAgent | None:
        """Return an agent; None if it is not there, or its conversation was deleted."""
        stored = self._state.get_json(f"{self._channel}/{session_id}", "agent", agent_id)
        is_there = stored and self._transcript(session_id, agent_id).find() is not None
        return SessionAgent.from_dict(stored) if is_there else None

    def update_agent(self, session_id: str, session_agent: SessionAgent, **_: Any) -> None:
        """Store the state of an agent that is there."""
        previous = self.read_agent(session_id, session_agent.agent_id)
        if previous is None:
            raise SessionException(f"Agent {session_agent.agent_id} does not exist")
        session_agent.created_at = previous.created_at
        self.create_agent(session_id, session_agent)

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **_: Any
    ) -> None:
        """Add a message, beside one that another program gave the same id."""
        record = session_message.to_dict()
        self._transcript(session_id, agent_id).add([(record, _words(record))])

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **_: Any
    ) -> SessionMessage | None:
        """Return a message; None if it is not there."""
        rows = self._rows(session_id, agent_id, message_id)
        return SessionMessage.from_dict(rows[-1].item) if rows else None

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **_: Any
    ) -> None:
        """Put a message in the place of an earlier one, whose words are removed for good."""
        rows = self._rows(session_id, agent_id, session_message.message_id)
        if not rows:
            raise SessionException(f"Message {session_message.message_id} does not exist")
        own = [it for it in rows if it.item["created_at"] == session_message.created_at] or rows
        session_message.created_at = own[-1].item["created_at"]
        record = session_message.to_dict()
        self._transcript(session_id, agent_id).replace(own[-1].sequence, record, _words(record))

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **_: Any
    ) -> list[SessionMessage]:
        """Return at most `limit` messages, without the first `offset` that there ever were."""
        position, listed = -1, list[SessionMessage]()
        for it in self._rows(session_id, agent_id):
            position = max(position + 1, it.item["message_id"])
            if position >= offset:
                listed.append(SessionMessage.from_dict(it.item))
        return listed[:limit]

    def create_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **_: Any) -> None:
        """Store the state of a graph or a swarm."""
        state = multi_agent.serialize_state()
        self._state.put_json(f"{self._channel}/{session_id}", state, "multi", multi_agent.id)

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **_: Any) -> Any:
        """Return the state of a graph or a swarm; None if it is not there."""
        return self._state.get_json(f"{self._channel}/{session_id}", "multi", multi_agent_id)

    def update_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **_: Any) -> None:
        """Store the state of a graph or a swarm that is there."""
        if self.read_multi_agent(session_id, multi_agent.id) is None:
            raise SessionException(f"MultiAgent state {multi_agent.id} does not exist")
        self.create_multi_agent(session_id, multi_agent)

    def _transcript(self, session_id: str, agent_id: str) -> Transcript:
        return self._opened(Party(group_id=session_id, thread_id=agent_id))

    def _rows(self, session_id: str, agent_id: str, message_id: int | None = None) -> list[Kept]:
        """Return the messages, or those with an id, in the order in which they were stored."""
        rows = [it for it in self._transcript(session_id, agent_id).read() if type(it.item) is dict]
        rows = [it for it in rows if message_id in {None, it.item["message_id"]}]
        return sorted(rows, key=lambda it: it.sequence)


def _words(record: dict[str, Any]) -> Words:
    name = "message" if record["redact_message"] is None else "redact_message"
    content = record[name]["content"]
    paths = [it for it, *_ in texts_in(content, [name, "content"]) if it[-1] == "text"]
    uses = [it["toolUse"] for it in content if "toolUse" in it]
    answers = [it["toolResult"]["toolUseId"] for it in content if "toolResult" in it]
    return Words(
        role=Role.TOOL if answers else Role(record[name]["role"]),
        texts=[it for it in paths if it[3] not in {"reasoningContent", "toolUse"}],
        thinking=[it for it in paths if it[3] == "reasoningContent"],
        calls=[ToolCall(it["toolUseId"], it["name"], arguments_of(it["input"])) for it in uses],
        answers=answers[0] if answers else "",
        kind=", ".join(key for it in content for key in it),
        overflow=FILES,
    )
