"""Several tabs of one dashboard, and an agent in a process of its own that writes."""

import subprocess
import sys
from collections.abc import Callable

from recollect import Client
from recollect.v1 import conversation_service_pb2 as api

from tests.conftest import RunningServer
from tests.streaming.conftest import Recorder, Subscriber

Subscribe = Callable[..., Subscriber]

AGENT = """
import sys
from recollect import Client, Message

with Client(sys.argv[1]) as client:
    for number in range(20):
        draft, text = f"answer-{number}", f"Answer {number}"
        client.conversations.publish_delta(sys.argv[2], draft, 0, text[:4])
        client.conversations.publish_delta(sys.argv[2], draft, 4, text[4:], done=True)
        messages = [Message.user(f"Question {number}"), Message.assistant(text)]
        client.conversations.append_turn(sys.argv[2], messages, draft_id=draft)
"""


def test_two_tabs_see_the_same_sequence_of_what_another_process_writes(
    subscribe: Subscribe, service: Recorder, server: RunningServer
) -> None:
    name = service.create().id
    tabs = [subscribe(conversation_ids=[name]).ready(), subscribe().ready()]
    subprocess.run([sys.executable, "-c", AGENT, server.target, name], check=True, timeout=60)
    for tab in tabs:
        tab.until_count("conversation_updated", 20)
    logged = [[update for update in tab.updates if update.cursor][1:] for tab in tabs]
    assert logged[0] == logged[1]
    assert tabs[0].messages() == [
        f"{kind} {number}" for number in range(20) for kind in ("Question", "Answer")
    ]
    assert [it.draft_id for it in tabs[0].of("conversation_updated")] == [
        f"answer-{number}" for number in range(20)
    ]


def test_a_rename_in_one_tab_shows_in_all(
    subscribe: Subscribe, service: Recorder, client: Client
) -> None:
    name = service.conversation_of("Hello")
    tabs = [subscribe().ready() for _ in range(3)]
    client.conversations.rename(name, "Greetings")
    for tab in tabs:
        assert [it.title for it in tab.until_count("conversation_renamed", 1)] == ["Greetings"]


def test_a_switch_in_one_tab_moves_no_other(subscribe: Subscribe, service: Recorder) -> None:
    old, new = service.conversation_of("Old"), service.conversation_of("New")
    tabs = [subscribe().ready() for _ in range(2)]
    answer = service.conversations.Switch(
        api.SwitchRequest(from_conversation_id=old, to_conversation_id=new)
    )
    assert answer.conversation.id == new
    service.turn(new, "Said after the switch")
    for tab in tabs:
        tab.until_count("conversation_updated", 1)
        assert tab.kinds() == ["conversation_list", "conversation_loaded", "conversation_updated"]
