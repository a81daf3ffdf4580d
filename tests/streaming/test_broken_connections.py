"""A watch whose connection breaks at random, and whose server restarts: nothing lost, repeated or
out of order.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import recollect
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from recollect import Client, ConversationUpdated, Message, RetryPolicy, Update
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.streaming import checkers
from tests.streaming.proxy import Proxy
from tests.waiting import until

SOON = RetryPolicy(initial_delay=0.01, max_delay=0.05)


def seen(update: Update) -> checkers.Received:
    """Return the parts of the client's update that the guarantees are about."""
    epoch, position = checkers.place(update.cursor)
    kind = type(update.kind).__name__
    names = {
        "ConversationList": "conversation_list",
        "LoadedConversation": "conversation_loaded",
        "MessageDelta": "message_delta",
    }
    sequences = (
        tuple(it.sequence or 0 for it in update.kind.messages)
        if isinstance(update.kind, ConversationUpdated)
        else ()
    )
    return checkers.Received(
        names.get(kind, kind), epoch, position, update.conversation_id, sequences, update.reset
    )


class Server:
    """A server that can be restarted, behind a proxy with one address."""

    def __init__(self, data_dir: Path) -> None:
        self._settings = Settings.load(
            None,
            {
                "listen": "127.0.0.1:0",
                "data_dir": data_dir,
                "log_level": "error",
                "heartbeat": "50ms",
            },
        )
        self._app = app.start(self._settings)
        self.proxy = Proxy(self._app.address)

    @property
    def address(self) -> str:
        return self._app.address

    def restart(self) -> None:
        self._app.stop()
        self._app = app.start(self._settings)
        self.proxy.target = self._app.address

    def close(self) -> None:
        self._app.stop()
        self.proxy.close()


@contextmanager
def watching(target: str) -> Iterator[list[Update]]:
    """Collect the updates of a watch in a thread of its own."""
    updates: list[Update] = []
    failures: list[Exception] = []

    def watch() -> None:
        try:
            updates.extend(client.conversations.watch())
        except recollect.RecollectError as error:
            failures.append(error)

    with Client(target, retry=SOON) as client:
        thread = threading.Thread(target=watch)
        thread.start()
        until(lambda: len(updates) >= 2)
        yield updates
    thread.join(30)
    assert not thread.is_alive()
    assert failures == []


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4)),
        st.tuples(st.just("break"), st.just(0)),
        st.tuples(st.just("break after"), st.integers(0, 4000)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    min_size=3,
    max_size=12,
)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@example(
    [
        ("append", 2),
        ("break after", 700),
        ("append", 4),
        ("restart", 0),
        ("append", 1),
        ("break", 0),
        ("append", 3),
    ]
)
@given(STEPS)
def test_whatever_breaks_no_update_is_lost_repeated_or_out_of_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    server = Server(tmp_path_factory.mktemp("broken") / "data")
    written: list[checkers.Written] = []
    try:
        with watching(server.proxy.address) as updates:
            conversation = None
            for step, number in steps:
                match step:
                    case "append":
                        with Client(server.address) as writer:
                            conversation = conversation or writer.conversations.create("web")
                            for _ in range(number):
                                messages = [Message.user("x" * 300), Message.assistant("y" * 300)]
                                stored = writer.conversations.append_turn(conversation.id, messages)
                                sequences = tuple(it.sequence or 0 for it in stored.messages)
                                written.append(
                                    checkers.Written(
                                        conversation.id, sequences, *checkers.place(stored.cursor)
                                    )
                                )
                    case "break":
                        server.proxy.break_now()
                    case "break after":
                        server.proxy.break_after(number)
                    case "restart":
                        server.restart()
            delivered = {(it.conversation_id, it.sequences) for it in written}
            until(
                lambda: (
                    delivered <= {(it.conversation_id, it.sequences) for it in map(seen, updates)}
                )
            )
        runs = [[seen(update) for update in updates]]
        checkers.check(runs, written)
        assert [it.sequences for it in runs[0] if it.sequences] == [it.sequences for it in written]
        assert not any(it.reset for it in runs[0])
    finally:
        server.close()
