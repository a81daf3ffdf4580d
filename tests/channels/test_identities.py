"""Owners, and the addresses that belong to one person."""

from functools import partial

import hypothesis
import pytest
from hypothesis import strategies as st
from recollect.v1.conversation_service_pb2 import DeleteManyRequest
from recollect.v1.external_communication_pb2 import TRUST_KNOWN
from recollect.v1.external_communication_service_pb2 import RegisterContactRequest
from recollect.v1.external_communication_service_pb2_grpc import ExternalCommunicationServiceStub
from recollect_server.kernel.log.lines import seal, unseal
from recollect_server.text.addresses import (
    normal_address,
    normal_group,
    normal_message_ids,
    spellings,
)

from tests.cases import each
from tests.channels.conftest import ALEX, Post, Reach, home
from tests.conftest import Start
from tests.server.conftest import agent, at_once, delete_index, failure_of, user

ADDRESSES = {
    "whatsapp": {
        "1555000": [
            "+1 555-000", "1555000", "1555000@s.whatsapp.net", "1555000@c.us", "001555000", "1555000:12@s.whatsapp.net",
            "1555000.0:3@S.WHATSAPP.NET", "whatsapp:+1555000", "(1) 555.000", " +1555000 ", "＋1 555 000", "tel:+1-555-000",
            "\u202a+1 555\u2011000\u202c", "\u200e+1 555-000", "+1 555\u2013000", "\u2066+1\u00a0555-000\u2069", "+1 555\u2212000",
            "\u0661\u0665\u0665\u0665\u0660\u0660\u0660", "+1\u00ad555\u200b000\ufeff",
        ],
        "49301234567": ["+49 (0)30 1234567", "+49 30 1234567"],
        "390612345678": ["+39 06 12345678", "+39 (0)6 12345678"],
        "5491112345678": ["+54 9 11 1234-5678", "+54 11 15 1234 5678"],
        "98765@lid": ["98765@lid", "98765:4@LID"],
        "": ["", " ", "()", "+"],
    },
    "sms": {"4930": ["+49 30", "004930", "0000 4930"], "0493": ["0493"]},
    "email": {
        "a@b.c": [
            "a@b.c", "A@B.C", '"Alex" <a@b.c>', "Alex <A@b.c>", "<a@b.c>", "mailto:a@b.c", "a@b.c (Alex)", " a@b.c ",
            "\u202aa@b.c\u202c", "\u200e<a@b.c>\u200f", "a@b.c <A@b.c>", '"x@y.z" <a@b.c>', "A. Bee (x@y.z) <a@b.c>",
            "a (one (two)) @ b.c", r'"A \"<x@y.z>" <a@b.c>',
        ],
        "a..b.@b.c": ["a..b.@b.c"], "a@[10.0.0.1]": ["A <a@[10.0.0.1]>"], "ä@ö.de": ["Ä Ö <Ä@ö.de>"],
        "a+tag@b.c": ["A+Tag@b.c"],
        "": [
            "", "alex", "@b.c", "a@", "<>", "a b@c", "x@y.z <a@b.c>", "A <x@y.z> <a@b.c>", "a@b.c(<x@y.z>", "a@b.c, x@y.z",
            "a@b.c x@y.z", "a@b@c", "Bee, A <a@b.c>", "x: a@b.c;", '"A <a@b.c>', "<a@b.c> A", "a@.b", "a@b.c\0<x@y.z>", '"a b"@c',
            "(" * 5000, '"' + "\\a" * 5000,
        ],
    },
    "discord": {"42": ["42", "<@42>", "<@!42>"]},
    "matrix": {"@Alex:b.c": ["@Alex:b.c", " @Alex:b.c "], "@alex:b.c": ["@alex:b.c"]},
}  # fmt: skip
CASES = [
    (channel, text, normal)
    for channel, them in ADDRESSES.items()
    for normal, texts in them.items()
    for text in texts
]


@each(("channel", "text", "normal"), CASES)
def test_an_address_has_one_form(channel: str, text: str, normal: str) -> None:
    assert normal_address(channel, text) == normal


