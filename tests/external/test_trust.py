"""Actions of the owner: trust, answers, and recorded replies where trust allows them."""

from collections.abc import Callable

from tests.conftest import RunningServer, Start
from tests.external.conftest import (
    BLOCKED,
    KNOWN,
    NOWHERE,
    UNASKED,
    UNTRUSTED,
    Meet,
    Outside,
    transcript,
)
from tests.server.conftest import (
    UNKNOWN,
    Failure,
    at_once,
    bytes_under,
    code_of,
    delete_index,
    failure_of,
)

DENIED = ("PERMISSION_DENIED", "TRUST_REQUIRED")


def kind_of(failure: Failure) -> tuple[str, str]:
    return failure.code, failure.reason


def test_a_stranger_is_answered_once_the_owner_said_what(outside: Outside) -> None:
    received = outside.write("Is the flat free?")
    name = received.communication.id
    refused = failure_of(lambda: outside.reply(name))
    assert kind_of(refused) == DENIED
    assert refused.metadata == {"communication_id": name, "trust": "untrusted"}

    outside.resolve(outside.escalations()[0].id, "Yes, from June.")
    answer = outside.reply(name, "It is free from June.")
    assert (answer.message.text, answer.communication.message_count) == ("It is free from June.", 2)
    assert answer.message.direction == 2
    outside.reply(name, "Would you like to see it?")  # an answer may take more than one message
    assert outside.texts(name) == [
        "Is the flat free?",
        "It is free from June.",
        "Would you like to see it?",
    ]

    outside.write("And the garage?")  # of this the owner has said nothing
    assert kind_of(failure_of(lambda: outside.reply(name))) == DENIED
    assert outside.get(name).communication.message_count == 4


def test_an_answer_releases_nothing_that_came_while_the_party_was_known(outside: Outside) -> None:
    name = outside.write().communication.id
    outside.resolve(outside.escalations()[0].id)
    outside.trust(name, KNOWN)
    outside.write("And now?")
    outside.trust(name, UNTRUSTED)
    assert kind_of(failure_of(lambda: outside.reply(name))) == DENIED


def test_a_known_party_is_answered_within_its_scopes(outside: Outside) -> None:
    name = outside.write().communication.id
    trusted = outside.trust(name, KNOWN, "billing", "viewings")
    assert (trusted.trust, list(trusted.scopes)) == (KNOWN, ["billing", "viewings"])
    assert outside.reply(name, scope="billing").message.scope == "billing"
    assert outside.reply(name).message.scope == ""  # the caller answers for it
    refused = failure_of(lambda: outside.reply(name, scope="health"))
    assert (kind_of(refused), refused.metadata["trust"]) == (DENIED, "known")
    outside.trust(name, KNOWN)
    outside.reply(name, scope="health")  # no scopes: about anything
    assert [message.scope for message in outside.messages(name)] == ["", "billing", "", "health"]


def test_a_blocked_party_is_never_answered_and_its_questions_are_closed(outside: Outside) -> None:
    name = outside.write().communication.id
    escalation = outside.escalations()[0].id
    assert outside.trust(name, BLOCKED).open_escalations == 0
    assert outside.escalations() == []
    closed = outside.escalations(include_resolved=True)[0]
    assert (closed.id, closed.answer, closed.HasField("resolve_time")) == (escalation, "", True)
    assert kind_of(failure_of(lambda: outside.reply(name))) == DENIED
    outside.trust(name, UNTRUSTED)
    assert kind_of(failure_of(lambda: outside.reply(name))) == DENIED  # closed is not answered


def test_a_stranger_who_becomes_known_keeps_its_open_question(outside: Outside) -> None:
    name = outside.write().communication.id
    assert outside.trust(name, KNOWN).open_escalations == 1
    outside.resolve(outside.escalations()[0].id)
    assert outside.get(name).communication.open_escalations == 0


def test_an_escalation_is_resolved_once(outside: Outside) -> None:
    outside.write()
    escalation = outside.escalations()[0]
    first = outside.resolve(escalation.id, "Say yes.")
    assert (first.answer, first.question, first.HasField("resolve_time")) == (
        "Say yes.",
        escalation.question,
        True,
    )
    outside.server.clock.move(60_000)
    assert outside.resolve(escalation.id, "Say yes.") == first
    refused = failure_of(lambda: outside.resolve(escalation.id, "Say no."))
    assert kind_of(refused) == ("FAILED_PRECONDITION", "ESCALATION_RESOLVED")
    assert refused.metadata == {"escalation_id": escalation.id}
    assert outside.escalations(include_resolved=True) == [first]


def test_two_owners_who_answer_at_once_leave_one_answer(outside: Outside) -> None:
    outside.write()
    escalation = outside.escalations()[0].id
    codes = at_once(
        6, lambda number: code_of(lambda: outside.resolve(escalation, f"Answer {number}"))
    )
    assert sorted(codes) == ["FAILED_PRECONDITION"] * 5 + ["OK"]


