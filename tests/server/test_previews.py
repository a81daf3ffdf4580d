"""Previews: what a list of conversations shows of the newest message of each."""

from typing import Any

from recollect.v1.conversation_pb2 import MessagePreview
from recollect.v1.message_pb2 import ROLE_ASSISTANT, ROLE_USER, Message, ToolCall

from tests.conftest import RunningServer, Start
from tests.server.conftest import (
    Connect,
    Service,
    agent,
    delete_index,
    files_with,
    tool,
    user,
)
from tests.server.test_redact import redact
from tests.streaming.conftest import Subscriber


def preview(text: str, *, sender: str = "", role: Any = ROLE_USER) -> MessagePreview:
    return MessagePreview(role=role, sender=sender, text=text)


CALL = agent("", tool_calls=[ToolCall(id="c", name="look")])
PREVIEWS: list[tuple[Message, MessagePreview]] = [
    (user("The boiler\n\n  drips."), preview("The boiler drips.")),
    (user("Again", sender="4917", sender_name="Hanan"), preview("Again", sender="Hanan")),
    (user("Still", sender="4917"), preview("Still", sender="4917")),
    (agent("x" * 500), preview("x" * 120, role=ROLE_ASSISTANT)),
    (agent("word " * 100), preview(("word " * 24).rstrip(), role=ROLE_ASSISTANT)),
    (CALL, preview(("word " * 24).rstrip(), role=ROLE_ASSISTANT)),
    (tool("c", "It is hot."), preview(("word " * 24).rstrip(), role=ROLE_ASSISTANT)),
]
"""Messages of one conversation in their order, and its preview behind each."""


def test_a_conversation_in_a_list_says_who_said_what_last(
    service: Service, start_server: Start, server: RunningServer, connect: Connect
) -> None:
    name = service.create().id
    assert not service.get(name).HasField("latest_message")
    for message, expected in PREVIEWS:
        assert service.append(name, message).conversation.latest_message == expected
        assert service.listed().conversations[0].latest_message == expected
        assert service.get(name).latest_message == expected
    server.stop()
    delete_index(server)
    again = connect(start_server(data_dir=server.data_dir))
    assert again.listed().conversations[0].latest_message == PREVIEWS[-1][1]


def test_a_preview_goes_with_the_text_of_its_message_from_lists_streams_and_files(
    service: Service, server: RunningServer
) -> None:
    name = service.conversation_of("Good morning")
    late = Subscriber(server.target).ready()
    first = late.cursor
    service.append(name, user("It is quixotriple", sender_name="wimblezark"))
    late.until(lambda: late.of("conversation_updated"))
    before = late.of("conversation_updated")[-1].conversation
    assert before.latest_message == preview("It is quixotriple", sender="wimblezark")
    late.drop()
    assert redact(service, name, sequence=3).conversation == service.get(name)
    assert service.listed().conversations[0].latest_message == preview("Good morning")
    assert files_with(server.data_dir, "quixotriple", "wimblezark") == []
    late.resume()
    [redacted] = late.until_count("messages_redacted", 1)
    assert redacted.conversation.latest_message == preview("Good morning")
    late.close()
    again = Subscriber(server.target, cursor=first).ready()
    assert len(again.of("conversation_updated")) == 1
    assert "quixotriple" not in str(again.updates)
    again.close()
    service.delete(name)
    assert len(service.listed().conversations) == 0
    assert files_with(server.data_dir, "good morning") == []


def test_an_unindexed_conversation_has_no_preview_until_its_next_message(
    service: Service, server: RunningServer
) -> None:
    name = service.conversation_of("Good morning")
    space = server.app.spaces.open_now()[0]._space
    space.unindexing.unindex(name, lambda _: True)
    assert not service.get(name).HasField("latest_message")
    service.append(name, agent("And to you."))
    assert service.get(name).latest_message == preview("And to you.", role=ROLE_ASSISTANT)