@hypothesis.given(
    channel=st.sampled_from(["whatsapp", "email", "discord", "sms", "matrix"]),
    text=st.text() | st.from_regex(r"\A[+0-9 ()@:.a-z<>\"]{0,30}\Z") | st.emails(),
)
def test_a_normal_form_is_its_own_normal_form(channel: str, text: str) -> None:
    once = normal_address(channel, text)
    assert normal_address(channel, once) == once
    assert once == once.strip()


@hypothesis.given(
    digits=st.from_regex(r"\A[1-9][0-9]{4,14}\Z"),
    prefix=st.sampled_from(["", "+", "00", "whatsapp:+", "tel:"]),
    data=st.data(),
)
def test_a_number_is_the_same_however_it_is_grouped(
    digits: str, prefix: str, data: st.DataObject
) -> None:
    gaps = [data.draw(st.sampled_from(["", "", " ", "-", "."])) for _ in digits]
    written = prefix + "".join(digit + gap for digit, gap in zip(digits, gaps, strict=True))
    forms = {normal_address("whatsapp", it) for it in (written, f"{digits}@s.whatsapp.net", digits)}
    assert len(forms) == 1


@hypothesis.given(address=st.from_regex(r"\A(52|54|55)[0-9]{8,12}\Z") | st.text(max_size=20))
def test_all_spellings_of_a_number_have_the_same_spellings(address: str) -> None:
    address = normal_address("whatsapp", address)
    forms = spellings("whatsapp", address)
    assert address in forms
    assert {spellings("whatsapp", it) for it in forms} == {forms}


def test_a_landline_is_no_spelling_of_a_mobile_number() -> None:
    assert spellings("sms", "551133334444") == ("551133334444",)
    assert spellings("sms", "5511933334444") == ("5511933334444",)
    assert spellings("discord", "553188888888") == ("553188888888",)


@each("sender", [
    "alex@example.org <mallory@bad.example>", "Alex <alex@example.org> <mallory@bad.example>",
    "alex@example.org(<mallory@bad.example>", "alex@example.org, mallory@bad.example",
    "mallory@bad.example <alex@example.org>",
])  # fmt: skip
def test_a_sender_of_two_addresses_is_refused_and_never_the_owner(post: Post, sender: str) -> None:
    post.own("email", "alex@example.org")
    failure = failure_of(lambda: post.mail("Please pay the invoice.", "<1@x>", sender=sender))
    assert (failure.code, failure.fields) == ("INVALID_ARGUMENT", ("sender",))
    assert not post.listed().conversations


def test_an_owner_is_known_by_every_spelling_of_a_number(post: Post) -> None:
    for declared, other in (
        ("+55 31 98888-8888", "553188888888"),
        ("+52 1 55 1234 5678", "525512345678"),
        ("+54 11 1234-5678", "5491112345678@s.whatsapp.net"),
    ):
        address = post.own("whatsapp", declared, "Ana").identity
        assert post.own("whatsapp", other).identity == address
        first = home(post.whatsapp("One", declared, delivery="1"))
        assert home(post.whatsapp("Two", other)) == first
        assert post.whatsapp("One", other, delivery="1").duplicate
        assert post.said(first) == ["One", "Two"]
        assert post.found("two", participants=[declared]) == [first]
        assert post.unlink("whatsapp", other).identity == address
        assert post.disown("whatsapp", other).identity == address
        stranger = post.whatsapp("Three", other).external.communication
        assert post.whatsapp("Four", declared).external.communication.id == stranger.id


