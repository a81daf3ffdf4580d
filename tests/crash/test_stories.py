"""Any order of calls, restarts, kills and lost indexes, against a model so simple that it is
plainly right.
"""

import signal
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import recollect
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from recollect import Client, Message

from tests.crash.load import Process, process

WORDS = ["zebra", "otter", "heron", "lemur"]


@dataclass
class Expected:
    """Conversation as the model expects it."""

    title: str = ""
    messages: list[tuple[int, str]] = field(default_factory=list)
    """The turn and the text of each."""


@dataclass(frozen=True)
class Appended:
    """An append that was answered."""

    conversation_id: str
    request_id: str
    messages: tuple[Message, ...]
    stored: tuple[Message, ...]


class Story(RuleBasedStateMachine):
    """A client of a server process, and the model beside it."""

    conversations = Bundle("conversations")
    appends = Bundle("appends")

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._data_dir = folder / f"story {len(list(folder.iterdir()))}"
        self._data_dir.mkdir()
        self._expected: dict[str, Expected] = {}
        self._count = 0
        self._running = ExitStack()

    @initialize()
    def _start(self) -> None:
        self._server: Process = self._running.enter_context(process(self._data_dir))
        self._client = self._running.enter_context(Client(self._server.target))

    def _stop(self, how: signal.Signals) -> None:
        self._server.popen.send_signal(how)
        self._server.popen.wait()
        self._running.close()

    def _name(self) -> str:
        self._count += 1
        return f"r{self._count}"

    # What a caller does ---------------------------------------------------------------------------

    @rule(target=conversations)
    def create(self) -> str:
        request_id = self._name()
        made = self._client.conversations.create("web", request_id=request_id)
        assert self._client.conversations.create("web", request_id=request_id) == made
        self._expected[made.id] = Expected()
        return made.id

    @rule(
        target=appends,
        conversation_id=conversations,
        words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
    )
    def append(self, conversation_id: str, words: list[str]) -> Appended:
        request_id = self._name()
        texts = [f"{word} {request_id}m{place}" for place, word in enumerate(words)]
        messages = (Message.user(texts[0]), *map(Message.assistant, texts[1:]))
        answer = self._client.conversations.append_turn(
            conversation_id, messages, request_id=request_id
        )
        expected = self._expected[conversation_id]
        turn = expected.messages[-1][0] + 1 if expected.messages else 1
        expected.messages += [(turn, text) for text in texts]
        assert [(message.turn_number, message.content) for message in answer.messages] == [
            (turn, text) for text in texts
        ]
        assert not answer.duplicate
        return Appended(conversation_id, request_id, messages, answer.messages)

    @rule(before=appends)
    def append_again(self, before: Appended) -> None:
        def again() -> recollect.AppendedTurn:
            return self._client.conversations.append_turn(
                before.conversation_id, before.messages, request_id=before.request_id
            )

        if before.conversation_id in self._expected:
            answer = again()
            assert (answer.duplicate, answer.messages) == (True, before.stored)
        else:
            with pytest.raises(recollect.NotFound):
                again()

    @rule(conversation_id=conversations, word=st.sampled_from(WORDS))
    def rename(self, conversation_id: str, word: str) -> None:
        self._expected[conversation_id].title = word
        assert self._client.conversations.rename(conversation_id, word).title == word

    @rule(left=conversations, following=conversations)
    def switch(self, left: str, following: str) -> None:
        loaded = self._client.conversations.switch(left, following, max_turns=1000)
        assert [message.content for message in loaded.messages] == [
            text for _, text in self._expected[following].messages
        ]

    @rule(conversation_id=consumes(conversations))
    def delete(self, conversation_id: str) -> None:
        request_id = self._name()
        receipt = self._client.conversations.delete(conversation_id, request_id=request_id)
        assert self._client.conversations.delete(conversation_id, request_id=request_id) == receipt
        del self._expected[conversation_id]

    @rule(word=st.sampled_from(WORDS))
    def search(self, word: str) -> None:
        answer = self._client.recall.search(word, limit=100)
        expected = {
            name
            for name, state in self._expected.items()
            if state.title == word or any(text.startswith(word) for _, text in state.messages)
        }
        assert {result.conversation_id for result in answer.results} == expected
        assert answer.total_matches == len(expected)

    @rule(conversation_id=conversations)
    def load(self, conversation_id: str) -> None:
        self._compare(conversation_id)

    # What happens to the server -------------------------------------------------------------------

    @precondition(lambda self: self._expected)
    @rule()
    def restart(self) -> None:
        self._stop(signal.SIGTERM)
        self._start()

    @precondition(lambda self: self._expected)
    @rule()
    def kill(self) -> None:
        self._stop(signal.SIGKILL)
        self._start()

    @precondition(lambda self: self._expected)
    @rule(how=st.sampled_from([signal.SIGTERM, signal.SIGKILL]))
    def delete_the_index(self, how: signal.Signals) -> None:
        self._stop(how)
        for path in (self._data_dir / "default" / "conversations").glob("conversations.db*"):
            path.unlink()
        self._start()

    def teardown(self) -> None:
        """Compare everything with the model at the end of any story."""
        try:
            listed = {conversation.id for conversation in self._client.conversations.list()}
            assert listed == set(self._expected)
            for conversation_id in listed:
                self._compare(conversation_id)
            for word in WORDS:
                self.search(word)
        finally:
            self._running.close()

    def _compare(self, conversation_id: str) -> None:
        expected = self._expected[conversation_id]
        loaded = self._client.conversations.load(
            conversation_id, max_turns=1000, max_tokens=1_000_000
        )
        assert loaded.conversation is not None
        assert [
            (message.turn_number, message.content) for message in loaded.messages
        ] == expected.messages
        counted = (loaded.conversation.title, loaded.conversation.message_count)
        assert counted == (expected.title, len(expected.messages))
        assert self._client.conversations.get(conversation_id) == loaded.conversation


@pytest.mark.timeout(600)  # some ten starts
@pytest.mark.parametrize("part", range(3))  # apart, so that no worker is left with all of them
def test_any_story_ends_as_the_model_says(tmp_path: Path, part: int) -> None:
    run_state_machine_as_test(
        lambda: Story(tmp_path),  # type: ignore[arg-type]  # Hypothesis takes what makes a machine too
        settings=settings(
            max_examples=4,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            # a story takes seconds: shrinking one would take longer than reading it
            phases=(Phase.generate,),
        ),
    )
