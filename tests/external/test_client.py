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
    EmailOrigin,
    ErrorReason,
    FailedPrecondition,
    InvalidArgument,
    Message,
    NotFound,
    Party,
    PermissionDenied,
    ReceivedExternal,
    RetryPolicy,
    StoredInConversation,
    Trust,
    WhatsappOrigin,
)

from tests.conftest import Start
from tests.external.conftest import NOWHERE, Meet, Outside


def test_an_owner_answers_a_stranger_and_comes_to_know_it(outside: Outside, client: Client) -> None:
    outside.write("Is the flat free?", party="ann@example.org", channel="email", delivered="<1@x>")
    (communication,) = client.external.list_communications(open_escalations_only=True)
    assert (communication.party, communication.channel, communication.trust) == (
        "ann@example.org",
        "email",
        Trust.UNTRUSTED,
    )
    assert (communication.scopes, communication.open_escalations, communication.message_count) == (
        (),
        1,
        1,
    )
    with pytest.raises(PermissionDenied) as denied:
        client.external.record_reply(communication.id, "Yes")
    assert denied.value.reason is ErrorReason.TRUST_REQUIRED

    (escalation,) = client.external.list_escalations()
    assert (escalation.communication_id, escalation.answer, escalation.resolve_time) == (
        communication.id,
        "",
        None,
    )
    resolved = client.external.resolve_escalation(escalation.id, "Say yes.")
    assert (resolved.answer, resolved.resolve_time is None) == ("Say yes.", False)
    with pytest.raises(FailedPrecondition) as closed:
        client.external.resolve_escalation(escalation.id, "Say no.")
    assert closed.value.reason is ErrorReason.ESCALATION_RESOLVED
    reply = client.external.record_reply(communication.id, "Yes, from June.")
    assert (reply.message.direction, reply.message.text) == (Direction.OUTBOUND, "Yes, from June.")

    trusted = client.external.set_trust(communication.id, Trust.KNOWN, scopes=["viewings"])
    assert (trusted.trust, trusted.scopes) == (Trust.KNOWN, ("viewings",))
    loaded = client.external.get_communication(communication.id, page_size=1)
    assert [message.text for message in loaded.messages] == ["Yes, from June."]
    older = client.external.get_communication(
        communication.id, page_size=1, page_token=loaded.next_page_token
    )
    assert [(it.text, it.provider_message_id) for it in older.messages] == [
        ("Is the flat free?", "<1@x>")
    ]
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
    assert [
        it.party for it in client.external.list_communications(party="p3", trust=Trust.UNTRUSTED)
    ] == ["p3"]


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
        message = next(watch)
        assert isinstance(message.kind, CommunicationMessage)
        assert message.kind.message is not None
        assert (message.kind.message.text, message.communication_id) == (
            "Hello?",
            received.communication.id,
        )
        cursor = watch.cursor
        escalation = next(watch)
        assert isinstance(escalation.kind, CommunicationEscalated)
    outside.trust(received.communication.id, 2)
    with client.external.watch(cursor=cursor) as watch:
        kinds = [type(next(watch).kind) for _ in range(2)]
        assert kinds == [CommunicationEscalated, CommunicationChanged]


async def test_the_async_panel_does_the_same_across_a_restart(
    start_server: Start, meet: Meet
) -> None:
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
        message = await anext(watch)
        assert isinstance(message.kind, CommunicationMessage)
        assert message.kind.message is not None
        assert message.kind.message.text == "Two"
        assert [it.message_count async for it in client.external.list_communications()] == [2]
        assert [it.answer async for it in client.external.list_escalations()] == [""]
        watch.close()


def test_a_gateway_keeps_names_and_headers_and_acknowledges(client: Client) -> None:
    origin = EmailOrigin(
        message_id="<2@x>", in_reply_to="<1@x>", references=("<1@x>",), subject="Zoo"
    )
    received = client.channels.receive(
        "email", "1", "The wombat is loose.", sender='"Hanan" <h@x.org>', origin=origin
    )
    outcome = received.outcome
    assert isinstance(outcome, ReceivedExternal)
    headers = outcome.message.email
    assert headers is not None
    assert (headers.message_id, headers.in_reply_to, headers.references, headers.subject) == (
        "2@x",
        "1@x",
        ("1@x",),
        "Zoo",
    )
    assert (
        outcome.message.sender_name,
        outcome.communication.party_name,
        outcome.communication.subject,
    ) == (
        "Hanan",
        "Hanan",
        "Zoo",
    )
    reply = client.external.record_reply(outcome.communication.id, outcome.acknowledgement)
    assert (reply.message.acknowledgement, reply.communication.acknowledged) == (True, True)
    results = client.external.search_communications(
        "wombats", channel="email", party="H@x.org", trust=Trust.UNTRUSTED, limit=5
    )
    assert ([it.communication.id for it in results], len(results), results.total_matches) == (
        [outcome.communication.id],
        1,
        1,
    )
    contact = client.external.register_contact("email", "h@x.org", scopes=["zoo"])
    assert (contact.id, contact.trust, contact.scopes) == (
        outcome.communication.id,
        Trust.KNOWN,
        ("zoo",),
    )


def test_an_agent_writes_first_and_sees_its_group(client: Client) -> None:
    client.channels.add_owner_identity("whatsapp", "1")
    group = WhatsappOrigin(group_id="9@g.us")
    conversation = client.conversations.create(
        "whatsapp", party=Party(group_id="9@g.us"), pinned=True
    )
    client.conversations.append_turn(conversation.id, [Message.assistant("Dinner?")])
    reply = client.channels.receive(
        "whatsapp", "1", "Yes", sender="1", sender_name="Alex", origin=group
    ).outcome
    assert isinstance(reply, StoredInConversation)
    assert (reply.conversation.id, reply.messages[0].sender_name) == (conversation.id, "Alex")
    client.channels.receive("whatsapp", "2", "Me too!", sender="2", sender_name="Sam", origin=group)
    (other,) = client.recall.build_context(conversation.id, include_group=True).group
    assert (other.party, other.trust, other.message.text, other.message.group_id) == (
        "2",
        Trust.UNTRUSTED,
        "Me too!",
        "9@g.us",
    )
