"""Choice of a subscriber's snapshot: whose turns are loaded, and which channels' conversations are
listed.
"""

from collections.abc import Callable
from functools import partial

from recollect import Client
from recollect.v1 import conversation_service_pb2 as api

from tests.cases import each
from tests.conftest import MovableClock, RunningServer
from tests.server.conftest import UNKNOWN, failure_of, user
from tests.streaming.conftest import Recorder, Subscriber

Subscribe = Callable[..., Subscriber]


def told(service: Recorder, clock: MovableClock) -> tuple[str, str, str]:
    """Begin two conversations on the web and a newer one on WhatsApp."""
    made = []
    for channel, text in (("web", "old"), ("web", "new"), ("whatsapp", "newest")):
        clock.move(1000)
        made.append(service.conversation_of(text, channel=channel))
    return made[0], made[1], made[2]


def shown(one: Subscriber) -> tuple[list[str], str, list[str]]:
    """Return the listed conversations, the loaded one, and its texts."""
    (listed,), (loaded,) = (
        one.until_count("conversation_list", 1),
        one.until_count("conversation_loaded", 1),
    )
    return (
        [it.id for it in listed.conversations],
        loaded.conversation.id,
        [it.content for it in loaded.messages],
    )


def test_a_snapshot_loads_the_newest_of_a_channel_and_lists_all(
    subscribe: Subscribe, service: Recorder, clock: MovableClock
) -> None:
    old, new, other = told(service, clock)
    assert shown(subscribe()) == ([other, new, old], other, ["newest"])
    one = subscribe(load_channel="web")
    assert shown(one) == ([other, new, old], new, ["new"])
    service.append(other, user("more"))
    one.until_count("conversation_updated", 1)  # which updates follow does not depend on it


def test_a_snapshot_is_as_large_as_is_set_now_though_nothing_was_written_since(
    subscribe: Subscribe, service: Recorder, server: RunningServer
) -> None:
    name = service.conversation_of("alpha " * 200, "beta " * 200, "gamma")
    assert len(shown(subscribe())[2]) == 3
    with Client(server.target) as client:
        client.admin.set_setting("max_working_tokens", "300")
    texts = shown(subscribe())[2]
    assert texts == [it.content for it in service.load(name).messages]
    assert len(texts) < 3


def test_a_snapshot_loads_the_conversation_that_is_named(
    subscribe: Subscribe, service: Recorder, clock: MovableClock
) -> None:
    old, new, other = told(service, clock)
    assert shown(subscribe(load_conversation_id=old)) == ([other, new, old], old, ["old"])


def test_a_snapshot_lists_the_channels_that_are_named(
    subscribe: Subscribe, service: Recorder, clock: MovableClock
) -> None:
    old, new, other = told(service, clock)
    assert shown(subscribe(list_channels=["web"])) == ([new, old], other, ["newest"])
    assert shown(subscribe(list_channels=["web"], load_channel="web")) == ([new, old], new, ["new"])
    assert shown(
        subscribe(channels=["web", "whatsapp"], list_channels=["whatsapp"], load_channel="web")
    )[:2] == ([other], new)
    assert shown(subscribe(load_channel="cli")) == ([other, new, old], "", [])


def test_a_named_conversation_that_is_not_there_ends_the_stream_but_for_a_reset(
    subscribe: Subscribe, service: Recorder, clock: MovableClock
) -> None:
    told(service, clock)
    stream = service.conversations.StreamUpdates(
        api.StreamUpdatesRequest(load_conversation_id=UNKNOWN), timeout=20
    )
    failure = failure_of(lambda: next(stream))
    assert (failure.code, failure.reason, failure.metadata) == (
        "NOT_FOUND", "CONVERSATION_NOT_FOUND", {"conversation_id": UNKNOWN},
    )  # fmt: skip
    one = subscribe(load_conversation_id=UNKNOWN, cursor="0123456789ab-7")
    assert len(shown(one)[0]) == 3
    assert shown(one)[1] == ""
    assert one.updates[0].reset


@each(
    ("fields", "wrong"),
    [
        ({"load_channel": "No Channel"}, ("load_channel",)),
        ({"load_conversation_id": "x"}, ("load_conversation_id",)),
        ({"list_channels": ["web", "Web"]}, ("list_channels[1]",)),
        ({"list_channels": ["web"] * 65}, ("list_channels",)),
        ({"load_channel": "web", "load_conversation_id": UNKNOWN}, ("load_channel",)),
        ({"channels": ["web"], "load_channel": "cli"}, ("load_channel",)),
        ({"channels": ["web"], "list_channels": ["web", "cli"]}, ("list_channels[1]",)),
        (
            {"conversation_ids": [UNKNOWN], "load_conversation_id": UNKNOWN.replace("0", "1")},
            ("load_conversation_id",),
        ),
    ],
)
def test_a_choice_that_cannot_be_is_refused(
    service: Recorder, fields: dict[str, object], wrong: tuple[str, ...]
) -> None:
    request = api.StreamUpdatesRequest(**fields)  # type: ignore[arg-type]
    stream = service.conversations.StreamUpdates(request, timeout=20)
    failure = failure_of(partial(next, stream))
    assert (failure.code, failure.fields) == ("INVALID_ARGUMENT", wrong)