def test_the_addresses_of_one_person_continue_one_conversation(post: Post) -> None:
    post.own("whatsapp", "99887766@lid")
    post.own("discord", "78", "Alex")
    number, lid = home(post.whatsapp("One")), home(post.whatsapp("Two", "99887766@lid"))
    assert lid != number
    post.link("Alex", ("whatsapp", ALEX), ("whatsapp", "99887766@lid"))
    # of two that were begun before, the newest goes on
    assert home(post.whatsapp("Three")) == home(post.whatsapp("Four", "99887766@lid")) == lid
    assert [post.get(it).pinned for it in (number, lid)] == [False, True]
    new = home(post.whatsapp("/new"))
    assert home(post.whatsapp("Five", "99887766@lid")) == home(post.whatsapp("Six")) == new
    assert home(post.whatsapp("/new", "99887766@lid")) == (last := home(post.whatsapp("Seven")))
    written = post.create("whatsapp", party={"contact": ALEX}, pinned=True).id
    assert home(post.whatsapp("Eight", "99887766@lid")) == written
    assert [post.get(it).pinned for it in (new, last, written)] == [False, False, True]
    assert post.command(number, "/new").conversation.pinned is False
    assert home(post.discord("Nine", "78", dm_user_id="78")) not in (new, last, written)
    homes = at_once(
        8, lambda it: home(post.whatsapp(f"At once {it}", (ALEX, "99887766@lid")[it % 2]))
    )
    assert set(homes) == {written}
    post.unlink("whatsapp", "99887766@lid")
    assert home(post.whatsapp("Ten", "99887766@lid")) != written


def test_an_address_that_nobody_can_have_is_refused_by_the_fields_name(post: Post) -> None:
    """Kept as it stands, it would be of nobody, and its owner a stranger."""
    contacts = ExternalCommunicationServiceStub(post.channel)
    for channel, address in (
        ("whatsapp", "Alex"),
        ("whatsapp", "+1 555 CALL"),
        ("whatsapp", "call 1555000"),
        ("whatsapp", "120363@g.us"),
        ("whatsapp", "alex@lid"),
        ("sms", "1555000@lid"),
        ("signal", "alex 1"),
        ("email", "alex at example.org"),
    ):
        declared = RegisterContactRequest(channel=channel, party=address, trust=TRUST_KNOWN)
        for field, call in (
            ("identity", partial(post.own, channel, address)),
            ("party", partial(contacts.RegisterContact, declared)),
            ("party", partial(post.create, channel, party={"contact": address}, pinned=True)),
        ):
            if (channel, field) == ("sms", "party"):
                continue  # a sender of sms may be a word
            failure = failure_of(call)
            assert (failure.code, list(failure.fields)) == ("INVALID_ARGUMENT", [field]), address
    assert post.own("whatsapp", "US.1349120865530274").identity == "us.1349120865530274"
    assert post.own("whatsapp", "120363@lid").identity == "120363@lid"
    for address in ("1555001", "alex.01", "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"):
        assert post.own("signal", address).identity == address
    assert len(post.identities()) == 7


@hypothesis.given(text=st.text())
def test_a_group_and_a_message_id_have_one_form(text: str) -> None:
    assert normal_group(normal_group(text)) == normal_group(text)
    ids = normal_message_ids(text)
    assert normal_message_ids(*(f" <{it}> " for it in ids)) == ids
    assert len(set(ids)) == len(ids)


def test_a_header_of_several_ids_is_cut_into_them() -> None:
    assert normal_message_ids("<a@x> <b@y>\r\n\t<c@z>", "a@x d@w") == ("a@x", "b@y", "c@z", "d@w")
    assert normal_message_ids("Your message of Monday <a@x>") == ("a@x",)


def test_identities_are_added_listed_linked_unlinked_and_removed(post: Post) -> None:
    assert post.own("discord", "<@77>", "Sam").identity == "77"
    assert post.own("discord", "77").person == "Sam"
    linked = post.link("Alex", ("whatsapp", "+1 555 000"), ("email", "ALEX@example.org"))
    assert [(it.channel, it.identity, it.person) for it in linked] == [
        ("email", "alex@example.org", "Alex"),
        ("whatsapp", "1555000", "Alex"),
    ]
    everybody = [
        ("discord", "77", "Sam"),
        ("email", "alex@example.org", "Alex"),
        ("whatsapp", "1555000", "Alex"),
    ]
    assert post.identities() == everybody
    assert post.identities(channel="email") == everybody[1:2]
    assert post.identities(person="Alex") == everybody[1:]
    assert post.unlink("email", "alex@EXAMPLE.org").person == ""
    assert post.identities(person="Alex") == everybody[2:]
    removed = post.disown("discord", "77")
    assert (removed.identity, removed.person) == ("77", "Sam")
    assert post.identities(channel="discord") == []


