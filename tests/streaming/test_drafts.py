"""PublishDelta: an answer that is still being written reaches the subscribers as it grows, and is
never stored.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.kernel.domain.ids import Action, Kind
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.log.order import OrderedChange, OrderedChanges, Part
from recollect_server.kernel.space.turns import LoadLimits
from recollect_server.kernel.stream import drafts
from recollect_server.kernel.stream.drafts import Drafts
from recollect_server.kernel.stream.live import Choice, LiveUpdates
from recollect_server.kernel.stream.ring import Interest

from tests.at_rest import opened
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import UNKNOWN, agent, failure_of
from tests.streaming.conftest import Recorder, Subscriber
from tests.waiting import until

Subscribe = Callable[..., Subscriber]


def text_of(subscriber: Subscriber, draft_id: str = "d") -> str:
    """Return a draft as a subscriber has put it together."""
    text = ""
    for delta in subscriber.of("message_delta"):
        if delta.draft_id == draft_id:
            assert delta.offset <= len(text), f"a gap: {delta}"
            text = text[: delta.offset] + delta.text if delta.offset else delta.text
    return text


def test_every_subscriber_sees_a_draft_grow_and_then_the_messages_that_complete_it(
    subscribe: Subscribe, service: Recorder
) -> None:
    name = service.conversation_of("How full is it?")
    both = [subscribe().ready(), subscribe(conversation_ids=[name]).ready()]
    parts = ["It is ", "97 % ", "full. \N{GRINNING FACE}"]
    for number, part in enumerate(parts):
        service.publish(name, "d", len("".join(parts[:number])), part, done=part is parts[-1])
        for one in both:
            one.until_count("message_delta", number + 1)
            assert text_of(one) == "".join(parts[: number + 1])
    stored = service.append(name, agent("".join(parts)), draft_id="d")
    for one in both:
        (updated,) = one.until_count("conversation_updated", 1)
        assert (updated.draft_id, list(updated.messages)) == ("d", list(stored.messages))
        assert [delta.done for delta in one.of("message_delta")] == [False, False, True]
        assert not any(delta.dropped for delta in one.of("message_delta"))
        assert one.kinds()[-1] == "conversation_updated"
        assert {
            it.conversation_id for it in one.updates if it.WhichOneof("kind") == "message_delta"
        } == {name}
    late = subscribe()
    service.publish(name, "next", 0, "x")
    late.until_count("message_delta", 1)
    assert [delta.draft_id for delta in late.of("message_delta")] == ["next"]


def test_a_subscriber_that_comes_late_gets_the_text_so_far(
    subscribe: Subscribe, service: Recorder
) -> None:
    name = service.conversation_of("Hi")
    service.publish(name, "d", 0, "One ")
    service.publish(name, "d", 4, "two ")
    late = subscribe()
    (delta,) = late.until_count("message_delta", 1)
    assert (delta.offset, delta.text, late.kinds()[:2]) == (
        0,
        "One two ",
        ["conversation_list", "conversation_loaded"],
    )
    late.resume()  # and so does one that comes back
    late.until_count("message_delta", 2)
    service.publish(name, "d", 8, "three")
    late.until_count("message_delta", 3)
    assert [(it.offset, it.text) for it in late.of("message_delta")[1:]] == [
        (0, "One two "),
        (8, "three"),
    ]


def test_a_draft_of_another_conversation_is_not_told(
    subscribe: Subscribe, service: Recorder
) -> None:
    mine, other = service.conversation_of("Mine"), service.conversation_of("Other", channel="email")
    by_name, by_channel = (
        subscribe(conversation_ids=[mine]).ready(),
        subscribe(channels=["web"]).ready(),
    )
    service.publish(other, "theirs", 0, "Not for me")
    service.publish(mine, "mine", 0, "For me")
    for one in (by_name, by_channel):
        assert [it.draft_id for it in one.until_count("message_delta", 1)] == ["mine"]


def test_a_part_that_is_sent_twice_changes_nothing(subscribe: Subscribe, service: Recorder) -> None:
    name = service.conversation_of("Hi")
    one = subscribe().ready()
    for offset, text in [(0, "abc"), (0, "abc"), (3, "def"), (0, "ab"), (3, "def"), (4, "efgh")]:
        service.publish(name, "d", offset, text)
    service.publish(name, "d", 8, "", done=True)
    service.publish(name, "d", 8, "", done=True)
    one.until(lambda: one.of("message_delta") and one.of("message_delta")[-1].done)
    assert text_of(one) == "abcdefgh"


def test_a_draft_that_begins_anew_replaces_what_was_told(
    subscribe: Subscribe, service: Recorder
) -> None:
    name = service.conversation_of("Hi")
    one = subscribe().ready()
    service.publish(name, "d", 0, "A first try")
    one.until_count("message_delta", 1)
    service.publish(name, "d", 0, "A second one")
    one.until(lambda: text_of(one) == "A second one")
    assert one.of("message_delta")[-1].offset == 0


def test_a_draft_that_stands_still_is_dropped(
    subscribe: Subscribe, service: Recorder, clock: MovableClock
) -> None:
    name = service.conversation_of("Hi")
    one = subscribe().ready()
    service.publish(name, "d", 0, "Then the model hung")
    one.until_count("message_delta", 1)
    clock.move(59_000)
    service.publish(name, "e", 0, "Another")
    one.until_count("message_delta", 2)
    clock.move(1_000)
    dropped = one.until_count("message_delta", 3)[-1]
    assert (dropped.draft_id, dropped.dropped, dropped.text) == ("d", True, "")
    late = subscribe()
    assert [it.draft_id for it in late.until_count("message_delta", 1)] == ["e"]


def test_a_draft_that_stands_still_is_dropped_though_the_clock_was_set_back(
    subscribe: Subscribe, service: Recorder, clock: MovableClock
) -> None:
    name = service.conversation_of("Hi")
    one = subscribe().ready()
    service.publish(name, "d", 0, "Then the model hung")
    one.until_count("message_delta", 1)
    clock.move(-86_400_000)
    service.publish(name, "e", 0, "Another")
    one.until_count("message_delta", 2)

    def is_dropped() -> bool:
        clock.move(1000)
        return any(it.draft_id == "d" and it.dropped for it in one.of("message_delta"))

    assert until(is_dropped)


def test_the_drafts_of_a_deleted_conversation_go_with_it(
    subscribe: Subscribe, service: Recorder
) -> None:
    name, other = service.conversation_of("Hi"), service.conversation_of("Hi")
    one = subscribe().ready()
    service.publish(name, "d", 0, "Half an answ")
    one.until_count("message_delta", 1)
    service.delete(name)
    one.until_count("conversation_deleted", 1)
    service.publish(other, "e", 0, "x")
    late = subscribe()
    late.until_count("message_delta", 1)
    assert [it.draft_id for it in late.of("message_delta")] == ["e"]
    assert not any(it.dropped for it in one.of("message_delta"))


def test_a_conversation_that_begins_anew_has_drafts_of_the_same_names(
    server: RunningServer, service: Recorder, clock: MovableClock
) -> None:
    one = Subscriber(server.target).ready()  # the checkers know no id that begins anew
    for number, draft_id in enumerate(["grew", "landed", "grew", "landed"], 1):
        service.create(conversation_id=UNKNOWN)
        service.publish(UNKNOWN, draft_id, 0, "abcd")
        one.until_count("message_delta", number)
        if draft_id == "landed":
            service.append(UNKNOWN, agent("abcd"), draft_id="landed")
        service.delete(UNKNOWN)
        one.until_count("conversation_deleted", number)
    service.create(conversation_id=UNKNOWN)
    service.publish(UNKNOWN, "grew", 0, "anew")
    one.until_count("message_delta", 5)
    clock.move(60_000)
    assert [it.dropped for it in one.until_count("message_delta", 6)] == [False] * 5 + [True]
    one.close()


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "no conversation": ("conversation_id", {"conversation_id": ""}),
    "no draft": ("draft_id", {"draft_id": ""}),
    "a long name": ("draft_id", {"draft_id": "d" * 129}),
    "an offset below 0": ("offset", {"offset": -1}),
    "a gap": ("offset", {"offset": 5}),
    "a draft nobody knows": ("offset", {"draft_id": "new", "offset": 3}),
    "other text": ("offset", {"offset": 1, "text": "x"}),
    "nothing": ("text", {"text": ""}),
    "NUL": ("text", {"offset": 4, "text": "\0"}),
    "too much": ("text", {"offset": 4, "text": "x" * 1021}),
    "a draft that landed": ("draft_id", {"draft_id": "landed"}),
    "after the end": ("text", {"draft_id": "done", "offset": 4}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_part_that_cannot_be_is_refused_and_changes_nothing(
    start_server: Start, record: Any, subscribe: Subscribe, case: str
) -> None:
    server = start_server(max_message_bytes=1024)
    service = record(server)
    name = service.conversation_of("Hi")
    service.publish(name, "d", 0, "abcd")
    service.publish(name, "done", 0, "abcd", done=True)
    one = subscribe(server.target).ready()
    service.publish(name, "landed", 0, "abcd")
    service.append(name, agent("abcd"), draft_id="landed")
    one.until_count("conversation_updated", 1)
    field, change = REFUSED[case]
    fields = {"conversation_id": name, "draft_id": "d", "text": "more"} | change
    failure = failure_of(
        lambda: service.conversations.PublishDelta(api.PublishDeltaRequest(**fields))
    )
    assert (failure.code, failure.reason, failure.fields) == (
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        (field,),
    )
    late = subscribe(server.target)
    late.until_count("message_delta", 2)
    assert {it.draft_id: it.text for it in late.of("message_delta")} == {
        "d": "abcd",
        "done": "abcd",
    }


def test_a_draft_never_comes_before_its_conversation(
    subscribe: Subscribe, service: Recorder
) -> None:
    one = subscribe().ready()
    names: list[str] = []
    for _ in range(30):
        names.append(service.create().id)
        service.publish(names[-1], "d", 0, "x")
    one.until_count("message_delta", len(names))
    kinds: dict[str, list[str]] = {name: [] for name in names}
    for update in one.updates:
        if update.conversation_id in kinds:
            kinds[update.conversation_id].append(str(update.WhichOneof("kind")))
    assert list(kinds.values()) == [["conversation_created", "message_delta"]] * len(names)


def test_a_draft_of_a_conversation_that_is_not_there_is_refused(service: Recorder) -> None:
    failure = failure_of(lambda: service.publish(UNKNOWN, "d", 0, "x"))
    assert (failure.code, failure.reason) == ("NOT_FOUND", "CONVERSATION_NOT_FOUND")


def test_drafts_are_bounded_the_oldest_are_given_up(
    monkeypatch: pytest.MonkeyPatch, clock: MovableClock
) -> None:
    monkeypatch.setattr(drafts, "_MAX_DRAFTS", 3)
    monkeypatch.setattr(drafts, "_MAX_TOTAL", 100)
    them = Drafts(clock, timeout=1000, max_length=1000)
    for number in range(5):
        them.publish("c", "web", f"d{number}", 0, "x" * 10, done=False)
    them.show({"c"})
    sent: dict[drafts.Key, drafts.Sent] = {}
    assert len(them.new_parts(sent, lambda _: True, lambda update: str(update.kind).encode())) == 3
    them.publish("c", "web", "d4", 10, "x" * 95, done=False)
    updates = them.new_parts(sent, lambda _: True, lambda update: str(update.kind).encode())
    assert sum(b"dropped=True" in it for it in updates) == 2
    assert set(sent) == {("c", "d4")}


def test_what_a_slow_subscriber_is_sent_next_is_one_part_with_all_that_came(
    clock: MovableClock,
) -> None:
    them = Drafts(clock, timeout=1000, max_length=1000)
    sent: dict[drafts.Key, drafts.Sent] = {}
    updates: list[Any] = []

    def encode(update: Any) -> bytes:
        updates.append(update.kind)
        return b""

    length = 0
    for part in ("a", "bc", "def", "ghij"):
        them.publish("c", "web", "d", length, part, done=False)
        length += len(part)
    them.show({"c"})
    them.new_parts(sent, lambda _: True, encode)
    them.publish("c", "web", "d", length, "kl", done=True)
    them.new_parts(sent, lambda _: True, encode)
    assert [(it.offset, it.text, it.done) for it in updates] == [
        (0, "abcdefghij", False),
        (10, "kl", True),
    ]
    assert them.new_parts(sent, lambda _: True, encode) == []


def test_a_part_that_comes_with_the_delete_of_its_conversation_revives_no_draft(
    tmp_path: Path,
) -> None:
    here = opened(tmp_path, sync=False)
    limits = Live(LoadLimits(10, 1000, 1 << 20))
    live = LiveUpdates(
        here.space, limits, lambda it: str(it).encode(), draft_timeout=60_000, max_draft=1000
    )
    part = Part("c", "d", "web", 0, "text", False)
    row = OrderedChange(
        *(5, 0, 0, "c", Kind.CONVERSATION, Action.DELETE, 0, 0, 1, "web", []), is_last=True
    )
    changes = OrderedChanges([row], False, 6, 6, [part])
    live._take(changes)  # nobody watches
    assert live.drafts.about() == set()
    live.subscribe(Interest(), Choice(), "", 0)

    def advance() -> None:
        """Take what came at once, as the thread of all streams may."""
        if not live._is_collecting:
            live.advance()

    live.listen(advance)
    live._take(changes)
    assert live.drafts.about() == set()
    here.close()