def test_a_request_that_is_repeated_is_answered_as_it_was_and_changes_nothing(
    start_server: Start, meet: Meet
) -> None:
    running = start_server()
    outside = meet(running)
    name = outside.write().communication.id
    escalation = outside.escalations()[0].id
    trusted = outside.trust(name, KNOWN, "billing", request_id="t1")
    reply = outside.reply(name, "Yes", scope="billing", request_id="p1")
    resolved = outside.resolve(escalation, "Fine", request_id="e1")
    outside.trust(name, BLOCKED, request_id="t2")
    size = transcript(running, name).stat().st_size
    for lost in (False, True, False):
        assert outside.trust(name, KNOWN, "billing", request_id="t1") == trusted
        assert outside.reply(name, "Yes", scope="billing", request_id="p1") == reply
        assert outside.resolve(escalation, "Fine", request_id="e1") == resolved
        assert transcript(running, name).stat().st_size == size
        running.stop()
        if lost:
            delete_index(running)
        running = start_server()
        outside = meet(running)


def test_a_request_id_with_another_payload_is_refused_whatever_it_was_used_for(
    outside: Outside,
) -> None:
    name = outside.write().communication.id
    outside.trust(name, KNOWN, request_id="r1")
    reused = ("ALREADY_EXISTS", "REQUEST_ID_REUSED")
    assert kind_of(failure_of(lambda: outside.trust(name, BLOCKED, request_id="r1"))) == reused
    assert kind_of(failure_of(lambda: outside.reply(name, request_id="r1"))) == reused
    assert (
        kind_of(failure_of(lambda: outside.resolve(outside.escalations()[0].id, request_id="r1")))
        == reused
    )
    assert outside.get(name).communication.trust == KNOWN


def test_replies_at_once_with_one_request_id_are_one(outside: Outside) -> None:
    name = outside.write().communication.id
    outside.trust(name, KNOWN)
    answers = at_once(6, lambda _: outside.reply(name, request_id="p1"))
    assert len({answer.message.sequence for answer in answers}) == 1
    assert len(outside.messages(name)) == 2


def test_what_does_not_exist_is_not_found(outside: Outside) -> None:
    outside.write()
    calls = [
        (NOWHERE, lambda: outside.get(NOWHERE)),
        (NOWHERE, lambda: outside.trust(NOWHERE, KNOWN)),
        (NOWHERE, lambda: outside.reply(NOWHERE)),
        (NOWHERE, lambda: outside.escalations(communication_id=NOWHERE)),
        (UNASKED, lambda: outside.resolve(UNASKED)),
    ]
    for name, call in calls:
        failed = failure_of(call)
        assert (kind_of(failed), failed.metadata) == (("NOT_FOUND", "NOT_FOUND"), {"name": name})


def test_bad_input_names_its_field_and_changes_nothing(
    outside: Outside, server: RunningServer
) -> None:
    name = outside.write().communication.id
    escalation = outside.escalations()[0].id
    before = bytes_under(server.data_dir / "default" / "external")
    too_many = [f"scope-{number}" for number in range(33)]
    calls: list[tuple[str, Callable[[], object]]] = [
        ("communication_id", lambda: outside.get("")),
        ("communication_id", lambda: outside.get(UNKNOWN)),
        ("communication_id", lambda: outside.get("ext-../../../etc/passwd000")),
        ("page_size", lambda: outside.get(name, page_size=-1)),
        ("page_size", lambda: outside.listed(page_size=-1)),
        ("party", lambda: outside.listed(party="x" * 321)),
        ("party", lambda: outside.listed(party="a\0b")),
        ("trust", lambda: outside.listed(trust=9)),
        ("trust", lambda: outside.trust(name, 0)),
        ("trust", lambda: outside.trust(name, 9)),
        ("communication_id", lambda: outside.trust("x", KNOWN)),
        ("scopes", lambda: outside.trust(name, BLOCKED, "billing")),
        ("scopes", lambda: outside.trust(name, UNTRUSTED, "billing")),
        ("scopes", lambda: outside.trust(name, KNOWN, *too_many)),
        ("scopes[1]", lambda: outside.trust(name, KNOWN, "billing", "Not Kebab")),
        ("scopes[0]", lambda: outside.trust(name, KNOWN, "x" * 65)),
        ("request_id", lambda: outside.trust(name, KNOWN, request_id="with space")),
        ("communication_id", lambda: outside.reply("")),
        ("text", lambda: outside.reply(name, "")),
        ("text", lambda: outside.reply(name, " \n")),
        ("text", lambda: outside.reply(name, "a\0b")),
        ("text", lambda: outside.reply(name, "x" * ((1 << 20) + 1))),
        ("scope", lambda: outside.reply(name, scope="Billing")),
        ("request_id", lambda: outside.reply(name, request_id="x" * 129)),
        ("page_size", lambda: outside.escalations(page_size=-1)),
        ("communication_id", lambda: outside.escalations(communication_id="conv")),
        ("escalation_id", lambda: outside.resolve("")),
        ("escalation_id", lambda: outside.resolve(name)),
        ("answer", lambda: outside.resolve(escalation, "")),
        ("answer", lambda: outside.resolve(escalation, "x" * (16 * 1024 + 1))),
        ("answer", lambda: outside.resolve(escalation, "a\0b")),
        ("request_id", lambda: outside.resolve(escalation, request_id="ä")),
    ]
    for field, call in calls:
        failed = failure_of(call)
        assert (kind_of(failed), failed.fields) == (
            ("INVALID_ARGUMENT", "INVALID_FIELD"),
            (field,),
        ), field
    assert bytes_under(server.data_dir / "default" / "external") == before
