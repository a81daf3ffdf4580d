"""Streams over replicas of changes of which a line was redacted since: each update has one cursor,
whether it was read before the redaction or behind it, and on whichever server.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.kernel.domain.conversation import AnchorSet, Began, TitleAssigned
from recollect_server.kernel.domain.message import Message, Role

from tests.database.conftest import Replicas
from tests.server.conftest import agent, user
from tests.server.test_redact import redact
from tests.streaming.conftest import Subscriber

CONVERSATION = "conv-01J00000000000000000000001"


def changes(subscriber: Subscriber) -> list[tuple[str, str]]:
    """Return the changes that a subscriber was told, each with its cursor."""
    kinds = [(str(it.WhichOneof("kind")), it) for it in subscriber.updates]
    texts = [
        f"{kind} {[message.sequence for message in it.conversation_updated.messages]}"
        for kind, it in kinds
    ]
    return [
        (text, it.cursor)
        for text, (kind, it) in zip(texts, kinds, strict=True)
        if kind not in ("heartbeat", "conversation_list", "conversation_loaded")
    ]


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def assert_each_cursor(replicas: Replicas, opened: ExitStack, whole: Subscriber, last: str) -> None:
    """Check that a subscriber which resumes at any cursor of another one, on any server, is told
    what follows there, but for names that were redacted since.
    """
    everything = changes(whole)
    assert everything[-1][0] == last
    for server in replicas.servers:
        for at, (_, cursor) in enumerate(everything):
            late = Subscriber(server.target, cursor=cursor)
            opened.callback(late.close)
            behind = [
                it for it in everything[at + 1 :] if not it[0].startswith("conversation_renamed")
            ]
            assert changes(late.ready()) == behind


def test_an_update_has_one_cursor_though_the_name_behind_it_was_redacted(
    replicas: Replicas, opened: ExitStack
) -> None:
    one = replicas.one
    name = one.conversation_of("secretword", "butter")
    title = api.RenameRequest(conversation_id=name, title="On secretword", automatic=True)
    one.conversations.Rename(title)
    whole = Subscriber(replicas.servers[0].target)
    opened.callback(whole.close)
    whole.ready()
    other = one.conversation_of("apricot")
    fork = one.conversations.Fork(api.ForkRequest(conversation_id=name)).conversation.id
    whole.until(lambda: whole.of("conversation_renamed"))
    redact(one, fork, sequence=2)
    one.append(other, user("zebra"), agent("lemon"))
    whole.until(lambda: "zebra" in whole.messages())
    assert_each_cursor(replicas, opened, whole, "conversation_updated [3, 4]")


def test_updates_have_one_cursor_and_the_same_messages_though_lines_between_them_were_redacted(
    replicas: Replicas, opened: ExitStack
) -> None:
    one = replicas.one
    other = one.conversation_of("apricot")
    whole = Subscriber(replicas.servers[0].target)
    opened.callback(whole.close)
    whole.ready()
    space = replicas.servers[0].app.spaces.open_now()[0]._space
    time = replicas.servers[0].clock.now
    messages = [Message(Role.USER, f"secretword {n}", time, n, n - 1) for n in range(2, 8)]
    space.begin(
        [
            *(Began(CONVERSATION, "web", time), messages[0], messages[1]),
            *(
                TitleAssigned("On secretword", (), time),
                messages[3],
                AnchorSet("a", "b", 1, 2, time),
            ),
            *(messages[5], AnchorSet("c", "d", 1, 2, time)),
        ],
        None,
    )
    whole.until(lambda: whole.of("conversation_renamed"))
    redact(one, CONVERSATION, sequence=2)
    one.append(other, user("zebra"), agent("lemon"))
    whole.until(lambda: "zebra" in whole.messages())
    assert_each_cursor(replicas, opened, whole, "conversation_updated [3, 4]")
