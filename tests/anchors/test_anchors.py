"""Anchors: what callers set and what was found, which one holds, and what is refused."""

from recollect.v1 import recall_service_pb2 as api

from tests.anchors.conftest import anchors, forget_anchor, found, set_anchor, values
from tests.cases import each
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import Connect, Service, at_once, failure_of, moment, user


def test_a_caller_sets_an_anchor_and_finds_it(service: Service, clock: MovableClock) -> None:
    conversation = service.conversation_of("My name is Alex.")
    anchor = set_anchor(service, "name", "Alex", (conversation, 2), confidence=0.7)
    assert (anchor.key, anchor.value, anchor.confidence) == ("name", "Alex", 0.7)
    assert (anchor.source.conversation_id, anchor.source.sequence) == (conversation, 2)
    assert anchor.create_time == moment(clock.now)
    assert not anchor.HasField("superseded_time")
    assert anchors(service) == [anchor]
    other = set_anchor(service, "city", "Ghent")
    assert (other.confidence, other.HasField("source")) == (1.0, False)
    assert values(service) == [("city", "Ghent"), ("name", "Alex")]
    assert values(service, "name") == [("name", "Alex")]
    assert values(service, "nobody") == []


def test_a_new_value_takes_the_place_of_the_old_and_both_are_remembered(
    service: Service, clock: MovableClock
) -> None:
    set_anchor(service, "name", "Alex")
    clock.move(1000)
    assert set_anchor(service, "name", "Al").supersedes == "Alex"
    assert values(service) == [("name", "Al")]
    now, before = anchors(service, superseded=True)
    assert (now.value, now.supersedes, now.HasField("superseded_time")) == ("Al", "Alex", False)
    assert (before.value, before.superseded_time, before.supersedes) == (
        "Alex",
        moment(clock.now),
        "",
    )


def test_the_same_value_again_supersedes_nothing(service: Service, clock: MovableClock) -> None:
    first = set_anchor(service, "name", "Alex")
    clock.move(1000)
    again = set_anchor(service, "name", "Alex", confidence=0.4)
    assert (again.create_time, again.confidence, again.supersedes) == (first.create_time, 0.4, "")
    assert len(anchors(service, superseded=True)) == 1


def test_what_is_set_later_holds_even_where_the_clock_went_back(
    service: Service, clock: MovableClock
) -> None:
    set_anchor(service, "name", "Alex")
    clock.move(-60_000)
    assert set_anchor(service, "name", "Al").value == "Al"
    assert values(service) == [("name", "Al")]


