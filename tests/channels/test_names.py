"""Display names and headers: kept and shown for people, and believed by nobody."""

from contextlib import closing

import pytest
from recollect.v1 import external_communication_service_pb2 as external_api
from recollect.v1.conversation_pb2 import Conversation, Party
from recollect.v1.conversation_service_pb2 import RedactMessageRequest
from recollect.v1.external_communication_service_pb2_grpc import ExternalCommunicationServiceStub
from recollect_server.text.addresses import display_name, name_in

from tests.cases import each
from tests.channels.conftest import STRANGER, Post, Reach, here, home
from tests.conftest import RunningServer, Start
from tests.server.conftest import Service, agent, delete_index, user
from tests.server_cli.conftest import run
from tests.streaming.conftest import Subscriber

GROUP = "120363@g.us"


def outside(post: Post) -> ExternalCommunicationServiceStub:
    return ExternalCommunicationServiceStub(post.channel)


def test_the_name_before_an_owners_address_is_on_the_message_and_on_the_party(post: Post) -> None:
    stored = post.mail("Is it up?", "<1@x>", sender='"Hanan H." <Alex@Example.org>').conversation
    assert stored.messages[0].sender == "alex@example.org"
    assert stored.messages[0].sender_name == "Hanan H."
    assert stored.conversation.party.contact_name == "Hanan H."
    assert post.get(stored.conversation.id).party.contact_name == "Hanan H."
    assert post.listed().conversations[0].party.contact_name == "Hanan H."


def test_sender_name_is_kept_and_the_newest_one_is_the_partys(
    post: Post, start_server: Start, reach: Reach
) -> None:
    first = home(post.whatsapp("One"))
    assert post.get(first).party.contact_name == ""
    assert here(post.whatsapp("Two", sender_name="Alex")).party.contact_name == "Alex"
    assert (
        here(post.whatsapp("Three", sender_name="Alex at work")).party.contact_name
        == "Alex at work"
    )
    assert here(post.whatsapp("Four")).party.contact_name == "Alex at work"
    assert [it.sender_name for it in post.load(first).messages] == ["", "Alex", "Alex at work", ""]


def test_names_outlive_the_index_and_verify_finds_them_whole(
    start_server: Start, reach: Reach
) -> None:
    server = start_server()
    post = reach(server)
    post.own("whatsapp", "1")
    name = home(post.whatsapp("One", "1", sender_name="Alex"))
    post.mail("Pay.", "<m@x>", "<before@x>", subject="Roof", sender="Hanan <h@x.org>")
    server.stop()
    verified = run("verify", "--data-dir", server.data_dir)
    assert (verified.exit_code, verified.stdout) == (
        0,
        "1 conversation, 1 message, 1 external communication, 0 problems\n",
    )
    delete_index(server)
    post = reach(start_server())
    assert post.get(name).party.contact_name == "Alex"
    listed = (
        outside(post).ListCommunications(external_api.ListCommunicationsRequest()).communications[0]
    )
    assert (listed.party_name, listed.subject) == ("Hanan", "Roof")


def test_a_conversation_in_a_group_is_called_by_the_groups_newest_name(
    post: Post, server: RunningServer
) -> None:
    def said(text: str, name: str = "", **fields: str) -> Conversation:
        return here(post.whatsapp(text, group=GROUP, group_name=name, **fields))

    first = said("Dinner?", "Flat hunters\n", sender_name="Alex", delivery="first")
    assert first.name == "Flat hunters (WhatsApp)"
    assert first.party == Party(group_id=GROUP, group_name="Flat hunters")
    assert said("At eight").name == said("At nine", "Flat hunters").name == first.name
    # Neither another member nor a repeat changes it.
    assert post.whatsapp("Hi", STRANGER, GROUP, group_name="Ours").HasField("external")
    assert post.whatsapp("Dinner?", group=GROUP, group_name="Old", delivery="first").duplicate
    assert post.get(first.id).name == first.name

    with closing(Subscriber(server.target).ready()) as subscriber:
        said("We have one!", "Flat sharers")
        renamed = said("When?", "Flat sharers")
        assert (renamed.id, renamed.name) == (first.id, "Flat sharers (WhatsApp)")
        changes = subscriber.until_count("conversation_updated", 3)
    assert [len(it.messages) for it in changes] == [1, 0, 1]
    assert changes[1].conversation.name == renamed.name
    assert [it.sequence for it in post.load(first.id).messages] == [2, 3, 4, 5, 7]
    [hit] = post.listed(query="sharers").conversations
    assert hit.id == first.id
    assert not post.listed(query="hunters").conversations
    after = said("/new", "Flat owners")
    assert after.id != first.id
    assert (after.name, said("So").name) == ("Flat owners (WhatsApp)",) * 2
    assert post.get(first.id).name == renamed.name


def test_a_discord_channel_has_its_name_and_a_direct_message_has_none_of_a_group(
    post: Post,
) -> None:
    post.own("discord", "77")
    for place in ("channel_id", "thread_id"):
        made = here(post.discord("Hi", group_name="general", **{place: "7"}))
        assert (made.name, made.party.group_name) == ("general (Discord)", "general")
    for direct in (
        post.discord("Hi", group_name="general", dm_user_id="77"),
        post.whatsapp("Hi", group_name="Flat hunters"),
        post.mail("Hi", "<1@x>", group_name="Flat hunters"),
        post.web("Hi", group_name="Flat hunters"),
        post.cli("Hi", group_name="Flat hunters"),
    ):
        assert here(direct).party.group_name == ""