def test_what_was_never_added_is_not_found(post: Post) -> None:
    for call in (
        lambda: post.disown("whatsapp", "+2"),
        lambda: post.unlink("whatsapp", "+2"),
        lambda: post.link("Alex", ("whatsapp", ALEX), ("whatsapp", "+2")),
    ):
        failure = failure_of(call)
        assert (failure.code, failure.reason, failure.metadata) == (
            "NOT_FOUND",
            "NOT_FOUND",
            {"name": "whatsapp 2"},
        )
    assert post.identities(person="Alex") == []


def test_identities_outlive_the_index_and_their_requests_are_answered_as_the_first_time(
    start_server: Start, reach: Reach
) -> None:
    server = start_server()
    post = reach(server)
    first = post.own("whatsapp", ALEX, "Alex", request_id="add-1")
    post.own("email", "a@b.c")
    removed = post.disown("email", "a@b.c", request_id="remove-1")
    post.link("Family", ("whatsapp", ALEX), request_id="link-1")
    identities = post.identities()
    server.stop()
    delete_index(server)
    post = reach(start_server())
    assert post.identities() == identities == [("whatsapp", "1555000", "Family")]
    assert post.own("whatsapp", ALEX, "Alex", request_id="add-1") == first
    assert post.disown("email", "a@b.c", request_id="remove-1") == removed
    assert post.identities() == identities
    for call in (
        lambda: post.own("whatsapp", ALEX, "Sam", request_id="add-1"),
        lambda: post.disown("whatsapp", ALEX, request_id="add-1"),
    ):
        assert failure_of(call).reason == "REQUEST_ID_REUSED"
    assert post.whatsapp("Hello").WhichOneof("outcome") == "conversation"


def test_a_request_id_of_an_append_is_none_of_an_identity(post: Post) -> None:
    post.append(post.create().id, user("Hello"), request_id="mine")
    assert (
        failure_of(lambda: post.own("whatsapp", "+2", request_id="mine")).reason
        == "REQUEST_ID_REUSED"
    )


def test_a_request_id_of_an_identity_is_none_of_another_call(post: Post) -> None:
    name = post.create().id
    post.own("whatsapp", "+2", request_id="mine")
    for call in (
        lambda: post.append(name, user("Hello"), request_id="mine"),
        lambda: post.create(request_id="mine"),
        lambda: post.rename(name, "Title", request_id="mine"),
        lambda: post.delete(name, request_id="mine"),
        lambda: post.command(name, "/help", request_id="mine"),
    ):
        assert failure_of(call).reason == "REQUEST_ID_REUSED"
    assert post.get(name).message_count == 0
    assert post.own("whatsapp", "+2", request_id="mine").identity == "2"


