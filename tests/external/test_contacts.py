"""Contacts that are registered before they write, and the one acknowledgement that an untrusted
party may have.
"""

import pytest
from recollect.v1 import channel_service_pb2 as channel_api
from recollect.v1 import external_communication_service_pb2 as api
from recollect.v1.channel_pb2 import EmailOrigin, ReceivedExternal, WhatsappOrigin
from recollect.v1.channel_service_pb2_grpc import ChannelServiceStub
from recollect.v1.external_communication_pb2 import ExternalCommunication

from tests.cases import each
from tests.conftest import RunningServer, Start
from tests.external.conftest import BLOCKED, KNOWN, UNTRUSTED, Meet, Outside, Watch, answers
from tests.server.conftest import Service, assert_refused, delete_index, failure_of
from tests.server_cli.conftest import run

TEXT = "Thank you, your message has arrived."


def register(
    outside: Outside, party: str = "hanan@example.org", trust: int = KNOWN, **fields: object
) -> ExternalCommunication:
    request = api.RegisterContactRequest(channel="email", party=party, trust=trust, **fields)  # type: ignore[arg-type]
    return outside.rpc.RegisterContact(request).communication


def receive(
    outside: Outside, text: str = "Hello?", number: int = 1, group: str = ""
) -> ReceivedExternal:
    """Receive a stranger's message as a gateway delivers it."""
    request = channel_api.ReceiveRequest(provider_message_id=f"d-{number}", text=text)
    if group:
        request.channel, request.sender = "whatsapp", "1555"
        request.whatsapp.CopyFrom(WhatsappOrigin(group_id=group))
    else:
        request.channel, request.sender = "email", "Hanan <Hanan@Example.org>"
        request.email.CopyFrom(EmailOrigin(message_id=f"<{number}@x>"))
    return ChannelServiceStub(outside.channel).Receive(request).external


def denied(outside: Outside, name: str, text: str) -> bool:
    return failure_of(lambda: outside.reply(name, text)).reason == "TRUST_REQUIRED"


def test_a_registered_contact_is_answered_from_its_first_message_on(outside: Outside) -> None:
    made = register(outside, "Hanan@Example.org", scopes=["billing"])
    assert (made.party, made.trust, list(made.scopes), made.message_count) == (
        "hanan@example.org",
        KNOWN,
        ["billing"],
        0,
    )
    assert [it.id for it in outside.listed()] == [made.id]
    first = receive(outside)
    assert (first.communication.id, first.HasField("escalation"), first.acknowledgement) == (
        made.id,
        False,
        "",
    )
    assert outside.reply(made.id, "It is paid.", scope="billing").communication.message_count == 2


def test_a_contact_that_wrote_before_is_trusted_as_by_set_trust(outside: Outside) -> None:
    name = receive(outside).communication.id
    assert register(outside).id == name
    assert outside.get(name).communication.trust == KNOWN
    assert register(outside, trust=BLOCKED).open_escalations == 0
    assert outside.escalations() == []


def test_registering_is_exactly_once_and_outlives_the_index(
    outside: Outside, server: RunningServer, start_server: Start, meet: Meet
) -> None:
    first = register(outside, request_id="r-1")
    outside.trust(first.id, UNTRUSTED)
    assert register(outside, request_id="r-1") == first
    assert outside.get(first.id).communication.trust == UNTRUSTED
    assert (
        failure_of(lambda: register(outside, trust=BLOCKED, request_id="r-1")).reason
        == "REQUEST_ID_REUSED"
    )
    before = answers(outside)
    server.stop()
    assert run("verify", "--data-dir", server.data_dir).exit_code == 0
    delete_index(server)
    again = meet(start_server())
    assert answers(again) == before
    assert register(again, request_id="r-1") == first


def test_a_panel_is_told_of_a_registered_contact(outside: Outside, watch: Watch) -> None:
    panel = watch().ready()
    register(outside)
    assert panel.until_count(2).kinds()[1:] == ["changed"]


@each(
    ("fields", "named"),
    [
        ({"channel": "email", "party": "nobody", "trust": KNOWN}, ("party",)),
        ({"channel": "web", "party": "alex", "trust": KNOWN}, ("channel",)),
        ({"party": "a@x.org", "trust": KNOWN}, ("channel",)),
        ({"channel": "email", "party": "a@x.org"}, ("trust",)),
        (
            {"channel": "email", "party": "a@x.org", "trust": BLOCKED, "scopes": ["billing"]},
            ("scopes",),
        ),
        (
            {"channel": "email", "party": "a@x.org", "trust": KNOWN, "scopes": ["Not Kebab"]},
            ("scopes[0]",),
        ),
    ],
)
def test_a_wrong_contact_is_refused(
    outside: Outside,
    service: Service,
    server: RunningServer,
    fields: dict[str, object],
    named: tuple[str, ...],
) -> None:
    request = api.RegisterContactRequest(**fields)  # type: ignore[arg-type]
    assert_refused(service, server, lambda: outside.rpc.RegisterContact(request), *named)


def test_an_untrusted_party_is_acknowledged_once_until_the_owner_answers(outside: Outside) -> None:
    first = receive(outside)
    name = first.communication.id
    assert first.acknowledgement == TEXT
    assert denied(outside, name, "Yes.")
    assert denied(outside, name, f"{TEXT} Yes.")
    sent = outside.reply(name, TEXT)
    assert (sent.message.acknowledgement, sent.communication.acknowledged) == (True, True)
    assert denied(outside, name, TEXT)
    assert receive(outside, "Still there?", 2).acknowledgement == ""
    assert denied(outside, name, TEXT)
    outside.resolve(outside.escalations()[0].id)
    assert not outside.get(name).communication.acknowledged
    assert not outside.reply(name, "It is paid.").message.acknowledgement
    # The provider delivers it once more.
    assert receive(outside, "Still there?", 2).acknowledgement == ""
    assert receive(outside, "And this?", 3).acknowledgement == TEXT
    assert outside.reply(name, TEXT).message.acknowledgement


def test_the_acknowledgement_is_offered_to_nobody_else(outside: Outside) -> None:
    assert receive(outside, number=1, group="120363@g.us").acknowledgement == ""
    for trust in (KNOWN, BLOCKED):
        register(outside, trust=trust)
        assert receive(outside, number=10 + trust).acknowledgement == ""
    silent = register(outside, "silent@x.org", UNTRUSTED)
    assert denied(outside, silent.id, TEXT)  # it wrote nothing that could be acknowledged
    blocked = register(outside, trust=BLOCKED)
    assert denied(outside, blocked.id, TEXT)


def test_that_it_was_acknowledged_outlives_the_index(
    outside: Outside, server: RunningServer, start_server: Start, meet: Meet
) -> None:
    name = receive(outside).communication.id
    outside.reply(name, TEXT, request_id="a-1")
    server.stop()
    delete_index(server)
    again = meet(start_server())
    assert again.get(name).communication.acknowledged
    # the same request, not a second one
    assert again.reply(name, TEXT, request_id="a-1").message.acknowledgement
    assert denied(again, name, TEXT)


@pytest.mark.parametrize(("question", "offered"), [("Got it.", "Got it."), ("", "")])
def test_the_text_is_a_setting(
    start_server: Start, meet: Meet, question: str, offered: str
) -> None:
    outside = meet(start_server(acknowledgement=question))
    received = receive(outside)
    assert received.acknowledgement == offered
    assert denied(outside, received.communication.id, TEXT)
    if offered:
        assert outside.reply(received.communication.id, offered).message.acknowledgement
