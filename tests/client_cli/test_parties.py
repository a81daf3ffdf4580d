"""`owners`, `communications` and `escalations`: who is an owner, and what becomes of everybody
else.
"""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from recollect import (
    AnchorSource,
    ArchiveFilter,
    Client,
    EmailOrigin,
    ExternalCommunication,
    Message,
    Party,
    ReceivedExternal,
    Trust,
)
from recollect._shared.plain import plain

from tests.cases import each
from tests.client_cli.conftest import Inside

GUIDES = Path(__file__).parents[2] / "docs/guides"
UNKNOWN = "ext-01HQ0000000000000000000000"


@pytest.fixture
def stranger(client: Client) -> ExternalCommunication:
    """Return the communication of a sender by e-mail who is no owner."""
    return write(client, 1, "Is the flat free?")


def write(
    client: Client, number: int, text: str, sender: str = "hanan@example.org"
) -> ExternalCommunication:
    origin = EmailOrigin(message_id=f"<{number}@mail>")
    received = client.channels.receive(
        "email", f"imap-{number}", text, sender=sender, origin=origin
    ).outcome
    assert isinstance(received, ReceivedExternal)
    return received.communication


def test_everything_about_a_person_is_listed_exported_and_deleted(
    inside: Inside, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    early = write(client, 1, "Who are you?", sender="alex@example.org")  # not known as an owner yet
    stranger = write(client, 2, "Is the flat free?")
    for channel, address in (("whatsapp", "+1 555-000"), ("email", "alex@example.org")):
        client.channels.add_owner_identity(channel, address, person="Alex")
    client.channels.receive("whatsapp", "w-1", "The otter", sender="+1 555-000")
    pinned = client.conversations.create(
        "email", party=Party(contact="alex@example.org"), messages=[Message.assistant("Hello")]
    )
    client.recall.set_anchor("home", "Porto", source=AnchorSource(pinned.id, 2))
    other = client.conversations.create("web", messages=[Message.user("Somebody else")])
    guide = (GUIDES / "deleting.md").read_text()
    guide = guide.partition("## Everything about a person")[2].partition("\n## ")[0]
    commands = [shlex.split(it, comments=True)[1:] for it in re.findall("(?m)^recollect .*", guide)]
    ran = {" ".join(it[:1] + it[-1:]): inside(*it) for it in commands}
    assert {it.code for it in ran.values()} == {0}
    assert len(ran["owners Alex"].lines) == len(ran["list 0"].lines) == 2
    exported = (tmp_path / "alex.jsonl").read_text()
    assert ("The otter" in exported, "Somebody else" in exported) == (True, False)
    (would_go,) = ran["delete-many --force"].lines
    (receipt,) = ran["delete-many --yes"].lines
    assert (would_go["dryRun"], receipt["dryRun"]) == (True, False)
    assert would_go["conversationIds"] == receipt["conversationIds"]
    assert len(receipt["conversationIds"]) == 2
    assert [it.id for it in client.conversations.list(archived=ArchiveFilter.ALL)] == [other.id]
    assert client.recall.list_anchors() == ()
    (would_go,) = ran["communications Alex"].lines
    (receipt,) = ran["communications --yes"].lines
    assert (would_go["dryRun"], receipt["dryRun"]) == (True, False)
    assert would_go["communicationIds"] == receipt["communicationIds"] == [early.id]
    assert [it.id for it in client.external.list_communications()] == [stranger.id]


def test_communications_are_deleted_with_a_dry_run_before(
    inside: Inside, client: Client, stranger: ExternalCommunication
) -> None:
    other = write(client, 2, "Hello", sender="noor@example.org")
    party = ("communications", "delete", "--party", "Hanan@Example.org")
    assert inside(*party, on_terminal=True).out == (
        "Would remove 1 communication for good; --yes does it.\n"
        f"  {stranger.id}  email  hanan@example.org, 1 message\n"
    )
    assert inside("communications", "delete").code == 2
    assert (
        inside("communications", "delete", "--channel", "sms", "--yes").lines[0]["dryRun"] is False
    )
    removed = inside(*party, "--yes", on_terminal=True).out
    assert removed.startswith("Removed 1 communication: communications 1, deliveries 1, escalation")
    assert [it.id for it in client.external.list_communications()] == [other.id]
    [receipt] = inside("communications", "delete", other.id, UNKNOWN, "--yes").lines
    assert receipt["communicationIds"] == [other.id]
    wrong = inside("communications", "delete", "ext-1", "--yes")
    assert (wrong.code, wrong.out) == (2, "")


def test_a_display_name_finds_and_what_else_is_called_so_is_named_and_stays(
    inside: Inside, client: Client
) -> None:
    mail = write(client, 11, "The invoice", sender='"Noor A." <noor@example.org>')
    other = write(client, 12, "Another", sender='"noor a." <n.a@other.example>')
    stranger = write(client, 13, "Hello", sender="sam@example.org")
    listed = inside("communications", "list", "--party", "NOOR A.").lines
    assert {it["id"] for it in listed} == {mail.id, other.id}
    dry = inside("communications", "delete", "--party", "Noor A.", on_terminal=True).out
    assert dry.startswith("Would remove 2 communications for good; --yes does it.\n")
    assert mail.id in dry
    # by its address one goes, and the other is named
    one = inside("communications", "delete", "--party", "noor@example.org", "--yes")
    assert one.lines[0]["communicationIds"] == [mail.id]
    assert one.err == (
        f"Called so too, and not among these: {other.id}  email  n.a@other.example\n"
    )
    by_name = inside("communications", "delete", "--party", "Noor A.", "--yes")
    assert by_name.lines[0]["communicationIds"] == [other.id]
    nobody = inside("communications", "delete", "--party", "Noor A.", on_terminal=True)
    assert nobody.err == (
        "Noor A.: is no address, name of linked addresses or display name of a party.\n"
    )
    assert [it.id for it in client.external.list_communications()] == [stranger.id]


def test_owners_are_added_linked_listed_and_removed(inside: Inside, client: Client) -> None:
    added = inside("owners", "add", "whatsapp", "+1 555-000", "--person", "Alex").lines
    assert added == [{"channel": "whatsapp", "identity": "1555000", "person": "Alex"}]
    assert (
        inside("owners", "add", "email", "Alex@Example.org", on_terminal=True).out
        == "alex@example.org on email is an owner's.\n"
    )
    linked = inside(
        "owners", "link", "Alex", "email", "alex@example.org", "whatsapp", "1555000"
    ).lines
    assert {(it["channel"], it["identity"]) for it in linked} == {
        ("email", "alex@example.org"),
        ("whatsapp", "1555000"),
    }
    assert inside("owners", "list", "--person", "Alex").lines == linked
    assert [line["channel"] for line in inside("owners", "list", "--channel", "email").lines] == [
        "email"
    ]
    assert inside("owners", "unlink", "email", "alex@example.org").lines == [
        {"channel": "email", "identity": "alex@example.org"}
    ]
    assert inside("owners", "remove", "email", "alex@example.org").code == 0
    assert [it.channel for it in client.channels.list_owner_identities()] == ["whatsapp"]
    assert "1555000" in inside("owners", "list", on_terminal=True).out
    removed = inside("owners", "remove", "email", "alex@example.org")
    assert (removed.code, removed.out) == (3, "")


def test_communications_are_listed_and_shown(
    inside: Inside, client: Client, stranger: ExternalCommunication
) -> None:
    for number in range(2, 5):
        write(client, number, f"Hello {number}")
    now = client.external.get_communication(stranger.id).communication
    assert inside("communications", "list").lines == [plain(now)]
    for flags in (("--party", "nobody@example.org"), ("--trust", "known")):
        assert inside("communications", "list", *flags).lines == []
    assert (
        len(
            inside("communications", "list", "--open", "--trust", "untrusted", "--limit", "1").lines
        )
        == 1
    )
    assert (
        "hanan@example.org (email, untrusted): 4 messages, 1 open\n"
        in inside("communications", "list", on_terminal=True).out
    )
    lines = inside("communications", "show", stranger.id, "--messages", "2").lines
    assert [(line["communicationId"], line["text"]) for line in lines] == [
        (stranger.id, "Hello 3"),
        (stranger.id, "Hello 4"),
    ]
    assert len(inside("communications", "show", stranger.id, "--all").lines) == 4
    shown = inside("communications", "show", stranger.id, "--messages", "1", on_terminal=True).out
    assert "there is more: --all" in shown
    assert "Hello 4" in shown


def test_trust_is_set_and_replies_are_recorded_where_it_allows_them(
    inside: Inside, client: Client, stranger: ExternalCommunication
) -> None:
    refused = inside("communications", "reply", stranger.id, "Yes.")
    assert (refused.code, refused.out) == (5, "")
    [now] = inside(
        "communications", "trust", stranger.id, "known", "--scope", "viewings", "--scope", "rent"
    ).lines
    assert (now["trust"], now["scopes"]) == ("known", ["viewings", "rent"])
    [reply] = inside(
        "communications", "reply", stranger.id, "Yes,", "on Friday.", "--scope", "viewings"
    ).lines
    assert (reply["text"], reply["scope"], reply["direction"]) == (
        "Yes, on Friday.",
        "viewings",
        "outbound",
    )
    assert (
        inside(
            "communications",
            "reply",
            stranger.id,
            "--file",
            "-",
            "--scope",
            "rent",
            stdin="900 a month.\n",
        ).code
        == 0
    )
    assert [it.text for it in client.external.get_communication(stranger.id).messages[:2]] == [
        "900 a month.",
        "Yes, on Friday.",
    ]
    assert (
        "is blocked"
        in inside("communications", "trust", stranger.id, "blocked", on_terminal=True).out
    )
    assert client.external.get_communication(stranger.id).communication.trust is Trust.BLOCKED


def test_communications_are_searched_apart_from_conversations(
    inside: Inside, client: Client, stranger: ExternalCommunication
) -> None:
    write(client, 2, "The boiler is broken.")
    [match] = inside(
        "communications",
        "search",
        "boiler",
        "broken",
        "--party",
        "hanan@example.org",
        "--trust",
        "untrusted",
    ).lines
    assert (match["communication"]["id"], match["direction"]) == (stranger.id, "inbound")
    for flags in (("--until", "2020-01-01"), ("--channel", "sms"), ("--trust", "known")):
        assert inside("communications", "search", "boiler", *flags).lines == []
    assert inside("search", "boiler").lines == []
    assert (
        "boiler"
        in inside(
            "communications", "search", "boiler", "--communication", stranger.id, on_terminal=True
        ).out
    )
    assert inside("communications", "search", "zebra", on_terminal=True).out == "Nothing found.\n"


def test_a_contact_is_registered_before_it_writes(inside: Inside, client: Client) -> None:
    [now] = inside(
        "communications", "register", "email", "Hanan@Example.org", "--scope", "viewings"
    ).lines
    assert (now["party"], now["trust"], now["scopes"]) == (
        "hanan@example.org",
        "known",
        ["viewings"],
    )
    assert write(client, 1, "Is the flat free?").open_escalations == 0
    assert inside(
        "communications", "register", "sms", "+1 555-000", "--trust", "blocked", on_terminal=True
    ).out == ("1555000 on sms is blocked.\n")


def test_names_stand_beside_addresses(inside: Inside, client: Client) -> None:
    origin = EmailOrigin(message_id="<9@mail>", subject="The flat")
    client.channels.receive(
        "email", "imap-9", "Is it free?", sender='"Hanan" <hanan@example.org>', origin=origin
    )
    listed = inside("communications", "list", on_terminal=True).out
    assert listed.startswith("Hanan <hanan@example.org> (email, untrusted): 1 message, 1 open\n")
    shown = inside(
        "communications",
        "show",
        client.external.list_communications_page().communications[0].id,
        on_terminal=True,
    ).out
    assert "Hanan The flat" in shown
    client.channels.add_owner_identity("email", "alex@example.org")
    client.channels.receive(
        "email",
        "imap-10",
        "Hi",
        sender='"Alex" <alex@example.org>',
        origin=EmailOrigin(message_id="<10@mail>"),
    )
    assert "Alex (Email)" in inside("list", on_terminal=True).out


def test_escalations_are_listed_and_resolved(
    inside: Inside, client: Client, stranger: ExternalCommunication
) -> None:
    [escalation] = inside("escalations", "list").lines
    assert escalation["communicationId"] == stranger.id
    assert "waits for the owner" in inside("escalations", "list", on_terminal=True).out
    [resolved] = inside("escalations", "resolve", escalation["id"], "Yes,", "from June.").lines
    assert resolved["answer"] == "Yes, from June."
    assert inside("escalations", "list", on_terminal=True).out == "No questions.\n"
    [closed] = inside("escalations", "list", "--resolved", "--communication", stranger.id).lines
    assert closed == resolved
    other = inside("escalations", "resolve", escalation["id"], "No.")
    assert (other.code, other.out) == (5, "")
    assert inside("communications", "reply", stranger.id, "It is free from June.").code == 0


def test_a_message_is_redacted_by_its_number_or_its_text(
    inside: Inside, client: Client, stranger: ExternalCommunication
) -> None:
    write(client, 2, "My password is numbat")
    redact = ("communications", "redact", stranger.id)
    done = inside(*redact, "--contains", "Numbat", "--yes", on_terminal=True)
    (newest, first) = client.external.get_communication(stranger.id).messages
    assert (newest.text, done.code) == ("[redacted]", 0)
    assert done.out == f"{stranger.id}: the text of message {newest.sequence} is removed.\n"
    [receipt] = inside(*redact, str(first.sequence), "--yes").lines
    assert receipt["message"]["text"] == "[redacted]"
    assert receipt["escalation"]["question"] == "[redacted]\nWhat should be answered?"
    again = inside(*redact, str(first.sequence), "--yes", on_terminal=True).out
    assert "and of the question about it is removed" in again
    assert inside(*redact, "--contains", "numbat", "--yes").code == 2
    assert inside(*redact).code == 2
    assert inside(*redact, str(first.sequence)).code == 2  # nobody can be asked


def test_a_panel_is_followed_live(
    recollect: Any, client: Client, stranger: ExternalCommunication
) -> None:
    with recollect.started("communications", "tail") as process:
        first = json.loads(process.stdout.readline())
        assert (first["kind"], [it["id"] for it in first["communications"]]) == (
            "communicationList",
            [stranger.id],
        )
        write(client, 2, "Hello?")
        second = json.loads(process.stdout.readline())
        client.external.set_trust(stranger.id, Trust.KNOWN)
        third = json.loads(process.stdout.readline())
        client.external.redact_external_message(stranger.id, second["message"]["sequence"])
        fourth = json.loads(process.stdout.readline())
    assert (fourth["kind"], fourth["message"]["text"]) == ("externalMessageRedacted", "[redacted]")
    assert (second["kind"], second["message"]["text"]) == ("communicationMessage", "Hello?")
    assert (third["kind"], third["communication"]["trust"]) == ("communicationChanged", "known")


@each(
    ("arguments", "code", "named"),
    [
        (("owners", "add", "Not A Channel", "x"), 2, "channel"),
        (("owners", "link", "Alex", "email"), 2, "one is left over"),
        (("owners", "list", "--channel", "Not A Channel"), 2, "channel"),
        (("communications", "show", "../x"), 2, "COMMUNICATION"),
        (("communications", "show", UNKNOWN), 3, UNKNOWN),
        (("communications", "trust", UNKNOWN, "friend"), 2, "friend"),
        (("communications", "trust", UNKNOWN, "blocked", "--scope", "x"), 2, "--scope"),
        (("communications", "trust", UNKNOWN, "known"), 3, UNKNOWN),
        (("communications", "reply", UNKNOWN), 2, "TEXT"),
        (("communications", "tail", "--cursor", "nonsense"), 2, "cursor"),
        (("escalations", "resolve", "esc-01HQ0000000000000000000000", "x"), 3, "esc-01HQ"),
        (("escalations", "resolve", "x", "x"), 2, "ESCALATION"),
    ],
)
def test_what_is_wrong_is_named(
    inside: Inside, arguments: tuple[str, ...], code: int, named: str
) -> None:
    ran = inside(*arguments)
    assert (ran.code, ran.out) == (code, "")
    assert named in ran.err