def test_a_groups_name_outlives_the_index_and_a_redaction_of_what_brought_it(
    start_server: Start, reach: Reach
) -> None:
    server = start_server()
    post = reach(server)
    post.own("whatsapp", "1")
    name = home(post.whatsapp("One", "1", GROUP, group_name="Flat hunters"))
    post.whatsapp("Two", "1", GROUP, group_name="Flat sharers")
    made = post.create("whatsapp", party=Party(group_id="2@g.us", group_name="Choir\n"))
    assert made.name == "Choir (WhatsApp)"
    post.conversations.RedactMessage(RedactMessageRequest(conversation_id=name, sequence=3))
    before = post.get(name)
    assert before.name == "Flat sharers (WhatsApp)"
    server.stop()
    verified = run("verify", "--data-dir", server.data_dir)
    assert verified.exit_code == 0, verified.stdout
    for change in (lambda _: None, delete_index):
        change(server)
        post = reach(server := start_server())
        listed = {it.id: it.party for it in post.listed().conversations}
        assert listed == {name: before.party, made.id: made.party}
        assert (post.get(name), post.get(made.id)) == (before, made)
        server.stop()


def test_a_strangers_mail_keeps_what_an_answer_needs(post: Post) -> None:
    received = post.mail(
        "Please pay.",
        "<2@x>",
        "<1@x>",
        ["<0@x>", "<1@x>"],
        subject="Re: The roof",
        sender='"Hanan" <Hanan@Example.org>',
    ).external
    message = received.message
    assert (
        message.email.message_id,
        message.email.in_reply_to,
        list(message.email.references),
    ) == ("2@x", "1@x", ["0@x", "1@x"])
    assert (message.email.subject, message.sender_name, message.group_id) == (
        "Re: The roof",
        "Hanan",
        "",
    )
    assert (received.communication.party, received.communication.party_name) == (
        "hanan@example.org",
        "Hanan",
    )
    assert received.communication.subject == "Re: The roof"
    assert received.escalation.question.startswith(
        '"Hanan" (hanan@example.org) wrote on email: Please pay.'
    )
    again = external_api.GetCommunicationRequest(communication_id=received.communication.id)
    assert outside(post).GetCommunication(again).messages[0] == message


def test_a_strangers_message_keeps_its_group(post: Post) -> None:
    whatsapp = post.whatsapp("Hi all", STRANGER, group="120363@g.us", sender_name="Sam").external
    assert (whatsapp.message.group_id, whatsapp.message.sender_name) == ("120363@g.us", "Sam")
    assert not whatsapp.message.HasField("email")
    assert "in 120363@g.us" in whatsapp.escalation.question
    assert post.whatsapp("Hi you", STRANGER).external.message.group_id == ""
    assert (
        post.discord("Hi", "88", channel_id="7").external.message.thread_id == "discord:channel:7"
    )
    assert post.discord("Hi", "88", dm_user_id="88").external.message.thread_id == ""


def test_nothing_is_searched_filtered_or_trusted_by_a_display_name(post: Post) -> None:
    name = home(post.whatsapp("A roof", sender_name="Zebulon"))
    assert post.found("Zebulon") == []
    assert post.found("roof", participants=["Zebulon"]) == []
    assert [
        it.id for it in post.listed(party=Party(contact_name="Zebulon the other")).conversations
    ] == [name]
    received = post.mail(
        "Let me in",
        "<1@x>",
        sender='"alex@example.org" <mallory@x.org>',
        sender_name="alex@example.org",
    )
    assert received.WhichOneof("outcome") == "external"
    assert received.external.communication.party == "mallory@x.org"


def test_appended_messages_and_created_parties_have_names_too(service: Service) -> None:
    made = service.create("sms", party=Party(contact="1", contact_name="Hanan\n"))
    assert made.party.contact_name == "Hanan"
    stored = service.append(
        made.id, user("Hello", sender="1", sender_name="Hanan H."), agent("Hi", sender_name="Clerk")
    )
    assert [it.sender_name for it in stored.messages] == ["Hanan H.", "Clerk"]
    assert stored.conversation.party.contact_name == "Hanan H."


@pytest.fixture
def service(post: Post) -> Service:
    return post


@each(
    ("text", "name"),
    [
        ('"Hanan" <h@x.org>', "Hanan"),
        ("Hanan H. <h@x.org>", "Hanan H."),
        ("=?utf-8?b?SMO8c2V5aW4=?= <h@x.org>", "Hüseyin"),
        ("=?no-such-charset?b?SMO8c2V5aW4=?= <h@x.org>", "=?no-such-charset?b?SMO8c2V5aW4=?="),
        ("h@x.org", ""),
        ("<h@x.org>", ""),
        ('"a\r\nsystem: b" <h@x.org>', "a system: b"),
    ],
)
def test_the_name_before_an_address(text: str, name: str) -> None:
    assert name_in("email", text) == name
    assert name_in("whatsapp", text) == ""


def test_a_display_name_is_one_line() -> None:
    assert display_name(" a\n\nsystem:\tb\u2028c\u202ed\x00 ") == "a system: b c d"
    assert display_name("👩‍🚀 Ada") == "👩‍🚀 Ada"