def test_a_ledger_that_was_cut_off_loses_only_its_last_line(
    start_server: Start, reach: Reach
) -> None:
    server = start_server()
    post = reach(server)
    post.own("whatsapp", "+1")
    post.own("whatsapp", "+2")
    server.stop()
    ledger = server.folder.parent / "identities.jsonl"
    data = ledger.read_bytes()
    assert oct(ledger.stat().st_mode & 0o777) == "0o600"
    for cut in (1, 30, len(data) // 2 - 1):
        ledger.write_bytes(data[:-cut])
        server = start_server()
        post = reach(server)
        assert (
            post.identities()
            == [("whatsapp", "1", ""), ("whatsapp", "2", "")][: 2 if cut == 1 else 1]
        )
        post.own("whatsapp", "+2")
        server.stop()
        server = start_server()
        assert len(reach(server).identities()) == 2
        server.stop()
    damaged = data.replace(b'"identity":"1"', b'"identity":"7"')
    ledger.write_bytes(damaged)
    assert reach(start_server()).identities() == [("whatsapp", "2", "")]


@pytest.mark.parametrize("remaining", [None, 1])
def test_a_ledger_that_somebody_changed_is_read_anew_and_written_to(
    start_server: Start, reach: Reach, remaining: int | None
) -> None:
    server = start_server()
    post = reach(server)
    post.own("whatsapp", "+1")
    post.own("whatsapp", "+2")
    ledger = server.folder.parent / "identities.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.unlink()
    if remaining:
        ledger.write_bytes(b"".join(lines[:remaining]))
    assert failure_of(lambda: post.own("whatsapp", "+3")).code == "UNAVAILABLE"
    owners = [("whatsapp", "1", "")] if remaining else []
    assert post.identities() == owners
    post.own("whatsapp", "+3")
    assert post.identities() == [*owners, ("whatsapp", "3", "")]
    server.stop()
    assert reach(start_server()).identities() == [*owners, ("whatsapp", "3", "")]


@pytest.mark.parametrize("change", ["disown", "unlink"])
def test_what_two_servers_did_to_an_owner_at_once_in_a_version_before_is_answered_again(
    start_server: Start, reach: Reach, change: str
) -> None:
    server = start_server()
    post = reach(server)
    post.own("sms", "+1")
    post.unlink("sms", "+1", request_id="other")
    removed = post.disown("sms", "+1", request_id="first")
    ledger = server.folder.parent / "identities.jsonl"
    server.stop()
    own, unlink, disown = map(unseal, ledger.read_bytes().splitlines())
    other = unlink if change == "unlink" else {**disown, "requestId": "other"}
    ledger.write_bytes(b"".join(map(seal, (own, disown, other))))
    post = reach(start_server())
    assert post.disown("sms", "+1", request_id="first") == removed
    again = getattr(post, change)("sms", "+1", request_id="other")
    assert (again.channel, again.identity, again.person) == ("sms", "1", "")


def test_owners_added_at_the_same_moment_are_all_kept(post: Post) -> None:
    at_once(8, lambda number: post.own("sms", f"+100{number}"))
    assert len(post.identities(channel="sms")) == 8


def test_a_person_is_found_on_every_channel_and_nobody_else(post: Post) -> None:
    post.own("discord", "77")
    post.own("discord", "1555000")  # the same name as a number, and somebody else
    phone, mail = home(post.whatsapp("The otter")), home(post.mail("The otter", "<a@mail>"))
    chat, other = (
        home(post.discord("The otter", dm_user_id="77")),
        home(post.discord("The otter", "1555000", dm_user_id="1555000")),
    )
    desk = post.conversation_of("The otter")
    contact = post.create("whatsapp", party={"contact": "1555000"}).id
    post.append(contact, agent("The otter"))
    post.link("Alex", ("whatsapp", ALEX), ("discord", "77"))
    assert set(post.found("otter", participants=["Alex"])) == {phone, chat, contact}
    assert {it.id for it in post.listed(participants=["Alex"]).conversations} == {
        *(phone, chat, contact)
    }
    [by_address] = post.pages(participants=["+1 (555) 000"], channels=["discord"])
    assert [it.id for it in by_address] == [chat]
    assert set(post.found("otter", participants=["+1 (555) 000"])) == {phone, chat, contact}
    assert set(post.found("otter", participants=["1555000"])) == {phone, chat, contact, other}
    assert set(post.found("otter", participants=["Alex"], channel="discord")) == {chat}
    post.link("Alex", ("email", "alex@example.org"))
    assert set(post.found("otter", participants=["77"])) == {phone, chat, contact, mail}
    post.unlink("discord", "77")
    assert set(post.found("otter", participants=["Alex"])) == {phone, contact, mail}
    assert set(post.found("otter", participants=["77"])) == {chat}
    assert set(post.found("otter")) == {phone, mail, chat, other, contact, desk}
    assert post.found("otter", participants=["Nobody"]) == []
    assert failure_of(lambda: post.listed(participants=[""])).fields == ("participants[0]",)
    request = DeleteManyRequest(participants=["+1 (555) 000"], force=True, dry_run=True)
    assert set(post.conversations.DeleteMany(request).conversation_ids) == {phone, contact, mail}
    request.dry_run = False
    post.conversations.DeleteMany(request)
    assert set(post.found("otter")) == {chat, other, desk}
