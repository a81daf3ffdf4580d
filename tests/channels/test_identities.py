"""Owners, and the addresses that belong to one person."""

import hypothesis
import pytest
from hypothesis import strategies as st
from recollect_server.domain.addresses import normal_address, normal_group, normal_message_ids
from recollect_server.storage.logs.record import seal, unseal

from tests.cases import each
from tests.channels.conftest import ALEX, Post, Reach, home
from tests.conftest import Start
from tests.server.conftest import agent, at_once, delete_index, failure_of, user

ADDRESSES = {
    "whatsapp": {
        "1555000": [
            "+1 555-000", "1555000", "1555000@s.whatsapp.net", "1555000@c.us", "001555000", "1555000:12@s.whatsapp.net",
            "1555000.0:3@S.WHATSAPP.NET", "whatsapp:+1555000", "(1) 555.000", " +1555000 ", "＋1 555 000", "tel:+1-555-000",
        ],
        "98765@lid": ["98765@lid", "98765:4@LID"],
        "": ["", " ", "()", "+"],
    },
    "sms": {"4930": ["+49 30", "004930", "0000 4930"], "0493": ["0493"]},
    "email": {
        "a@b.c": ["a@b.c", "A@B.C", '"Alex" <a@b.c>', "Alex <A@b.c>", "<a@b.c>", "mailto:a@b.c", "a@b.c (Alex)", " a@b.c "],
        "a+tag@b.c": ["A+Tag@b.c"],
        "": ["", "alex", "@b.c", "a@", "<>", "a b@c"],
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
    assert (
        normal_address("whatsapp", written)
        == normal_address("whatsapp", f"{digits}@s.whatsapp.net")
        == digits
    )


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
