"""Third parties through the typed client."""

import pytest
from recollect import (
    AsyncClient,
    Client,
    CommunicationChanged,
    CommunicationEscalated,
    CommunicationList,
    CommunicationMessage,
    Direction,
    ErrorReason,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    RetryPolicy,
    Trust,
)

from tests.conftest import Start
from tests.external.conftest import NOWHERE, Meet, Outside


def test_an_owner_answers_a_stranger_and_comes_to_know_it(outside: Outside, client: Client) -> None:
    outside.write("Is the flat free?", party="ann@example.org", channel="email", delivered="<1@x>")
    (communication,) = client.external.list_communications(open_escalations_only=True)
    assert (communication.party, communication.channel, communication.trust) == ("ann@example.org", "email", Trust.UNTRUSTED)
    assert (communication.scopes, communication.open_escalations, communication.message_count) == ((), 1, 1)
    with pytest.raises(PermissionDenied) as denied:
        client.external.record_reply(communication.id, "Yes")
    assert denied.value.reason is ErrorReason.TRUST_REQUIRED

    (asked,) = client.external.list_escalations()
    assert (asked.communication_id, asked.answer, asked.resolve_time) == (communication.id, "", None)
    resolved = client.external.resolve_escalation(asked.id, "Say yes.")
    assert (resolved.answer, resolved.resolve_time is None) == ("Say yes.", False)
    with pytest.raises(FailedPrecondition) as closed:
        client.external.resolve_escalation(asked.id, "Say no.")
    assert closed.value.reason is ErrorReason.ESCALATION_RESOLVED
    reply = client.external.record_reply(communication.id, "Yes, from June.")
    assert (reply.message.direction, reply.message.text) == (Direction.OUTBOUND, "Yes, from June.")

    known = client.external.set_trust(communication.id, Trust.KNOWN, scopes=["viewings"])
    assert (known.trust, known.scopes) == (Trust.KNOWN, ("viewings",))
    loaded = client.external.get_communication(communication.id, page_size=1)
    assert [message.text for message in loaded.messages] == ["Yes, from June."]
    older = client.external.get_communication(communication.id, page_size=1, page_token=loaded.next_page_token)
    assert [(it.text, it.provider_message_id) for it in older.messages] == [("Is the flat free?", "<1@x>")]
    assert older.next_page_token == ""


def test_lists_are_read_page_by_page(outside: Outside, client: Client) -> None:
    for number in range(5):
        outside.server.clock.move(10)
        outside.write(party=f"p{number}")
    newest_first = ["p4", "p3", "p2", "p1", "p0"]
    assert [it.party for it in client.external.list_communications(page_size=2)] == newest_first
    page = client.external.list_communications_page(page_size=2)
    assert ([it.party for it in page], len(page)) == (["p4", "p3"], 2)
    page = client.external.list_communications_page(page_size=2, page_token=page.next_page_token)
    assert [it.party for it in page] == ["p2", "p1"]
    assert len(list(client.external.list_escalations(page_size=2))) == 5
    escalations = client.external.list_escalations_page(page_size=4)
    assert (len(escalations), bool(escalations.next_page_token)) == (4, True)
    assert [it.party for it in client.external.list_communications(party="p3", trust=Trust.UNTRUSTED)] == ["p3"]


def test_what_is_wrong_is_told_by_its_class(client: Client) -> None:
    with pytest.raises(NotFound):
        client.external.get_communication(NOWHERE)
    with pytest.raises(InvalidArgument) as wrong:
        client.external.set_trust(NOWHERE, "friend")  # type: ignore[arg-type]
    assert [it.field for it in wrong.value.violations] == ["trust"]


def test_a_panel_watches_and_goes_on_behind_a_cursor(outside: Outside, client: Client) -> None:
    with client.external.watch() as watch:
        first = next(watch)
        assert isinstance(first.kind, CommunicationList)
        received = outside.write("Hello?")
        told = next(watch)
        assert isinstance(told.kind, CommunicationMessage)
        assert told.kind.message is not None
        assert (told.kind.message.text, told.communication_id) == ("Hello?", received.communication.id)
        cursor = watch.cursor
        asked = next(watch)
        assert isinstance(asked.kind, CommunicationEscalated)
    outside.trust(received.communication.id, 2)
    with client.external.watch(cursor=cursor) as watch:
        kinds = [type(next(watch).kind) for _ in range(2)]
        assert kinds == [CommunicationEscalated, CommunicationChanged]


async def test_the_async_panel_does_the_same_across_a_restart(start_server: Start, meet: Meet) -> None:
    running = start_server()
    soon = RetryPolicy(initial_delay=0.01, max_delay=0.05)
    async with AsyncClient(running.target, retry=soon) as client:
        watch = client.external.watch()
        assert isinstance((await anext(watch)).kind, CommunicationList)
        meet(running).write("One", delivered="1")
        await anext(watch)
        await anext(watch)
        running.stop()
        running = start_server(listen=running.target)
        meet(running).write("Two", delivered="2")
        told = await anext(watch)
        assert isinstance(told.kind, CommunicationMessage)
        assert told.kind.message is not None
        assert told.kind.message.text == "Two"
        assert [it.message_count async for it in client.external.list_communications()] == [2]
        assert [it.answer async for it in client.external.list_escalations()] == [""]
        watch.close()