def test_what_was_found_later_holds_unless_a_caller_was_surer(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    set_anchor(service, "name", "Alex", confidence=0.9)
    set_anchor(service, "city", "Ghent", confidence=0.5)
    clock.move(1000)
    found(service, server, "name", "Al", 0.8, clock.now)
    found(service, server, "city", "Bruges", 0.8, clock.now)
    found(service, server, "pet", "a cat", 0.9, clock.now)
    found(service, server, "pet", "a dog", 0.5, clock.now + 1)
    # tentative
    found(service, server, "pet", "a newt", 0.45, clock.now + 2)
    server.stop()
    again = connect(start_server())
    assert values(again) == [("city", "Bruges"), ("name", "Alex"), ("pet", "a dog")]
    holds, never_held = anchors(again, "name", superseded=True)
    assert (holds.supersedes, never_held.value, never_held.superseded_time) == (
        "",
        "Al",
        never_held.create_time,
    )
    assert [a.value for a in anchors(again, "pet", superseded=True)] == ["a dog", "a newt", "a cat"]


def test_an_anchor_that_was_found_names_its_message_and_has_the_time_of_its_words(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    conversation = found(service, server, "name", "Alex", 0.8, clock.now)
    server.stop()
    clock.move(600_000)
    again = connect(start_server())
    [anchor] = anchors(again)
    assert (anchor.source.conversation_id, anchor.source.sequence) == (conversation, 2)
    assert anchor.create_time.ToMilliseconds() == clock.now - 600_000
    # what a caller sets is surer, however unsure
    set_anchor(again, "name", "Al", confidence=0.1)
    assert values(again) == [("name", "Al")]
    assert values(again, superseded=True) == [("name", "Al"), ("name", "Alex")]


def test_what_is_taken_back_holds_no_longer_and_stays_in_the_history(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    found(service, server, "diet", "vegan", 0.8, clock.now)
    found(service, server, "diet", "", 0.8, clock.now + 1)
    server.stop()
    again = connect(start_server())
    assert values(again) == []
    [was] = anchors(again, "diet", superseded=True)
    assert (was.value, was.superseded_time.ToMilliseconds()) == ("vegan", clock.now + 1)


def test_the_anchors_of_a_moment_are_those_that_held_then(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    start = clock.now
    found(service, server, "diet", "vegan", 0.6, start)
    found(service, server, "diet", "", 0.8, start + 200)
    found(service, server, "diet", "vegan", 0.9, start + 400)
    set_anchor(service, "city", "Ghent", confidence=0.5)
    for it in range(110):  # more than are read of one key
        found(service, server, "pet", f"cat {it}", 0.8, start + it)
    server.stop()
    clock.move(300)
    again = connect(start_server())
    set_anchor(again, "city", "Ghent")  # the same again, and surer
    clock.move(300)
    set_anchor(again, "city", "Bruges")
    assert values(again, "city") == [("city", "Bruges")]
    assert anchors(again, as_of=start - 1) == []
    [ghent, vegan, first] = anchors(again, as_of=start)
    assert (ghent.value, ghent.confidence, vegan.value, vegan.confidence, first.value) == (
        *("Ghent", 0.5),
        *("vegan", 0.6, "cat 0"),
    )
    assert not ghent.HasField("superseded_time")  # it held then, whatever became of it
    assert values(again, "diet", as_of=start + 200) == []
    [was] = anchors(again, "diet", superseded=True, as_of=start + 399)
    assert (was.value, was.superseded_time.ToMilliseconds()) == ("vegan", start + 200)
    assert values(again, "pet", as_of=start + 5) == [("pet", "cat 5")]
    assert [it.confidence for it in anchors(again, "city", as_of=start + 300)] == [1.0]
    assert anchors(again, as_of=clock.now) == anchors(again)
    # what is forgotten is gone from the past too
    forget_anchor(again, "city")
    assert values(again, "city", superseded=True, as_of=start) == []


@each(
    ("fields", "wrong"),
    [
        ({"key": ""}, "key"),
        ({"key": "Name"}, "key"),
        ({"key": "a" * 65}, "key"),
        ({"key": "../x"}, "key"),
        ({"value": ""}, "value"),
        ({"value": "  "}, "value"),
        ({"value": "x" * 1001}, "value"),
        ({"value": "a\0b"}, "value"),
        ({"confidence": 1.1}, "confidence"),
        ({"confidence": -0.1}, "confidence"),
        ({"confidence": float("nan")}, "confidence"),
        ({"request_id": "a b"}, "request_id"),
        ({"source": {"conversation_id": "conv-x", "sequence": 2}}, "source.conversation_id"),
        (
            {"source": {"conversation_id": "conv-01J00000000000000000000000", "sequence": 0}},
            "source.sequence",
        ),
    ],
)
def test_bad_input_is_refused_by_the_fields_name_and_changes_nothing(
    service: Service, server: RunningServer, fields: dict[str, object], wrong: str
) -> None:
    request = api.SetAnchorRequest(**({"key": "name", "value": "Alex"} | fields))  # type: ignore[arg-type]
    failure = failure_of(lambda: service.recall.SetAnchor(request))
    assert (failure.code, failure.reason, failure.fields) == (
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        (wrong,),
    )
    assert anchors(service) == []
    assert not (server.folder.parent / "anchors.jsonl").exists()


def test_a_source_must_be_a_message_that_is_there(service: Service) -> None:
    conversation = service.conversation_of("My name is Alex.")
    for sequence in (1, 3):
        failure = failure_of(
            lambda line=sequence: set_anchor(service, "name", "Alex", (conversation, line))  # type: ignore[misc]
        )
        assert (failure.reason, failure.fields) == ("INVALID_FIELD", ("source.sequence",))
    missing = failure_of(
        lambda: set_anchor(service, "name", "Alex", ("conv-01J00000000000000000000000", 2))
    )
    assert missing.reason == "CONVERSATION_NOT_FOUND"
    assert anchors(service) == []


def test_a_repeated_set_is_answered_as_it_was_and_sets_nothing(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    first = set_anchor(service, "name", "Alex", request_id="a1")
    clock.move(1000)
    set_anchor(service, "name", "Al", request_id="a2")
    assert set_anchor(service, "name", "Alex", request_id="a1") == first
    assert values(service) == [("name", "Al")]
    server.stop()
    again = connect(start_server())
    assert set_anchor(again, "name", "Alex", request_id="a1") == first
    assert len(anchors(again, superseded=True)) == 2


def test_a_request_id_of_another_request_is_refused_on_both_sides(service: Service) -> None:
    conversation = service.conversation_of("one")
    set_anchor(service, "name", "Alex", request_id="a1")
    assert (
        failure_of(lambda: set_anchor(service, "name", "Al", request_id="a1")).reason
        == "REQUEST_ID_REUSED"
    )
    assert (
        failure_of(lambda: service.append(conversation, user("x"), request_id="a1")).reason
        == "REQUEST_ID_REUSED"
    )
    service.append(conversation, user("x"), request_id="r1")
    assert (
        failure_of(lambda: set_anchor(service, "name", "Al", request_id="r1")).reason
        == "REQUEST_ID_REUSED"
    )
    assert values(service) == [("name", "Alex")]


def test_of_16_callers_with_one_request_one_sets(service: Service) -> None:
    answers = at_once(16, lambda _: set_anchor(service, "name", "Alex", request_id="a1"))
    assert all(answer == answers[0] for answer in answers)
    assert len(anchors(service, superseded=True)) == 1
